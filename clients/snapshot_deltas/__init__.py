"""The difference of two snapshots as a `SnapshotDelta`, found by keys; and deltas applied to a snapshot.

Decides which rows a planner has to be told; never what they mean. Each snapshot is brought into one lasting numbering
first (`interning`), because two snapshots number equal strings, label sets and specs differently; then pods are
compared column by column and other rows by their bytes.
"""

from clients.snapshot_deltas.application import Application
from clients.snapshot_deltas.difference import difference
from clients.snapshot_deltas.interning import InternedSnapshot, Interner

__all__ = ["Application", "InternedSnapshot", "Interner", "difference"]
