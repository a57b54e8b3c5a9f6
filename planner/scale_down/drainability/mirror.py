"""Rule 1: the mirror of a static pod goes with its kubelet and need not be moved.

Source: Cluster Autoscaler, simulator/drainability/rules/mirror.
"""

from trimtab.planner.scale_down.drainability import outcome
from trimtab.planner.scale_down.drainability.pod_columns import PodDrainColumns
from trimtab.planner.snapshot.columns import UInt8


def drainable(pods: PodDrainColumns) -> UInt8:
    """Return SKIP for mirror pods. uint8[P]."""
    return outcome.where(pods.mirror, outcome.SKIP)
