"""Nodes and pods of Karpenter: the NodePool of each node, by the label that Karpenter gives its nodes, and until when a
pod must not be disrupted. Pure.
"""

from typing import Final

import numpy as np

from trimtab.common.kubernetes.signals.karpenter import DO_NOT_DISRUPT, NODE_POOL
from trimtab.planner.snapshot.columns import Int32, Int64, Snapshot
from trimtab.planner.snapshot.lookup import string_index

NO_POOL: Final = -1
ALWAYS_S: Final = 2**62
"""Later than any time."""


def pools_of_nodes(snapshot: Snapshot) -> Int32:
    """Return the pool of each node: the string of its label's value, NO_POOL = it has none. int32[N]. O(L + N)."""
    sets = snapshot.label_sets
    pool = np.full(max(len(sets.offsets) - 1, 1), NO_POOL, np.int32)
    entries = np.flatnonzero(sets.keys == string_index(snapshot.strings, NODE_POOL.key))
    pool[np.searchsorted(sets.offsets, entries, side="right") - 1] = sets.values[entries]
    found: Int32 = pool[snapshot.nodes.label_set]
    return found


def undisrupted_until_s(snapshot: Snapshot) -> Int64:
    """Return until when the annotation of each pod keeps it where it is, Unix seconds, 0 = it has none. int64[P]. Pods
    of DaemonSets and of nodes themselves count, too, as in Karpenter; those that have ended or are being deleted do
    not."""
    pods = snapshot.pods
    until = np.zeros(len(pods.spec), np.int64)
    mine = np.flatnonzero(pods.number_key == string_index(snapshot.strings, DO_NOT_DISRUPT.key))
    number = pods.number[mine]
    until[pods.number_pod[mine]] = np.where(np.isfinite(number), np.nan_to_num(number), ALWAYS_S).astype(np.int64)
    until[pods.is_terminal() | (pods.deletion_s != 0)] = 0
    return until
