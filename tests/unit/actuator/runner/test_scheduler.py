"""When a pool runs the steps of a task that is hastened."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from trimtab.actuator.runner.scheduler import Pool, Scheduler
from trimtab.clients.simulation.virtual_time import VirtualTime

LATER_S = 3600.0
LONGEST_S = 60.0


@contextmanager
def pool() -> Iterator[Scheduler]:
    made = Scheduler("test", 2)
    try:
        yield made
    finally:
        made.stop()


class Steps:
    """A task of two steps, the second due much later; the first may be held."""

    name = "steps"

    def __init__(self) -> None:
        self.count = 0
        self.began, self.may_end, self.ended = threading.Event(), threading.Event(), threading.Event()

    def step(self) -> float | None:
        self.count += 1
        if self.count == 2:
            self.ended.set()
            return None
        self.began.set()
        assert self.may_end.wait(LONGEST_S)
        return LATER_S


def test_a_step_that_is_due_later_is_brought_forward() -> None:
    task = Steps()
    task.may_end.set()
    with pool() as threads:
        threads.add(task, LATER_S)
        threads.reschedule_earlier(task)
        assert task.began.wait(LONGEST_S)


def test_a_task_that_is_rescheduled_earlier_while_its_step_runs_continues_at_once() -> None:
    task = Steps()
    with pool() as threads:
        threads.add(task)
        assert task.began.wait(LONGEST_S)
        threads.reschedule_earlier(task)
        task.may_end.set()
        assert task.ended.wait(LONGEST_S)


def test_a_task_that_is_not_scheduled_is_not_begun_by_it() -> None:
    task, other = Steps(), Steps()
    other.may_end.set()
    with pool() as threads:
        threads.reschedule_earlier(task)
        threads.add(other)
        assert other.began.wait(LONGEST_S)
    assert task.count == 0


@pytest.mark.parametrize(
    ("due_s", "hastened_s", "runs_s"),
    [
        pytest.param(10.0, 3.0, 3.0, id="due later"),
        pytest.param(2.0, 3.0, 2.0, id="due before"),
        pytest.param(10.0, 0.0, 0.0, id="at once"),
    ],
)
def test_virtual_time_brings_a_step_forward_and_never_puts_it_off(
    due_s: float, hastened_s: float, runs_s: float
) -> None:
    time = VirtualTime(0.0)
    task = Steps()
    task.may_end.set()
    made: Pool = time
    made.add(task, due_s)
    made.reschedule_earlier(task, hastened_s)
    assert time.step()
    assert (time.now_s, task.count) == (runs_s, 1)
