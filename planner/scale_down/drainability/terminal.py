"""Rule 6: a pod that has ended and will not restart never blocks.

Source: Cluster Autoscaler, simulator/drainability/rules/terminal.
"""

from trimtab.planner.scale_down.drainability import outcome
from trimtab.planner.scale_down.drainability.pod_columns import PodDrainColumns, is_terminal
from trimtab.planner.snapshot.columns import UInt8


def drainable(pods: PodDrainColumns) -> UInt8:
    """Return DRAIN_OK for pods that have ended. uint8[P]."""
    return outcome.where(is_terminal(pods), outcome.DRAIN_OK)
