"""Rule 7a: a pod of a Job blocks if the settings keep Jobs on their nodes. Not upstream's rule, which moves Job pods;
the Zalando fork's default. Comes after the annotations, so a Job's author can still override it.
"""

from trimtab.planner.scale_down.drainability import outcome
from trimtab.planner.scale_down.drainability.pod_columns import PodDrainColumns
from trimtab.planner.snapshot.columns import UInt8
from trimtab.v1 import reason_pb2


def drainable(pods: PodDrainColumns) -> UInt8:
    """Return the block for pods of Jobs that stay. uint8[P]."""
    return outcome.where(pods.job_unmovable, outcome.block(reason_pb2.BlockingPodReason.JOB_POD_UNMOVABLE))
