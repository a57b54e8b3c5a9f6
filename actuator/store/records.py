"""The store's interface: an append-only log of records, and a snapshot that replaces its beginning.

Decides nothing: records are bytes with a time. Every database that keeps the promises below can stand behind it.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Record(NamedTuple):
    """One event: Unix milliseconds and its JSON."""

    time_ms: int
    payload: bytes


class History(NamedTuple):
    """What a store holds: the snapshot (None = none yet) and the records after it.

    `last_seq` is the number of the last record; records are numbered from 1 without gap.
    """

    snapshot: bytes | None
    snapshot_seq: int
    records: tuple[Record, ...]

    @property
    def last_seq(self) -> int:
        """Number of the last record, 0 = none."""
        return self.snapshot_seq + len(self.records)


class StoreError(Exception):
    """The store cannot be used; the text says what to do."""


class StoreConflictError(StoreError):
    """Another process has written to the same store: this one must stop acting."""


class Store(Protocol):
    """A durable log. Not thread-safe; its engine is."""

    def load(self) -> History:
        """Read everything. Raises `StoreError` when the store is broken or not ours."""

    def append(self, first_seq: int, records: Sequence[Record]) -> None:
        """Write records, the first with number `first_seq`, all or none. Durable when it returns.

        Raises `StoreConflictError` when that number is taken, `StoreError` when nothing could be written.
        """

    def compact(self, seq: int, snapshot: bytes) -> None:
        """Replace all records up to `seq` by a snapshot, all or nothing."""

    def take_over(self) -> int:
        """Become the only writer: whoever took over before is refused from now on. Returns the epoch, from 1."""

    def confirm(self) -> None:
        """Raise `StoreConflictError` when somebody has taken over since. May be called by several threads."""

    def close(self) -> None:
        """Let go of the database."""
