"""Convert the actuator's status to the form of a snapshot.

The actuator knows which pods were evicted, not what they requested. The requests come from the pods seen in the
cluster. An eviction of an unknown pod is left out, with a note: the planner then reserves no room for that pod.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from trimtab.v1 import actuator_pb2
from trimtab.v1 import snapshot_pb2 as pb

from clients.kubernetes_objects.build import Actuation, Eviction
from clients.kubernetes_objects.kinds import NodeGroup, ObjectMeta
from clients.kubernetes_objects.kinds.nodes import NodeGroupSpec, NodeGroupStatus
from clients.kubernetes_objects.node_groups import HEALTH
from clients.live_cluster.pod_history import PodHistory

_HEALTH = {value: name for name, value in HEALTH.items()}


class Read(NamedTuple):
    """The content of a status, and notes on evictions that were left out."""

    actuation: Actuation | None
    notes: list[str]


def read_status(status: actuator_pb2.ActuatorStatus, history: PodHistory) -> Read:
    """Return deletions and recent evictions with the rows of their pods."""
    deletions = [
        pb.DeletionInProgress(node=one.node, node_group=one.node_group, drain=one.drain, start_time=one.start_time)
        for one in status.deletions
    ]
    evictions, unknown = [], []
    for one, row in zip(status.recent_evictions, history.describe(status.recent_evictions), strict=True):
        if row is None:
            unknown.append(f"{one.namespace}/{one.name}")
        else:
            evictions.append(Eviction(row, one.evict_time))
    notes = []
    if unknown:
        shown = ", ".join(unknown[:3]) + (", …" if len(unknown) > 3 else "")
        notes.append(f"no room is reserved for {len(unknown)} evicted pods that were never seen: {shown}")
    return Read(Actuation(deletions, evictions), notes)


def sized_groups(groups: Sequence[NodeGroup], status: actuator_pb2.ActuatorStatus | None) -> list[NodeGroup]:
    """Return node groups with the sizes and times of the actuator's status, by name, with groups only it knows.

    A group that only the cloud knows has no nodes here: nothing says which nodes belong to it.
    """
    found = {(group.metadata.name if group.metadata else None) or "": group for group in groups}
    for one in status.node_groups if status is not None else ():
        old = found.get(one.id)
        spec = (old.spec if old is not None else None) or NodeGroupSpec()
        found[one.id] = NodeGroup(
            ObjectMeta(name=one.id),
            NodeGroupSpec(
                min_size=one.min_size,
                max_size=one.max_size,
                target_size=one.target_size,
                node_selector=spec.node_selector,
                nodes=spec.nodes,
                price=spec.price,
                template=spec.template,
                zero_or_max=spec.zero_or_max,
            ),
            NodeGroupStatus(
                health=_HEALTH.get(one.health),
                backoff_until=_time(one, "backoff_until"),
                last_scale_up_time=_time(one, "last_scale_up_time"),
                last_deletion_time=_time(one, "last_deletion_time"),
                last_failure_time=_time(one, "last_failure_time"),
            ),
        )
    return [found[name] for name in sorted(found)]


def undeclared_groups(groups: Sequence[NodeGroup], status: actuator_pb2.ActuatorStatus | None) -> list[str]:
    """Return notes on groups with instances whose nodes are not known."""
    declared = {(group.metadata.name if group.metadata else None) or "" for group in groups}
    return [
        f"node group {one.id} is the actuator's, but no NodeGroup of that name was given, so none of its "
        f"{one.instance_count} nodes can be removed; declare it with --node-groups"
        for one in (status.node_groups if status is not None else ())
        if one.instance_count and one.id not in declared
    ]


def _time(group: actuator_pb2.NodeGroupStatus, field: str) -> datetime | None:
    """Return a time from a group's status; None when it is not set."""
    return getattr(group, field).ToDatetime(UTC) if group.HasField(field) else None  # type: ignore[arg-type]
