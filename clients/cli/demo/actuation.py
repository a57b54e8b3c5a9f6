"""What the actuator is doing, into a snapshot, so that the planner counts with it.

Deletions in progress are copied. A recently evicted pod takes its spec from another pod of the same controller: they
come from one template. Where the controller has no other pod at that moment (a single replica that is not back yet),
the eviction cannot be described and is left out: no room is kept for that one pod until it is listed again as pending.
"""

import numpy as np
from trimtab.v1 import actuator_pb2, snapshot_pb2


def add_actuation(snapshot: snapshot_pb2.ClusterSnapshot, status: actuator_pb2.ActuatorStatus) -> None:
    """Write `snapshot.actuation_status`. O(P) once for all evictions."""
    told = snapshot.actuation_status
    told.SetInParent()
    for deletion in status.deletions:
        told.deletions.add(
            node=deletion.node,
            node_group=deletion.node_group,
            drain=deletion.drain,
            start_time=deletion.start_time,
        )
    siblings = _first_pods(snapshot) if status.recent_evictions else {}
    for eviction in status.recent_evictions:
        if eviction.owner_uid in siblings:
            spec, label_set = siblings[eviction.owner_uid]
            told.recent_evictions.add(
                namespace=eviction.namespace,
                name=eviction.name,
                uid=eviction.uid,
                spec=spec,
                label_set=label_set,
                owner=eviction.owner_uid,
                evict_time=eviction.evict_time,
            )


def _first_pods(snapshot: snapshot_pb2.ClusterSnapshot) -> dict[str, tuple[int, int]]:
    """Spec and label set of the first pod of each controller, by its uid."""
    pods = snapshot.pods
    if not pods.owner:
        return {}
    owners, rows = np.unique(np.frombuffer(pods.owner, "<i4"), return_index=True)
    specs = np.frombuffer(pods.spec, "<i4")[rows].tolist()
    sets = np.frombuffer(pods.label_set, "<i4")[rows].tolist() if pods.label_set else [0] * len(rows)
    return {
        snapshot.strings[owner]: (spec, label_set)
        for owner, spec, label_set in zip(owners.tolist(), specs, sets, strict=True)
        if owner
    }
