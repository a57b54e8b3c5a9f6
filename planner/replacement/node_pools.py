"""The NodePool of each node, by the label that Karpenter gives its nodes. Pure."""

from typing import Final

import numpy as np

from trimtab.planner.snapshot.columns import Int32, Snapshot
from trimtab.planner.snapshot.lookup import string_index

POOL_LABEL: Final = "karpenter.sh/nodepool"
NO_POOL: Final = -1


def pools_of_nodes(snapshot: Snapshot) -> Int32:
    """Return the pool of each node: the string of its label's value, NO_POOL = it has none. int32[N]. O(L + N)."""
    sets = snapshot.label_sets
    pool = np.full(max(len(sets.offsets) - 1, 1), NO_POOL, np.int32)
    entries = np.flatnonzero(sets.keys == string_index(snapshot.strings, POOL_LABEL))
    pool[np.searchsorted(sets.offsets, entries, side="right") - 1] = sets.values[entries]
    found: Int32 = pool[snapshot.nodes.label_set]
    return found
