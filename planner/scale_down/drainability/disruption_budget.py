"""Rule 12: a pod whose budget allows no further disruption blocks.

Source: Cluster Autoscaler, simulator/drainability/rules/pdb.
"""

from trimtab.planner.scale_down.drainability import outcome
from trimtab.planner.scale_down.drainability.pod_columns import PodDrainColumns
from trimtab.planner.snapshot.columns import UInt8
from trimtab.v1 import reason_pb2


def drainable(pods: PodDrainColumns) -> UInt8:
    """Return the block for pods with an exhausted budget. uint8[P]."""
    return outcome.where(pods.budget_exhausted, outcome.block(reason_pb2.BlockingPodReason.NOT_ENOUGH_PDB))
