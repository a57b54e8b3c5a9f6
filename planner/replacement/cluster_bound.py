"""What room for the pods of a cluster costs at least: a linear programme's dual, which is a proven bound on its cost.

The programme: pods of classes are placed, in fractions, on nodes that can be had in fractions, each for its price; free
room of nodes that stay costs nothing, and there is only so much of it. Of constraints it has amounts and static
predicates, and no maximum sizes: every cluster of these node groups that holds the pods is a solution, so none costs
less. Its dual gives each amount of each kind of node a price; a pod is worth what the cheapest place for it costs. Any
prices of amounts under which a node's amounts together cost no more than the node are feasible, and give a bound.

Nodes that may go are offers for the pods that may move; those alike in group and class count as one offer with the
largest amounts of any, which keeps the bound proven. Sums are made in one order, so that results are the same on all
machines. Symbols: C rows of pods, O offers, F kinds of free room, R resources. Pure.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.cheapest.portfolio import alike, mean_demand, similar_rows, undominated
from trimtab.planner.facts.nodes import total
from trimtab.planner.model.tuning import (
    ASCENT_CELLS,
    ASCENT_STEPS,
    BOUND_KINDS,
    FIRST_ASCENT_STEP,
    PRICED_ROWS,
    TOLERANCE,
)
from trimtab.planner.placement.group_bounds import fresh_amounts, kinds_of
from trimtab.planner.placement.packing import Packer
from trimtab.planner.predicates import counters
from trimtab.planner.replacement.judge import pod_values
from trimtab.planner.replacement.survey import ReplacementContext
from trimtab.planner.simulation.growth import NO_TEMPLATE_NODE, Growth
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64

_UNAFFORDABLE: Final = 1e30


class RoomProblem(NamedTuple):
    """demand : float64[C, R] of one pod; pods : float64[C] how many; price : float64[O] > = 0 of a node; capacity :
    float64[O, R]; allowed : bool[C, O]; free : float64[F, R] free amounts of kinds of nodes that stay, all together;
    free_allowed : bool[C, F].
    """

    demand: Float64
    pods: Float64
    price: Float64
    capacity: Float64
    allowed: Bool
    free: Float64
    free_allowed: Bool


class RoomPrices(NamedTuple):
    """value : float64[C] what room for one more pod costs at least, 0 for pods that nothing takes; bound : what all
    pods cost at least together."""

    value: Float64
    bound: float


class _AmountPrices(NamedTuple):
    """share : float64[O, R] of a node's price that each amount has, rows sum up to 1; free : float64[R, F] price of an
    amount of free room."""

    share: Float64
    free: Float64


def room_prices(problem: RoomProblem, steps: int = ASCENT_STEPS) -> RoomPrices:
    """Return the best prices found. O(steps · C · (O + F) · R), bounded. Of many rows of pods, similar ones are joined
    to find the prices of amounts, by which each row is then valued: that is a bound whatever the prices are.
    """
    if not len(problem.demand) or not len(problem.price) + len(problem.free):
        return RoomPrices(np.zeros(len(problem.demand)), 0.0)
    fewer = _with_similar_rows_joined(problem)
    prices, solution = _best_prices(fewer, steps)
    if fewer is not problem:
        solution = _valued(problem, prices, _per_unit(problem))[0]
    return solution if solution.bound > 0 else RoomPrices(solution.value, 0.0)


def _with_similar_rows_joined(problem: RoomProblem) -> RoomProblem:
    if len(problem.demand) <= PRICED_ROWS:
        return problem
    kind = alike(np.concatenate([problem.allowed, problem.free_allowed], axis=1))
    joined = similar_rows(problem.demand, kind, np.zeros(len(kind), bool), PRICED_ROWS)
    first = np.unique(joined, return_index=True)[1]
    return problem._replace(
        demand=mean_demand(problem.demand, problem.pods, joined),
        pods=np.bincount(joined, problem.pods, len(first)).astype(np.float64),
        allowed=problem.allowed[first],
        free_allowed=problem.free_allowed[first],
    )


def _per_unit(problem: RoomProblem) -> Float64:
    """Return the price of one unit of each amount if it had the whole price. float64[O, R]."""
    per_unit = problem.price[:, None] / np.maximum(problem.capacity, TOLERANCE)
    per_unit[problem.capacity <= 0] = _UNAFFORDABLE
    return per_unit


def _best_prices(problem: RoomProblem, steps: int) -> "tuple[_AmountPrices, RoomPrices]":
    cells = max(problem.demand.size * (len(problem.price) + len(problem.free)), 1)
    steps = max(min(steps, ASCENT_CELLS // cells), 3)
    best: tuple[_AmountPrices, RoomPrices] | None = None
    for start in _starts(problem):
        solution = _ascend(problem, _per_unit(problem), start, steps if best is None else max(steps // 4, 2))
        best = solution if best is None or solution[1].bound > best[1].bound else best
    assert best is not None, "there is at least one start"
    return best


def _starts(problem: RoomProblem) -> list[Float64]:
    """Return shares to start with: by how scarce the amounts are, and all of it for each of the first two resources."""
    offers, resources = problem.capacity.shape
    needed = (problem.demand * problem.pods[:, None]).sum(axis=0)
    scarce = np.where(problem.capacity > 0, needed / np.maximum(problem.capacity, TOLERANCE), 0.0)
    mixed = _normalized(scarce)
    alone = np.full((offers, resources), 1e-6)
    alone[:, 0] = 1.0
    return [_normalized(mixed * mixed * mixed * mixed), mixed, _normalized(alone)]


def _ascend(problem: RoomProblem, per_unit: Float64, share: Float64, steps: int) -> "tuple[_AmountPrices, RoomPrices]":
    # What a pod costs on the cheapest offer.
    cheapest = _costs(problem, share, per_unit).min(axis=1, initial=np.inf)
    free = _prices_of_free_room(problem, np.where(np.isfinite(cheapest), cheapest, 0.0))
    prices = _AmountPrices(share, free)
    best: tuple[_AmountPrices, RoomPrices] | None = None
    for step in range(steps + 1):
        solution, at = _valued(problem, prices, per_unit)
        if best is None or solution.bound > best[1].bound:
            best = prices, solution
        if step == steps:
            break
        prices = _next(problem, prices, at, FIRST_ASCENT_STEP / (1.0 + 0.25 * step))
    assert best is not None, "there is at least one step"
    return best


def _valued(problem: RoomProblem, prices: _AmountPrices, per_unit: Float64) -> tuple[RoomPrices, np.ndarray]:
    """Return the values by prices of amounts, and the places of `_values`."""
    value, at = _values(problem, prices, per_unit)
    return RoomPrices(value, total(value * problem.pods) - total((prices.free * problem.free).reshape(-1))), at


def _costs(problem: RoomProblem, share: Float64, per_unit: Float64) -> Float64:
    """Return what a pod costs on a node of each offer. float64[C, O], inf where it fits none."""
    unit = share * per_unit
    cost = np.zeros(problem.allowed.shape)
    for r in range(unit.shape[1]):
        cost += problem.demand[:, r, None] * unit[None, :, r]
    cost[~problem.allowed] = np.inf
    return cost


def _prices_of_free_room(problem: RoomProblem, value: Float64) -> Float64:
    """Return prices of amounts of free room to start with: those by which pods that want it would just pay their value.
    float64[F, R]."""
    prices = np.zeros(problem.free.shape)
    for kind in range(len(problem.free)):
        takers = problem.free_allowed[:, kind]
        wanted = (problem.demand * (problem.pods * takers)[:, None]).sum(axis=0)
        ratio = np.where(problem.free[kind] > 0, wanted / np.maximum(problem.free[kind], TOLERANCE), 0.0)
        if ratio.max(initial=0.0) <= 1.0:
            continue
        r = int(ratio.argmax())
        worth = total((value * problem.pods)[takers])
        prices[kind, r] = worth / max(float(wanted[r]), TOLERANCE)
    return prices


def _values(problem: RoomProblem, prices: _AmountPrices, per_unit: Float64) -> tuple[Float64, np.ndarray]:
    """Return the value of each row of pods, float64[C], and the place that gives it: an offer, or O + a kind of free
    room. int64[C], -1 = none."""
    cost = _costs(problem, prices.share, per_unit)
    free = np.zeros(problem.free_allowed.shape)
    for r in range(prices.free.shape[1]):
        free += problem.demand[:, r, None] * prices.free[None, :, r]
    free[~problem.free_allowed] = np.inf
    both = np.concatenate([cost, free], axis=1)
    at = both.argmin(axis=1)
    value = both[np.arange(len(both)), at]
    has_place = np.isfinite(value)
    return np.where(has_place, value, 0.0), np.where(has_place, at, -1)


def _next(problem: RoomProblem, prices: _AmountPrices, at: np.ndarray, step: float) -> _AmountPrices:
    """Return prices with more of a node's price on the amounts that the pods at an offer use most, and free room dearer
    where more pods want it than there is."""
    offers, kinds = len(problem.price), len(problem.free)
    used = np.zeros((offers + kinds, problem.demand.shape[1]))
    there = at >= 0
    np.add.at(used, at[there], (problem.demand * problem.pods[:, None])[there])
    load = used[:offers] / np.maximum(problem.capacity, TOLERANCE)
    load[problem.capacity <= 0] = 0.0
    largest = load.max(axis=1, keepdims=True)
    share = _normalized(prices.share * _grown(np.where(largest > 0, step * load / np.maximum(largest, 1e-300), 0.0)))
    wanted = used[offers:]
    over = (wanted - problem.free) / np.maximum(np.maximum(wanted, problem.free), TOLERANCE)
    return _AmountPrices(share, prices.free * _grown(step * 0.5 * over))


def _normalized(shares: Float64) -> Float64:
    """Return shares whose rows sum up to 1; a row of zeros becomes that of the first amount alone."""
    sums = np.zeros(len(shares))
    for r in range(shares.shape[1]):
        sums += shares[:, r]
    normalized = shares / np.where(sums > 0, sums, 1.0)[:, None]
    normalized[sums <= 0, 0] = 1.0
    return normalized


def _grown(by: Float64) -> Float64:
    """Return about the exponential of numbers, by operations whose results are the same on all machines."""
    size = np.abs(by)
    grown = 1.0 + size + 0.5 * size * size
    return np.where(by >= 0, grown, 1.0 / grown)


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
