"""A `Store` in memory, for simulations and tests: its contents are lost with the process.

Like a real store it outlives the actuator that writes to it: another one can be started on it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from trimtab.actuator.store.records import History, Record, StoreConflictError


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
