"""Memory of requests: estimated, and refused before allocation.

Decides whether a request may allocate more memory; each stage asks before it allocates
(`trimtab.planner.model.execution`). One limit applies to all concurrent requests together. Thread-safe.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trimtab.planner.service.bounds import Bounds
from trimtab.planner.service.failures import memory_exceeded

ReserveMemory = Callable[[int, str], None]


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
