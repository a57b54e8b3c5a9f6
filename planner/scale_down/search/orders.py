"""The order in which candidates are tried. Every order is total: ties are broken by name, which is the node's number.

Source: own; upstream tries candidates in the order of its node list.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.nodes import savings
from trimtab.planner.snapshot.columns import Bool, Float64, Int32
from trimtab.v1 import plan_pb2 as pb


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
