"""State shared by all watchers: one status or change for all of them, a limit on the bytes being sent, and their
places. Watchers of the same status get the same bytes, and the number of bytes being sent at a time is limited: gRPC
copies each message that it sends, so a status of megabytes would be in memory once per watcher. Decides whose stream
ends if there are too many. Thread-safe.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trimtab.actuator.service.status import EncodedStatus, StatusParts
from trimtab.common.rpc.errors import ServiceError, overloaded

# Bytes being sent to watchers at a time: three statuses with 100,000 evictions.
MAX_BYTES_SENT = 64 << 20


class SharedStatus:
    """The last status written for a watcher, and the last change from each status that watchers have."""

    def __init__(self, write: Callable[[bool, StatusParts | None], EncodedStatus]) -> None:
        """Set up; `write` builds a status with or without finished deletions, or the changes since another status."""
        self._write = write
        self._lock = threading.Lock()
        # By whether it includes finished deletions, and the number of the status that it changes (0 = a whole status).
        self._kept: dict[tuple[bool, int], EncodedStatus] = {}

    def get(self, with_finished: bool, revision: int, base: StatusParts | None = None) -> EncodedStatus:
        """Return the status of this revision or later, or the changes since `base`. Raises what `write` raises."""
        key = with_finished, base.number if base is not None else 0
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or kept.revision < revision:
                # A watcher that asks for this change no longer needs the earlier ones.
                self._kept = {base: status for base, status in self._kept.items() if status.revision >= revision}
                kept = self._kept[key] = self._write(with_finished, base)
            return kept

    def forget(self) -> None:
        """Forget the status: there are no watchers left."""
        with self._lock:
            self._kept.clear()


class SendBudget:
    """Limit on the bytes being sent at a time; a single message may be larger."""

    def __init__(self, most: int = MAX_BYTES_SENT) -> None:
        self._most = most
        self._used = 0
        self._freed = threading.Condition()

    @contextmanager
    def reserve(self, size: int, timeout_s: float) -> Iterator[bool]:
        """Reserve bytes while a message is sent; False = not possible within the timeout."""
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
        """Take it away; the stream ends at its next check."""
        self._lost = error

    def check(self) -> None:
        """Raise ServiceError if another caller has it by now."""
        if self._lost is not None:
            raise self._lost


class WatcherPlaces:
    """A limited number of streams. A caller with more than others gives up its oldest one to a caller with fewer."""

    def __init__(self, most: int, wake: Callable[[], object]) -> None:
        """`wake` makes streams check whether they have lost their place."""
        self._most, self._wake = most, wake
        self._lock = threading.Lock()
        # The oldest first.
        self._taken: list[Place] = []

    @contextmanager
    def place(self, caller: str) -> Iterator[Place]:
        """Hold a place. Raises ServiceError OVERLOADED if all callers have their share."""
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
        """Return whether there are no watchers."""
        with self._lock:
            return not self._taken

    def _make_room(self, caller: str) -> None:
        counts = Counter(place.caller for place in self._taken)
        richest, most = counts.most_common(1)[0]
        if counts[caller] + 1 >= most:
            raise overloaded(f"{self._most} streams are already open; use GetStatus")
        oldest = next(place for place in self._taken if place.caller == richest)
        self._taken.remove(oldest)
        oldest.lose(overloaded("other callers wait to watch, and this one has the most streams; use GetStatus"))
