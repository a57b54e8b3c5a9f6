"""Find the nodes being deleted: reported by the actuator, or with its taint.

A taint counts while it is younger than the longest time that a cloud provider has for a deletion, or if its value is
not a time. Source: Cluster Autoscaler, actuation.IsNodeBeingDeleted, taints.GetToBeDeletedTime.
"""

import re
from typing import Final

import numpy as np

from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.model.values import Taint
from trimtab.planner.snapshot.columns import Bool, Snapshot
from trimtab.planner.snapshot.lookup import string_index

TO_BE_DELETED_TAINT: Final = "ToBeDeletedByClusterAutoscaler"
LONGEST_DELETION_S: Final = 300
_TIME: Final = re.compile("[0-9]{1,18}")
"""A time in Unix seconds. More digits are none, and too many of them are refused by `int`."""


def being_deleted(snapshot: Snapshot, now_ns: int) -> Bool:
    """Return for each node whether it is being deleted. bool[N]."""
    nodes = snapshot.nodes
    now_s = now_ns // SECOND_NS
    marked = [any(_is_recent(taint, now_s) for taint in taints) for taints in nodes.taint_sets]
    leaving = np.array([*marked, False], bool)[nodes.taint_set]
    for deletion in snapshot.deletions:
        node = string_index(nodes.name, deletion.node)
        if node >= 0:
            leaving[node] = True
    return leaving


def _is_recent(taint: Taint, now_s: int) -> bool:
    if taint.key != TO_BE_DELETED_TAINT:
        return False
    return _TIME.fullmatch(taint.value) is None or now_s - int(taint.value) < LONGEST_DELETION_S
