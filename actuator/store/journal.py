"""Tracker and store together: an event is durable before its instructions are carried out.

Decides the order (handle, write, then dispatch the instructions), when the log is compacted, and that the process stops
acting when a write fails. Never acts itself. Not thread-safe; the event processor is.
"""

import msgspec

from trimtab.actuator.store.records import History, Record, Store, StoreError
from trimtab.actuator.tracker.events import Event, decode, encode
from trimtab.actuator.tracker.instructions import Instruction
from trimtab.actuator.tracker.states import Retention
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.actuator.tracker.transitions import ImpossibleEventError

# A replay of 5,000 events takes a tenth of a second.
COMPACT_AFTER = 5_000


class Journal:
    """A tracker with a durable record of every event."""

    def __init__(self, store: Store, retention: Retention | None = None, compact_after: int = COMPACT_AFTER) -> None:
        """Replay the store. Raises `StoreError` naming a damaged event."""
        self._store = store
        self._compact_after = compact_after
        self._retention = retention
        self.broken: StoreError | None = None
        history = store.load()
        self.tracker = _replay(history, retention)
        self._last_seq = history.last_seq
        self._snapshot_seq = history.snapshot_seq
        self._pending: list[Record] = []

    def handle(self, event: Event, now_ms: int) -> list[Instruction]:
        """Handle one event. Its instructions may be carried out as soon as `commit` has returned.

        Raises `ImpossibleEventError` (the event changes nothing), `StoreError` after a failed commit.
        """
        if self.broken is not None:
            raise self.broken
        instructions = self.tracker.handle(event, now_ms)
        self._pending.append(Record(now_ms, encode(event)))
        return instructions

    def commit(self) -> None:
        """Write all events handled since the last call, in one transaction.

        Raises `StoreError` when that fails: the data are then ahead of the store, and the journal refuses all further
        work. A restart continues from the last successful write.
        """
        if self.broken is not None:
            raise self.broken
        if not self._pending:
            return
        try:
            self._store.append(self._last_seq + 1, self._pending)
            self._last_seq += len(self._pending)
            self._pending = []
            if self._last_seq - self._snapshot_seq >= self._compact_after:
                self._store.compact(self._last_seq, self.tracker.dump())
                self._snapshot_seq = self._last_seq
        except StoreError as error:
            self.broken = error
            raise

    def check(self) -> None:
        """Raise `StoreError` when the store has failed or was removed."""
        if self.broken is not None:
            raise self.broken
        try:
            self._store.check()
        except StoreError as error:
            self.broken = error
            raise

    def refresh(self) -> None:
        """Read what another process has written. Nothing may be pending. Raises `StoreError`."""
        history = self._store.load()
        if history.last_seq != self._last_seq:
            self.tracker = _replay(history, self._retention)
            self._last_seq = history.last_seq
        self._snapshot_seq = history.snapshot_seq

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def _replay(history: History, retention: Retention | None) -> Tracker:
    """Build the tracker from the history."""
    try:
        tracker = Tracker.load(history.snapshot, retention) if history.snapshot else Tracker(retention)
    except msgspec.DecodeError as error:
        raise StoreError(f"the snapshot after event {history.snapshot_seq} is damaged: {error}") from error
    for seq, record in enumerate(history.records, start=history.snapshot_seq + 1):
        try:
            tracker.handle(decode(record.payload), record.time_ms)
        except (msgspec.DecodeError, ImpossibleEventError) as error:
            raise StoreError(
                f"event {seq} of the store is damaged ({error}); restore the database from a backup, or move it "
                "away and check every tainted node by hand"
            ) from error
    return tracker
