"""Rule 2: a pod whose deletion is long overdue need not be moved.

Source: Cluster Autoscaler, simulator/drainability/rules/longterminating.
"""

from typing import Final

import numpy as np

from trimtab.planner.scale_down.drainability import outcome
from trimtab.planner.scale_down.drainability.pod_columns import PodDrainColumns
from trimtab.planner.snapshot.columns import Bool, UInt8

HEADROOM_S: Final = 30
"""Time granted beyond the pod's own grace period."""


def is_long_terminating(pods: PodDrainColumns) -> Bool:
    """Return for each pod whether its deletion is overdue. bool[P]."""
    overdue = np.zeros(len(pods.deletion_s), np.bool_)
    rows = np.flatnonzero(pods.deletion_s > 0)
    overdue[rows] = pods.deletion_s[rows] + pods.grace_s[rows] + HEADROOM_S < pods.now_s
    return overdue


def drainable(pods: PodDrainColumns) -> UInt8:
    """Return SKIP for pods whose deletion is overdue. uint8[P]."""
    return outcome.where(is_long_terminating(pods), outcome.SKIP)
