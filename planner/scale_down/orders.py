"""In which order candidates are tried. Every order is total: ties are broken by name, which is the node's number.

Decides nothing about limits or placement. Source: own; upstream tries candidates in the order of its node list.
"""

from typing import Final, NamedTuple

import numpy as np
from trimtab.v1 import plan_pb2 as pb

from planner.scale_down.utilization import Float64
from planner.snapshot.columns import Bool, Int32, Int64, Snapshot

_EXPECTED_COST_SHIFT: Final = (2.0**27, 2.0**25)
_SCATTER: Final = (2_654_435_761, 2_246_822_519)
"""Odd multipliers that send neighbours far apart, modulo 2^32."""


class NodeMeasures(NamedTuple):
    """What orders compare; every array has length N.

    utilization : float64, NaN = unknown; eviction_cost : float64 of all pods to move;
    price : float64 per hour, NaN = unknown; created_ns : int64; budget_use : float64, disruptions of budgets that the
    pods to move use up, each as a share of what its budget has left.
    """

    utilization: Float64
    eviction_cost: Float64
    price: Float64
    created_ns: Int64
    budget_use: Float64


def eviction_ratings(snapshot: Snapshot, priority: Int64) -> Float64:
    """Return the rating of moving each pod. priority : int64[S] of the specs. float64[P].

    1 + deletion cost / 2^27 + priority / 2^25, held between -10 and 10. Source: Karpenter, disruption cost.
    """
    by_cost, by_priority = _EXPECTED_COST_SHIFT
    by_spec = priority.astype(np.float64) / by_priority
    return np.clip(1.0 + snapshot.pods.deletion_cost / by_cost + by_spec[snapshot.pods.spec], -10.0, 10.0)


def eviction_costs(snapshot: Snapshot, rating: Float64, moving: Bool) -> Float64:
    """Return the rating of moving all pods of a node. rating : float64[P]; moving : bool[P]. float64[N]."""
    # Without any pod, bincount would count instead of add.
    cost = np.bincount(snapshot.pods.node[moving], weights=rating[moving], minlength=len(snapshot.nodes.name))
    return cost.astype(np.float64)


def prices(snapshot: Snapshot) -> Float64:
    """Return the price per hour of each node. float64[N], NaN = unknown."""
    by_group = np.array([*(group.price_per_hour for group in snapshot.groups), np.nan])
    price: Float64 = by_group[snapshot.nodes.group]
    return price


def savings(price: Float64) -> Float64:
    """Return what removing each node is worth: its price; where unknown, the mean of the known; without any, 1."""
    known = ~np.isnan(price)
    return np.where(known, price, price[known].mean() if known.any() else 1.0)


def arrange(measures: NodeMeasures, candidates: Int32, order: int) -> Int32:
    """Return the candidates in the order asked for; BALANCE as UTILIZATION. int32[C]; O(C log C)."""
    key = _keys(measures, order)[candidates]
    if order == pb.CandidateOrder.NAME:
        return np.sort(candidates)
    if order == pb.CandidateOrder.SHUFFLED:
        return shuffled(np.sort(candidates), 0)
    return candidates[np.lexsort((candidates, measures.utilization[candidates], key))]


def shuffled(candidates: Int32, number: int) -> Int32:
    """Return the candidates in the order of that number, which means nothing and is always the same. int32[C]."""
    position = np.arange(1, len(candidates) + 1, dtype=np.uint64)
    scattered = (position * np.uint64(_SCATTER[0] + 2 * number)) % np.uint64(1 << 32)
    return candidates[np.argsort((scattered * np.uint64(_SCATTER[1])) % np.uint64(1 << 32), kind="stable")]


def _keys(measures: NodeMeasures, order: int) -> Float64:
    """Return by node what the order sorts by, ascending. float64[N]."""
    if order == pb.CandidateOrder.EVICTION_COST:
        return measures.eviction_cost
    if order == pb.CandidateOrder.PRICE:
        used = np.nan_to_num(measures.utilization, posinf=1e6)
        return -savings(measures.price) / (0.01 + used)
    if order == pb.CandidateOrder.BUDGETS:
        return measures.budget_use
    if order == pb.CandidateOrder.AGE:
        return measures.created_ns.astype(np.float64)
    return measures.utilization
