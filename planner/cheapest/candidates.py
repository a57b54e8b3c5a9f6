"""Which groups are evaluated in detail if there are very many, and lower bounds on the cost of pods.

Most of hundreds of instance sizes differ little from the next one. Evaluated in detail are the cheapest ones for pods
of some class, full or alone on a node, and a sample of all others by price.
"""

import numpy as np

from trimtab.planner.cheapest.problem import Float64, Problem
from trimtab.planner.snapshot.columns import Int32, Int64


def share_cost(problem: Problem, cost: Float64, groups: Int32) -> Float64:
    """Return the cost of a pod on full nodes, by class and group. float64[C, H], inf = it does not fit."""
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


def candidates(problem: Problem, cost: Float64, groups: Int32, most: int) -> Int32:
    """Return the groups to evaluate in detail, ascending. most : the number of groups up to which all are."""
    if len(groups) <= most:
        return groups
    costs = share_cost(problem, cost, groups)
    alone = np.where(np.isinf(costs), np.inf, cost[groups])
    best = np.unique([one.argmin(axis=1) for one in (costs, alone)])
    return np.unique(np.concatenate([groups[best], _ladder(problem, cost, groups, most)])).astype(np.int32)


def _ladder(problem: Problem, cost: Float64, groups: Int32, most: int) -> Int64:
    """Return about `most` groups: of each kind, that is groups that take the same classes, some evenly
    spaced by price.
    """
    of_class = np.arange(1, len(problem.pods) + 1, dtype=np.int64) ** 3
    takes = (problem.allowed[:, groups] * of_class[:, None]).sum(axis=0) * 1009 + problem.zone[groups]
    kind = np.unique(takes, return_inverse=True)[1]
    order = np.lexsort((groups, cost[groups], kind))
    # Steps of equal ratio from the lowest price to the highest: a constant step would be large for small nodes only.
    height = np.log(cost[groups])
    step = max((height.max() - height.min()) * (kind.max() + 1) / most, 1e-9)
    rung = kind * (2 * most) + np.minimum((height - height.min()) // step, 2 * most - 1)
    first = np.flatnonzero(np.diff(rung[order], prepend=-1))
    return groups[order[first]].astype(np.int64)
