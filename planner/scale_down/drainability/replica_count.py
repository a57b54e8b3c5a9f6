"""Rule 3: a pod whose controller is gone, or has too few replicas, blocks.

Applies only if pods of custom controllers block. Controllers of kinds that upstream does not list are left to the other
rules, and so are DaemonSets: a snapshot often lacks them, and their pods stay behind anyway. Source: Cluster
Autoscaler, simulator/drainability/rules/replicacount.
"""

import numpy as np

from trimtab.planner.scale_down.drainability import outcome
from trimtab.planner.scale_down.drainability.pod_columns import (
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    UNKNOWN_CONTROLLER,
    PodDrainColumns,
)
from trimtab.planner.snapshot.columns import UInt8
from trimtab.v1 import reason_pb2


def drainable(pods: PodDrainColumns) -> UInt8:
    """Return the block for a controller not found or with too few replicas. uint8[P]."""
    if not pods.settings.skip_custom_controllers:
        return np.zeros(len(pods.phase), np.uint8)
    missing = (pods.owner_kind == UNKNOWN_CONTROLLER) & ~pods.daemon
    codes = outcome.where(missing, outcome.block(reason_pb2.BlockingPodReason.CONTROLLER_NOT_FOUND))
    counted = (pods.owner_kind == REPLICATION_CONTROLLER) | (pods.owner_kind == REPLICA_SET)
    too_few = counted & (pods.desired_replicas >= 0) & (pods.desired_replicas < pods.settings.min_replica_count)
    codes |= outcome.where(too_few, outcome.block(reason_pb2.BlockingPodReason.MIN_REPLICAS_REACHED))
    return codes
