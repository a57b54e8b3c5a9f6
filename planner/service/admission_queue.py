"""Admission of requests: how many requests are handled at a time, and whose is next. Callers take turns, however many
requests each has waiting; the requests of one caller are handled in order of arrival. A request waits for a limited
time, and only while its caller does. A caller that waited in vain keeps its rank: on its next request, it comes before
callers that arrived, or were served, after it first arrived. So all callers are served equally often under overload.
Never reads requests. Thread-safe. Times in seconds, monotonic.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from trimtab.planner.service.failures import cancelled, overloaded

_LOOK_EVERY_S: Final = 0.25
"""How often a waiting request checks whether its caller is still there."""
MOST_REFUSED: Final = 1024
"""Most callers that are remembered although they no longer wait, having waited in vain; the oldest are forgotten."""


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
