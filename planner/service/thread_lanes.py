"""Threads in which parts of one decision run in parallel: a `Parallel`. Kernels release Python's lock, so those of two
threads run at the same time. The calling thread does its share, and also that of the others if all of them are busy
with other calls. Thread-safe; a thread is started when first needed.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final, TypeVar

from trimtab.planner.model.execution import in_context

T = TypeVar("T")
MOST: Final = 4
"""Most threads of one call: scale-down, the only user, makes about four attempts after its first."""


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class ThreadLanes:
    """Runs computations in the caller's thread and in `width` - 1 others, which all calls share. width : by default the
    number of cores, up to MOST.
    """

    def __init__(self, width: int | None = None) -> None:
        self._width = width or min(cores(), MOST)
        self._threads = ThreadPoolExecutor(max(self._width - 1, 1), "lane")

    @property
    def width(self) -> int:
        """How many tasks may run at the same time."""
        return self._width

    def __call__(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Return the results in the order of the tasks. Raises the error of the first failing task."""
        if self._width == 1:
            return [task() for task in tasks]
        begun = [self._threads.submit(in_context(task)) for task in tasks[1:]]
        try:
            results = [task() for task in tasks[:1]]
            return results + [_result(one, task) for one, task in zip(begun, tasks[1:], strict=True)]
        finally:
            wait([one for one in begun if not one.cancel()])


def _result(begun: "Future[T]", task: Callable[[], T]) -> T:
    """Return the result of a task, whether another thread has begun it or not."""
    return task() if begun.cancel() else begun.result()
