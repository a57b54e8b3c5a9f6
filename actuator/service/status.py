"""The status as it travels: deletions, recent evictions, results, node groups.

Decides order and form only.
"""

import bisect
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from trimtab.v1 import actuator_pb2

from actuator.cloud.provider import NodeGroupView
from actuator.tracker.states import Deletion, TrackedEviction
from actuator.tracker.tracker import Tracker

T = TypeVar("T")


class StatusWriter:
    """Builds `ActuatorStatus`. Call under the engine's lock."""

    def __init__(self) -> None:
        fields = actuator_pb2.ActuatorStatus.DESCRIPTOR.fields_by_name
        self._evictions: MessageLog[TrackedEviction] = MessageLog(
            fields["recent_evictions"].number, lambda eviction: eviction.pod.uid, _eviction_entry
        )
        self._finished: MessageLog[Deletion] = MessageLog(
            fields["finished"].number, lambda deletion: f"{deletion.request_id}/{deletion.node}", _finished_entry
        )

    def write(self, tracker: Tracker, now_ms: int, with_finished: bool) -> actuator_pb2.ActuatorStatus:
        """All but the node groups."""
        memory, retention = tracker.memory, tracker.retention
        status = actuator_pb2.ActuatorStatus(
            revision=memory.revision,
            time=timestamp(now_ms),
            deletions=[deletion_message(deletion) for _, deletion in sorted(memory.deletions.items())],
        )
        since_ms = now_ms - int(retention.evictions_s * 1000)
        status.MergeFromString(self._evictions.encoded(reversed(memory.evictions.values()), since_ms))
        if with_finished:
            since_ms = now_ms - int(retention.finished_s * 1000)
            status.MergeFromString(self._finished.encoded(reversed(memory.finished), since_ms))
        return status


class MessageLog(Generic[T]):
    """The encoded entries of one repeated field, sorted by time, then name.

    Entries never change once they are there, so each is encoded once; a status with tens of thousands of them is a
    copy of bytes.
    """

    def __init__(
        self, field_number: int, identity: Callable[[T], str], entry: Callable[[T], tuple[int, str, Message]]
    ) -> None:
        self._tag = _varint(field_number << 3 | 2)
        self._identity = identity
        self._entry = entry
        # (time in milliseconds, name, identity, encoded field)
        self._rows: list[tuple[int, str, str, bytes]] = []
        self._known: set[str] = set()
        self._encoded = b""

    def encoded(self, newest_first: Iterable[T], since_ms: int) -> bytes:
        """All entries not older than `since_ms`, as bytes of the field."""
        new = [self._row(item) for item in itertools.takewhile(self._is_new, newest_first)]
        if new:
            self._rows += reversed(new)
            self._rows.sort()
        old_count = bisect.bisect_left(self._rows, (since_ms, "", "", b""))
        if new or old_count:
            del self._rows[:old_count]
            self._known = {row[2] for row in self._rows}
            self._encoded = b"".join(row[3] for row in self._rows)
        return self._encoded

    def _is_new(self, item: T) -> bool:
        return self._identity(item) not in self._known

    def _row(self, item: T) -> tuple[int, str, str, bytes]:
        time_ms, name, message = self._entry(item)
        data = message.SerializeToString()
        return time_ms, name, self._identity(item), self._tag + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    """Protobuf's encoding of a number."""
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def _eviction_entry(eviction: TrackedEviction) -> tuple[int, str, Message]:
    return eviction.time_ms, eviction.pod.key, eviction_message(eviction)


def _finished_entry(deletion: Deletion) -> tuple[int, str, Message]:
    return deletion.state_ms, deletion.node, deletion_message(deletion)


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
