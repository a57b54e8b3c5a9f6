"""The status of an actuator, kept up to date from `WatchStatus`: a change takes as long as the change is, not as the
status. Refuses a change that does not follow from the current status.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.v1 import actuator_pb2


class Instant(NamedTuple):
    """A time that can be compared. `seconds` : Unix seconds; `nanos` : nanoseconds of the second."""

    seconds: int
    nanos: int


T = TypeVar("T")
Key = tuple[Instant, str, str]


class EntriesByTime(Generic[T]):
    """Entries sorted by their keys, which begin with the time."""

    def __init__(self, key: Callable[[T], Key]) -> None:
        self._key = key
        self.entries: list[T] = []
        # In the same order.
        self._keys: list[Key] = []

    def replace(self, entries: Sequence[T]) -> None:
        """Replace all entries by these, which are sorted."""
        self.entries, self._keys = list(entries), list(map(self._key, entries))

    def change(self, added: Sequence[T], since: Instant) -> None:
        """Add entries, then forget those before a time."""
        for entry in added:
            key = self._key(entry)
            # Nearly always the end.
            at = len(self._keys) if not self._keys or self._keys[-1] <= key else bisect_left(self._keys, key)
            self._keys.insert(at, key)
            self.entries.insert(at, entry)
        old_count = bisect_left(self._keys, (since, "", ""))
        del self._keys[:old_count], self.entries[:old_count]


class FollowedStatus:
    """A status to which changes are applied."""

    def __init__(self) -> None:
        self._head = actuator_pb2.ActuatorStatus()
        self._deletions: dict[str, actuator_pb2.NodeDeletion] = {}
        self._groups: dict[str, actuator_pb2.NodeGroupStatus] = {}
        self._replacements: dict[str, actuator_pb2.Replacement] = {}
        self._evictions = EntriesByTime(_eviction_key)
        self._finished = EntriesByTime(_finished_key)

    def apply(self, response: actuator_pb2.WatchStatusResponse) -> None:
        """Apply the next response of the stream. Raises ValueError if it changes another status than the last one."""
        if response.HasField("change"):
            self._change(response.change)
            return
        status = response.status
        self._head = actuator_pb2.ActuatorStatus(revision=status.revision, time=status.time)
        self._deletions = {deletion.node: deletion for deletion in status.deletions}
        self._groups = {node_group.id: node_group for node_group in status.node_groups}
        self._replacements = {replacement.request_id: replacement for replacement in status.replacements}
        self._evictions.replace(status.recent_evictions)
        self._finished.replace(status.finished)

    def status(self) -> actuator_pb2.ActuatorStatus:
        """Return the whole status. O(its size)."""
        whole = actuator_pb2.ActuatorStatus(
            deletions=(self._deletions[node] for node in sorted(self._deletions)),
            recent_evictions=self._evictions.entries,
            finished=self._finished.entries,
            node_groups=(self._groups[name] for name in sorted(self._groups)),
            replacements=(self._replacements[name] for name in sorted(self._replacements)),
        )
        whole.MergeFrom(self._head)
        return whole

    def _change(self, change: actuator_pb2.StatusChange) -> None:
        if change.base_revision != self._head.revision:
            raise ValueError(f"a change of revision {change.base_revision} came after revision {self._head.revision}")
        self._head = actuator_pb2.ActuatorStatus(revision=change.revision, time=change.time)
        for node in change.ended_nodes:
            self._deletions.pop(node, None)
        self._deletions.update((deletion.node, deletion) for deletion in change.deletions)
        for name in change.removed_node_groups:
            self._groups.pop(name, None)
        self._groups.update((node_group.id, node_group) for node_group in change.node_groups)
        for name in change.removed_replacements:
            self._replacements.pop(name, None)
        self._replacements.update((replacement.request_id, replacement) for replacement in change.replacements)
        self._evictions.change(change.recent_evictions, _instant(change.evictions_since))
        self._finished.change(change.finished, _instant(change.finished_since))


def _eviction_key(eviction: actuator_pb2.Eviction) -> Key:
    return _instant(eviction.evict_time), f"{eviction.namespace}/{eviction.name}", eviction.uid


def _finished_key(deletion: actuator_pb2.NodeDeletion) -> Key:
    return _instant(deletion.state_time), deletion.node, f"{deletion.request_id}/{deletion.node}"


def _instant(time: Timestamp) -> Instant:
    return Instant(time.seconds, time.nanos)
