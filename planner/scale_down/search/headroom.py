"""What candidates are worth and what they take: the orders in which they are tried, the shares that each takes of what
limits plans, and upper bounds of what plans save. Every order is total: ties are broken by name, the node's number.

Removed nodes take their free room with them, and their pods need room on the others. So for each resource, the free
amount of a plan's nodes plus the requests of their pods to move is at most the free amount of all nodes, and the same
holds of some nodes and the pods that have no place elsewhere. The shares of the nodes of a plan thus sum to at most 1
in each row: of free cpu and memory, of scarce disruption budgets, of nodes and resources above the minimums. The
largest saving under each condition alone, with fractions of nodes, bounds that of any plan. O(N log N + pods to move).
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.facts.nodes import savings, total
from trimtab.planner.model.tuning import MOST_BUDGETS, MOST_PLACES, SMALL_SET
from trimtab.planner.scale_down.search.kernels.drain_sets import DrainProblem
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64
from trimtab.planner.snapshot.dictionaries import entries_of
from trimtab.v1 import plan_pb2 as pb

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
    limits = problem.limits
    groups, of = np.unique(limits.group[candidates], return_inverse=True)
    in_group = (of[None] == np.arange(len(groups))[:, None]).astype(np.int64)
    # Only minimums that do not allow all candidates.
    rows += [_shares(in_group, limits.group_left[groups]), _shares(limits.amount[candidates].T, limits.amount_left)]
    return np.concatenate([*rows, shares_of_budgets(problem, candidates)])


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


class CandidateOrder(IntEnum):
    """The orders that searches try. The first ones have the numbers that they have in the contract."""

    LAST_PLAN = pb.CandidateOrder.UNSPECIFIED
    """As in the last plan, followed by new candidates by utilization."""
    UTILIZATION = pb.CandidateOrder.UTILIZATION
    EVICTION_COST = pb.CandidateOrder.EVICTION_COST
    PRICE = pb.CandidateOrder.PRICE
    NAME = pb.CandidateOrder.NAME
    BUDGETS = 101
    """Least use of PodDisruptionBudgets first, each disruption rated by how many its budget has left."""
    SHUFFLED = 102
    """Arbitrary, but fixed."""


_SCATTER: Final = (2_654_435_761, 2_246_822_519)
"""Odd multipliers that spread consecutive numbers, modulo 2^32."""


class NodeScores(NamedTuple):
    """The values that orders compare; every array has length N.

    utilization : float64, NaN = unknown; eviction_cost : float64 of all pods to move; price : float64 per hour, NaN =
    unknown; budget_use : returns float64, disruptions that the pods to move use up, each as a share
    of those left in its budget; is_empty : bool, no pods to move.
    """

    utilization: Float64
    eviction_cost: Float64
    price: Float64
    budget_use: Callable[[], Float64]
    is_empty: Bool


def arrange(scores: NodeScores, candidates: Int32, order: int) -> Int32:
    """Return the candidates in the given order. int32[C]; O(C log C)."""
    key = _keys(scores, order)[candidates]
    if order == CandidateOrder.NAME:
        by_name = np.sort(candidates)
        return by_name[np.argsort(~scores.is_empty[by_name], kind="stable")]
    if order == CandidateOrder.SHUFFLED:
        return shuffled(np.sort(candidates), 0)
    return candidates[np.lexsort((candidates, scores.utilization[candidates], key))]


def shuffled(candidates: Int32, number: int) -> Int32:
    """Return the candidates in an arbitrary order that depends only on the given number. int32[C]."""
    position = np.arange(1, len(candidates) + 1, dtype=np.uint64)
    scattered = (position * np.uint64(_SCATTER[0] + 2 * number)) % np.uint64(1 << 32)
    return candidates[np.argsort((scattered * np.uint64(_SCATTER[1])) % np.uint64(1 << 32), kind="stable")]


def _keys(scores: NodeScores, order: int) -> Float64:
    """Return by node the value that the order sorts by, ascending. float64[N]."""
    if order == CandidateOrder.EVICTION_COST:
        return scores.eviction_cost
    if order == CandidateOrder.PRICE:
        used = np.nan_to_num(scores.utilization, posinf=1e6)
        return -savings(scores.price) / (0.01 + used)
    if order == CandidateOrder.BUDGETS:
        return scores.budget_use()
    return scores.utilization
