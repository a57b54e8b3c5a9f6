"""Applies deltas to a snapshot, and writes changed rows as a `SnapshotDelta` with dictionaries of its own. Decides how
rows are numbered, never what they mean.
"""

from trimtab.common.deltas.application import Application

__all__ = ["Application"]
