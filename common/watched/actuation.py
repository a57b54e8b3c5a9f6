"""Convert the actuator's status to the form of a snapshot.

The actuator knows which pods were evicted, not what they requested. Their requests come from the pods seen in the
cluster. An eviction of an unknown pod is left out, with a note: the planner then reserves no room for that pod.
"""

from typing import NamedTuple

from trimtab.common.objects.build import Actuation, Eviction
from trimtab.common.watched.pod_history import PodHistory
from trimtab.v1 import actuator_pb2
from trimtab.v1 import snapshot_pb2 as pb


class Read(NamedTuple):
    """The content of a status, and notes on evictions that were left out. `actuation` : None = the status has none."""

    actuation: Actuation | None
    notes: list[str]


def read_status(status: actuator_pb2.ActuatorStatus, history: PodHistory) -> Read:
    """Return deletions and recent evictions with the rows of their pods."""
    deletions = [
        pb.DeletionInProgress(node=one.node, node_group=one.node_group, drain=one.drain, start_time=one.start_time)
        for one in status.deletions
    ]
    evictions, unknown = [], []
    for recent_eviction, row in zip(status.recent_evictions, history.describe(status.recent_evictions), strict=True):
        if row is None:
            unknown.append(f"{recent_eviction.namespace}/{recent_eviction.name}")
        else:
            evictions.append(Eviction(row, recent_eviction.evict_time))
    notes = []
    if unknown:
        shown = ", ".join(unknown[:3]) + (", …" if len(unknown) > 3 else "")
        notes.append(f"no room is reserved for {len(unknown)} evicted pods that were never seen: {shown}")
    return Read(Actuation(deletions, evictions), notes)
