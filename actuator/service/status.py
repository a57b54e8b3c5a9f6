"""The status as it travels: deletions, recent evictions, results, node groups.

Decides order and form only. Messages of evictions and finished deletions never change, so each is built once and kept.
"""

from collections.abc import Iterable, Sequence

from google.protobuf.timestamp_pb2 import Timestamp
from trimtab.v1 import actuator_pb2

from actuator.cloud.provider import NodeGroupView
from actuator.tracker.states import Deletion, TrackedEviction
from actuator.tracker.tracker import Tracker


class StatusWriter:
    """Builds `ActuatorStatus`. Call under the engine's lock."""

    def __init__(self) -> None:
        self._evictions: dict[str, actuator_pb2.Eviction] = {}

    def write(self, tracker: Tracker, now_ms: int, with_finished: bool) -> actuator_pb2.ActuatorStatus:
        """All but the node groups."""
        memory = tracker.memory
        status = actuator_pb2.ActuatorStatus(
            revision=memory.revision,
            time=timestamp(now_ms),
            deletions=[deletion_message(deletion) for _, deletion in sorted(memory.deletions.items())],
        )
        since_ms = now_ms - int(tracker.retention.evictions_s * 1000)
        status.recent_evictions.extend(self._recent(memory.evictions.values(), since_ms))
        if with_finished:
            since_ms = now_ms - int(tracker.retention.finished_s * 1000)
            finished = [deletion for deletion in memory.finished if deletion.state_ms >= since_ms]
            finished.sort(key=lambda deletion: (deletion.state_ms, deletion.node))
            status.finished.extend(deletion_message(deletion) for deletion in finished)
        return status

    def _recent(self, evictions: Iterable[TrackedEviction], since_ms: int) -> list[actuator_pb2.Eviction]:
        """Messages of evictions not yet forgotten, sorted by time, then pod."""
        recent = [eviction for eviction in evictions if eviction.time_ms >= since_ms]
        recent.sort(key=lambda eviction: (eviction.time_ms, eviction.pod.namespace, eviction.pod.name))
        kept = {
            eviction.pod.uid: self._evictions.get(eviction.pod.uid) or eviction_message(eviction) for eviction in recent
        }
        self._evictions = kept
        return list(kept.values())


def group_messages(
    groups: Sequence[NodeGroupView], deletions: Iterable[actuator_pb2.NodeDeletion]
) -> list[actuator_pb2.NodeGroupStatus]:
    """Node groups with their deletions in progress."""
    counts: dict[str, int] = {}
    for deletion in deletions:
        counts[deletion.node_group] = counts.get(deletion.node_group, 0) + 1
    return [
        actuator_pb2.NodeGroupStatus(
            id=group.id,
            min_size=group.min_size,
            max_size=group.max_size,
            target_size=group.target_size,
            instance_count=group.instance_count,
            deletion_count=counts.get(group.id, 0),
        )
        for group in groups
    ]


def deletion_message(deletion: Deletion) -> actuator_pb2.NodeDeletion:
    """One deletion."""
    message = actuator_pb2.NodeDeletion(
        node=deletion.node,
        node_group=deletion.node_group,
        drain=deletion.drain,
        state=int(deletion.state),  # type: ignore[arg-type]
        start_time=timestamp(deletion.start_ms),
        state_time=timestamp(deletion.state_ms),
        request_id=deletion.request_id,
        reason=deletion.reason,  # type: ignore[arg-type]
        detail=deletion.detail,
        pods_total_count=deletion.pods_count,
        pods_gone_count=deletion.gone_count,
        pods_left=deletion.pods_left,
    )
    if deletion.drain:
        message.drain_timeout.FromMilliseconds(int(deletion.drain_timeout_s * 1000))
    return message


def eviction_message(eviction: TrackedEviction) -> actuator_pb2.Eviction:
    """One eviction."""
    pod = eviction.pod
    return actuator_pb2.Eviction(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        node=eviction.node,
        owner_kind=pod.owner_kind,
        owner_name=pod.owner_name,
        owner_uid=pod.owner_uid,
        evict_time=timestamp(eviction.time_ms),
    )


def timestamp(time_ms: int) -> Timestamp:
    """Unix milliseconds as message."""
    return Timestamp(seconds=time_ms // 1000, nanos=time_ms % 1000 * 1_000_000)
