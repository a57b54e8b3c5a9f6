"""Threads in which parts of one decision run side by side: a `Together`.

Kernels release Python's lock, so those of two threads run at the same time. The thread that asks does its share, and
that of the others where all of them are busy with other calls. Thread-safe; a thread starts when it is first needed.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final, TypeVar

T = TypeVar("T")
MOST: Final = 4
"""Threads of one call at most: scale-down, which alone uses them, makes about four attempts after its first."""


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class SideBySide:
    """Runs computations in the caller's thread and in `width` - 1 others, which all calls share.

    width : by default as many as there are cores, up to MOST.
    """

    def __init__(self, width: int | None = None) -> None:
        self._width = width or min(cores(), MOST)
        self._threads = ThreadPoolExecutor(max(self._width - 1, 1), "side-by-side")

    @property
    def width(self) -> int:
        """How many may run at the same time."""
        return self._width

    def __call__(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Return the results in the order of the tasks. Raises what the first of them raises that fails."""
        if self._width == 1:
            return [task() for task in tasks]
        begun = [self._threads.submit(task) for task in tasks[1:]]
        try:
            results = [task() for task in tasks[:1]]
            return results + [_result(one, task) for one, task in zip(begun, tasks[1:], strict=True)]
        finally:
            wait([one for one in begun if not one.cancel()])


def _result(begun: "Future[T]", task: Callable[[], T]) -> T:
    """Return the result of a task that another thread has begun, or that none has come to yet."""
    return task() if begun.cancel() else begun.result()
