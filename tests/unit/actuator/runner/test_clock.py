"""How long a process was awake, by its clocks."""

import threading

from tests.builders.waiting import LIMIT_S
from trimtab.actuator.runner.clock import BEAT_S, LONGEST_BEAT_MS, Clock
from trimtab.actuator.steady_time import RepeatingThread


class Time:
    """Steady seconds, advanced by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_all_time_counts_as_awake_where_nothing_beats() -> None:
    time = Time()
    clock = Clock(time, time)
    before_ms = clock.awake_ms()
    time.now_s += 3_600
    assert clock.awake_ms() - before_ms == 3_600_000


def test_a_long_call_counts_while_another_thread_beats() -> None:
    time = Time()
    clock = Clock(time, time)
    clock.beat()
    before_ms = clock.awake_ms()
    for _ in range(300):
        time.now_s += BEAT_S
        clock.beat()
    assert clock.awake_ms() - before_ms == 300_000


def test_a_suspension_counts_no_more_than_the_longest_pause_between_two_beats() -> None:
    time = Time()
    clock = Clock(time, time)
    clock.beat()
    before_ms = clock.awake_ms()
    time.now_s += 600
    assert clock.awake_ms() - before_ms == LONGEST_BEAT_MS
    time.now_s += 5
    assert clock.awake_ms() - before_ms == LONGEST_BEAT_MS + 5_000


def test_a_step_of_the_wall_clock_is_neither_time_nor_suspension() -> None:
    wall, steady = Time(), Time()
    clock = Clock(wall, steady)
    clock.beat()
    before_ms = clock.awake_ms()
    wall.now_s += 7_200
    steady.now_s += 1
    assert clock.awake_ms() - before_ms == 1_000
    assert clock.take_jump()[1] == 7_199_000


def test_a_thread_repeats_its_step_after_errors_too_until_it_is_stopped() -> None:
    made = threading.Semaphore(0)

    def step() -> None:
        made.release()
        raise ValueError("a bug")

    with RepeatingThread("pulse", step, 0.01):
        for _ in range(2):
            assert made.acquire(timeout=LIMIT_S)
