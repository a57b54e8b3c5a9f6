"""Rule 10: a pod annotated safe-to-evict "false" blocks.

Source: Cluster Autoscaler, simulator/drainability/rules/notsafetoevict.
"""

from trimtab.planner.scale_down.drainability import outcome
from trimtab.planner.scale_down.drainability.pod_columns import PodDrainColumns
from trimtab.planner.snapshot.columns import UInt8
from trimtab.v1 import reason_pb2, snapshot_pb2


def drainable(pods: PodDrainColumns) -> UInt8:
    """Return the block for pods annotated "false". uint8[P]."""
    code = outcome.block(reason_pb2.BlockingPodReason.NOT_SAFE_TO_EVICT_ANNOTATION)
    return outcome.where(pods.safe_to_evict == snapshot_pb2.SafeToEvict.FALSE, code)
