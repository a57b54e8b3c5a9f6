"""Durations are those of the monotonic clock, whatever happens to the wall clock."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trimtab.clients.loop.loop_clock import LARGEST_DRIFT_S, LoopClock, shift
from trimtab.v1 import plan_pb2

PASSING = st.floats(0, 1000)
SETTING = st.just(0.0) | st.floats(-LARGEST_DRIFT_S, LARGEST_DRIFT_S) | st.floats(-1e6, 1e6)


@given(st.lists(st.tuples(PASSING, SETTING), min_size=1, max_size=20))
def test_a_timer_shows_what_the_monotonic_clock_does_but_for_drift(steps: list[tuple[float, float]]) -> None:
    wall_s, monotonic_s = 1_790_000_000.0, 7.0
    clock = LoopClock(lambda: wall_s, lambda: monotonic_s)
    state = plan_pb2.PlanState()
    state.scale_down.unneeded.time_ns = np.array([int(clock.look().now_s * 1e9)], "<i8").tobytes()
    drift_s = 0.0
    for passing_s, setting_s in steps:
        monotonic_s += passing_s
        wall_s += passing_s + setting_s
        now_s, step_s = clock.look()
        shift(state, step_s)
        drift_s += abs(setting_s - step_s)
        assert now_s == wall_s
        assert abs(setting_s - step_s) <= LARGEST_DRIFT_S + 1e-3
        (since_ns,) = np.frombuffer(state.scale_down.unneeded.time_ns, "<i8").tolist()
        assert abs((now_s - since_ns / 1e9) - (monotonic_s - 7.0)) <= drift_s + 1e-3


def test_timers_of_all_waves_are_shifted() -> None:
    state = plan_pb2.PlanState()
    for times in (state.scale_down.unneeded, state.scale_down.later_waves):
        times.time_ns = np.array([10**18], "<i8").tobytes()
    shift(state, 1.0)
    for times in (state.scale_down.unneeded, state.scale_down.later_waves):
        assert np.frombuffer(times.time_ns, "<i8").tolist() == [10**18 + 10**9]


def test_a_time_that_is_not_known_stays_unknown() -> None:
    state = plan_pb2.PlanState()
    state.scale_down.unremovable.time_ns = np.array([0, 5, 10**18], "<i8").tobytes()
    shift(state, -1.0)
    assert np.frombuffer(state.scale_down.unremovable.time_ns, "<i8").tolist() == [0, 1, 10**18 - 10**9]
