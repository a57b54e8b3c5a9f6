"""Rule 3: a pod whose controller is gone, or has too few replicas, blocks.

Applies only while pods of custom controllers block. Of a controller that the snapshot lacks the kind cannot be known;
it may well be one that nobody lists. So a DaemonSet pod, or a pod annotated safe-to-evict "true" or "on-completion", is
left to rules 4, 5 and 7, where upstream has it for controllers of unknown kind: nothing is lost when such a pod goes.
Source: Cluster Autoscaler, simulator/drainability/rules/replicacount.
"""

import numpy as np
from trimtab.v1 import reason_pb2, snapshot_pb2

from planner.scale_down.drainability import outcome
from planner.scale_down.drainability.pod_columns import (
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    UNKNOWN_CONTROLLER,
    PodDrainColumns,
)
from planner.snapshot.columns import UInt8


def drainable(pods: PodDrainColumns) -> UInt8:
    """Return the block for a controller not found or with too few replicas. uint8[P]."""
    if not pods.settings.skip_custom_controllers:
        return np.zeros(len(pods.phase), np.uint8)
    safe = (pods.safe_to_evict == snapshot_pb2.SafeToEvict.TRUE) | (
        pods.safe_to_evict == snapshot_pb2.SafeToEvict.ON_COMPLETION
    )
    missing = (pods.owner_kind == UNKNOWN_CONTROLLER) & ~pods.daemon & ~safe
    codes = outcome.where(missing, outcome.block(reason_pb2.BlockingPodReason.CONTROLLER_NOT_FOUND))
    counted = (pods.owner_kind == REPLICATION_CONTROLLER) | (pods.owner_kind == REPLICA_SET)
    too_few = counted & (pods.desired_replicas >= 0) & (pods.desired_replicas < pods.settings.min_replica_count)
    codes |= outcome.where(too_few, outcome.block(reason_pb2.BlockingPodReason.MIN_REPLICAS_REACHED))
    return codes
