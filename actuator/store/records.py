"""The interface of stores: an append-only log of records, and a snapshot that replaces its beginning; a store in
memory.

Records are bytes with a time. Any database that gives the guarantees below can implement it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class Record(NamedTuple):
    """One event. time_ms : Unix milliseconds; payload : its JSON."""

    time_ms: int
    payload: bytes


class History(NamedTuple):
    """What a store holds: the snapshot (None = none yet), the number of its last record, and the records after it.

    `last_seq` is the number of the last record; records are numbered from 1 without gap. `snapshot_seq` : 0 without a
    snapshot.
    """

    snapshot: bytes | None
    snapshot_seq: int
    records: tuple[Record, ...]

    @property
    def last_seq(self) -> int:
        """Return the number of the last record; 0 = none."""
        return self.snapshot_seq + len(self.records)


class StoreError(Exception):
    """The store cannot be used; the text names the remedy."""


class StoreConflictError(StoreError):
    """Another process has written to the same store: this one must stop acting."""


class Store(Protocol):
    """A durable log. Not thread-safe; the event processor is."""

    def load(self) -> History:
        """Read everything. Raises `StoreError` when the store is damaged or belongs to another application."""

    def append(self, first_seq: int, records: Sequence[Record]) -> None:
        """Write all records or none; the first gets the number `first_seq`. Durable when it returns.

        Raises `StoreConflictError` when that number is taken, `StoreError` when nothing could be written.
        """

    def compact(self, seq: int, snapshot: bytes) -> None:
        """Replace all records up to `seq` by a snapshot, all or nothing."""

    def take_over(self) -> int:
        """Become the only writer: earlier writers are refused from now on. Returns the epoch, from 1."""

    def confirm(self) -> None:
        """Raise `StoreConflictError` when another process has taken over since. Thread-safe."""

    def check(self) -> None:
        """Raise `StoreError` when a restart would not find what was written."""

    def close(self) -> None:
        """Close the database."""


@dataclass
class MemoryStore:
    """See `trimtab.actuator.store.records.Store`. `snapshot` : None = none yet; `snapshot_seq` : number of its last
    record.
    """

    snapshot: bytes | None = None
    snapshot_seq: int = 0
    records: list[Record] = field(default_factory=list)

    def load(self) -> History:
        """Return everything."""
        return History(self.snapshot, self.snapshot_seq, tuple(self.records))

    def append(self, first_seq: int, records: Sequence[Record]) -> None:
        """Add records. Raises `StoreConflictError` when the first number is not the next one."""
        if first_seq != self.snapshot_seq + len(self.records) + 1:
            raise StoreConflictError("another process writes to this store")
        self.records.extend(records)

    def compact(self, seq: int, snapshot: bytes) -> None:
        """Replace the records up to `seq` by a snapshot."""
        del self.records[: seq - self.snapshot_seq]
        self.snapshot, self.snapshot_seq = snapshot, seq

    def take_over(self) -> int:
        """Return the only epoch."""
        return 1

    def confirm(self) -> None:
        """Do nothing: there is one process."""

    def check(self) -> None:
        """Do nothing: memory exists as long as the process."""

    def close(self) -> None:
        """Keep everything for the next one."""
