"""Fewer groups and fewer rows of pods, for a problem that is solved in detail; lower bounds on the cost of pods.

Most of hundreds of instance sizes differ little from the next one. Evaluated in detail are the cheapest ones for pods
of some class, full or alone on a node, and a sample of all others by price. Rows of pods that differ little are joined:
a plan for thousands of different pods costs as much as for hundreds. A joined row has the mean request of its pods, so
a node may be planned slightly too full, and pods that find no room there need another place. Pure.
"""

from typing import Any

import numpy as np

from trimtab.planner.cheapest.problem import UNLIMITED, Problem
from trimtab.planner.model.tuning import JOIN_RATIOS, TOLERANCE
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64, UInt8


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
    step = max((height.max() - height.min()) * (kind.max() + 1) / most, TOLERANCE)
    rung = kind * (2 * most) + np.minimum((height - height.min()) // step, 2 * most - 1)
    first = np.flatnonzero(np.diff(rung[order], prepend=-1))
    return groups[order[first]].astype(np.int64)


def undominated(price: Float64, capacity: Int64, kind: Int64, may_win: Bool) -> Int64:
    """Return the positions, ascending, of offers for which no other one of the same kind has no less of any amount and
    costs no more. price : float64[O]; capacity : int64[O, R]; kind : int64[O], offers of one kind admit the same pods;
    may_win : bool[O], others may be left out for this one. Of equals the first stays. O(O^2 · R)."""
    order = np.lexsort((np.arange(len(price)), *-capacity.T, price))
    capacity, kind, may_win = capacity[order], kind[order], may_win[order]
    stays = np.ones(len(order), bool)
    for at in np.flatnonzero(may_win).tolist():
        if stays[at]:
            rest = np.flatnonzero(stays[at + 1 :]) + at + 1
            stays[rest] = (kind[rest] != kind[at]) | (capacity[rest] > capacity[at]).any(axis=1)
    return np.sort(order[stays]).astype(np.int64)


def alike(columns: Bool | UInt8) -> Int64:
    """Return a number for each row, the same for equal ones. columns : bool[K, C] or uint8[K, C]. int64[K]."""
    if not columns.shape[1]:
        return np.zeros(len(columns), np.int64)
    packed = np.ascontiguousarray(np.packbits(columns, axis=1) if columns.dtype == np.bool_ else columns)
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).reshape(-1)
    return np.unique(keys, return_inverse=True)[1].reshape(-1).astype(np.int64)


def similar_rows(demand: np.ndarray[Any, Any], kind: Int64, alone: Bool, most: int) -> Int64:
    """Return a number for each row, the same for those to join. int64[C]. demand : numbers [C, R]; kind : int64[C],
    rows of different kinds are not joined; alone : bool[C] rows that are not; most : rows up to which none is joined,
    and about how many are left. O(len(JOIN_RATIOS) · C · R)."""
    rows = np.arange(len(demand), dtype=np.int64)
    if len(rows) <= most:
        return rows
    varies = (demand != demand[:1]).any(axis=0)
    height = np.log(np.maximum(demand[:, varies], 1))
    apart = np.where(alone, rows, -1) * (int(kind.max(initial=0)) + 1) + kind
    found = rows
    for step in JOIN_RATIOS:
        key = apart
        for r in range(height.shape[1]):
            rung = np.where(demand[:, varies][:, r] > 0, 1 + np.round(height[:, r] / np.log(step)), 0).astype(np.int64)
            key = np.unique(key * (int(rung.max()) + 1) + rung, return_inverse=True)[1].reshape(-1).astype(np.int64)
        found = np.unique(key, return_inverse=True)[1].reshape(-1).astype(np.int64)
        if found.max() < most:
            break
    return found


def mean_demand(demand: np.ndarray[Any, Any], pods: np.ndarray[Any, Any], joined: Int64) -> np.ndarray[Any, Any]:
    """Return the mean request of the pods of joined rows. Numbers [max(joined) + 1, R]. pods : number of each row."""
    count = int(joined.max(initial=-1)) + 1
    found = np.zeros((count, demand.shape[1]), demand.dtype)
    np.add.at(found, joined, demand * pods[:, None])
    of_row = np.maximum(np.bincount(joined, pods, count).astype(demand.dtype), 1)[:, None]
    return np.asarray(found / of_row if found.dtype.kind == "f" else -(-found // of_row))


def with_similar_rows_joined(problem: Problem, most: int) -> tuple[Problem, Int64]:
    """Return the problem with about so many rows, and the row of each of its rows. int64[C]. Rows with limits of their
    own stay as they are."""
    has_limits = (problem.per_node < UNLIMITED) | (problem.zone_most < UNLIMITED).any(axis=1)
    joined = similar_rows(problem.demand, alike(problem.allowed), has_limits, most)
    first = np.unique(joined, return_index=True)[1]
    fewer = problem._replace(
        demand=mean_demand(problem.demand, problem.pods, joined),
        pods=np.bincount(joined, problem.pods, len(first)).astype(np.int64),
        allowed=problem.allowed[first],
        per_node=problem.per_node[first],
        zone_most=problem.zone_most[first],
    )
    return fewer, joined
