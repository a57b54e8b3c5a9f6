"""The least cost of room for the pods of a cluster (`trimtab.planner.replacement.room_prices`), from its simulation.

Nodes that may go are offers of their own kind for the pods that may move; nodes that stay are free room. Pods that need
no place elsewhere stay where they are. Nodes alike in group and class count as one offer with the largest amounts of
any, which keeps the bound proven. Pure.

The node groups of which a plan may need new nodes: those for which no other group is at least as good. Pure.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.cheapest.candidates import alike, undominated
from trimtab.planner.facts.nodes import total
from trimtab.planner.model.tuning import BOUND_KINDS
from trimtab.planner.placement.group_bounds import fresh_amounts, kinds_of
from trimtab.planner.placement.packing import Packer
from trimtab.planner.predicates import counters
from trimtab.planner.replacement.judge import pod_values
from trimtab.planner.replacement.room_prices import RoomPrices, RoomProblem, room_prices
from trimtab.planner.replacement.survey import ReplacementContext
from trimtab.planner.simulation.growth import NO_TEMPLATE_NODE, Growth
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64


class ClusterBound(NamedTuple):
    """per_hour : no cluster with these pods costs less; pod_value : float64[S] by pod class what room for one is worth;
    node_value : float64[N] what room for the pods to move of each node is worth; may_save : whether anything could be
    saved at all."""

    per_hour: float
    pod_value: Float64
    node_value: Float64
    may_save: float


def cluster_bound(context: ReplacementContext, growth: Growth) -> ClusterBound:
    """Return the bound. O(N · R + P) besides the programme."""
    simulation = context.request.round.simulation
    state, candidates = simulation.state, context.candidates
    pods = context.pods
    moving = pods.of(candidates)
    classes, counts = np.unique(state.pod_class[moving], return_counts=True)
    rows, row_of = kinds_of(state, classes)
    row_classes = classes[rows]
    demand = state.resources.request[row_classes]
    need = state.resources.need[row_classes]
    offers = _undominated(_offers(context, growth, candidates), state.blocked[row_classes] != 0)
    stays = np.flatnonzero(context.there & (context.verdicts.limit > 0) & context.request.ready)
    kinds = _kinds_of_free_room(state, stays)
    problem = RoomProblem(
        demand=demand.astype(np.float64),
        pods=np.bincount(row_of, counts, len(row_classes)).astype(np.float64),
        price=offers.price,
        capacity=offers.capacity.astype(np.float64),
        allowed=(state.blocked[row_classes][:, offers.node_class] == 0)
        & (need[:, None, :] <= offers.capacity[None, :, :]).all(axis=2),
        free=kinds.free.astype(np.float64),
        free_allowed=np.ones((len(row_classes), len(kinds.free)), bool)
        if kinds.node_class is None
        else state.blocked[row_classes][:, kinds.node_class] == 0,
    )
    solution: RoomPrices = room_prices(problem)
    value = np.zeros(len(state.local_class))
    value[classes] = solution.value[row_of]
    now = total(context.price[candidates])
    staying = total(context.price[context.there & (context.verdicts.limit > 0)])
    return ClusterBound(
        per_hour=staying + max(min(solution.bound, now), 0.0),
        pod_value=value,
        node_value=pod_values(value, state.pod_class, pods.pods, pods.offsets),
        may_save=now - solution.bound,
    )


class _PricedOffers(NamedTuple):
    """price : float64[O]; capacity : int64[O, R]; node_class : int64[O]."""

    price: Float64
    capacity: Int64
    node_class: Int64


def _offers(context: ReplacementContext, growth: Growth, candidates: Int32) -> _PricedOffers:
    """Return new nodes of all groups that may get any, and the nodes that may go."""
    simulation = context.request.round.simulation
    state, group = simulation.state, context.request.snapshot.nodes.group[candidates]
    new = np.flatnonzero(context.usable & (growth.template_node != NO_TEMPLATE_NODE))
    capacity = fresh_amounts(simulation, growth)[new]
    node_class = state.node_class[growth.template_node[new]]
    amounts = state.resources.free[candidates] + _requests_on(context, candidates)
    keys = np.stack([group.astype(np.int64), state.node_class[candidates]], axis=1)
    kinds, of = np.unique(keys, axis=0, return_inverse=True)
    largest = np.zeros((len(kinds), amounts.shape[1]), np.int64)
    np.maximum.at(largest, of.reshape(-1), amounts)
    return _PricedOffers(
        np.concatenate([context.group_price[new], context.group_price[kinds[:, 0]]]),
        np.maximum(np.concatenate([capacity, largest]), 0),
        np.concatenate([node_class, kinds[:, 1]]),
    )


def _undominated(offers: _PricedOffers, blocked: Bool) -> _PricedOffers:
    """Return the offers without those that do not change the bound. blocked : bool[C, K] by class of nodes."""
    classes, of = np.unique(offers.node_class, return_inverse=True)
    kind = alike(blocked[:, classes].T)[of.reshape(-1)]
    rows = undominated(offers.price, offers.capacity, kind, np.ones(len(kind), bool))
    return _PricedOffers(offers.price[rows], offers.capacity[rows], offers.node_class[rows])


def _requests_on(context: ReplacementContext, nodes: Int32) -> Int64:
    """Return what the pods to move of each node request. int64[len(nodes), R]."""
    state, pods = context.request.round.simulation.state, context.pods
    moved = pods.of(nodes)
    row = np.repeat(np.arange(len(nodes)), np.diff(pods.offsets)[nodes])
    requests = np.zeros((len(nodes), state.resources.request.shape[1]), np.int64)
    for r in range(requests.shape[1]):
        amounts = np.ascontiguousarray(state.resources.request[:, r])[state.pod_class[moved]]
        upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(amounts)])
        bounds = np.searchsorted(row, np.arange(len(nodes) + 1))
        requests[:, r] = upto[bounds[1:]] - upto[bounds[:-1]]
    return requests


class _FreeRoom(NamedTuple):
    """free : int64[F, R]; node_class : int64[F], None = of all classes together."""

    free: Int64
    node_class: Int64 | None


def _kinds_of_free_room(state: SimulationState, stays: Int64) -> _FreeRoom:
    """Return the free amounts of nodes that stay, by node class. A node without room for another pod has none."""
    free = np.maximum(state.resources.free[stays], 0)
    has_room = (free[:, :3] > 0).all(axis=1)
    stays, free = stays[has_room], free[has_room]
    node_class = state.node_class[stays]
    kinds, of = np.unique(node_class, return_inverse=True)
    if len(kinds) > BOUND_KINDS:
        return _FreeRoom(free.sum(axis=0, keepdims=True), None)
    together = np.zeros((len(kinds), free.shape[1]), np.int64)
    np.add.at(together, of.reshape(-1), free)
    return _FreeRoom(together, kinds.astype(np.int64))


def needed_groups(context: ReplacementContext, packed: Packer) -> Bool:
    """Return the groups that may grow without those for which another admits the same pods, has no less of anything,
    costs no more, and may grow by as many nodes as a plan has. bool[G]. Groups whose nodes differ for pods that depend
    on where others are, such as those of two zones, are kept beside each other.
    """
    simulation, growth = packed.simulation, packed.growth
    needed: Bool = context.usable & (growth.template_node != NO_TEMPLATE_NODE)
    groups = np.flatnonzero(needed)
    moving = context.pods.of(context.candidates)
    none, settings = np.zeros(len(needed), np.int64), context.request.settings
    limits = context.limits.after(none, none, settings.max_waves)
    may_add = limits.may_add[groups]
    most_new = min(settings.max_surge_nodes * settings.max_waves, len(moving), limits.nodes_left)
    capacity = np.maximum(fresh_amounts(simulation, growth)[groups], 0)
    kind = _kinds(packed, groups, np.unique(simulation.state.pod_class[moving]))
    needed[groups] = False
    needed[groups[undominated(context.group_price[groups], capacity, kind, may_add >= most_new)]] = True
    return needed


def _kinds(packed: Packer, groups: Int64, classes: Int64) -> Int64:
    """Return a number for each group, the same for those whose new nodes admit the same pods. int64[len(groups)]."""
    state, nodes = packed.simulation.state, packed.growth.template_node[groups]
    node_classes, of = np.unique(state.node_class[nodes], return_inverse=True)
    blocked = alike(state.blocked[classes][:, node_classes].T != 0)[of.reshape(-1)]
    columns = [blocked, _residents(packed, nodes), *counters.own_limits(state.counters, nodes)]
    if not state.local_class[classes].all():
        columns += counters.shared_domains(state.counters, nodes)
    if not len(groups):
        return groups
    as_bytes = [
        np.ascontiguousarray(column).reshape(len(groups), -1).view(np.uint8) for column in columns if column.size
    ]
    return alike(np.concatenate(as_bytes, axis=1))


def _residents(packed: Packer, nodes: Int64) -> Int64:
    """Return a number for each node, the same for those with the same DaemonSet pods. int64[len(nodes)]."""
    virtual, numbers = packed.simulation.state.virtual, dict[bytes, int]()
    offsets = virtual.resident_offsets
    return np.array(
        [
            numbers.setdefault(np.sort(virtual.resident[offsets[node] : offsets[node + 1]]).tobytes(), len(numbers))
            for node in nodes.tolist()
        ],
        np.int64,
    )
