"""New nodes of several groups such that all of some pods have a place, or none at all.

The cheapest set in numbers comes first (`trimtab.planner.cheapest`: at least price, or the fewest nodes where prices
are missing), then sets with a whole all-or-nothing group, then first fit over all groups. The simulation decides what
fits; maxima, quotas and the nodes that can be opened bound each set. Pure. The moves of the first set that holds all
pods stay; otherwise the simulation is unchanged.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from trimtab.planner.cheapest.plan import cheapest_plan
from trimtab.planner.cheapest.problem import PlanBounds
from trimtab.planner.cheapest.single_class import single_class_plan
from trimtab.planner.model.tuning import MOST_NARROWED
from trimtab.planner.model.values import NodeGroupInfo
from trimtab.planner.new_nodes.planned_nodes import PlannedNodes, RowsOfPods, planned_nodes
from trimtab.planner.new_nodes.whole_problem import RoomToGrow, whole_problem
from trimtab.planner.placement.group_bounds import GroupBounds, group_bounds
from trimtab.planner.placement.limits import Limits
from trimtab.planner.placement.orders import by_class
from trimtab.planner.placement.packing import GrowingGroups, Packer, pack, place_in_slots, place_on_new_nodes
from trimtab.planner.placement.waiting import in_order, place_anywhere, place_where, unplaced
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log, current_mark
from trimtab.planner.snapshot.columns import NO_NODE, Int32, Int64


class NewNodeRoom(NamedTuple):
    """What may be opened. groups : of the snapshot; labels : of a new node of each group; limits : what groups may
    still get; first_spare : number of spare nodes that are open already; spare_count : of all that may be opened;
    until : bounds on the work for one set.
    """

    packer: Packer
    groups: Sequence[NodeGroupInfo]
    labels: Sequence[Mapping[str, str]]
    limits: Limits
    first_spare: int
    spare_count: int
    until: PlanBounds

    @property
    def most(self) -> int:
        """How many more nodes may be opened."""
        return max(self.spare_count - self.first_spare, 0)

    @property
    def is_atomic(self) -> list[bool]:
        """Whether each group grows to its maximum or not at all."""
        return [group.zero_or_max for group in self.groups]


class _NodeSet(NamedTuple):
    """A set of nodes to try. group_of : of each node; planned : pods in slots, None = wherever they fit."""

    group_of: list[int]
    planned: PlannedNodes | None


def place_all(room: NewNodeRoom, pods: Int32) -> list[int] | None:
    """Place all pods : int32[M], on no node, on new nodes; return the group of each new node in the order of opening,
    from `first_spare` on, or None if no set holds all of them. `room.limits` counts the nodes. Raises MoveLogFullError.
    """
    state, start = room.packer.simulation.state, current_mark(room.packer.simulation.state)
    bounds = group_bounds(room.packer.simulation, room.packer.growth, pods)
    if not room.most or not (bounds.admitted & (room.limits.may_add > 0)).any(axis=1).all():
        return None
    for attempt in _attempts(room, bounds, pods):
        found = _try(room, attempt, pods)
        if found is not None:
            return found
        revert(state, start)
    return None


def _attempts(room: NewNodeRoom, bounds: GroupBounds, pods: Int32) -> Iterator[_NodeSet]:
    """Yield sets of nodes, the cheapest first."""
    yield from _cheapest(room, bounds, pods, room.limits.may_add, [])
    may_add, atomic = room.limits.may_add, room.is_atomic
    whole = [group for group in range(len(atomic)) if atomic[group] and 1 < may_add[group] <= room.most]
    for group in whole:
        if bounds.admitted[:, group].any():
            yield from _with_whole_group(room, bounds, pods, group)
    packed = _packed(room, bounds, pods)
    if packed is not None:
        yield packed


def _cheapest(
    room: NewNodeRoom, bounds: GroupBounds, pods: Int32, may_add: Int64, opened: list[int]
) -> Iterator[_NodeSet]:
    """Yield the cheapest set in numbers for pods besides nodes that are opened anyway; then the same without groups
    that use up a quota. may_add : int64[G]."""
    allowed = may_add.copy()
    for _ in range(MOST_NARROWED):
        growing = RoomToGrow(
            room.packer, room.groups, room.labels, allowed, room.most - len(opened), room.first_spare + len(opened)
        )
        problem, row_of = whole_problem(growing, bounds, pods)
        plan = single_class_plan(problem) or cheapest_plan(problem, room.until)
        if plan.left.any():
            return
        added = np.bincount(np.repeat(plan.group, plan.nodes), minlength=len(allowed)).astype(np.int64)
        if int(added.sum()) + len(opened) <= room.most and _admits(room, added, opened):
            planned = planned_nodes(plan, RowsOfPods(by_class(room.packer.simulation, pods), row_of))
            yield _NodeSet(planned.group_of, planned)
            return
        largest = int(added.argmax())
        allowed[largest] = _admitted_count(room, added, opened, largest)


def _admitted_count(room: NewNodeRoom, added: Int64, opened: list[int], group: int) -> int:
    """Return how many nodes of a group, fewer than in `added` : int64[G], quotas admit beside the others."""
    least, most, other = 0, int(added[group]) - 1, added.copy()
    while least < most:
        other[group] = -(-(least + most) // 2)
        least, most = (int(other[group]), most) if _admits(room, other, opened) else (least, int(other[group]) - 1)
    return least


def _admits(room: NewNodeRoom, added: Int64, opened: list[int]) -> bool:
    every = added + np.bincount(np.array(opened, np.int64), minlength=len(added))
    return room.limits.admit(every)


def _with_whole_group(room: NewNodeRoom, bounds: GroupBounds, pods: Int32, group: int) -> Iterator[_NodeSet]:
    """Yield all nodes of an all-or-nothing group; then with the cheapest others for the pods that it has no room for,
    as far as amounts say."""
    whole = [group] * int(room.limits.may_add[group])
    yield _NodeSet(whole, None)
    # As many pods of each class as the whole group has no room for, the classes one after the other.
    left, rest = np.array(whole, np.int64), []
    free = np.repeat(bounds.free[group][None], len(left), axis=0)
    state = room.packer.simulation.state
    for at, of_class in enumerate(bounds.classes.tolist()):
        members = pods[state.pod_class[pods] == of_class]
        request = state.resources.request[of_class]
        takes = np.zeros(len(free), np.int64)
        if bounds.admitted[at, group]:
            takes = (free // np.maximum(request, 1))[:, request > 0].min(axis=1, initial=len(members))
            takes = np.minimum(takes, np.maximum(len(members) - (np.cumsum(takes) - takes), 0))
        free -= takes[:, None] * request
        rest.append(members[int(takes.sum()) :])
    waiting = np.concatenate(rest).astype(np.int32)
    if not len(waiting):
        return
    may_add = room.limits.may_add.copy()
    may_add[group] = 0
    others = group_bounds(room.packer.simulation, room.packer.growth, waiting)
    for attempt in _cheapest(room, others, waiting, may_add, whole):
        yield _NodeSet(whole + attempt.group_of, None)


def _packed(room: NewNodeRoom, bounds: GroupBounds, pods: Int32) -> _NodeSet | None:
    """Return the nodes of first fit over all groups that admit any of the pods; None if pods are left."""
    may_add, atomic = room.limits.may_add, room.is_atomic
    groups = [
        group
        for group in range(len(room.groups))
        if may_add[group] > 0 and (not atomic[group] or may_add[group] == 1) and bounds.admitted[:, group].any()
    ]
    if not groups:
        return None
    growing = GrowingGroups(groups, [0] * len(groups), [int(may_add[group]) for group in groups])
    order = in_order(room.packer.simulation, pods)
    packed = pack(room.packer, growing, order, room.most, room.first_spare)
    if packed.placed < len(pods):
        return None
    group_of = [groups[at] for at in packed.group_of.tolist()]
    added = np.bincount(np.array(group_of, np.int64), minlength=len(room.groups)).astype(np.int64)
    return _NodeSet(group_of, None) if room.limits.admit(added) else None


def _try(room: NewNodeRoom, attempt: _NodeSet, pods: Int32) -> list[int] | None:
    """Open the nodes of an attempt and place the pods; return the groups of the nodes in use, None if pods are left.
    The moves stay."""
    state, start = room.packer.simulation.state, current_mark(room.packer.simulation.state)
    place_on_new_nodes(room.packer, attempt.group_of, pods[:0], pods[:0], room.first_spare)
    opened = _opened(room, len(attempt.group_of))
    if attempt.planned is not None:
        place_in_slots(state, attempt.planned.on(opened, np.ones(len(attempt.planned.pods), bool)))
    left = unplaced(state, pods)
    if len(left):
        allowed = np.zeros(len(state.node_state), bool)
        allowed[opened] = True
        place_anywhere(state, opened.astype(np.int32), allowed, in_order(room.packer.simulation, left))
    check_log(state)
    if len(unplaced(state, pods)):
        return None
    group_of = _without_empty(room, attempt.group_of, pods, start)
    if group_of is not None:
        for group, count in sorted(zip(*np.unique(np.array(group_of, np.int64), return_counts=True), strict=True)):
            room.limits.count_nodes(int(group), int(count))
    return group_of


def _without_empty(room: NewNodeRoom, group_of: list[int], pods: Int32, start: int) -> list[int] | None:
    """Repeat the moves since a mark without new nodes that have no pods, unless an all-or-nothing group has them."""
    state = room.packer.simulation.state
    opened, atomic = _opened(room, len(group_of)), np.array(room.is_atomic, bool)
    of = np.array(group_of, np.int64)
    used = np.isin(opened, state.pod_node[pods])
    used |= atomic[of] & np.isin(of, of[used])
    if used.all():
        return group_of
    kept = of[used].tolist()
    moved_to = np.full(len(state.node_state), NO_NODE, np.int32)
    moved_to[opened[used]] = _opened(room, len(kept))
    at, target = state.pod_node[pods], np.full(len(state.pod_node), NO_NODE, np.int32)
    target[pods] = moved_to[at]
    revert(state, start)
    place_on_new_nodes(room.packer, kept, pods[:0], pods[:0], room.first_spare)
    place_where(state, np.ones(len(state.node_state), bool), pods, target)
    check_log(state)
    return None if len(unplaced(state, pods)) else kept


def _opened(room: NewNodeRoom, count: int) -> Int64:
    found: Int64 = room.packer.growth.spare_nodes[room.first_spare : room.first_spare + count]
    return found
