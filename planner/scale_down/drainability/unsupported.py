"""Rule 13, ours: a pod with a constraint that this build cannot decide blocks, because no placement can be proven.

Comes last, and overrides DRAIN_OK: a pod that may be moved must still find a place. DaemonSet pods need none.
"""

from trimtab.planner.scale_down.drainability import outcome
from trimtab.planner.scale_down.drainability.pod_columns import PodDrainColumns, is_terminal
from trimtab.planner.snapshot.columns import UInt8
from trimtab.v1 import reason_pb2


def drainable(pods: PodDrainColumns) -> UInt8:
    """Return the block for pods that need a place and cannot be decided. uint8[P]."""
    needs_place = pods.unsupported & ~pods.daemon & ~pods.mirror & ~is_terminal(pods)
    return outcome.where(needs_place, outcome.block(reason_pb2.BlockingPodReason.UNSUPPORTED_CONSTRAINT))
