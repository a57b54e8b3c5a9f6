"""Computes the difference of two snapshots as a `SnapshotDelta`, by keys; applies deltas to a snapshot.

Decides which rows have changed, never what they mean. Two snapshots number equal strings, label sets and specs
differently, so each is first converted to one persistent numbering (`interning`). Then pods are compared column by
column, and other rows by their bytes.
"""

from trimtab.common.deltas.application import Application
from trimtab.common.deltas.difference import difference
from trimtab.common.deltas.interning import InternedSnapshot, Interner

__all__ = ["Application", "InternedSnapshot", "Interner", "difference"]
