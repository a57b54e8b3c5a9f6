"""Make the cheapest plan: first of groups with a price, then of those without for pods that are left.

Bounded by work, never by time; the same problem has the same plan.
"""

from typing import Final, NamedTuple

import numpy as np

from planner.model.effort import UNLIMITED as NO_LIMITS
from planner.model.effort import Effort
from planner.scale_up.cheapest.canonical import canonical_order
from planner.scale_up.cheapest.kernels.build import Batches, build
from planner.scale_up.cheapest.kernels.fill import Rest
from planner.scale_up.cheapest.problem import NO_ZONE, UNLIMITED, Float64, Plan, Problem
from planner.scale_up.cheapest.work import batches_for, bench_for, shapes_of
from planner.snapshot.columns import Bool, Int64

NODE_COST: Final = 1e-6
"""Cost of a node besides its price, as a share of the highest price: of plans of equal price fewer nodes win."""


def cheapest_plan(problem: Problem, effort: Effort = NO_LIMITS) -> Plan:
    """Return a plan for as many pods as groups and limits allow, at a low total price.

    Raises only what `effort` raises.
    """
    zone = np.where(problem.zone < problem.zone_most.shape[1], problem.zone, NO_ZONE)
    problem = problem._replace(zone=zone.astype(np.int32))
    classes, groups = canonical_order(problem)
    ordered = _in_order(problem, classes, groups)
    priced = ~np.isnan(ordered.price)
    rest = Rest(ordered.pods.copy(), ordered.most.copy(), ordered.zone_most.copy())
    made = batches_for(ordered)
    for members, price in ((priced, ordered.price), (~priced, np.ones(len(priced)))):
        if members.any() and rest.pods.any():
            effort.check()
            _plan_stage(_Stage(ordered, members, price), rest, made)
    return _restored(problem, made, classes, groups)


class _Stage(NamedTuple):
    """A problem in canonical order with the groups that count and their price."""

    problem: Problem
    members: Bool
    price: Float64


def _in_order(problem: Problem, classes: Int64, groups: Int64) -> Problem:
    """Return the problem with classes and groups rearranged, every array of its own and contiguous."""
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


def _plan_stage(stage: _Stage, rest: Rest, made: Batches) -> None:
    """Plan nodes of the stage's groups."""
    problem = stage.problem
    groups = np.flatnonzero(stage.members & (problem.most > 0)).astype(np.int32)
    top = float(stage.price[stage.members].max()) or 1.0
    cost = stage.price + NODE_COST * top
    value = _volume_value(problem, cost, groups.astype(np.int64))
    ways = problem.demand.shape[1] + 2
    build(shapes_of(problem, cost), rest, value, bench_for(problem), groups, np.zeros(len(groups)), ways, made)


def _volume_value(problem: Problem, cost: Float64, groups: Int64) -> Float64:
    """Return what a pod of each class costs at least on full nodes of the best group. float64[C], 0 = fits none."""
    value = np.zeros(len(problem.pods))
    for of_class, takes in enumerate(problem.demand):
        may = groups[problem.allowed[of_class, groups] & (problem.capacity[groups] >= takes).all(axis=1)]
        if len(may):
            share = (takes / np.maximum(problem.capacity[may], 1)).max(axis=1)
            share = np.maximum(share, 1 / max(int(problem.per_node[of_class]), 1))
            value[of_class] = (share * cost[may]).min()
    return value


def _restored(problem: Problem, made: Batches, classes: Int64, groups: Int64) -> Plan:
    """Return what was made in the problem's own numbers."""
    count, entries = (int(one) for one in made.counts)
    group = groups[made.group[:count]]
    lengths = np.diff(made.offsets[: count + 1])
    order = np.argsort(group, kind="stable")
    batch_of_entry = np.repeat(np.argsort(order, kind="stable"), lengths)
    its_class, pods = classes[made.classes[:entries]], made.pods[:entries]
    by_batch = np.lexsort([its_class, batch_of_entry])
    left = problem.pods.astype(np.int64)
    np.subtract.at(left, its_class, pods * np.repeat(made.nodes[:count], lengths))
    nodes = made.nodes[:count][order]
    return Plan(
        group[order].astype(np.int32),
        nodes,
        np.concatenate([[0], np.cumsum(lengths[order])]).astype(np.int64),
        its_class[by_batch].astype(np.int32),
        pods[by_batch].copy(),
        left,
        float(np.nansum(problem.price[group[order]] * nodes)),
    )
