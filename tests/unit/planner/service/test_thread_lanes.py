"""Parallel computations: results in order, errors that reach the caller, and no task that outlives the call."""

import threading
from functools import partial

import pytest

from trimtab.planner.service.request_limits import ThreadLanes

LONG_S = 60.0


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_results_come_in_the_order_of_the_tasks(width: int, count: int) -> None:
    assert ThreadLanes(width)([partial(pow, 2, at) for at in range(count)]) == [2**at for at in range(count)]


def test_two_tasks_run_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=LONG_S)
    assert sorted(ThreadLanes(2)([both.wait, both.wait])) == [0, 1]


def test_a_caller_does_itself_what_no_thread_has_come_to() -> None:
    """The only thread waits for a second call, so the calling thread does all tasks of that call."""
    run, busy, go_on = ThreadLanes(2), threading.Event(), threading.Event()

    def wait() -> bool:
        busy.set()
        return go_on.wait(LONG_S)

    def done_by() -> str:
        return threading.current_thread().name

    # The caller does not reach the second task before the other thread does.
    first = threading.Thread(target=lambda: run([lambda: busy.wait(LONG_S), wait]))
    first.start()
    try:
        assert busy.wait(LONG_S)
        assert run([done_by, done_by]) == [done_by()] * 2
    finally:
        go_on.set()
        first.join(LONG_S)
    assert not first.is_alive()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_error_of_a_task_reaches_the_caller_once_no_other_runs_any_more(place: int) -> None:
    running: list[int] = []

    def work(at: int) -> None:
        running.append(at)
        try:
            if at == place:
                raise ValueError(at)
        finally:
            running.remove(at)

    with pytest.raises(ValueError, match=str(place)):
        ThreadLanes(3)([partial(work, at) for at in range(3)])
    assert running == []
