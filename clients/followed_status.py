"""The status of an actuator, kept up to date from `WatchStatus`. Decides nothing; refuses a change that does not follow
from the current status.
"""

from typing import NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp
from trimtab.v1 import actuator_pb2


class Instant(NamedTuple):
    """A time that can be compared."""

    seconds: int
    nanos: int


class FollowedStatus:
    """A status to which changes are applied."""

    def __init__(self) -> None:
        self._head = actuator_pb2.ActuatorStatus()
        self._deletions: dict[str, actuator_pb2.NodeDeletion] = {}
        self._groups: dict[str, actuator_pb2.NodeGroupStatus] = {}
        self._evictions: list[actuator_pb2.Eviction] = []
        self._finished: list[actuator_pb2.NodeDeletion] = []

    def apply(self, response: actuator_pb2.WatchStatusResponse) -> None:
        """Apply the next response of the stream. Raises ValueError if it changes another status than the last one."""
        if response.HasField("change"):
            self._change(response.change)
            return
        status = response.status
        self._head = actuator_pb2.ActuatorStatus(revision=status.revision, time=status.time)
        self._deletions = {one.node: one for one in status.deletions}
        self._groups = {one.id: one for one in status.node_groups}
        self._evictions, self._finished = list(status.recent_evictions), list(status.finished)

    def status(self) -> actuator_pb2.ActuatorStatus:
        """Return the whole status. O(its size)."""
        whole = actuator_pb2.ActuatorStatus(
            deletions=(self._deletions[node] for node in sorted(self._deletions)),
            recent_evictions=self._evictions,
            finished=self._finished,
            node_groups=(self._groups[name] for name in sorted(self._groups)),
        )
        whole.MergeFrom(self._head)
        return whole

    def _change(self, change: actuator_pb2.StatusChange) -> None:
        if change.base_revision != self._head.revision:
            raise ValueError(f"a change of revision {change.base_revision} came after revision {self._head.revision}")
        self._head = actuator_pb2.ActuatorStatus(revision=change.revision, time=change.time)
        for node in change.ended_nodes:
            self._deletions.pop(node, None)
        self._deletions.update((one.node, one) for one in change.deletions)
        for name in change.removed_node_groups:
            self._groups.pop(name, None)
        self._groups.update((one.id, one) for one in change.node_groups)
        since = _instant(change.evictions_since)
        self._evictions = [
            one for one in (*self._evictions, *change.recent_evictions) if _instant(one.evict_time) >= since
        ]
        self._evictions.sort(key=lambda one: (_instant(one.evict_time), f"{one.namespace}/{one.name}", one.uid))
        since = _instant(change.finished_since)
        self._finished = [one for one in (*self._finished, *change.finished) if _instant(one.state_time) >= since]
        self._finished.sort(key=lambda one: (_instant(one.state_time), one.node, f"{one.request_id}/{one.node}"))


def _instant(time: Timestamp) -> Instant:
    return Instant(time.seconds, time.nanos)
