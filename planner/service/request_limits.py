"""Limits of a request (deadline, cancellation, memory), and of all together: how many are handled at a time, and in
which threads. Times in seconds on the monotonic clock. Never reads requests. Thread-safe.

Decides how much of the remaining time a simulation may use; the rest is for encoding and sending the answer. Memory is
estimated, and refused before allocation: each stage asks before it allocates (`trimtab.planner.model.execution`).

Callers take turns, however many requests each has waiting; the requests of one caller are handled in order of arrival.
A request waits for a limited time, and only while its caller does. A caller that waited in vain keeps its rank: on its
next request, it comes before callers that arrived, or were served, after it first arrived. So all callers are served
equally often under overload.

Kernels release Python's lock, so those of two threads run at the same time. The calling thread does its share, and also
that of the others if all of them are busy with other calls; a thread is started when first needed.
"""

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from trimtab.planner.model.execution import in_context
from trimtab.planner.service.failures import cancelled, deadline_exceeded, memory_exceeded, overloaded

RESERVE_SHARE: Final = 0.15
RESERVE_LEAST_S: Final = 0.02
RESERVE_MOST_S: Final = 2.0
"""Time for the answer: a bounded share of the caller's time. Sending a plan of 5,000 nodes takes 50 ms."""
ReserveMemory = Callable[[int, str], None]


def _yes() -> bool:
    return True


@dataclass(frozen=True)
class Bounds:
    """`deadline_s` : deadline of the caller, inf = none; `simulate_until_s` : when a simulation should stop."""

    deadline_s: float = math.inf
    simulate_until_s: float = math.inf
    is_wanted: Callable[[], bool] = _yes

    @staticmethod
    def within(time_remaining_s: float | None, is_wanted: Callable[[], bool] = _yes) -> "Bounds":
        """Return the bounds of a call that starts now. `time_remaining_s` None = no deadline."""
        if time_remaining_s is None:
            return Bounds(is_wanted=is_wanted)
        now_s = time.monotonic()
        reserve_s = min(max(time_remaining_s * RESERVE_SHARE, RESERVE_LEAST_S), RESERVE_MOST_S)
        return Bounds(now_s + time_remaining_s, now_s + time_remaining_s - reserve_s, is_wanted)

    def time_left(self) -> bool:
        """Return whether a simulation may go on."""
        return time.monotonic() < self.simulate_until_s and self.is_wanted()

    def check(self) -> None:
        """Raise ServiceError if the deadline has passed or the caller has gone."""
        if time.monotonic() >= self.deadline_s:
            raise deadline_exceeded()
        if not self.is_wanted():
            raise cancelled()


def reserve_any(byte_count: int, what: str) -> None:
    """Refuse nothing."""


class RequestMemory:
    """Memory for all requests together, of at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._taken = 0

    @contextmanager
    def share(self) -> Iterator[ReserveMemory]:
        """Yield what reserves memory for a request, and raises ServiceError over the limit; release it at the end. A
        negative number gives memory back before.
        """
        mine = 0

        def reserve(byte_count: int, what: str) -> None:
            nonlocal mine
            with self._lock:
                if self._taken + byte_count > self._limit:
                    raise memory_exceeded(what, byte_count + mine, self._limit)
                self._taken += byte_count
                mine += byte_count

        try:
            yield reserve
        finally:
            with self._lock:
                self._taken -= mine


class EnforcedLimits:
    """Limits of one request: an `RequestLimits`."""

    def __init__(self, bounds: Bounds, reserve: ReserveMemory) -> None:
        self._bounds = bounds
        self._reserve = reserve

    def check(self) -> None:
        """Raise ServiceError if the deadline has passed or the caller has gone."""
        self._bounds.check()

    def reserve(self, byte_count: int, what: str) -> None:
        """Raise ServiceError if `byte_count` more bytes exceed the limit."""
        self._reserve(byte_count, what)


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
            # Tasks that no other thread has begun are for this one.
            later = zip(begun, tasks[1:], strict=True)
            return results + [task() if future.cancel() else future.result() for future, task in later]
        finally:
            wait([future for future in begun if not future.cancel()])
