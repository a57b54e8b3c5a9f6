"""The loop's time: the wall clock, whose steps are detected and do not count for timers. Decides what a step is: since
the last look, the advance of the wall clock differs from that of the monotonic clock by more than `LARGEST_DRIFT_S`.
The loop's time follows the wall clock, because objects and other processes use it; `shift` moves the planner's timers
by the same step, so durations remain those of the monotonic clock.
Units: seconds, nanoseconds where named.
"""

import time
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from trimtab.v1 import plan_pb2

LARGEST_DRIFT_S: Final = 2.0
"""Between two looks, a wall clock may drift or be slewed by NTP this much. A larger difference is a step."""


class ClockReading(NamedTuple):
    """now_s : Unix seconds; step_s : step of the wall clock since the last look, 0 = none."""

    now_s: float
    step_s: float


class LoopClock:
    """The two clocks. Not for several threads at a time."""

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`wall` returns Unix seconds, `monotonic` seconds since any moment."""
        self._wall, self._monotonic = wall, monotonic
        self._offset_s = wall() - monotonic()

    def look(self) -> ClockReading:
        """Return the time, and the step of the wall clock since the last look."""
        now_s = self._wall()
        offset_s = now_s - self._monotonic()
        step_s, self._offset_s = offset_s - self._offset_s, offset_s
        return ClockReading(now_s, step_s if abs(step_s) > LARGEST_DRIFT_S else 0.0)


def shift(state: plan_pb2.PlanState, by_s: float) -> None:
    """Shift all times of a planner's state, in place; an unknown time stays 0."""
    removal, replaced = state.scale_down, state.replacement
    columns: list[plan_pb2.NodeTimes | plan_pb2.FailedNodes] = [removal.unneeded, removal.later_waves]
    columns += [removal.unremovable, replaced.planned, replaced.avoided_groups, replaced.paid_back]
    for times in columns:
        if times.time_ns:
            column = np.frombuffer(times.time_ns, "<i8")
            moved = np.maximum(column + round(by_s * 1e9), 1)
            times.time_ns = np.where(column > 0, moved, column).astype("<i8").tobytes()
