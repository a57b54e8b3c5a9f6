"""Which groups are looked at closely where there are very many, and what pods cost at least.

Of hundreds of instance sizes most differ little from the next. Looked at closely are those that are cheapest for pods
of some class, full or on their own, and of all others a ladder of prices.
"""

from typing import Final

import numpy as np

from planner.scale_up.cheapest.problem import Float64, Problem
from planner.snapshot.columns import Int32, Int64

MANY: Final = 96
"""Groups up to which all are looked at closely."""


def share_cost(problem: Problem, cost: Float64, groups: Int32) -> Float64:
    """Return what a pod costs on full nodes, by class and group. float64[C, H], inf = it does not fit."""
    share = 1.0 / np.maximum(problem.per_node, 1).astype(np.float64)[:, None].repeat(len(groups), axis=1)
    fits = problem.allowed[:, groups] & (problem.per_node > 0)[:, None]
    for resource in range(problem.demand.shape[1]):
        takes, has = problem.demand[:, resource, None], problem.capacity[groups, resource]
        fits &= takes <= has
        np.maximum(share, takes / np.maximum(has, 1), out=share)
    return np.where(fits, share * cost[groups], np.inf)


def least_value(costs: Float64) -> Float64:
    """Return the least cost of a pod of each class by `share_cost`. float64[C], 0 = it fits nowhere."""
    least: Float64 = costs.min(axis=1, initial=np.inf)
    return np.where(np.isinf(least), 0.0, least)


def candidates(problem: Problem, cost: Float64, groups: Int32) -> Int32:
    """Return the groups to look at closely, ascending."""
    if len(groups) <= MANY:
        return groups
    costs = share_cost(problem, cost, groups)
    alone = np.where(np.isinf(costs), np.inf, cost[groups])
    best = np.unique([one.argmin(axis=1) for one in (costs, alone)])
    return np.unique(np.concatenate([groups[best], _ladder(problem, cost, groups)])).astype(np.int32)


def _ladder(problem: Problem, cost: Float64, groups: Int32) -> Int64:
    """Return about as many groups as MANY, of each kind of those that take the same classes evenly over the prices."""
    of_class = np.arange(1, len(problem.pods) + 1, dtype=np.int64) ** 3
    takes = (problem.allowed[:, groups] * of_class[:, None]).sum(axis=0) * 1009 + problem.zone[groups]
    kind = np.unique(takes, return_inverse=True)[1]
    order = np.lexsort((groups, cost[groups], kind))
    # Steps of equal ratio from the lowest price to the highest: a step of one size is much for small nodes only.
    height = np.log(cost[groups])
    step = max((height.max() - height.min()) * (kind.max() + 1) / MANY, 1e-9)
    rung = kind * (2 * MANY) + np.minimum((height - height.min()) // step, 2 * MANY - 1)
    first = np.flatnonzero(np.diff(rung[order], prepend=-1))
    return groups[order[first]].astype(np.int64)
