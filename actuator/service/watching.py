"""State shared by all watchers: one status, or change, for all of them, a limit of the bytes being sent, their places.

Decides that watchers of the same status get the same bytes, and how many bytes are sent at a time: gRPC copies each
message that it sends, and a status of megabytes would be in memory once for each watcher. Decides whose stream ends
where more want to watch than can. Thread-safe.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from actuator.service.status import Parts, Status
from clients.transport.errors import ServiceError, overloaded

# Bytes being sent to watchers at a time: three statuses with 100,000 evictions.
MAX_BYTES_SENT = 64 << 20


class SharedStatus:
    """The last status that was written for a watcher, and the last change from each status that watchers have."""

    def __init__(self, write: Callable[[bool, Parts | None], Status]) -> None:
        """Set up; `write` builds a status, with finished deletions or without, or what has changed since another."""
        self._write = write
        self._lock = threading.Lock()
        # By whether finished deletions are in it, and the number of the status that it changes, 0 = whole.
        self._kept: dict[tuple[bool, int], Status] = {}

    def get(self, with_finished: bool, revision: int, base: Parts | None = None) -> Status:
        """Return the status of this revision or a later one, or what has changed since `base`. Raises what `write`
        raises.
        """
        key = with_finished, base.number if base is not None else 0
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or kept.revision < revision:
                # Who asks for this one has gone on from those before it.
                self._kept = {one: status for one, status in self._kept.items() if status.revision >= revision}
                kept = self._kept[key] = self._write(with_finished, base)
            return kept

    def forget(self) -> None:
        """Forget the status: there is no watcher any more."""
        with self._lock:
            self._kept.clear()


class SendBudget:
    """Limit of the bytes being sent at a time; a single message may be larger."""

    def __init__(self, most: int = MAX_BYTES_SENT) -> None:
        self._most = most
        self._used = 0
        self._freed = threading.Condition()

    @contextmanager
    def reserve(self, size: int, timeout_s: float) -> Iterator[bool]:
        """Reserve bytes while a message is sent; False = not possible in that time."""
        with self._freed:
            is_reserved = self._freed.wait_for(lambda: not self._used or self._used + size <= self._most, timeout_s)
            self._used += size if is_reserved else 0
        try:
            yield is_reserved
        finally:
            if is_reserved:
                with self._freed:
                    self._used -= size
                    self._freed.notify_all()


class Place:
    """The place of one stream."""

    def __init__(self, caller: str) -> None:
        self.caller = caller
        self._lost: ServiceError | None = None

    def lose(self, error: ServiceError) -> None:
        """Take it away; the stream ends at its next look."""
        self._lost = error

    def check(self) -> None:
        """Raise ServiceError where another caller has it by now."""
        if self._lost is not None:
            raise self._lost


class WatcherPlaces:
    """So many streams at a time. A caller who holds more than others gives its oldest one up to a caller with fewer."""

    def __init__(self, most: int, wake: Callable[[], object]) -> None:
        """`wake` makes streams look whether they have lost their place."""
        self._most, self._wake = most, wake
        self._lock = threading.Lock()
        # The oldest first.
        self._taken: list[Place] = []

    @contextmanager
    def place(self, caller: str) -> Iterator[Place]:
        """Hold a place. Raises ServiceError OVERLOADED where all callers have their share."""
        place = Place(caller)
        with self._lock:
            is_full = len(self._taken) >= self._most
            if is_full:
                self._make_room(caller)
            self._taken.append(place)
        if is_full:
            self._wake()
        try:
            yield place
        finally:
            with self._lock:
                if place in self._taken:
                    self._taken.remove(place)

    @property
    def is_empty(self) -> bool:
        """Return whether nobody watches."""
        with self._lock:
            return not self._taken

    def _make_room(self, caller: str) -> None:
        counts = Counter(one.caller for one in self._taken)
        richest, most = counts.most_common(1)[0]
        if counts[caller] + 1 >= most:
            raise overloaded(f"{self._most} streams watch already; use GetStatus")
        oldest = next(one for one in self._taken if one.caller == richest)
        self._taken.remove(oldest)
        oldest.lose(overloaded("other callers want to watch, and this one has most streams; use GetStatus"))
