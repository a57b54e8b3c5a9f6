"""Host ports, disks and inter-pod (anti-)affinity over presence counters. O(terms of the class) each."""

from trimtab.planner.compiled.decorators import copied_kernel, inlined_kernel
from trimtab.planner.predicates.counter_kind import CounterHooks
from trimtab.planner.predicates.presence import PresenceCounters, PresenceNotes


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


@inlined_kernel
def because(presence: PresenceCounters, pod_class: int, node: int) -> int:
    """Return the mask `1 << reason` of the predicates that refuse a pod of the class on the node."""
    mask = 0
    if not is_near_others(presence, pod_class, node):
        mask = 1 << presence.filled[presence.filled_offsets[pod_class], 1]
    for at in range(presence.empty_offsets[pod_class], presence.empty_offsets[pod_class + 1]):
        counter = presence.empty[at, 0]
        domain = presence.domain[presence.row[counter], node]
        if domain >= 0 and presence.counts[presence.start[counter] + domain] > 0:
            mask |= 1 << presence.empty[at, 1]
    return mask


@inlined_kernel
def is_alone(presence: PresenceCounters, pod_class: int, node: int) -> bool:
    """Return whether required affinity is not met on the node."""
    return not is_near_others(presence, pod_class, node)


@inlined_kernel
def may_need_others(presence: PresenceCounters, pod_class: int) -> bool:
    """Return whether pods of the class have required affinity, or follow one that shares their claim. O(1)."""
    return bool(presence.filled_offsets[pod_class] < presence.filled_offsets[pod_class + 1])


@inlined_kernel
def excludes_pods(presence: PresenceCounters, pod_class: int) -> bool:
    """Return whether some counter must be 0 for pods of the class. O(1)."""
    return bool(presence.empty_offsets[pod_class] < presence.empty_offsets[pod_class + 1])


@copied_kernel
def look_like(presence: PresenceCounters, node: int, like: int) -> None:
    """Copy the domains of a node to another one, except those that are the node itself. O(topology rows)."""
    for row in range(len(presence.own_row)):
        if presence.own_row[row] == 0:
            presence.domain[row, node] = presence.domain[row, like]


@copied_kernel
def starts_on_one_node(presence: PresenceCounters, pod_class: int) -> bool:
    """Return whether all pods of a class have to be on one node, and none has a place. O(affinity terms)."""
    by_node, counted = False, 0
    if presence.starts_group[pod_class] != 0:
        for at in range(presence.filled_offsets[pod_class], presence.filled_offsets[pod_class + 1]):
            counter = presence.filled[at, 0]
            by_node = by_node or presence.own_row[presence.row[counter]] != 0
            counted += presence.total[counter]
    return bool(by_node and counted == 0)


@copied_kernel
def is_refused_in_domains(presence: PresenceCounters, pod_class: int, node: int) -> bool:
    """Return whether required affinity is not met in the domains that a node shares with others."""
    missing, counted = False, 0
    for at in range(presence.filled_offsets[pod_class], presence.filled_offsets[pod_class + 1]):
        counter = presence.filled[at, 0]
        counted += presence.total[counter]
        if presence.own_row[presence.row[counter]] == 0:
            domain = presence.domain[presence.row[counter], node]
            missing = missing or domain < 0 or presence.counts[presence.start[counter] + domain] <= 0
    return bool(missing and (presence.starts_group[pod_class] == 0 or counted > 0))


@copied_kernel
def may_pass_again(presence: PresenceCounters, notes: PresenceNotes, pod_class: int) -> bool:  # noqa: ARG001
    """Return whether pods of the class have required affinity, which nodes that were skipped may meet now. O(1)."""
    return may_need_others(presence, pod_class)


@copied_kernel
def note_failure(presence: PresenceCounters, notes: PresenceNotes, pod_class: int) -> None:
    """Note how many pods each affinity term of the class matches."""
    for at in range(presence.filled_offsets[pod_class], presence.filled_offsets[pod_class + 1]):
        notes.failed_total[at] = presence.total[presence.filled[at, 0]]


@copied_kernel
def has_changed(presence: PresenceCounters, notes: PresenceNotes, pod_class: int) -> bool:
    """Return whether an affinity term of the class matches another number of pods than noted."""
    for at in range(presence.filled_offsets[pod_class], presence.filled_offsets[pod_class + 1]):
        if presence.total[presence.filled[at, 0]] != notes.failed_total[at]:
            return True
    return False


HOOKS = CounterHooks(
    count=count,
    refuses_for_good=is_kept_out,
    refuses_for_now=is_alone,
    because=because,
    look_like=look_like,
    may_need_others=may_need_others,
    excludes_pods=excludes_pods,
    starts_on_one_node=starts_on_one_node,
    is_refused_in_domains=is_refused_in_domains,
    may_pass_again=may_pass_again,
    note_failure=note_failure,
    may_fit_now=has_changed,
)
