"""Rows of pods that differ little, joined: a plan for thousands of different pods costs as much as for hundreds.

A joined row has the mean request of its pods, so a node may be planned slightly too full, and pods that find no room
there need another place. Pure.
"""

from typing import Any, Final

import numpy as np

from trimtab.planner.cheapest.dominance import alike
from trimtab.planner.cheapest.problem import UNLIMITED, Problem
from trimtab.planner.snapshot.columns import Bool, Int64

STEPS: Final = (1.02, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.6, 2.0)
"""Ratios up to which requests are joined, tried in this order."""


def similar_rows(demand: np.ndarray[Any, Any], kind: Int64, alone: Bool, most: int) -> Int64:
    """Return a number for each row, the same for those to join. int64[C]. demand : numbers [C, R]; kind : int64[C],
    rows of different kinds are not joined; alone : bool[C] rows that are not; most : rows up to which none is joined,
    and about how many are left. O(len(STEPS) · C · R)."""
    rows = np.arange(len(demand), dtype=np.int64)
    if len(rows) <= most:
        return rows
    varies = (demand != demand[:1]).any(axis=0)
    height = np.log(np.maximum(demand[:, varies], 1))
    apart = np.where(alone, rows, -1) * (int(kind.max(initial=0)) + 1) + kind
    found = rows
    for step in STEPS:
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
