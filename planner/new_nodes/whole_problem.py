"""The problem in numbers of the cheapest plan, from the pods that are left and the groups that may grow.

Contains amounts, static predicates, limits of groups, and the effect of affinity and spread as far as it is the same on
every node or zone: how many pods of a class, or of several classes together, one node takes, and how many each zone.
Classes that differ in none of this share a row. Other constraints take effect when the pods are placed. Pure.

Zones of pods that zones bind can be chosen before the nodes, for all of these pods together: which zone takes a pod
that spreads over zones, or that has to be beside others in one, depends on where all such pods are, not on those of its
class alone. So they are packed together, without the other pods, onto the largest nodes of every zone. The problem then
has a row for each zone, and opens nodes where these pods have to be, which others fill as well.

New nodes of a plan have their pods as slots.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.cheapest.portfolio import alike
from trimtab.planner.cheapest.problem import NO_ZONE, UNLIMITED, Plan, Problem, with_node_limit
from trimtab.planner.facts.nodes import group_prices
from trimtab.planner.facts.similarity import ZONE_LABEL
from trimtab.planner.model.tuning import MOST_ALONE, MOST_BOUND, MOST_SETS, SCARCE_PODS, ZONE_KINDS
from trimtab.planner.model.values import NodeGroupInfo
from trimtab.planner.placement.group_bounds import ClassAdmission, GroupBounds
from trimtab.planner.placement.packing import GrowingGroups, Packed, Packer, PodsInSlots, pack
from trimtab.planner.placement.waiting import PodsByClass
from trimtab.planner.predicates.counter_kind import EACH_NODE, NodeLimit
from trimtab.planner.predicates.counters import (
    constraints_of,
    may_be_kept_out,
    needs_one_node,
    node_limits,
    spreading_over_nodes,
    takes_one,
)
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64

_GOLDEN: Final = (5**0.5 - 1) / 2


class RowsOfPods(NamedTuple):
    """The row of a problem of each pod. classes : pods by class; row_of : int64[C] the row of each class; first,
    rows_of_first : int32[F] other pods, placed before these in this order, and the row of each: none that these have.
    """

    classes: PodsByClass
    row_of: Int64
    first: Int32 = np.zeros(0, np.int32)
    rows_of_first: Int32 = np.zeros(0, np.int32)


class PlannedNodes(NamedTuple):
    """group_of : group of each new node; node, row : int32[E] new node of a slot, from 0 in the order of `group_of`,
    and row of the problem; room : int64[E] pods of the row that are planned there; pods, rows : int32[M] all pods, in
    the order in which those of a row are placed, and the row of each; first : the first so many of them are placed
    before all others, and share no row with these.
    """

    group_of: list[int]
    node: Int32
    row: Int32
    room: Int64
    pods: Int32
    rows: Int32
    first: int = 0

    def turns(self) -> list[Bool]:
        """Return which pods are placed in one go, in turn. bool[M] each."""
        begin = np.arange(len(self.pods)) < self.first
        return [begin, ~begin] if self.first else [~begin]

    def on(self, nodes: Int64, waits: Bool) -> PodsInSlots:
        """Return the pods that wait : bool[M], and the slots on these nodes : int64, of the simulation."""
        pods, rows = self.pods[waits], self.rows[waits]
        return PodsInSlots(pods, rows, nodes[self.node].astype(np.int32), self.row, self.room)


def planned_nodes(plan: Plan, pods: RowsOfPods) -> PlannedNodes:
    """Return the new nodes of a plan for these pods."""
    others, rows = _in_turn(pods.classes, pods.row_of)
    planned = _in_slots(plan, np.concatenate([pods.first, others]), np.concatenate([pods.rows_of_first, rows]))
    return planned._replace(first=len(pods.first))


def _in_turn(pods: PodsByClass, row_of: Int64) -> tuple[Int32, Int32]:
    """Return the pods and the row of each, int32[M]; those of classes that share a row in turn. row_of : int64[C]."""
    counts = np.diff(pods.offsets)
    of = np.repeat(np.arange(len(counts)), counts)
    rank = np.arange(len(of)) - pods.offsets[:-1][of]
    # Classes begin at different places, as far apart as the multiples of the golden ratio are.
    place = (rank + (of * _GOLDEN) % 1.0) / counts[of]
    order = np.lexsort((of, place, row_of[of]))
    return pods.members[order], row_of[of][order].astype(np.int32)


def _in_slots(plan: Plan, pods: Int32, rows: Int32) -> PlannedNodes:
    """Return the slots on each new node. O(nodes · entries + pods)."""
    batch = np.repeat(np.arange(len(plan.nodes)), plan.nodes)
    lengths = np.diff(plan.offsets)[batch]
    within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    entry, node = np.repeat(plan.offsets[:-1][batch], lengths) + within, np.repeat(np.arange(len(batch)), lengths)
    group_of: list[int] = np.repeat(plan.group, plan.nodes).tolist()
    return PlannedNodes(group_of, node.astype(np.int32), plan.classes[entry], plan.pods[entry], pods, rows)


def without_others(planned: PlannedNodes, nodes: list[int]) -> PlannedNodes:
    """Return the plan with these new nodes only. nodes : positions in `group_of`, ascending."""
    number = np.full(len(planned.group_of), -1, np.int32)
    number[nodes] = np.arange(len(nodes))
    there = number[planned.node] >= 0
    return planned._replace(
        group_of=[planned.group_of[node] for node in nodes],
        node=number[planned.node[there]],
        row=planned.row[there],
        room=planned.room[there],
    )


def joined(plans: Sequence[PlannedNodes]) -> PlannedNodes | None:
    """Return several plans as one, None if there are none."""
    if not plans:
        return None
    group_of: list[int] = []
    nodes = []
    for plan in plans:
        nodes.append(plan.node + np.int32(len(group_of)))
        group_of += plan.group_of
    row, room, pods, rows = (
        np.concatenate([getattr(plan, name) for plan in plans]) for name in ("row", "room", "pods", "rows")
    )
    return PlannedNodes(group_of, np.concatenate(nodes), row, room, pods, rows)


class RoomToGrow(NamedTuple):
    """What node groups may still get. groups : of the snapshot; labels : of a new node of each group; may_add :
    int64[G]; spare_nodes_left : how many more nodes can be opened; first_spare : number of spare nodes that are open
    already.
    """

    packer: Packer
    groups: Sequence[NodeGroupInfo]
    labels: Sequence[Mapping[str, str]]
    may_add: Int64
    spare_nodes_left: int
    first_spare: int


class _ClassLimit(NamedTuple):
    """rows : classes, ascending, of which a node takes `max_pods` pods together."""

    rows: tuple[int, ...]
    max_pods: int


class _PodsOfRows(NamedTuple):
    """pods : int32[M]; row : int64[M] of each."""

    pods: Int32
    row: Int64


def whole_problem(room: RoomToGrow, bounds: GroupBounds | ClassAdmission, waiting: Int32) -> tuple[Problem, Int64]:
    """Return the problem for pods waiting : int32, and the row of each class of `bounds`. int64[C]."""
    return merged(problem_of_classes(room, bounds, waiting), bounds.kind)


def problem_of_classes(room: RoomToGrow, bounds: GroupBounds | ClassAdmission, waiting: Int32) -> Problem:
    """Return the problem for pods waiting : int32 with a row for each class of `bounds`."""
    state, may_add = room.packer.simulation.state, room.may_add
    # A group that grows by one node or by none is treated like any other.
    is_atomic = np.array([group.zero_or_max for group in room.groups], bool) & (may_add > 1)
    zone, zone_count = _zones(room)
    problem = Problem(
        demand=state.resources.request[bounds.classes],
        pods=bounds.counts,
        allowed=bounds.admitted,
        capacity=bounds.free,
        price=group_prices(room.groups),
        max_nodes=np.where(is_atomic, 0, np.minimum(may_add, room.spare_nodes_left)),
        per_node=np.full(len(bounds.classes), UNLIMITED),
        zone=zone,
        zone_most=np.full((len(bounds.classes), zone_count), UNLIMITED),
    )
    zone_most, alone = _limits_alone(room, problem, bounds.classes, waiting)
    problem = problem._replace(zone_most=zone_most)
    by_counters = node_limits(state.counters, bounds.classes)
    limits = [*(_ClassLimit(limit.rows, limit.max_pods) for limit in by_counters if limit.over == EACH_NODE), *alone]
    spread = [limit for limit in by_counters if limit.over != EACH_NODE]
    limits += _spread(problem, spread, _least_nodes(problem, limits))
    return _with_limits(problem, limits)


def _with_limits(problem: Problem, limits: list[_ClassLimit]) -> Problem:
    """Return the problem with the limits of a node: on the pods of each class, and of the sets of several classes with
    most pods, at most MOST_SETS, on all of them."""
    for rows, max_pods in limits:
        at = list(rows)
        problem.per_node[at] = np.minimum(problem.per_node[at], max_pods)
    sets = sorted({limit for limit in limits if len(limit.rows) > 1}, key=lambda limit: (-_pods(problem, limit), limit))
    for rows, max_pods in sets[:MOST_SETS]:
        problem = with_node_limit(problem, np.isin(np.arange(len(problem.pods)), rows), max_pods)
    return problem


def _pods(problem: Problem, limit: _ClassLimit) -> int:
    return int(problem.pods[list(limit.rows)].sum())


def merged(problem: Problem, kind: Int64) -> tuple[Problem, Int64]:
    """Return the problem with one row for all classes of a kind that have no limit of their own, and the row of each
    class. kind : int64[C] < C as in `GroupBounds`."""
    count = len(problem.pods)
    free = (problem.per_node == UNLIMITED) & (problem.zone_most == UNLIMITED).all(axis=1)
    _, one_of, row_of = np.unique(
        np.where(free, kind, count + np.arange(count)), return_index=True, return_inverse=True
    )
    row_of = row_of.reshape(-1).astype(np.int64)
    fewer = problem._replace(
        demand=problem.demand[one_of],
        pods=np.bincount(row_of, problem.pods, len(one_of)).astype(np.int64),
        allowed=problem.allowed[one_of],
        per_node=problem.per_node[one_of],
        zone_most=problem.zone_most[one_of],
    )
    return fewer, row_of


def _zones(room: RoomToGrow) -> tuple[Int32, int]:
    """Return the zone of each group's new nodes, NO_ZONE = none, and how many zones there are."""
    names = [labels.get(ZONE_LABEL) for labels in room.labels]
    zones = sorted({name for name in names if name is not None})
    place = {name: at for at, name in enumerate(zones)}
    return np.array([NO_ZONE if name is None else place[name] for name in names], np.int32), len(zones)


def _spread(problem: Problem, limits: list[NodeLimit], nodes: int) -> Iterator[_ClassLimit]:
    """Yield limits of pods that spread over nodes: the skew allowed above the least number on any node. nodes : new
    ones at least. No node has fewer than all pods, placed evenly, would put on it.
    """
    for rows, skew, over in limits:
        pods = int(problem.pods[list(rows)].sum())
        limit = skew + pods // max(nodes + over, 1)
        if limit < pods and pods * SCARCE_PODS > nodes + over:
            yield _ClassLimit(rows, limit)


def _least_nodes(problem: Problem, limits: list[_ClassLimit]) -> int:
    """Return a lower bound on the new nodes, if all pods are served."""
    largest = np.maximum(problem.capacity.max(axis=0, initial=1), 1)
    by_amount = int((-(-(problem.demand * problem.pods[:, None]).sum(axis=0) // largest)).max(initial=0))
    return max([by_amount, *(-(-_pods(problem, limit) // max(limit.max_pods, 1)) for limit in limits)])


def _limits_alone(
    room: RoomToGrow, problem: Problem, classes: Int64, waiting: Int32
) -> tuple[Int64, list[_ClassLimit]]:
    """Return how many pods of a class each zone takes if counters keep others out, int64[C, Z], and limits of a
    node."""
    state = room.packer.simulation.state
    bound = np.flatnonzero(may_be_kept_out(state.counters, classes) & (state.local_class[classes] == 0))
    bound = np.sort(bound[np.argsort(-problem.pods[bound], kind="stable")][:MOST_BOUND])
    kinds: dict[tuple[bytes, ...], list[int]] = {}
    for row, of_class in zip(bound.tolist(), classes[bound].tolist(), strict=True):
        kinds.setdefault((*constraints_of(state.counters, of_class), state.blocked[of_class].tobytes()), []).append(row)
    order = sorted(kinds.values(), key=lambda rows: -int(problem.pods[rows].sum()))[:MOST_ALONE]
    row_of = np.full(len(state.local_class), -1, np.int64)
    row_of[classes] = np.arange(len(classes))
    rows_left = row_of[state.pod_class[waiting]]
    zone_most, limits = problem.zone_most.copy(), list[_ClassLimit]()
    for rows in sorted(order):
        there = np.isin(rows_left, rows) if len(rows) > 1 else rows_left == rows[0]
        by_zone, limit = _packed_alone(room, problem, rows, _PodsOfRows(waiting[there], rows_left[there]))
        if by_zone is not None:
            zone_most[rows] = by_zone
        limits += [limit] if limit is not None else []
    return zone_most, limits


def _packed_alone(
    room: RoomToGrow, problem: Problem, rows: list[int], pods: _PodsOfRows
) -> tuple[Int64 | None, _ClassLimit | None]:
    """Pack the pods of classes with the same constraints alone. Return how many of each class every zone takes,
    int64[len(rows), Z], and how many one node takes; None each if it is not the constraints that keep others out.
    """
    members = largest_by_zone(problem, rows)
    if not len(members):
        return None, None
    packed, by_zone = packed_on_new_nodes(room, members[:1], pods.pods), None
    if packed.placed < len(pods.pods) and len(members) > 1:
        in_zones = packed_on_new_nodes(room, members, pods.pods)
        if in_zones.placed > packed.placed:
            packed = in_zones
            zone = problem.zone[members[packed.group_of]][packed.node_of]
            there = (packed.node_of >= 0) & (zone >= 0)
            by_zone = np.zeros((len(rows), problem.zone_most.shape[1]), np.int64)
            np.add.at(by_zone, (np.searchsorted(rows, pods.row[there]), zone[there]), 1)
    if packed.nodes and (packed.nodes > 1 or packed.placed < len(pods.pods)):
        held = np.bincount(packed.node_of[packed.node_of >= 0], minlength=packed.nodes)
        fullest = int(held.argmax())
        there = packed.node_of == fullest
        free = problem.capacity[members[packed.group_of[fullest]]] - problem.demand[pods.row[there]].sum(axis=0)
        if (problem.demand[np.unique(pods.row[~there])] <= free).all(axis=1).any():
            return by_zone, _ClassLimit(tuple(rows), int(held[fullest]))
    return by_zone, None


def largest_by_zone(problem: Problem, rows: list[int]) -> Int64:
    """Return for each zone the group whose new node has room for most pods of some classes, the largest first. int64.

    Of several classes it takes each, and counts the larger ones.
    """
    takes = problem.demand[rows].max(axis=0)
    need = np.maximum(takes, 1)
    room = (problem.capacity // need)[:, takes > 0].min(axis=1)
    may = np.flatnonzero(problem.allowed[rows].all(axis=0) & (problem.max_nodes > 0))
    order = may[np.lexsort((may, -room[may]))]
    _, first = np.unique(problem.zone[order], return_index=True)
    return order[np.sort(first)].astype(np.int64)


def packed_on_new_nodes(room: RoomToGrow, groups: Int64, pods: Int32) -> Packed:
    """Pack pods : int32[M] alone onto new nodes of groups : int64, of which the first is preferred."""
    nobody = np.zeros(len(groups), np.int64).tolist()
    sizes = [room.spare_nodes_left] * len(groups)
    at_most = GrowingGroups(groups.tolist(), nobody, sizes)
    return pack(room.packer, at_most, pods, room.spare_nodes_left, room.first_spare)


class ZonesOfPods(NamedTuple):
    """pods : int32[M] in the order in which they were packed; zone : int32[M] of each, as in `Problem.zone`."""

    pods: Int32
    zone: Int32


_NOBODY: Final = ZonesOfPods(np.zeros(0, np.int32), np.zeros(0, np.int32))


def zones_of_pods(room: RoomToGrow, problem: Problem, bounds: GroupBounds, waiting: Int32) -> ZonesOfPods:
    """Return the zones of the pods of waiting : int32 that zones bind, as far as they have a place there. problem :
    with a row for each class of `bounds`, ascending."""
    state = room.packer.simulation.state
    bound = bound_by_zones(state)[state.pod_class[waiting]]
    if not bound.any():
        return _NOBODY
    rows = np.searchsorted(bounds.classes, state.pod_class[waiting[bound]])
    members = _members(problem, rows)
    if not len(members):
        return _NOBODY
    packed = packed_on_new_nodes(room, members, waiting[bound])
    there = packed.node_of >= 0
    zone = problem.zone[members[packed.group_of]][packed.node_of[there]]
    return ZonesOfPods(packed.pods[there][zone >= 0], zone[zone >= 0].astype(np.int32))


def bound_by_zones(state: SimulationState) -> Bool:
    """Return the classes of pods that other pods bind, but not by what is on one node. bool[S]."""
    is_bound: Bool = (state.local_class == 0) & ~takes_one(state.counters) & ~needs_one_node(state.counters)
    is_bound[spreading_over_nodes(state.counters)[0]] = False
    return is_bound


def _members(problem: Problem, rows: Int64) -> Int64:
    """Return the largest group of each zone for each kind of rows, by the price of all their pods there. int64."""
    kinds = alike(problem.allowed[rows])
    order = np.argsort(-np.bincount(kinds), kind="stable")[:ZONE_KINDS]
    groups_of_kinds = [largest_by_zone(problem, np.unique(rows[kinds == kind]).tolist()) for kind in order.tolist()]
    members = np.unique(np.concatenate(groups_of_kinds))
    price = _price_by_zone(problem, problem.demand[rows].sum(axis=0))
    return members[np.lexsort((members, price[problem.zone[members]]))]


def _price_by_zone(problem: Problem, demand: Int64) -> Float64:
    """Return what amounts cost at least in a zone, on full nodes. float64[Z + 1], the last one of no zone; inf = not
    known."""
    share = (demand[None] / np.maximum(problem.capacity, 1)).max(axis=1)
    cost = np.where(np.isnan(problem.price) | (problem.max_nodes <= 0), np.inf, problem.price * share)
    zones = int(problem.zone.max(initial=-1)) + 1
    price_of = np.full(zones + 1, np.inf)
    np.minimum.at(price_of, problem.zone, cost)
    return price_of


def in_zones(problem: Problem, kind: Int64, row: Int64, zone: Int32) -> tuple[Problem, Int64, Int64]:
    """Return the problem with a row for each class in each zone in which pods of it have to be, the kind of each row,
    and the row of each pod. row : int64[M] of each pod; zone : int32[M], -1 = any."""
    zones = int(problem.zone.max(initial=-1)) + 1
    pairs, row_of, pods = np.unique(row * (zones + 1) + zone + 1, return_inverse=True, return_counts=True)
    of, at = np.divmod(pairs, zones + 1)
    anywhere = at == 0
    divided = problem._replace(
        demand=problem.demand[of],
        pods=pods.astype(np.int64),
        allowed=problem.allowed[of] & (anywhere[:, None] | (problem.zone[None] == at[:, None] - 1)),
        per_node=problem.per_node[of],
        zone_most=np.where(anywhere[:, None], problem.zone_most[of], UNLIMITED),
    )
    kinds = np.unique(kind[of] * (zones + 1) + at, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return divided, kinds, row_of.reshape(-1).astype(np.int64)
