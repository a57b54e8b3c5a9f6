"""Costs of evicting a pod, and all pods that have to leave a node."""

from typing import Final

import numpy as np

from trimtab.planner.facts.utilization import Float64
from trimtab.planner.snapshot.columns import Bool, Int64, Snapshot

_EXPECTED_COST_SHIFT: Final = (2.0**27, 2.0**25)


def eviction_ratings(snapshot: Snapshot, priority: Int64) -> Float64:
    """Return the cost of evicting each pod. priority : int64[S] of the specs. float64[P].

    1 + deletion cost / 2^27 + priority / 2^25, clamped to -10 to 10. Source: Karpenter, disruption cost.
    """
    by_cost, by_priority = _EXPECTED_COST_SHIFT
    by_spec = priority.astype(np.float64) / by_priority
    return np.clip(1.0 + snapshot.pods.deletion_cost / by_cost + by_spec[snapshot.pods.spec], -10.0, 10.0)


def eviction_costs(snapshot: Snapshot, rating: Float64, moving: Bool) -> Float64:
    """Return the summed cost of all moving pods of each node. rating : float64[P]; moving : bool[P]. float64[N]."""
    # Without any pods, bincount would count instead of adding.
    cost = np.bincount(snapshot.pods.node[moving], weights=rating[moving], minlength=len(snapshot.nodes.name))
    return cost.astype(np.float64)
