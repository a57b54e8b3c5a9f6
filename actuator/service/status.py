"""The status: deletions, recent evictions, results, node groups, as a whole or as what has changed since an earlier
one. Decides order and form. Messages of evictions and results, which do not change, are made once.

Every watcher gets the changes after each event, under the lock of all events, in 0.5 ms; a whole status is for the
first time: 2.5 ms with 2,000 recent evictions, 0.2 s with 100,000.
"""

import bisect
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.actuator.cloud.provider import CloudNodeTemplate
from trimtab.actuator.node_types.learned_resources import Offers
from trimtab.actuator.service.group_views import CachedGroups, GroupTimes, group_times, template_message
from trimtab.actuator.service.replacement_reports import replacement_messages
from trimtab.actuator.tracker.states import Deletion, TrackedEviction
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.v1 import actuator_pb2, snapshot_pb2

T = TypeVar("T")
M = TypeVar("M", bound=Message)


class StatusParts(NamedTuple):
    """The parts of a status, for finding later changes. revision : of the tracker's state that the status shows; number
    : counts statuses, from 1; jump_count : how often all times were shifted; evictions, finished : number of entries
    ever added, up to this status; others : messages, by node, id and request id.
    """

    number: int
    revision: int
    jump_count: int
    evictions: int
    finished: int
    deletions: Mapping[str, actuator_pb2.NodeDeletion] = {}
    groups: Mapping[str, actuator_pb2.NodeGroupStatus] = {}
    replacements: Mapping[str, actuator_pb2.Replacement] = {}


class EncodedStatus(NamedTuple):
    """A status: its revision; a response with all of it, or with the changes since an earlier one; its parts."""

    revision: int
    response: bytes
    parts: StatusParts | None = None

    def message(self) -> actuator_pb2.ActuatorStatus:
        """Return the status as message."""
        return actuator_pb2.GetStatusResponse.FromString(self.response).status


class StatusWriter:
    """Builds the status. Call under the processor's lock."""

    def __init__(self, offers: Offers | None = None) -> None:
        self._offers = offers or Offers()
        self._parts = StatusParts(0, 0, 0, 0, 0)
        # By group: a template with the resources of its real nodes, and its message.
        self._templates: dict[str, tuple[CloudNodeTemplate, actuator_pb2.CloudTemplate]] = {}
        self._begin()

    def _begin(self) -> None:
        """Keep nothing yet."""
        self._evictions: MessageLog[TrackedEviction, actuator_pb2.Eviction] = MessageLog(
            lambda eviction: eviction.pod.uid,
            lambda eviction: (eviction.time_ms, eviction.pod.key),
            eviction_message,
        )
        self._finished: MessageLog[Deletion, actuator_pb2.NodeDeletion] = MessageLog(
            lambda deletion: f"{deletion.request_id}/{deletion.node}",
            lambda deletion: (deletion.state_ms, deletion.node),
            deletion_message,
        )

    def write(
        self,
        tracker: Tracker,
        now_ms: int,
        with_finished: bool,
        groups: CachedGroups | None = None,
        base: StatusParts | None = None,
    ) -> EncodedStatus:
        """Return the whole status, or the changes since `base` if they are known; `groups` are the cloud's, None =
        without.
        """
        since = self._collect(tracker, now_ms, with_finished, groups)
        parts, response = self._parts, actuator_pb2.WatchStatusResponse()
        told: Any  # both messages have these fields
        if base is None or base.jump_count != parts.jump_count:
            # `GetStatusResponse` has the same field, so that the bytes are either message.
            told, base = response.status, StatusParts(0, 0, 0, 0, 0)
        else:
            told = response.change
            told.base_revision = base.revision
            told.ended_nodes.extend(sorted(base.deletions.keys() - parts.deletions.keys()))
            told.removed_node_groups.extend(sorted(base.groups.keys() - parts.groups.keys()))
            told.removed_replacements.extend(sorted(base.replacements.keys() - parts.replacements.keys()))
            told.evictions_since.CopyFrom(timestamp(since.evictions_ms))
            told.finished_since.CopyFrom(timestamp(since.finished_ms))
        told.revision = parts.revision
        told.time.CopyFrom(timestamp(now_ms))
        told.deletions.extend(_changed(base.deletions, parts.deletions))
        told.recent_evictions.extend(self._evictions.added_after(base.evictions))
        if with_finished:
            told.finished.extend(self._finished.added_after(base.finished))
        told.node_groups.extend(_changed(base.groups, parts.groups))
        told.replacements.extend(_changed(base.replacements, parts.replacements))
        return EncodedStatus(parts.revision, response.SerializeToString(deterministic=True), parts)

    def _collect(self, tracker: Tracker, now_ms: int, with_finished: bool, groups: CachedGroups | None) -> "_Since":
        """Make the messages of what has changed since the last call; return since when entries are kept."""
        data, retention = tracker.data, tracker.retention
        if data.jump_count != self._parts.jump_count:
            # All times were shifted.
            self._begin()
        since = _Since(now_ms - int(retention.evictions_s * 1000), now_ms - int(retention.finished_s * 1000))
        self._evictions.update(reversed(data.evictions.values()), since.evictions_ms)
        if with_finished:
            self._finished.update(reversed(data.finished), since.finished_ms)
        self._parts = StatusParts(
            self._parts.number + 1,
            data.revision,
            data.jump_count,
            self._evictions.added_count,
            self._finished.added_count,
            {node: deletion_message(data.deletions[node]) for node in sorted(data.deletions)},
            self._group_messages(tracker, groups, now_ms) if groups else {},
            replacement_messages(data),
        )
        return since

    def _group_messages(
        self, tracker: Tracker, groups: CachedGroups, now_ms: int
    ) -> dict[str, actuator_pb2.NodeGroupStatus]:
        """Return node groups by id, in the order given."""
        data = tracker.data
        templates: dict[str, tuple[CloudNodeTemplate, actuator_pb2.CloudTemplate]] = {}
        messages = group_messages(groups, data.deletions.values(), group_times(data), now_ms)
        for message in messages:
            template = groups.templates.get(message.id)
            if template is not None:
                offered = self._offers.of(message.id, template, data.node_types)
                made = self._templates.get(message.id)
                if made is None or made[0] is not offered:
                    made = offered, template_message(offered)
                templates[message.id] = made
                message.template.CopyFrom(made[1])
        self._templates = templates
        return {message.id: message for message in messages}


class _Since(NamedTuple):
    """Entries before these times, in Unix milliseconds, are left out. `evictions_ms` : for recent evictions;
    `finished_ms` : for finished deletions.
    """

    evictions_ms: int
    finished_ms: int


def _changed(before: Mapping[str, M], after: Mapping[str, M]) -> list[M]:
    return [message for name, message in after.items() if before.get(name) != message]


class LogRow(NamedTuple, Generic[M]):
    """An entry of a `MessageLog`: `time_ms`, then `name`, then `identity` order them; `number` : of entries added up to
    it.
    """

    time_ms: int
    name: str
    identity: str
    number: int
    message: M


class MessageLog(Generic[T, M]):
    """The entries of one repeated field, sorted by time, then name. Entries never change once they are there."""

    def __init__(
        self, identity: Callable[[T], str], place: Callable[[T], tuple[int, str]], message: Callable[[T], M]
    ) -> None:
        """place : returns time, Unix milliseconds, and name."""
        self._identity, self._place, self._message = identity, place, message
        self._rows: list[LogRow[M]] = []
        self._known: set[str] = set()
        self.added_count = 0
        """Number of entries ever added."""

    def added_after(self, count: int) -> list[M]:
        """Return the remaining entries that were added after the first `count`, in order. O(these entries) if they are
        the newest, as they nearly always are.
        """
        if not count:
            return [row.message for row in self._rows]
        found: list[M] = []
        for row in reversed(self._rows):
            if len(found) == self.added_count - count:
                break
            if row.number > count:
                found.append(row.message)
        return found[::-1]

    def update(self, newest_first: Iterable[T], since_ms: int) -> None:
        """Add the new entries, and forget those older than `since_ms`."""
        new = []
        for item in itertools.takewhile(lambda one: self._identity(one) not in self._known, newest_first):
            self.added_count += 1
            new.append(LogRow(*self._place(item), self._identity(item), self.added_count, self._message(item)))
        self._known.update(row.identity for row in new)
        is_later = not new or not self._rows or self._rows[-1] < min(new)
        self._rows += sorted(new)
        if not is_later:
            self._rows.sort()
        old = self._rows[: bisect.bisect_left(self._rows, since_ms, key=lambda one: one.time_ms)]
        del self._rows[: len(old)]
        self._known.difference_update(row.identity for row in old)


def group_messages(
    groups: CachedGroups, deletions: Iterable[Deletion], times: dict[str, GroupTimes], now_ms: int
) -> list[actuator_pb2.NodeGroupStatus]:
    """Return node groups with deletions in progress, back-offs, the times when they last grew, shrank and failed, and
    the cloud's configuration of them.
    """
    counts: dict[str, int] = {}
    for deletion in deletions:
        counts[deletion.node_group] = counts.get(deletion.node_group, 0) + 1
    messages = []
    instances = groups.instances or {}
    for group in groups.views:
        message = actuator_pb2.NodeGroupStatus(
            id=group.id,
            min_size=group.min_size,
            max_size=group.max_size,
            target_size=group.target_size,
            instance_count=group.instance_count,
            deletion_count=counts.get(group.id, 0),
            instances=instances.get(group.id, ()),
        )
        message.MergeFrom(groups.details[group.id])
        last = times.get(group.id, GroupTimes())
        for at_ms, moment in (
            (last.scale_up_ms, message.last_scale_up_time),
            (last.deletion_ms, message.last_deletion_time),
            (last.failure_ms, message.last_failure_time),
        ):
            if at_ms:
                moment.FromMilliseconds(at_ms)
        if last.waits or last.backoff_until_ms > now_ms:
            message.health = snapshot_pb2.NodeGroupHealth.BACKED_OFF
            message.health_detail = last.refusal
        if not last.waits and last.backoff_until_ms > now_ms:
            message.backoff_until.FromMilliseconds(last.backoff_until_ms)
        messages.append(message)
    return messages


def deletion_message(deletion: Deletion) -> actuator_pb2.NodeDeletion:
    """Return one deletion."""
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
    """Return one eviction."""
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
    """Return Unix milliseconds as message."""
    return Timestamp(seconds=time_ms // 1000, nanos=time_ms % 1000 * 1_000_000)
