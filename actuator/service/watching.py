"""State shared by all watchers: one status for all of them, and a limit of the bytes being sent.

Decides that watchers of the same status get the same bytes, and how many bytes are sent at a time: gRPC copies each
message that it sends, and a status of megabytes would be in memory once for each watcher. Thread-safe.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from actuator.service.status import Status

# Bytes being sent to watchers at a time: three statuses with 100,000 evictions.
MAX_BYTES_SENT = 64 << 20


class SharedStatus:
    """The last status that was written for a watcher."""

    def __init__(self, write: Callable[[bool], Status]) -> None:
        """Set up; `write` builds a status, with finished deletions or without."""
        self._write = write
        self._lock = threading.Lock()
        self._kept: dict[bool, Status] = {}

    def get(self, with_finished: bool, revision: int) -> Status:
        """Return the status of this revision, or a later one. Raises what `write` raises."""
        with self._lock:
            kept = self._kept.get(with_finished)
            if kept is None or kept.revision < revision:
                kept = self._kept[with_finished] = self._write(with_finished)
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
