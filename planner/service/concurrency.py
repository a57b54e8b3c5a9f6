"""How many requests are handled at a time, and whose is next; threads in which parts of one decision run in parallel.

Callers take turns, however many requests each has waiting; the requests of one caller are handled in order of arrival.
A request waits for a limited time, and only while its caller does. A caller that waited in vain keeps its rank: on its
next request, it comes before callers that arrived, or were served, after it first arrived. So all callers are served
equally often under overload. Never reads requests. Thread-safe. Times in seconds, monotonic.

Kernels release Python's lock, so those of two threads run at the same time. The calling thread does its share, and also
that of the others if all of them are busy with other calls; a thread is started when first needed.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Final, TypeVar

from trimtab.planner.model.execution import in_context
from trimtab.planner.service.failures import cancelled, overloaded

T = TypeVar("T")
_LOOK_EVERY_S: Final = 0.25
"""How often a waiting request checks whether its caller is still there."""
MOST_REFUSED: Final = 1024
"""Most callers that are remembered although they no longer wait, having waited in vain; the oldest are forgotten."""
MOST: Final = 4
"""Most threads of one call: scale-down, the only user, makes about four attempts after its first."""


class _Ticket:
    """A request that waits for its turn."""

    def __init__(self) -> None:
        self.granted = threading.Event()


class AdmissionQueue:
    """`count` places, given to callers in turn."""

    def __init__(self, place_count: int) -> None:
        self._count = place_count
        self._lock = threading.Lock()
        self._free = place_count
        self._waiting: dict[str, deque[_Ticket]] = {}
        # Callers not served since they arrived, whether waiting or refused, in order of arrival.
        self._since: dict[str, None] = {}

    @contextmanager
    def place(self, caller: str, wait_s: float, is_wanted: Callable[[], bool]) -> Iterator[None]:
        """Hold a place while the block runs.

        wait_s : longest wait; is_wanted : whether the caller still waits. Errors: ServiceError OVERLOADED, CANCELLED.
        """
        self._acquire(caller, wait_s, is_wanted)
        try:
            yield
        finally:
            with self._lock:
                self._give_back()

    def _acquire(self, caller: str, wait_s: float, is_wanted: Callable[[], bool]) -> None:
        with self._lock:
            if self._free and not self._waiting:
                self._free -= 1
                self._since.pop(caller, None)
                return
            ticket = _Ticket()
            self._waiting.setdefault(caller, deque()).append(ticket)
            self._since.setdefault(caller)
        until_s = time.monotonic() + wait_s
        while not ticket.granted.wait(max(0.0, min(_LOOK_EVERY_S, until_s - time.monotonic()))):
            is_gone = not is_wanted()
            if (is_gone or time.monotonic() >= until_s) and self._withdraw(caller, ticket):
                raise cancelled() if is_gone else overloaded(self._count)

    def _withdraw(self, caller: str, ticket: _Ticket) -> bool:
        """Withdraw a ticket; False = it has been granted meanwhile."""
        with self._lock:
            if ticket.granted.is_set():
                return False
            queue = self._waiting[caller]
            queue.remove(ticket)
            if not queue:
                del self._waiting[caller]
                self._forget()
            return True

    def _forget(self) -> None:
        """Forget the callers refused first if too many are remembered. Call under the lock."""
        if len(self._since) - len(self._waiting) > MOST_REFUSED:
            del self._since[next(caller for caller in self._since if caller not in self._waiting)]

    def _give_back(self) -> None:
        """Give a place to the next caller. Call under the lock."""
        if not self._waiting:
            self._free += 1
            return
        caller = next(caller for caller in self._since if caller in self._waiting)
        queue = self._waiting[caller]
        queue.popleft().granted.set()
        del self._since[caller]
        if queue:
            self._since[caller] = None
        else:
            del self._waiting[caller]


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
