"""Rule 14, ours: a pod with more than one disruption budget blocks, because the eviction API always refuses it.
Overrides DRAIN_OK, as no annotation changes that; DaemonSet and mirror pods are not evicted to make their node go.
Source: Kubernetes, the eviction subresource: it answers 500 for more than one budget.
"""

from trimtab.planner.scale_down.drainability import outcome
from trimtab.planner.scale_down.drainability.pod_columns import PodDrainColumns
from trimtab.planner.snapshot.columns import UInt8
from trimtab.v1 import reason_pb2


def drainable(pods: PodDrainColumns) -> UInt8:
    """Return the block for pods under several budgets. uint8[P]."""
    evicted = pods.several_budgets & ~pods.daemon & ~pods.mirror
    return outcome.where(evicted, outcome.block(reason_pb2.BlockingPodReason.SEVERAL_BUDGETS))
