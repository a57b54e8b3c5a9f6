"""The expander CHEAPEST_PLAN: all groups at once, for all pods that need new nodes.

Converts the simulation into the problem in numbers, and the plan back into new nodes with pods. The effect of affinity
and spread on a class is determined by packing its pods alone: how many one node takes, and how many each zone. Other
constraints take effect when the pods are placed; a pod that then finds no place is handled group by group.
"""

from typing import Final, NamedTuple

import numpy as np

from planner.facts.similarity import ZONE_LABEL
from planner.placement.group_bounds import GroupBounds, group_bounds
from planner.placement.orders import PodsByClass, by_class
from planner.placement.packing import GrowingGroups, Packed, pack
from planner.scale_up.cheapest.plan import cheapest_plan
from planner.scale_up.cheapest.problem import NO_ZONE, UNLIMITED, Bounds, Plan, Problem, with_node_limit
from planner.scale_up.context import Context
from planner.scale_up.growing import Growing
from planner.simulation.state import SimulationState
from planner.snapshot.columns import Int32, Int64

MOST_ALONE: Final = 256
"""Maximum number of classes whose pods are packed alone; those with most pods come first."""
MOST_SETS: Final = 16
"""Maximum number of sets of mutually exclusive classes in the plan in numbers."""


class Planned(NamedTuple):
    """group_of : group of each new node; pods, nodes : int32[M] pods and the new node that each is planned for, from 0
    in the order of `group_of`."""

    group_of: list[int]
    pods: Int32
    nodes: Int32


def plan_whole(context: Context, growing: Growing, left: Int32) -> Planned:
    """Return the plan for pods left : int32, which have no place. Once the time is over, the first plan found."""
    request = context.request
    until = Bounds(request.round.effort, request.round.time_left, request.settings.max_improvements)
    simulation = growing.within.simulation
    bounds = group_bounds(simulation, growing.within.growth, left)
    found = cheapest_plan(_problem(context, growing, bounds, left), until)
    return _within_limits(growing, _assigned(found, by_class(simulation, left)))


def _problem(context: Context, growing: Growing, bounds: GroupBounds, left: Int32) -> Problem:
    state = growing.state
    rooms = growing.limits.rooms
    # A group that grows by one node or by none is treated like any other.
    whole = np.array([group.zero_or_max for group in growing.groups], bool) & (rooms > 1)
    zone, zone_count = _zones(context)
    asked = Problem(
        demand=state.resources.request[bounds.classes],
        pods=bounds.counts,
        allowed=bounds.admitted,
        capacity=bounds.free,
        price=np.array([group.price_per_hour for group in growing.groups], np.float64),
        most=np.where(whole, 0, np.minimum(rooms, growing.blanks_left)),
        per_node=np.full(len(bounds.classes), UNLIMITED),
        zone=zone,
        zone_most=np.full((len(bounds.classes), zone_count), UNLIMITED),
    )
    of_class = state.pod_class[left]
    bound = np.flatnonzero(state.local_class[bounds.classes] == 0)
    for row in np.sort(bound[np.argsort(-bounds.counts[bound], kind="stable")][:MOST_ALONE]).tolist():
        _bound(growing, asked, row, left[of_class == bounds.classes[row]])
    return _with_apart(asked, growing.state, bounds.classes)


def _with_apart(asked: Problem, state: SimulationState, classes: Int64) -> Problem:
    """Return the problem with the limits of a node for pods that exclude each other on a node: one pod of a class, and
    one of all classes that exclude each other; of such sets those with most pods, at most MOST_SETS."""
    presence, count = state.presence, len(classes)
    counter, row = np.divmod(
        np.intersect1d(
            _of_classes(presence.empty_offsets, presence.empty, classes),
            _of_classes(presence.added_offsets, presence.added, classes),
        ),
        count,
    )
    by_node = state.virtual.own_row[presence.row[counter]] != 0
    counter, row = counter[by_node], row[by_node]
    asked.per_node[row] = 1
    sets = {tuple(some.tolist()) for some in np.split(row, np.flatnonzero(np.diff(counter)) + 1) if len(some) > 1}
    for members in sorted(sets, key=lambda some: (-int(asked.pods[list(some)].sum()), some))[:MOST_SETS]:
        asked = with_node_limit(asked, np.isin(np.arange(count), members), 1)
    return asked


def _of_classes(offsets: Int32, entries: Int32, classes: Int64) -> Int64:
    """Return each counter in the entries of some classes, times the number of classes, plus the position of the class.

    int64.
    """
    lengths = np.diff(offsets)[classes].astype(np.int64)
    at = np.arange(int(lengths.sum())) + np.repeat(offsets[classes] - np.cumsum(lengths) + lengths, lengths)
    found: Int64 = entries[at, 0].astype(np.int64) * len(classes) + np.repeat(np.arange(len(classes)), lengths)
    return found


def _zones(context: Context) -> tuple[Int32, int]:
    """Return the zone of each group's new nodes, NO_ZONE = none, and how many zones there are."""
    names = [labels.get(ZONE_LABEL) for labels in context.expanders.groups.labels]
    known = sorted({name for name in names if name is not None})
    place = {name: at for at, name in enumerate(known)}
    return np.array([NO_ZONE if name is None else place[name] for name in names], np.int32), len(known)


def _bound(growing: Growing, asked: Problem, row: int, pods: Int32) -> None:
    """Write how many pods of a class one node takes, and each zone, if counters keep others out. In place."""
    members = _largest_by_zone(asked, row)
    if not len(members):
        return
    alone = _packed(growing, members[:1], pods)
    found = alone
    if alone.placed < len(pods) and len(members) > 1:
        found = _packed(growing, members, pods)
        if found.placed > alone.placed:
            zone = asked.zone[members[found.group_of]][found.node_of[found.node_of >= 0]]
            in_zone = zone[zone >= 0]
            asked.zone_most[row] = np.bincount(in_zone, minlength=asked.zone_most.shape[1])
        else:
            found = alone
    held = np.bincount(found.node_of[found.node_of >= 0], minlength=found.nodes)
    if found.nodes and (found.nodes > 1 or found.placed < len(pods)):
        need = np.maximum(asked.demand[row], 1)
        room = (asked.capacity[members[found.group_of]] // need)[:, asked.demand[row] > 0].min(axis=1)
        most = int(held.max())
        if most < int(room.max()):
            asked.per_node[row] = most


def _largest_by_zone(asked: Problem, row: int) -> Int64:
    """Return for each zone the group whose new node has room for most pods of a class, the largest first. int64."""
    need = np.maximum(asked.demand[row], 1)
    room = (asked.capacity // need)[:, asked.demand[row] > 0].min(axis=1)
    may = np.flatnonzero(asked.allowed[row] & (asked.most > 0))
    order = may[np.lexsort((may, -room[may]))]
    _, first = np.unique(asked.zone[order], return_index=True)
    return order[np.sort(first)].astype(np.int64)


def _packed(growing: Growing, groups: Int64, pods: Int32) -> Packed:
    nobody = np.zeros(len(groups), np.int64).tolist()
    most = [growing.blanks_left] * len(groups)
    at_most = GrowingGroups(groups.tolist(), nobody, most)
    return pack(growing.within, at_most, pods, growing.blanks_left, len(growing.group_of))


def _assigned(plan: Plan, pods: PodsByClass) -> Planned:
    """Assign pods to each new node, those of a class in the given order. O(nodes · entries + pods)."""
    batch = np.repeat(np.arange(len(plan.nodes)), plan.nodes)
    lengths = np.diff(plan.offsets)[batch]
    within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    entry, node = np.repeat(plan.offsets[:-1][batch], lengths) + within, np.repeat(np.arange(len(batch)), lengths)
    classes, counts = plan.classes[entry], plan.pods[entry]
    # The pods of an entry begin where the previous entries of its class end.
    order = np.argsort(classes, kind="stable")
    taken, planned = np.cumsum(counts[order]), np.bincount(classes, counts, len(pods.classes)).astype(np.int64)
    first = np.empty(len(order), np.int64)
    first[order] = taken - counts[order]
    first += (pods.offsets[:-1] - np.cumsum(planned) + planned)[classes]
    at = np.arange(int(counts.sum())) + np.repeat(first - np.cumsum(counts) + counts, counts)
    group_of: list[int] = np.repeat(plan.group, plan.nodes).tolist()
    return Planned(group_of, pods.members[at], np.repeat(node, counts).astype(np.int32))


def _within_limits(growing: Growing, planned: Planned) -> Planned:
    """Drop the last nodes of a plan that limits shared by several groups do not allow."""
    added = np.zeros(len(growing.groups), np.int64)
    np.add.at(added, np.array(planned.group_of, np.int64), 1)
    count = min(len(planned.group_of), growing.blanks_left)
    if count == len(planned.group_of) and growing.limits.admit(added):
        return planned
    added[:] = 0
    kept: list[int] = []
    for node, group in enumerate(planned.group_of):
        added[group] += 1
        if len(kept) < count and growing.limits.admit(added):
            kept.append(node)
        else:
            added[group] -= 1
    number = np.full(len(planned.group_of), -1, np.int32)
    number[kept] = np.arange(len(kept))
    there = number[planned.nodes] >= 0
    return Planned([planned.group_of[node] for node in kept], planned.pods[there], number[planned.nodes[there]])
