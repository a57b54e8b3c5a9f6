"""Rule 5: a pod annotated safe-to-evict "true" never blocks.

Source: Cluster Autoscaler, simulator/drainability/rules/safetoevict.
"""

from trimtab.planner.scale_down.drainability import outcome
from trimtab.planner.scale_down.drainability.pod_columns import PodDrainColumns
from trimtab.planner.snapshot.columns import UInt8
from trimtab.v1 import snapshot_pb2


def drainable(pods: PodDrainColumns) -> UInt8:
    """Return DRAIN_OK for pods annotated "true". uint8[P]."""
    return outcome.where(pods.safe_to_evict == snapshot_pb2.SafeToEvict.TRUE, outcome.DRAIN_OK)
