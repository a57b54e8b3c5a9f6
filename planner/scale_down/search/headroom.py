"""Upper bound on how much more than a given plan any plan could save, from cpu and memory only. Removed nodes take
their free room with them, and their pods need room on the others. So for each resource, the free amount of a plan's
nodes plus the requests of their pods to move is at most the free amount of all nodes. The same holds of the free amount
of some nodes and the pods that have no place elsewhere, by taints, labels and whatever else never changes while pods
move. The largest saving under each condition alone, with fractions of nodes allowed, is at least that of any plan.
Cost: O(N log N + pods to move).

What each candidate takes of what limits plans, as a share of it: the rows of the linear bound (`headroom`).

The shares of the nodes of a plan sum to at most 1 in each row: of the free cpu and memory, as removed nodes take their
free room with them and their pods need room on others; of scarce disruption budgets, as all pods are evicted at the
same time; of nodes and resources above the minimums.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.facts.nodes import total
from trimtab.planner.model.tuning import MOST_BUDGETS, MOST_PLACES, SMALL_SET
from trimtab.planner.scale_down.search.kernels.drain_sets import DrainProblem
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64
from trimtab.planner.snapshot.dictionaries import entries_of

Amounts = NDArray[np.int64]


class CapacityUse(NamedTuple):
    """weight : int64[Q, N], by amount, a node's free amount plus the requests of its pods to move; free : int64[Q],
    free amounts of all nodes together. First cpu and memory, then both for nodes and pods of `OwnPlaces`."""

    weight: Amounts
    free: Int64

    @property
    def mix(self) -> Int64:
        """Return cpu (0) and memory (1), first the one of which pods to move request more of what is free. int64[2]."""
        free = self.free[:2].astype(np.float64)
        moving = self.weight[:2].sum(axis=1) - free
        return np.array([0, 1] if moving[0] * free[1] >= moving[1] * free[0] else [1, 0], np.int64)


def capacity_use(room: Amounts, used: Amounts, moving: Amounts, leaving: Bool) -> CapacityUse:
    """Return free amounts and requests of nodes. room, used, moving : int64[Q, N]; leaving : bool[N], nodes being
    deleted.
    """
    free = np.where(leaving, 0, np.maximum(room - used, 0))
    return CapacityUse(free + moving, free.sum(axis=1))


class OwnPlaces(NamedTuple):
    """Sets of nodes with pods that have no place elsewhere. has : bool[M, N] nodes; only : int64[S] the set that a pod
    class is bound to, -1 = none, or not a small one."""

    has: Bool
    only: Int64


def own_places(blocked: NDArray[np.uint16], node_class: Int64, pod_count: Int64) -> OwnPlaces:
    """Return the small sets of nodes that pod classes are bound to. blocked : uint16[S, K], a class has no place on a
    class of nodes; node_class : int64[N]; pod_count : int64[S] pods to move, of which the most decide. O(S · K + N)."""
    admits = blocked == 0
    size = admits @ np.bincount(node_class, minlength=admits.shape[1])
    bound = np.flatnonzero((size * SMALL_SET <= len(node_class)) & (pod_count > 0))
    keys, of = np.unique(np.packbits(admits[bound], axis=1), axis=0, return_inverse=True)
    largest = np.argsort(-np.bincount(of.ravel(), pod_count[bound], len(keys)), kind="stable")[:MOST_PLACES]
    number = np.full(len(keys), -1, np.int64)
    number[largest] = np.arange(len(largest))
    only = np.full(len(blocked), -1, np.int64)
    only[bound] = number[of.ravel()]
    sets = np.unpackbits(keys[largest], axis=1, count=admits.shape[1]).astype(np.bool_)
    return OwnPlaces(sets[:, node_class], only)


def with_own_places(use: CapacityUse, moving: Amounts, places: OwnPlaces, requests: Amounts, of: Int64) -> CapacityUse:
    """Return the amounts with those of small sets of nodes. moving : int64[Q, N] as in `capacity_use`; requests :
    int64[Q, M] of pods to move that are bound to one; of : int64[M] set · N + node of each.

    A pod that is bound to a part of such a set is only counted for its part.
    """
    count, shape = use.weight.shape[1], places.has.shape
    free = np.where(places.has[:, None, :], (use.weight - moving)[None], 0)
    needed = [np.bincount(of, of_resource, len(places.has) * count).reshape(shape) for of_resource in requests]
    weight = free + np.stack(needed, axis=1).astype(np.int64)
    return CapacityUse(
        np.concatenate([use.weight, weight.reshape(-1, count)]),
        np.concatenate([use.free, free.sum(axis=2).ravel()]),
    )


def saving_bound(use: CapacityUse, candidates: Int32, saving: Float64) -> float:
    """Return the most that any set of candidates could save. candidates : int32[E]; saving : float64[N], positive."""
    worth = saving[candidates]
    return min((_most(use.weight[q, candidates], int(use.free[q]), worth) for q in range(len(use.free))), default=0.0)


def _most(weight: Int64, free: int, worth: Float64) -> float:
    """Return the largest total value of candidates, one of them in part, whose weights sum to at most `free`."""
    # What weighs nothing comes first, however little it is worth.
    order = np.lexsort((np.arange(len(weight)), -worth / np.maximum(weight, 1), weight > 0))
    upto = np.cumsum(weight[order])
    whole = int(np.searchsorted(upto, free, side="right"))
    worth_sum = total(worth[order[:whole]])
    if whole < len(order):
        before = int(upto[whole - 1]) if whole else 0
        worth_sum += float(worth[order[whole]]) * (free - before) / int(weight[order[whole]])
    return worth_sum


FREE: Final = 2
"""Number of the first rows: of the free cpu and memory of all nodes."""
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
    limits = problem.limits
    disruptions, row = limits.disruptions, entries_of(limits.offsets, candidates)
    node = np.repeat(np.arange(len(candidates)), np.diff(limits.offsets)[candidates])
    budget, need = limits.budget[row], limits.need[row]
    scarce = np.flatnonzero(np.bincount(budget, need, len(disruptions)) > disruptions)[:MOST_BUDGETS]
    at = np.full(len(disruptions), -1, np.int64)
    at[scarce] = np.arange(len(scarce))
    mine = at[budget] >= 0
    needs = np.zeros((len(scarce), len(candidates)), np.int64)
    needs[at[budget[mine]], node[mine]] = need[mine]
    return _shares(needs, disruptions[scarce])


def _shares(used: Int64, available: Int64) -> Float64:
    """Return what is used : int64[Q, E] as shares of what is available : int64[Q], without rows that allow all."""
    scarce = used.sum(axis=1) > available
    shares: Float64 = used[scarce] / np.maximum(available[scarce], NOTHING_LEFT)[:, None]
    return shares
