"""The values of one label in the label sets of a snapshot."""

import numpy as np

from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.lookup import string_index


def values_by_label_set(snapshot: Snapshot, key: str) -> list[str | None]:
    """Return the value of a label in each label set, None = it lacks the label. O(entries)."""
    sets, at = snapshot.label_sets, string_index(snapshot.strings, key)
    found: list[str | None] = [None] * (len(sets.offsets) - 1)
    if at >= 0:
        entries = np.flatnonzero(sets.keys == at)
        owner = np.searchsorted(sets.offsets, entries, "right") - 1
        for row, entry in zip(owner.tolist(), entries.tolist(), strict=True):
            found[row] = snapshot.strings[sets.values[entry]]
    return found
