"""Rows of a problem that differ little, joined: a plan for thousands of different pods costs as much as for hundreds.

A joined row has the mean request of its pods, so a node may be planned slightly too full, and pods that find no room
there need another place. Only rows without a limit of their own that the same groups take are joined. Pure.
"""

from typing import Final

import numpy as np

from trimtab.planner.cheapest.problem import UNLIMITED, Problem
from trimtab.planner.cheapest.dominance import alike
from trimtab.planner.snapshot.columns import Int64

STEPS: Final = (1.02, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.6, 2.0)
"""Ratios of the requests that are joined, tried in this order."""


def similar_rows(problem: Problem, most: int) -> Int64:
    """Return a number for each row of the problem, the same for those to join. int64[C]. most : rows up to which none
    are joined, and about how many are left. O(len(STEPS) · C · R)."""
    count = len(problem.pods)
    rows = np.arange(count, dtype=np.int64)
    free = (problem.per_node >= UNLIMITED) & (problem.zone_most >= UNLIMITED).all(axis=1)
    if count <= most:
        return rows
    kind = alike(problem.allowed)
    varies = (problem.demand != problem.demand[:1]).any(axis=0)
    height = np.log(np.maximum(problem.demand[:, varies], 1))
    found = rows
    for step in STEPS:
        rungs = np.where(problem.demand[:, varies] > 0, 1 + np.round(height / np.log(step)), 0).astype(np.int64)
        keys = np.column_stack([np.where(free, -1, rows), kind, rungs])
        found = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
        if found.max() < most:
            break
    return found


def with_joined_rows(problem: Problem, joined: Int64) -> Problem:
    """Return the problem with one row for those of the same number. joined : int64[C]."""
    count = int(joined.max(initial=-1)) + 1
    first = np.unique(joined, return_index=True)[1]
    pods = np.bincount(joined, problem.pods, count).astype(np.int64)
    demand = np.zeros((count, problem.demand.shape[1]), np.int64)
    np.add.at(demand, joined, problem.demand * problem.pods[:, None])
    mean = -(-demand // np.maximum(pods, 1)[:, None])
    return problem._replace(
        demand=np.minimum(mean, problem.demand[first]) if count == len(joined) else mean,
        pods=pods,
        allowed=problem.allowed[first],
        per_node=problem.per_node[first],
        zone_most=problem.zone_most[first],
    )
