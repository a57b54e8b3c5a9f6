"""All-or-nothing node groups: which can go completely, and which of their nodes need not be tried.

A group's size is the number of its registered nodes that are not being deleted; unregistered instances are left to the
cloud provider. Source: Cluster Autoscaler, AtomicResizeFilteringProcessor.
"""

import numpy as np

from trimtab.planner.scale_down.context import ScaleDownContext
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, UInt8
from trimtab.planner.snapshot.references import take_or
from trimtab.v1 import reason_pb2

_FAILED = reason_pb2.UnremovableReason.ATOMIC_SCALE_DOWN_FAILED


def sizes(context: ScaleDownContext) -> Int64:
    """Return how many registered nodes of each group are not being deleted. int64[G]."""
    snapshot = context.request.snapshot
    group = snapshot.nodes.group[~context.nodes.leaving]
    return np.bincount(group[group >= 0], minlength=len(snapshot.groups)).astype(np.int64)


def whole_size(context: ScaleDownContext) -> Int32:
    """Return by node how many nodes have to go with it, itself included; 0 if it can go alone. int32[N]."""
    snapshot = context.request.snapshot
    atomic = np.array([group.zero_or_max for group in snapshot.groups], bool)
    return take_or(np.where(atomic, sizes(context), 0), snapshot.nodes.group, 0).astype(np.int32)


def without_parts(context: ScaleDownContext, reasons: UInt8) -> UInt8:
    """Keep all nodes of an all-or-nothing group if one of them cannot go. reasons : uint8[N] why not, 0 = eligible."""
    whole = whole_size(context)
    if whole.any():
        np.copyto(reasons, np.uint8(_FAILED), where=(reasons == 0) & ~_complete(context, reasons == 0, whole))
    return reasons


def _complete(context: ScaleDownContext, going: Bool, whole: Int32) -> Bool:
    """Return for each node whether as many nodes of its group go as required. bool[N]."""
    group = context.request.snapshot.nodes.group
    count = np.bincount(group[going & (group >= 0)], minlength=len(context.request.snapshot.groups) + 1)
    complete: Bool = (whole == 0) | (count[group] == whole)
    return complete
