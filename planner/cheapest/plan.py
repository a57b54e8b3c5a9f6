"""Make the cheapest plan: first with groups that have a price, then with the others for the pods that are left.

Bounded by work; the same problem gives the same plan unless the caller's time ends first.
"""

from typing import Final

import numpy as np

from trimtab.planner.cheapest.canonical import canonical_order
from trimtab.planner.cheapest.kernels.build import Batches
from trimtab.planner.cheapest.kernels.fill import FillState
from trimtab.planner.cheapest.portfolio import best_attempt
from trimtab.planner.cheapest.problem import NO_ZONE, UNLIMITED, Float64, Plan, PlanBounds, Problem
from trimtab.planner.cheapest.work import append_batches, batches_for, fill_state_for
from trimtab.planner.cheapest.zones import split_by_zone
from trimtab.planner.facts.nodes import total
from trimtab.planner.snapshot.columns import Bool, Int64

NO_BOUNDS: Final = PlanBounds()
NODE_COST: Final = 1e-6
"""Cost of a node besides its price, as a share of the highest price: of plans of equal price fewer nodes win."""


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
    kept = []
    for resource in range(users.shape[1]):
        takers = np.flatnonzero(users[:, resource])
        offered = np.unique(problem.capacity[problem.allowed[takers].any(axis=0), resource])
        if len(takers) > 1 or len(offered) > 1:
            kept.append(resource)
        elif len(takers) == 1 and len(offered):
            most = offered[0] // problem.demand[takers[0], resource]
            per_node[takers[0]] = min(per_node[takers[0]], most)
    kept = kept or [0]
    return problem._replace(demand=problem.demand[:, kept], capacity=problem.capacity[:, kept], per_node=per_node)


def _in_order(problem: Problem, classes: Int64, groups: Int64) -> Problem:
    """Return the problem with classes and groups rearranged, every array a contiguous copy."""
    return Problem(
        problem.demand[classes].astype(np.int64),
        problem.pods[classes].astype(np.int64),
        np.ascontiguousarray(problem.allowed[np.ix_(classes, groups)]),
        problem.capacity[groups].astype(np.int64),
        problem.price[groups].astype(np.float64),
        np.clip(problem.most[groups], 0, UNLIMITED).astype(np.int64),
        np.clip(problem.per_node[classes], 0, UNLIMITED).astype(np.int64),
        problem.zone[groups].copy(),
        np.clip(problem.zone_most[classes], 0, UNLIMITED).astype(np.int64),
    )


def _plan_stage(
    problem: Problem, members: Bool, price: Float64, state: FillState, batches: Batches, bounds: PlanBounds
) -> None:
    """Plan nodes of some groups: append them to batches, lower state. members : bool[G]; price : float64[G]."""
    groups = np.flatnonzero(members & (problem.most > 0)).astype(np.int32)
    top = float(price[members].max()) or 1.0
    cost = np.where(members, price, top) + NODE_COST * top
    best = best_attempt(problem, state._replace(cost=cost), groups, bounds)
    state.pods[:], state.nodes[:], state.zone_pods[:] = best.state.pods, best.state.nodes, best.state.zone_pods
    append_batches(batches, best.batches)


def _restored(problem: Problem, batches: Batches, classes: Int64, groups: Int64) -> Plan:
    """Return the result in the problem's own numbering."""
    count, entries = (int(one) for one in batches.counts)
    group = groups[batches.group[:count]]
    lengths = np.diff(batches.offsets[: count + 1])
    order = np.argsort(group, kind="stable")
    batch_of_entry = np.repeat(np.argsort(order, kind="stable"), lengths)
    its_class, pods = classes[batches.classes[:entries]], batches.pods[:entries]
    by_batch = np.lexsort([its_class, batch_of_entry])
    left = problem.pods.astype(np.int64)
    np.subtract.at(left, its_class, pods * np.repeat(batches.nodes[:count], lengths))
    nodes = batches.nodes[:count][order]
    return Plan(
        group[order].astype(np.int32),
        nodes,
        np.concatenate([[0], np.cumsum(lengths[order])]).astype(np.int64),
        its_class[by_batch].astype(np.int32),
        pods[by_batch].copy(),
        left,
        total(problem.price[group[order]] * nodes),
    )
