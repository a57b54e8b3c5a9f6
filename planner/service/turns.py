"""Turns of callers: how many requests are worked on at a time, and whose is next.

Decides that callers take turns, however many requests each has waiting; those of one caller go in order of arrival.
A request waits for a limited time, and only while its caller does. Never looks at requests. Thread-safe. Times in
seconds, monotonic.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from planner.service.failures import cancelled, overloaded

_LOOK_EVERY_S: Final = 0.25
"""How often a waiting request looks whether its caller is still there."""


class _Ticket:
    """A request that waits for its turn."""

    def __init__(self) -> None:
        self.granted = threading.Event()


class Turns:
    """`count` places, given to callers in turn."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._free = count
        # By caller, the next one first.
        self._waiting: OrderedDict[str, deque[_Ticket]] = OrderedDict()

    @contextmanager
    def place(self, caller: str, wait_s: float, is_wanted: Callable[[], bool]) -> Iterator[None]:
        """Hold a place while the block runs.

        wait_s : longest wait; is_wanted : whether the caller still waits. Errors: ServiceError OVERLOADED, CANCELLED.
        """
        self._take(caller, wait_s, is_wanted)
        try:
            yield
        finally:
            with self._lock:
                self._give_back()

    def _take(self, caller: str, wait_s: float, is_wanted: Callable[[], bool]) -> None:
        with self._lock:
            if self._free and not self._waiting:
                self._free -= 1
                return
            ticket = _Ticket()
            self._waiting.setdefault(caller, deque()).append(ticket)
        until_s = time.monotonic() + wait_s
        while not ticket.granted.wait(max(0.0, min(_LOOK_EVERY_S, until_s - time.monotonic()))):
            is_gone = not is_wanted()
            if (is_gone or time.monotonic() >= until_s) and self._withdraw(caller, ticket):
                raise cancelled() if is_gone else overloaded(self._count)

    def _withdraw(self, caller: str, ticket: _Ticket) -> bool:
        """Give up a ticket; False = it has been granted meanwhile."""
        with self._lock:
            if ticket.granted.is_set():
                return False
            queue = self._waiting[caller]
            queue.remove(ticket)
            if not queue:
                del self._waiting[caller]
            return True

    def _give_back(self) -> None:
        """Give a place to the next caller. Call under the lock."""
        if not self._waiting:
            self._free += 1
            return
        caller, queue = next(iter(self._waiting.items()))
        queue.popleft().granted.set()
        if queue:
            self._waiting.move_to_end(caller)
        else:
            del self._waiting[caller]
