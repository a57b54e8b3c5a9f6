"""Host ports, disks and inter-pod (anti-)affinity over presence counters. O(terms of the class) each."""

from trimtab.planner.model.jit import inlined_kernel
from trimtab.planner.predicates.presence import PresenceCounters


@inlined_kernel
def count(presence: PresenceCounters, pod_class: int, node: int, sign: int) -> None:
    """Count a pod of the class on the node (sign 1), or take it off (sign -1)."""
    for at in range(presence.added_offsets[pod_class], presence.added_offsets[pod_class + 1]):
        counter = presence.added[at, 0]
        domain = presence.domain[presence.row[counter], node]
        if domain >= 0:
            presence.counts[presence.start[counter] + domain] += sign
            presence.total[counter] += sign


@inlined_kernel
def is_kept_out(presence: PresenceCounters, pod_class: int, node: int) -> bool:
    """Return whether a counter that must be 0 on the node is not 0. A node without the topology key is in no domain."""
    for at in range(presence.empty_offsets[pod_class], presence.empty_offsets[pod_class + 1]):
        counter = presence.empty[at, 0]
        domain = presence.domain[presence.row[counter], node]
        if domain >= 0 and presence.counts[presence.start[counter] + domain] > 0:
            return True
    return False


@inlined_kernel
def kept_out_because(presence: PresenceCounters, pod_class: int, node: int) -> int:
    """Return the mask `1 << reason` of the counters that must be 0 on the node but are not."""
    mask = 0
    for at in range(presence.empty_offsets[pod_class], presence.empty_offsets[pod_class + 1]):
        counter = presence.empty[at, 0]
        domain = presence.domain[presence.row[counter], node]
        if domain >= 0 and presence.counts[presence.start[counter] + domain] > 0:
            mask |= 1 << presence.empty[at, 1]
    return mask


@inlined_kernel
def is_near_others(presence: PresenceCounters, pod_class: int, node: int) -> bool:
    """Return whether required affinity is met on the node.

    The node must have all topology keys. If a counter is 0, the pod may still be the first of its group: it matches its
    own terms, and no placed pod is counted anywhere.
    """
    begin, end = presence.filled_offsets[pod_class], presence.filled_offsets[pod_class + 1]
    missing = False
    for at in range(begin, end):
        counter = presence.filled[at, 0]
        domain = presence.domain[presence.row[counter], node]
        if domain < 0:
            return False
        if presence.counts[presence.start[counter] + domain] <= 0:
            missing = True
    if not missing:
        return True
    counted = 0
    for at in range(begin, end):
        counted += presence.total[presence.filled[at, 0]]
    return bool(presence.starts_group[pod_class] != 0 and counted == 0)
