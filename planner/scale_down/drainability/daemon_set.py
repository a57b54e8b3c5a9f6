"""Rule 4: a DaemonSet pod never blocks.

Source: Cluster Autoscaler, simulator/drainability/rules/daemonset.
"""

from trimtab.planner.scale_down.drainability import outcome
from trimtab.planner.scale_down.drainability.pod_columns import PodDrainColumns
from trimtab.planner.snapshot.columns import UInt8


def drainable(pods: PodDrainColumns) -> UInt8:
    """Return DRAIN_OK for DaemonSet pods. uint8[P]."""
    return outcome.where(pods.daemon, outcome.DRAIN_OK)
