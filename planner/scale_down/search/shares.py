"""What each candidate takes of what limits plans, as a share of it: the rows of the linear bound (`headroom`).

The shares of the nodes of a plan sum to at most 1 in each row: of the free cpu and memory, as removed nodes take their
free room with them and their pods need room on others; of scarce disruption budgets, as all pods are evicted at the
same time; of nodes and resources above the minimums.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from trimtab.planner.scale_down.search.headroom import CapacityUse
from trimtab.planner.scale_down.search.kernels.drain_sets import DrainProblem
from trimtab.planner.snapshot.columns import Float64, Int32, Int64
from trimtab.planner.snapshot.offsets import entries_of

FREE: Final = 2
"""Number of the first rows: of the free cpu and memory of all nodes."""
MOST_BUDGETS: Final = 64
"""Most budgets that get a row: the first of those that do not allow all candidates."""
NOTHING_LEFT: Final = 0.5
"""Divisor of shares in what is left of nothing: whatever takes of it takes too much."""


def shares_of(use: CapacityUse, problem: DrainProblem, candidates: Int32) -> Float64:
    """Return the shares of candidates : int32[E]. float64[Q, E]; O(their pods)."""
    rows = [use.weight[:, candidates] / np.maximum(use.free, NOTHING_LEFT)[:, None]]
    return np.concatenate([*rows, *_of_minimums(problem, candidates), shares_of_budgets(problem, candidates)])


def _of_minimums(problem: DrainProblem, candidates: Int32) -> Iterator[Float64]:
    """Yield the shares of minimums that do not allow all candidates: of node groups, then of resources."""
    limits = problem.limits
    groups, of = np.unique(limits.group[candidates], return_inverse=True)
    yield _shares((of[None] == np.arange(len(groups))[:, None]).astype(np.int64), limits.group_left[groups])
    yield _shares(limits.amount[candidates].T, limits.amount_left)


def shares_of_budgets(problem: DrainProblem, candidates: Int32) -> Float64:
    """Return the shares of disruption budgets that do not allow all candidates."""
    under = problem.budgets
    its, row = _rows(problem.offsets, candidates)
    pods = problem.pods[row]
    of_pair, pair = _rows(under.offsets, pods)
    budget, need, node = under.budgets[pair], under.needs[pair], its[of_pair]
    scarce = np.flatnonzero(np.bincount(budget, need, len(under.left)) > under.left)[:MOST_BUDGETS]
    at = np.full(len(under.left), -1, np.int64)
    at[scarce] = np.arange(len(scarce))
    mine = at[budget] >= 0
    taken = np.zeros((len(scarce), len(candidates)), np.int64)
    np.add.at(taken, (at[budget[mine]], node[mine]), need[mine])
    return _shares(taken, under.left[scarce])


def _rows(offsets: Int64, these: Int32) -> tuple[Int64, Int64]:
    """Return the rows of several entries of compressed lists: the position in `these` that each belongs to, and the
    row."""
    count = np.diff(offsets)[these]
    return np.repeat(np.arange(len(these)), count), entries_of(offsets, these)


def _shares(taken: Int64, left: Int64) -> Float64:
    """Return what is taken : int64[Q, E] as shares of what is left : int64[Q], without rows that allow all."""
    scarce = taken.sum(axis=1) > left
    found: Float64 = taken[scarce] / np.maximum(left[scarce], NOTHING_LEFT)[:, None]
    return found
