"""Rule 11: a pod that would lose local storage blocks.

Source: Cluster Autoscaler, simulator/drainability/rules/localstorage.
"""

import numpy as np

from trimtab.planner.scale_down.drainability import outcome
from trimtab.planner.scale_down.drainability.pod_columns import PodDrainColumns
from trimtab.planner.snapshot.columns import UInt8
from trimtab.v1 import reason_pb2


def drainable(pods: PodDrainColumns) -> UInt8:
    """Return the block for pods with local storage that no annotation declares expendable. uint8[P]."""
    if not pods.settings.skip_local_storage:
        return np.zeros(len(pods.phase), np.uint8)
    return outcome.where(pods.local_storage, outcome.block(reason_pb2.BlockingPodReason.LOCAL_STORAGE_REQUESTED))
