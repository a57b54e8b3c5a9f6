"""Rule 9: a kube-system pod without a budget blocks, until it is old enough.

Source: Cluster Autoscaler, simulator/drainability/rules/system.
"""

import numpy as np

from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.scale_down.drainability import outcome
from trimtab.planner.scale_down.drainability.pod_columns import PodDrainColumns
from trimtab.planner.snapshot.columns import UInt8
from trimtab.v1 import reason_pb2


def drainable(pods: PodDrainColumns) -> UInt8:
    """Return DRAIN_OK for old and the block for young system pods without a budget. uint8[P]."""
    if not pods.settings.skip_system_pods:
        return np.zeros(len(pods.phase), np.uint8)
    alone = pods.system & ~pods.budgeted
    # An unknown creation time (0) counts as long ago.
    old = (pods.now_s - pods.created_s) * SECOND_NS > pods.settings.system_pod_timeout_ns
    codes = outcome.where(alone & old, outcome.DRAIN_OK)
    codes |= outcome.where(alone & ~old, outcome.block(reason_pb2.BlockingPodReason.UNMOVABLE_KUBE_SYSTEM_POD))
    return codes
