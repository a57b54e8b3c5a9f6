"""Pack pods onto new nodes: first fit over the nodes opened so far, then one more node. A pod goes to the first new
node that admits it; if there is none, a spare node is opened for a group: the one with the fewest nodes among those
whose new node admits the pod. As pods are only added, a refusal by resources, ports, disks or anti-affinity is
permanent, one by spread constraints lasts until a smallest count rises, and one by affinity until another pod is
counted. So each class has a cursor that skips nodes which need no second check, and a class without a place is skipped
until that may have changed. Equal pods that depend only on amounts are placed many at a time. O(pods · terms + classes
· new nodes) for classes that depend only on their node. Source: Cluster Autoscaler, estimator.BinpackingNodeEstimator,
for the candidates; own loop.

Why a new node of each group refuses each pod. O(groups · pods · terms).

Places pods in slots: a slot is room for some pods of a row on a node. Each row has a ring of its slots.
"""

from typing import NamedTuple

from trimtab.planner.compiled.by_reference import by_reference
from trimtab.planner.compiled.decorators import copied_kernel, inner_kernel, kernel, widened
from trimtab.planner.placement.kernels.search import alike_ahead, room_for
from trimtab.planner.predicates.counters import CounterNotes
from trimtab.planner.predicates.kernels import compose
from trimtab.planner.predicates.kernels.compose import ADMITTED, FOR_GOOD, THIS_POD
from trimtab.planner.simulation.kernels import failing, fits, mark, open_from_template, place, place_several, revert
from trimtab.planner.simulation.kernels.checks import fits_locally, refusal_by_counters
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import NO_NODE, Int32, Int64, UInt8

OPENED, PLACED = 0, 1
"""Positions in `Task.counts`."""
COUNTS = 2


class PackingGroups(NamedTuple):
    """Q groups that may grow; among equal ones the first is preferred."""

    template_node: Int64
    size: Int64
    """Nodes of each group, in place."""
    room_left: Int64
    """How many more each may have, in place."""
    total_left: Int64
    """int64[1] the same for all groups together, in place."""
    opened: Int64
    """New nodes of each, written."""
    tried: UInt8
    """Scratch."""


class KnownRefusals(NamedTuple):
    """Known refusals of each class, reusable for the next packing; S classes. cursor : int32[S] new nodes before it
    refuse the class permanently; passed : int32[S] >= cursor, new nodes before it refuse it at least for now; failed :
    uint8[S] no node admits the class for now; notes : the counters on which "for now" depends.

    A class is in one of three states, each pod of it moves it on:

        searching --(a node admits it)--> searching
        searching --(all refuse it)--> failed: no node is asked
        failed --(noted counters have changed: `may_fit_now`)--> searching, from `passed` on
        searching --(noted counters have changed: `may_pass_again`)--> searching, from `cursor` on

    A refusal FOR_GOOD moves `cursor` and `passed` on, FOR_NOW only `passed`; THIS_POD neither, and such a pod never
    makes its class failed.
    """

    cursor: Int32
    passed: Int32
    failed: UInt8
    notes: CounterNotes


@by_reference()
class PackingTask(NamedTuple):
    """One packing.

    pods : int32[M] in the order in which they are placed; spare_nodes : int64[B] closed spare nodes to open, in order;
    refused : uint8[S, Q] scratch, a new node of the group refuses the class permanently; node_of : int32[M] position in
    `spare_nodes` or -1, group_of : int32[B] position in `groups`, counts : int64[COUNTS]  written.
    """

    pods: Int32
    spare_nodes: Int64
    groups: PackingGroups
    memory: KnownRefusals
    refused: UInt8
    node_of: Int32
    group_of: Int32
    counts: Int64


@kernel
def pack_pods(sim: SimulationState, task: PackingTask) -> None:
    """Pack pods, which are on no node, onto new nodes. The simulation is left unchanged."""
    before = mark(sim)
    last = NO_NODE
    for row in range(len(task.pods)):
        pod_class = sim.pod_class[task.pods[row]]
        if pod_class != last:
            forget(sim, task, pod_class)
            last = pod_class
    row = widened(0)
    while row < len(task.pods):
        pod = widened(task.pods[row])
        pod_class = sim.pod_class[pod]
        several, end = is_countable(sim, pod), row + 1
        while several and end < len(task.pods) and sim.pod_class[task.pods[end]] == pod_class:
            if not is_like_its_class(sim, task.pods[end]):
                break
            end += 1
        while row < end:
            at = place_for(sim, task, pod, row)
            if at < 0:
                break
            count = widened(1)
            if several:
                count = widened(room_for(sim, pod_class, task.spare_nodes[at], end - row))
                place_several(sim, pod_class, task.spare_nodes[at], count)
            else:
                place(sim, pod, task.spare_nodes[at])
            for same in range(row, row + count):
                task.node_of[same] = at
            task.counts[PLACED] += count
            row += count
        row = end
    revert(sim, before)


@copied_kernel
def forget(sim: SimulationState, task: PackingTask, pod_class: int) -> None:
    """Reset the known refusals of a class."""
    memory = task.memory
    memory.cursor[pod_class] = 0
    memory.passed[pod_class] = 0
    memory.failed[pod_class] = 0
    for q in range(len(task.groups.template_node)):
        task.refused[pod_class, q] = 0
    compose.forget(sim.counters, memory.notes, pod_class)


@copied_kernel
def is_countable(sim: SimulationState, pod: int) -> bool:
    """Return whether only amounts and static predicates decide how many pods like this one a node takes."""
    pod_class = sim.pod_class[pod]
    by_amounts = sim.local_class[pod_class] != 0 and not compose.excludes_pods(sim.counters, pod_class)
    return bool(by_amounts and is_like_its_class(sim, pod))


@copied_kernel
def is_like_its_class(sim: SimulationState, pod: int) -> bool:
    """Return whether nothing of its own, such as volumes or the node it is pinned to, decides where a pod may go."""
    return bool(not compose.is_unlike_its_class(sim.counters, pod) and sim.pinned[pod] == -1)


@inner_kernel
def place_for(sim: SimulationState, task: PackingTask, pod: int, row: int) -> int:
    """Return the position of the first new node that admits a pod, opening one if needed; -1 if none does.

    row : its position in `task.pods`. The first pod of a group that has to be on one node goes where most of them fit.
    """
    memory, groups, pod_class = task.memory, task.groups, sim.pod_class[pod]
    if sim.pinned[pod] != -1 or (
        memory.failed[pod_class] != 0 and not compose.may_fit_now(sim.counters, memory.notes, pod_class)
    ):
        return NO_NODE
    groups.tried[:] = 0
    if compose.starts_on_one_node(sim.counters, pod_class):
        first = place_first(sim, task, pod, widened(alike_ahead(sim, task.pods, row)))
        if first < 0 and not compose.is_unlike_its_class(sim.counters, pod):
            note_failure(sim, memory, pod_class)
        return int(first)
    at = first_to_ask(sim, memory, pod_class)
    for_good, for_now = at == memory.cursor[pod_class], True
    possible, before, chosen = may_be_admitted(sim, groups, pod_class), widened(0), widened(NO_NODE)
    while possible:
        if at == task.counts[OPENED]:
            chosen = widened(next_group(task, pod_class))
            if chosen < 0:
                break
            groups.tried[chosen] = 1
            before = widened(mark(sim))
            open_from_template(sim, task.spare_nodes[at], groups.template_node[chosen])
        reason = refusal(sim, pod, pod_class, task.spare_nodes[at])
        if reason == ADMITTED:
            if chosen >= 0:
                note_opened(task, chosen)
            return int(at)
        if chosen >= 0:
            task.refused[pod_class, chosen] = reason == FOR_GOOD
            revert(sim, before)
            continue
        at += 1
        for_good = for_good and reason == FOR_GOOD
        for_now = for_now and reason != THIS_POD
        if for_good:
            memory.cursor[pod_class] = at
        if for_now:
            memory.passed[pod_class] = at
    # A refusal because of what this pod has of its own does not hold for others of its class.
    if not compose.is_unlike_its_class(sim.counters, pod):
        note_failure(sim, memory, pod_class)
    return NO_NODE


@inner_kernel
def place_first(sim: SimulationState, task: PackingTask, pod: int, several: int) -> int:
    """Return the position of the new node that takes most of several pods like one, opening one if that takes more than
    all open ones; the first of equal ones; -1 if none admits the pod.
    """
    groups, pod_class, opened = task.groups, sim.pod_class[pod], widened(task.counts[OPENED])
    best, largest, chosen = widened(NO_NODE), widened(0), widened(NO_NODE)
    for at in range(opened):
        if largest < several and refusal(sim, pod, pod_class, task.spare_nodes[at]) == ADMITTED:
            room = room_for(sim, pod_class, task.spare_nodes[at], several)
            if room > largest:
                best, largest = widened(at), widened(room)
    group = widened(next_group(task, pod_class) if largest < several else NO_NODE)
    while group >= 0:
        groups.tried[group] = 1
        before = mark(sim)
        open_from_template(sim, task.spare_nodes[opened], groups.template_node[group])
        if refusal(sim, pod, pod_class, task.spare_nodes[opened]) == ADMITTED:
            room = room_for(sim, pod_class, task.spare_nodes[opened], several)
            if room > largest:
                chosen, largest = group, widened(room)
        revert(sim, before)
        group = widened(next_group(task, pod_class))
    if chosen >= 0:
        open_from_template(sim, task.spare_nodes[opened], groups.template_node[chosen])
        note_opened(task, chosen)
        best = opened
    return int(best)


@copied_kernel
def first_to_ask(sim: SimulationState, memory: KnownRefusals, pod_class: int) -> int:
    """Return the first new node that has to be checked again for a class."""
    if compose.may_pass_again(sim.counters, memory.notes, pod_class):
        memory.passed[pod_class] = memory.cursor[pod_class]
    return int(widened(memory.passed[pod_class]))


@copied_kernel
def next_group(task: PackingTask, pod_class: int) -> int:
    """Return the group with the fewest nodes among those whose new node may still admit a class, -1 = none."""
    groups, chosen = task.groups, NO_NODE
    if groups.total_left[0] > 0 and task.counts[OPENED] < len(task.spare_nodes):
        for q in range(len(groups.template_node)):
            possible = groups.room_left[q] > 0 and groups.tried[q] == 0 and task.refused[pod_class, q] == 0
            if possible and (chosen < 0 or groups.size[q] < groups.size[chosen]):
                chosen = q
    return chosen


@copied_kernel
def note_opened(task: PackingTask, group: int) -> None:
    """Count a node that was opened."""
    groups = task.groups
    groups.size[group] += 1
    groups.room_left[group] -= 1
    groups.opened[group] += 1
    groups.total_left[0] -= 1
    task.group_of[task.counts[OPENED]] = group
    task.counts[OPENED] += 1


@copied_kernel
def may_be_admitted(sim: SimulationState, groups: PackingGroups, pod_class: int) -> bool:
    """Return whether new nodes of some group, open or not, may admit a class, judging by shared domains only. For
    example, a refusal in a group's zone applies to all nodes of the group: adding a node to a domain that already has
    nodes changes nothing.
    """
    if not compose.may_need_others(sim.counters, pod_class):
        return True
    for q in range(len(groups.template_node)):
        if groups.opened[q] == 0 or not compose.is_refused_in_domains(sim.counters, pod_class, groups.template_node[q]):
            return True
    return False


@copied_kernel
def refusal(sim: SimulationState, pod: int, pod_class: int, node: int) -> int:
    """Return how an open node refuses a pod: its class permanently, its class for now, only this pod, or not at all."""
    if not fits_locally(sim, pod_class, node):
        return FOR_GOOD
    return refusal_by_counters(sim, pod, pod_class, node)


@copied_kernel
def note_failure(sim: SimulationState, memory: KnownRefusals, pod_class: int) -> None:
    """Note that no node admits a class, and the counters on which this depends."""
    memory.failed[pod_class] = 1
    compose.note_failure(sim.counters, memory.notes, pod_class)


@kernel
def place_on_new(
    sim: SimulationState, spare_nodes: Int64, template_node_of: Int64, pods: Int32, node_of: Int32, placed_on: Int32
) -> int:
    """Open spare_nodes[i] as template_node_of[i], in order, and place pods on them if they fit; return how many.

    spare_nodes : int64[B]; template_node_of : int64[K], K <= B; pods, node_of : int32[M] position of the node, -1 =
    none; placed_on : int32[M] the node or -1, written. A node is opened for its first pod, so that pods of a packing
    fit as they did there; nodes without pods are opened at the end. The moves stay.
    """
    opened, placed = 0, 0
    for row in range(len(pods)):
        placed_on[row] = -1
        at = widened(node_of[row])
        if at < 0:
            continue
        while opened <= at:
            open_from_template(sim, spare_nodes[opened], template_node_of[opened])
            opened += 1
        pod = widened(pods[row])
        if sim.pod_node[pod] == NO_NODE and fits(sim, pod, spare_nodes[at]):
            place(sim, pod, spare_nodes[at])
            placed_on[row] = spare_nodes[at]
            placed += 1
    while opened < len(template_node_of):
        open_from_template(sim, spare_nodes[opened], template_node_of[opened])
        opened += 1
    return placed


@kernel
def refusals(sim: SimulationState, spare: int, template_nodes: Int64, pods: Int32, masks: Int64) -> None:
    """Write the mask `1 << PredicateReason.Code` of the predicates that fail for a pod on a new node of a group, 0 = it
    fits.

    spare : a closed spare node; template_nodes : int64[Q], -1 = none; pods : int32[M], on no node; masks : int64[M, Q],
    -1 if the group has no template node. All changes are undone.
    """
    for q in range(len(template_nodes)):
        if template_nodes[q] < 0:
            for row in range(len(pods)):
                masks[row, q] = -1
            continue
        before = mark(sim)
        open_from_template(sim, spare, template_nodes[q])
        for row in range(len(pods)):
            masks[row, q] = failing(sim, widened(pods[row]), spare)
        revert(sim, before)


class Slots(NamedTuple):
    """node : int32[E] of each slot; room : int64[E] pods that it still takes, in place; following : int32[E] the next
    slot of its ring, in place; last : int32[C] by row the slot after which the next search begins, in place, -1 = no
    slot is left.
    """

    node: Int32
    room: Int64
    following: Int32
    last: Int32


@kernel
def place_in_slots(sim: SimulationState, slots: Slots, pods: Int32, rows: Int32, most_tries: int) -> int:
    """Place pods : int32[M], rows : int32[M] of each, in the first slot of their ring that admits them; return how many
    were placed. A slot without room leaves its ring. A pod that is on a node stays. O(M · most_tries).
    """
    placed = 0
    for at in range(len(pods)):
        pod, row = widened(pods[at]), widened(rows[at])
        before = widened(slots.last[row])
        if sim.pod_node[pod] != NO_NODE or before < 0:
            continue
        first, tries = widened(slots.following[before]), 0
        while tries < most_tries:
            slot = widened(slots.following[before])
            if tries > 0 and slot == first:
                break
            tries += 1
            node = widened(slots.node[slot])
            if fits(sim, pod, node):
                place(sim, pod, node)
                placed += 1
                slots.room[slot] -= 1
                if slots.room[slot] > 0:
                    before = slot
                elif slots.following[slot] == slot:
                    before = -1
                else:
                    slots.following[before] = slots.following[slot]
                break
            before = slot
        slots.last[row] = before
    return placed
