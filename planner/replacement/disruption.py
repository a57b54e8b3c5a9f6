"""What pods and nodes say about their own disruption, in Karpenter's annotations: which must not be disrupted, and what
the eviction of each costs. Scale-down heeds the former on nodes of Karpenter (`drainability`). Pure.
"""

from typing import Final

import numpy as np

from trimtab.common.kubernetes.signals.karpenter import DISRUPTION_COST
from trimtab.common.kubernetes.signals.well_known import AUTOSCALING_DISRUPTION_COST
from trimtab.planner.facts.node_pools import undisrupted_until_s
from trimtab.planner.facts.nodes import eviction_rating
from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.snapshot.columns import Bool, Float64, Int64, Snapshot
from trimtab.planner.snapshot.lookup import string_index

COSTS: Final = (AUTOSCALING_DISRUPTION_COST.key, DISRUPTION_COST.key)
"""The last one that a pod has counts, in place of its deletion cost."""
_MOST: Final = 2.0**31


def undisrupted(snapshot: Snapshot, now_ns: int) -> Bool:
    """Return the pods that are not to be disrupted now. bool[P]. Pods that have ended or are being deleted do not
    count; those of DaemonSets and of nodes themselves do, as in Karpenter."""
    found: Bool = undisrupted_until_s(snapshot) > now_ns // SECOND_NS
    return found


def disruption_ratings(snapshot: Snapshot, rating: Float64, priority: Int64) -> Float64:
    """Return the cost of evicting each pod, with the costs of its annotations. rating : float64[P] by deletion costs;
    priority : int64[S] of the specs. float64[P]. A cost that is not a number counts as absent."""
    pods, found = snapshot.pods, rating
    for key in COSTS:
        mine = _entries(snapshot, key)
        mine = mine[np.isfinite(pods.number[mine])]
        if len(mine):
            rows = pods.number_pod[mine]
            found = found.copy()
            found[rows] = eviction_rating(np.clip(pods.number[mine], -_MOST, _MOST - 1), priority[pods.spec[rows]])
    return found


def _entries(snapshot: Snapshot, key: str) -> Int64:
    """Return the places of an annotation among the numbers. int64."""
    return np.flatnonzero(snapshot.pods.number_key == string_index(snapshot.strings, key))
