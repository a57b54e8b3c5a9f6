"""In which order candidates are tried. Every order is total: ties are broken by name, which is the node's number.

Decides nothing about limits or placement. Source: own; upstream tries candidates in the order of its node list.
"""

from typing import Final, NamedTuple

import numpy as np
from trimtab.v1 import plan_pb2 as pb

from planner.scale_down.label_index import string_index
from planner.scale_down.utilization import Float64
from planner.snapshot.columns import Bool, Int32, Int64, Snapshot

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
_EXPECTED_COST_SHIFT: Final = (2.0**27, 2.0**25)


class NodeMeasures(NamedTuple):
    """What orders compare; every array has length N.

    utilization : float64, NaN = unknown; eviction_cost : float64 of all pods to move;
    price : float64 per hour, NaN = unknown; created_ns : int64; crowding : float64, share of the nodes of its kind
    (similar group, zone) beyond the average, 0 where there is nothing to balance.
    """

    utilization: Float64
    eviction_cost: Float64
    price: Float64
    created_ns: Int64
    crowding: Float64


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


def crowding(snapshot: Snapshot) -> Float64:
    """Return by node how much more than the average its node group and its zone hold of their kind. float64[N].

    Groups are similar when their nodes offer the same; 0 = as many as the average.
    """
    nodes = snapshot.nodes
    if len(nodes.name) == 0:
        return np.zeros(0)
    _, kind = np.unique(nodes.capacity, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    return _excess(kind, nodes.group) + _excess(kind, _zones(snapshot))


def _excess(kind: Int64, part: Int32) -> Float64:
    """Return how full the (kind, part) of each node is compared with the mean over the parts of its kind, less 1."""
    pairs, of, count = np.unique(np.stack([kind, part]), axis=1, return_inverse=True, return_counts=True)
    parts_of_kind = np.bincount(pairs[0])
    mean = np.bincount(pairs[0], weights=count) / np.maximum(parts_of_kind, 1)
    excess: Float64 = (count / mean[pairs[0]] - 1.0)[of.reshape(-1)]
    return excess


def _zones(snapshot: Snapshot) -> Int32:
    """Return the string index of each node's zone, -1 without one. int32[N]."""
    sets = snapshot.label_sets
    zone = np.full(max(len(sets.offsets) - 1, 1), -1, np.int32)
    key = string_index(snapshot.strings, ZONE_LABEL)
    at = np.flatnonzero(sets.keys == key)
    zone[np.searchsorted(sets.offsets, at, side="right") - 1] = sets.values[at]
    return zone[snapshot.nodes.label_set]


def arrange(measures: NodeMeasures, candidates: Int32, order: int, balance: bool) -> Int32:
    """Return the candidates in the order asked for. int32[C]; O(C log C)."""
    key = _keys(measures, order)[candidates]
    if balance and order != pb.CandidateOrder.BALANCE:
        spread = key.max(initial=0.0) - key.min(initial=0.0)
        key = np.floor(10.0 * key / spread) if spread > 0 else np.zeros(len(key))
        return candidates[np.lexsort((candidates, -measures.crowding[candidates], key))]
    if order == pb.CandidateOrder.NAME:
        return np.sort(candidates)
    return candidates[np.lexsort((candidates, measures.utilization[candidates], key))]


def _keys(measures: NodeMeasures, order: int) -> Float64:
    """Return by node what the order sorts by, ascending. float64[N]."""
    if order == pb.CandidateOrder.EVICTION_COST:
        return measures.eviction_cost
    if order == pb.CandidateOrder.PRICE:
        used = np.nan_to_num(measures.utilization, posinf=1e6)
        return -savings(measures.price) / (0.01 + used)
    if order == pb.CandidateOrder.BALANCE:
        return -measures.crowding
    if order == pb.CandidateOrder.AGE:
        return measures.created_ns.astype(np.float64)
    return measures.utilization
