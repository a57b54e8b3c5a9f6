"""Properties of nodes: being deleted, prices, costs of eviction.

A node is being deleted if the actuator reports it, if its object says so, if it has a taint of somebody who takes it
away, or if it has the Cluster Autoscaler's taint of a deletion: as long as it is younger than the longest time that a
cloud provider has for a deletion, or if its value is not a time. One that has not registered with Karpenter
in time is taken away, too. Source: Cluster Autoscaler, actuation.IsNodeBeingDeleted, taints.GetToBeDeletedTime;
Karpenter, nodeclaim/lifecycle/liveness; the registry of signals.

The price of a node is its own, else that of its node group.
"""

import re
from typing import Final

import numpy as np

from trimtab.common.kubernetes.signals.cluster_autoscaler import TO_BE_DELETED
from trimtab.common.kubernetes.signals.karpenter import UNREGISTERED
from trimtab.common.kubernetes.signals.table import marks_leaving
from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.model.values import TaintSpec
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64, Snapshot
from trimtab.planner.snapshot.lookup import string_index

LONGEST_DELETION_S: Final = 300
REGISTRATION_NS: Final = 15 * 60 * SECOND_NS
"""How long Karpenter waits for a node to register before it takes it away."""
_TIME: Final = re.compile("[0-9]{1,18}")
"""A time in Unix seconds. More digits are none, and too many of them are refused by `int`."""


def being_deleted(snapshot: Snapshot, now_ns: int) -> Bool:
    """Return for each node whether it is being deleted. bool[N]."""
    nodes = snapshot.nodes
    now_s = now_ns // SECOND_NS
    marked = [any(_is_leaving(taint, now_s) for taint in taints) for taints in nodes.taint_sets]
    leaving = np.array([*marked, False], bool)[nodes.taint_set] | nodes.being_deleted
    unregistered = [any(taint.key == UNREGISTERED.key for taint in taints) for taints in nodes.taint_sets]
    started = (nodes.created_ns > 0) & (now_ns - nodes.created_ns >= REGISTRATION_NS)
    leaving |= np.array([*unregistered, False], bool)[nodes.taint_set] & started
    for deletion in snapshot.deletions:
        node = string_index(nodes.name, deletion.node)
        if node >= 0:
            leaving[node] = True
    return leaving


def _is_leaving(taint: TaintSpec, now_s: int) -> bool:
    if taint.key != TO_BE_DELETED.key:
        return marks_leaving(taint.key)
    return _TIME.fullmatch(taint.value) is None or now_s - int(taint.value) < LONGEST_DELETION_S


def prices(snapshot: Snapshot) -> Float64:
    """Return the price per hour of each node. float64[N], NaN = unknown."""
    by_group = np.array([*(group.price_per_hour for group in snapshot.groups), np.nan])
    own = snapshot.nodes.own_price
    return np.where(np.isnan(own), by_group[snapshot.nodes.group], own)


def savings(price: Float64) -> Float64:
    """Return the saving by removing each node : float64[N], its price; if unknown, the mean price; without prices, 1.

    price : float64[N] per hour, NaN = unknown.
    """
    known = ~np.isnan(price)
    return np.where(known, price, total(price[known]) / int(known.sum()) if known.any() else 1.0)


def total(numbers: Float64) -> float:
    """Return the sum of numbers : float64[M], added one after the other; NaN counts as 0.

    numpy's `sum` adds blocks, whose rounding depends on the machine; answers and states have the same bytes on all.
    """
    return float(np.cumsum(np.nan_to_num(numbers))[-1]) if len(numbers) else 0.0


_EXPECTED_COST_SHIFT: Final = (2.0**27, 2.0**25)


def eviction_ratings(snapshot: Snapshot, priority: Int64) -> Float64:
    """Return the cost of evicting each pod. priority : int64[S] of the specs. float64[P].

    1 + deletion cost / 2^27 + priority / 2^25, clamped to -10 to 10. Source: Karpenter, disruption cost.
    """
    return eviction_rating(snapshot.pods.deletion_cost, priority, snapshot.pods.spec)


def eviction_rating(cost: Int32 | Float64, priority: Int64, spec: Int32 | None = None) -> Float64:
    """Return the cost of evicting pods. cost : [M] deletion costs; priority : int64[M], or by spec; spec : int32[M].
    float64[M]."""
    by_cost, by_priority = _EXPECTED_COST_SHIFT
    of_priority = priority.astype(np.float64) / by_priority
    of_pod = of_priority if spec is None else of_priority[spec]
    return np.clip(1.0 + cost / by_cost + of_pod, -10.0, 10.0)


def eviction_costs(snapshot: Snapshot, rating: Float64, moving: Bool) -> Float64:
    """Return the summed cost of all moving pods of each node. rating : float64[P]; moving : bool[P]. float64[N]."""
    # Without any pods, bincount would count instead of adding.
    cost = np.bincount(snapshot.pods.node[moving], weights=rating[moving], minlength=len(snapshot.nodes.name))
    return cost.astype(np.float64)
