"""Rule 8: a pod that no controller would recreate blocks. With `skip_custom_controllers` only the controllers that
upstream knows count. If the snapshot lacks a controller, its kind is unknown; rule 3 has handled it before, or custom
controllers count anyway.
Source: Cluster Autoscaler, simulator/drainability/rules/replicated.
"""

from trimtab.planner.scale_down.drainability import outcome
from trimtab.planner.scale_down.drainability.pod_columns import (
    JOB,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    PodDrainColumns,
    has_controller,
)
from trimtab.planner.snapshot.columns import Bool, UInt8
from trimtab.v1 import reason_pb2


def drainable(pods: PodDrainColumns) -> UInt8:
    """Return the block for pods without a controller that would recreate them. uint8[P]."""
    replicated = _known_kind(pods) if pods.settings.skip_custom_controllers else has_controller(pods)
    return outcome.where(~replicated, outcome.block(reason_pb2.BlockingPodReason.NOT_REPLICATED))


def _known_kind(pods: PodDrainColumns) -> Bool:
    kind = pods.owner_kind
    known: Bool = (kind == REPLICATION_CONTROLLER) | (kind == REPLICA_SET) | (kind == STATEFUL_SET) | (kind == JOB)
    return known
