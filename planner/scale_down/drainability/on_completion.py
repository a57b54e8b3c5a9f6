"""Rule 7: a pod annotated safe-to-evict "on-completion" keeps its node until it has completed.

Source: Cluster Autoscaler (1.36 and later), simulator/drainability/rules/oncompletion.
"""

from trimtab.planner.scale_down.drainability import outcome
from trimtab.planner.scale_down.drainability.pod_columns import PodDrainColumns
from trimtab.planner.snapshot.columns import UInt8
from trimtab.v1 import snapshot_pb2


def drainable(pods: PodDrainColumns) -> UInt8:
    """Return WAIT for pods annotated "on-completion". uint8[P]."""
    return outcome.where(pods.safe_to_evict == snapshot_pb2.SafeToEvict.ON_COMPLETION, outcome.WAIT)
