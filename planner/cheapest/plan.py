"""Make the cheapest plan: first with groups that have a price, then with the others for the pods that are left.

Bounded by work; the same problem gives the same plan unless the caller's time ends first.

A problem is brought into an order that does not depend on the numbering of its classes and groups: these are sorted by
their own numbers, then by those of the groups or classes they are allowed with, in a few rounds, like colour refinement
of a graph. Those that stay equal are interchangeable, or differ too little to affect the price.

Limits on pods by zone are replaced with classes for one zone each, if the limits leave no choice: if those of a class
do not add up to more than its pods, as with an even spread, every zone gets as many as it may have. Then no loop has to
count pods by zone, and the linear programme includes zones.

Problems with one row and without limits of zones, where all groups that admit the pods have prices or none has, are
solved exactly: a knapsack over the number of pods. O(pods · G · log(pods)).
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.cheapest.kernels.build import Batches
from trimtab.planner.cheapest.kernels.fill import FillState
from trimtab.planner.cheapest.portfolio import append_batches, batches_for, best_attempt, fill_state_for
from trimtab.planner.cheapest.problem import NO_ZONE, UNLIMITED, Plan, PlanBounds, Problem
from trimtab.planner.facts.nodes import total
from trimtab.planner.model.tuning import KNAPSACK_PODS, NODE_COST, REFINEMENT_ROUNDS
from trimtab.planner.snapshot.columns import Bool, Float64, Int64

NO_BOUNDS: Final = PlanBounds()
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_MIXER: Final = np.uint64(0xBF58476D1CE4E5B9)


def cheapest_plan(problem: Problem, bounds: PlanBounds = NO_BOUNDS) -> Plan:
    """Return a plan for as many pods as groups and limits allow, at a low total price.

    Raises only the errors of `bounds.limits`. Once the time is over, the first complete plan is returned.
    """
    ordered, classes, groups = prepared(problem)
    priced = ~np.isnan(ordered.price)
    state = fill_state_for(ordered, ordered.price)
    batches = batches_for(ordered)
    for members, price in ((priced, ordered.price), (~priced, np.ones(len(priced)))):
        if members.any() and state.pods.any():
            bounds.limits.check()
            _plan_stage(ordered, members, price, state, batches, bounds)
    return _restored(problem, batches, classes, groups)


def prepared(problem: Problem) -> tuple[Problem, Int64, Int64]:
    """Return the problem in the form in which it is solved, and the original class and group of each of its classes and
    groups.
    """
    zone = np.where(problem.zone < problem.zone_most.shape[1], problem.zone, NO_ZONE)
    problem = _without_own_resources(problem._replace(zone=zone.astype(np.int32)))
    classes, groups = canonical_order(problem)
    ordered, origin = split_by_zone(_in_order(problem, classes, groups))
    return ordered, classes[origin], groups


def _without_own_resources(problem: Problem) -> Problem:
    """Return the problem without resources that no class takes, or that only one class takes and of which all its
    groups have the same amount.

    The latter become limits on the pods of that class per node: as resources they would be weighted like those that
    pods compete for.
    """
    users, per_node = problem.demand > 0, problem.per_node.copy()
    resources = []
    for resource in range(users.shape[1]):
        takers = np.flatnonzero(users[:, resource])
        offered = np.unique(problem.capacity[problem.allowed[takers].any(axis=0), resource])
        if len(takers) > 1 or len(offered) > 1:
            resources.append(resource)
        elif len(takers) == 1 and len(offered):
            count = offered[0] // problem.demand[takers[0], resource]
            per_node[takers[0]] = min(per_node[takers[0]], count)
    resources = resources or [0]
    return problem._replace(
        demand=problem.demand[:, resources], capacity=problem.capacity[:, resources], per_node=per_node
    )


def _in_order(problem: Problem, classes: Int64, groups: Int64) -> Problem:
    """Return the problem with classes and groups rearranged, every array a contiguous copy."""
    return Problem(
        problem.demand[classes].astype(np.int64),
        problem.pods[classes].astype(np.int64),
        np.ascontiguousarray(problem.allowed[np.ix_(classes, groups)]),
        problem.capacity[groups].astype(np.int64),
        problem.price[groups].astype(np.float64),
        np.clip(problem.max_nodes[groups], 0, UNLIMITED).astype(np.int64),
        np.clip(problem.per_node[classes], 0, UNLIMITED).astype(np.int64),
        problem.zone[groups].copy(),
        np.clip(problem.zone_most[classes], 0, UNLIMITED).astype(np.int64),
    )


def _plan_stage(
    problem: Problem, members: Bool, price: Float64, state: FillState, batches: Batches, bounds: PlanBounds
) -> None:
    """Plan nodes of some groups: append them to batches, lower state. members : bool[G]; price : float64[G]."""
    groups = np.flatnonzero(members & (problem.max_nodes > 0)).astype(np.int32)
    top = float(price[members].max()) or 1.0
    cost = np.where(members, price, top) + NODE_COST * top
    best = best_attempt(problem, state._replace(cost=cost), groups, bounds)
    state.pods[:], state.nodes[:], state.zone_pods[:] = best.state.pods, best.state.nodes, best.state.zone_pods
    append_batches(batches, best.batches)


def _restored(problem: Problem, batches: Batches, classes: Int64, groups: Int64) -> Plan:
    """Return the result in the problem's own numbering."""
    count, entries = (int(count) for count in batches.counts)
    group = groups[batches.group[:count]]
    lengths = np.diff(batches.offsets[: count + 1])
    order = np.argsort(group, kind="stable")
    batch_of_entry = np.repeat(np.argsort(order, kind="stable"), lengths)
    its_class, pods = classes[batches.classes[:entries]], batches.pods[:entries]
    by_batch = np.lexsort([its_class, batch_of_entry])
    unplaced = problem.pods.astype(np.int64)
    np.subtract.at(unplaced, its_class, pods * np.repeat(batches.nodes[:count], lengths))
    nodes = batches.nodes[:count][order]
    return Plan(
        group[order].astype(np.int32),
        nodes,
        np.concatenate([[0], np.cumsum(lengths[order])]).astype(np.int64),
        its_class[by_batch].astype(np.int32),
        pods[by_batch].copy(),
        unplaced,
        total(problem.price[group[order]] * nodes),
    )


def canonical_order(problem: Problem) -> tuple[Int64, Int64]:
    """Return the classes and the groups in canonical order. int64[C], int64[G]."""
    classes = _ranks(problem.demand, problem.pods, problem.per_node, np.sort(problem.zone_most, axis=1))
    groups = _ranks(np.nan_to_num(problem.price, nan=-1.0), problem.capacity, problem.max_nodes)
    for _ in range(REFINEMENT_ROUNDS):
        seen_by_class = _sums(problem.allowed, _mixed(groups))
        seen_by_group = _sums(problem.allowed.T, _mixed(classes))
        in_zones = _in_zones(problem, classes)
        classes, groups = _ranks(classes, seen_by_class), _ranks(groups, seen_by_group, in_zones)
    return np.argsort(classes, kind="stable"), np.argsort(groups, kind="stable")


def _ranks(*columns: NDArray[Any]) -> Int64:
    """Return the rank of each row among all rows, equal rows having equal ranks. int64[rows]."""
    flat = [column for table in columns for column in (table.T if table.ndim > 1 else [table])]
    order = np.lexsort(flat[::-1])
    rises = np.zeros(len(order), bool)
    for column in flat:
        rises[1:] |= column[order][1:] != column[order][:-1]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(rises)
    return ranks


def _mixed(ranks: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a number for each rank, such that sums of these numbers almost never collide."""
    spread = (ranks.astype(np.uint64) + np.uint64(1)) * _MULTIPLIER
    spread = (spread ^ (spread >> np.uint64(30))) * _MIXER
    return spread ^ (spread >> np.uint64(27))


def _sums(related: NDArray[np.bool_], numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return for each row the sum of the numbers of its related entries, with overflow."""
    total: NDArray[np.uint64] = np.where(related, numbers, np.uint64(0)).sum(axis=1, dtype=np.uint64)
    return total


def _in_zones(problem: Problem, classes: Int64) -> NDArray[np.uint64]:
    """Return for each group a number that depends on how many pods of which classes may be planned in its zone.
    uint64[G].
    """
    zones = _mixed(problem.zone_most.T.astype(np.uint64) * _mixed(classes)).sum(axis=1, dtype=np.uint64)
    return np.append(zones, np.uint64(0))[problem.zone]


def split_by_zone(problem: Problem) -> tuple[Problem, Int64]:
    """Return the problem with classes split, and the original class of each of its classes. int64[C']."""
    zones, classes = problem.zone_most.shape[1], np.arange(len(problem.pods))
    if not zones:
        return problem._replace(zone=np.full_like(problem.zone, NO_ZONE)), classes
    limits = np.minimum(problem.zone_most, problem.pods[:, None])
    limits = np.where(_has_groups(problem, zones), limits, 0)
    outside = problem.allowed[:, problem.zone < 0].any(axis=1)
    bound = (limits < problem.pods[:, None]).any(axis=1) & ~outside & (limits.sum(axis=1) <= problem.pods)
    parts = np.nonzero((limits > 0) & bound[:, None])
    of_class = np.concatenate([classes[~bound], parts[0]])
    zone = np.concatenate([np.full(int((~bound).sum()), NO_ZONE), parts[1]])
    # In the order of classes, which is canonical.
    order = np.lexsort((zone, of_class))
    of_class, zone = of_class[order], zone[order]
    apart = zone >= 0
    unlimited = np.where(apart[:, None], problem.pods[of_class][:, None], problem.zone_most[of_class])
    split = problem._replace(
        demand=problem.demand[of_class],
        pods=np.where(apart, limits[of_class, zone], problem.pods[of_class]),
        allowed=problem.allowed[of_class] & (~apart[:, None] | (problem.zone == zone[:, None])),
        per_node=problem.per_node[of_class],
        zone_most=np.ascontiguousarray(unlimited),
    )
    return _without_zones(split), of_class


def _has_groups(problem: Problem, zones: int) -> Bool:
    """Return whether any group in a zone takes a class. bool[C, Z]."""
    return np.stack([problem.allowed[:, problem.zone == zone].any(axis=1) for zone in range(zones)], axis=1)


def _without_zones(problem: Problem) -> Problem:
    """Return the problem without zones if they limit nothing any more."""
    if (problem.zone_most < problem.pods[:, None]).any():
        return problem
    nothing = np.zeros((len(problem.pods), 0), np.int64)
    return problem._replace(zone=np.full_like(problem.zone, NO_ZONE), zone_most=nothing)


class _KnapsackItem(NamedTuple):
    """Some equal nodes, to take all or not at all. takes : bool[pods + 1], whether the best nodes for that many pods
    have them, of the batches up to this one."""

    group: int
    node_count: int
    pods: int
    takes: Bool


def single_class_plan(problem: Problem) -> Plan | None:
    """Return the cheapest plan for all pods; None if the problem is of another form, or not all pods have a place."""
    count = int(problem.pods[0]) if len(problem.pods) == 1 else 0
    if not 0 < count <= KNAPSACK_PODS or (problem.zone_most < UNLIMITED).any():
        return None
    room, price = _room(problem, count), _prices(problem)
    if price is None:
        return None
    order = np.lexsort((np.arange(len(room)), -room, price))
    cost = np.full(count + 1, np.inf)
    cost[0] = 0.0
    batches: list[_KnapsackItem] = []
    for group in order[room[order] > 0].tolist():
        limit = min(int(problem.max_nodes[group]), -(-count // int(room[group])))
        for nodes in _parts(limit):
            pods = min(nodes * int(room[group]), count)
            other = np.concatenate([np.full(pods, cost[0]), cost[: count + 1 - pods]]) + price[group] * nodes
            takes = other < cost
            cost = np.where(takes, other, cost)
            batches.append(_KnapsackItem(group, nodes, pods, takes))
    return None if np.isinf(cost[count]) else _plan(problem, room, batches, count)


def _room(problem: Problem, count: int) -> Int64:
    """Return how many of the pods a new node of each group takes. int64[G]."""
    demand = problem.demand[0]
    by_amount = (problem.capacity[:, demand > 0] // np.maximum(demand[demand > 0], 1)).min(axis=1, initial=count)
    room: Int64 = np.minimum(np.minimum(by_amount, problem.per_node[0]), count)
    return np.where(problem.allowed[0] & (problem.max_nodes > 0), np.maximum(room, 0), 0)


def _prices(problem: Problem) -> Float64 | None:
    """Return what a node of each group costs, the same for all if no price is known; None if some are."""
    used = problem.allowed[0] & (problem.max_nodes > 0)
    unknown = np.isnan(problem.price)
    if unknown[used].all():
        return np.ones(len(used))
    if unknown[used].any():
        return None
    top = float(problem.price[used].max()) or 1.0
    return np.where(unknown, 0.0, problem.price) + NODE_COST * top


def _parts(count: int) -> list[int]:
    """Return numbers of which sums make every number up to `count`."""
    parts, size = [], 1
    while size <= count:
        parts.append(size)
        count -= size
        size *= 2
    return [*parts, count] if count else parts


def _plan(problem: Problem, room: Int64, batches: list[_KnapsackItem], count: int) -> Plan:
    """Return the plan: nodes as full as possible, the last one of the last group with the rest."""
    nodes, unplaced = np.zeros(len(room), np.int64), count
    for batch in reversed(batches):
        if batch.takes[unplaced]:
            nodes[batch.group] += batch.node_count
            unplaced = max(unplaced - batch.pods, 0)
    group: list[int] = []
    sizes: list[int] = []
    pods: list[int] = []
    unplaced = count
    for of in np.flatnonzero(nodes).tolist():
        full = min(int(nodes[of]), unplaced // int(room[of]))
        rest = min(unplaced - full * int(room[of]), int(room[of])) if full < nodes[of] else 0
        for number, held in ((full, int(room[of])), (1 if rest else 0, rest)):
            if number:
                group.append(of)
                sizes.append(number)
                pods.append(held)
                unplaced -= number * held
    price = sum(float(problem.price[of]) * number for of, number in zip(group, sizes, strict=True))
    return Plan(
        np.array(group, np.int32),
        np.array(sizes, np.int64),
        np.arange(len(group) + 1, dtype=np.int64),
        np.zeros(len(group), np.int32),
        np.array(pods, np.int64),
        np.array([unplaced], np.int64),
        0.0 if np.isnan(price) else price,
    )
