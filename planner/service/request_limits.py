"""Limits of a request: deadline, cancellation, memory.

Decides how much of the remaining time a simulation may use; the rest is for encoding and sending the answer. Times in
seconds on the monotonic clock. Memory is estimated, and refused before allocation: each stage asks before it allocates
(`trimtab.planner.model.execution`). One limit applies to all concurrent requests together. Thread-safe.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from trimtab.planner.service.failures import cancelled, deadline_exceeded, memory_exceeded

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
