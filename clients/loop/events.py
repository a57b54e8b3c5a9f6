"""Kubernetes Events on nodes, pods and the status ConfigMap, like those of the Cluster Autoscaler.

Decides which changes of the actuator's status become events, and their text. Events are written in the background, at a
bounded rate; one that cannot be written is counted and dropped.

Source: Cluster Autoscaler, core/scaledown (reasons `ScaleDown`, `ScaleDownFailed`, `ScaleDownEmpty`, and the object of
each).
"""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog

from trimtab.common.kubernetes.errors import KubernetesError
from trimtab.common.kubernetes.registry import BY_KIND
from trimtab.v1 import actuator_pb2, reason_pb2

if TYPE_CHECKING:  # The API needs an extra, which simulations do without.
    from trimtab.clients.loop.rounds import RoundResult
    from trimtab.common.kubernetes.api import Api

log = structlog.get_logger("events")
_EVENT = BY_KIND["Event"]

COMPONENT = "trimtab"
NORMAL, WARNING = "Normal", "Warning"
SCALE_DOWN, SCALE_DOWN_FAILED, SCALE_DOWN_EMPTY = "ScaleDown", "ScaleDownFailed", "ScaleDownEmpty"
REPLACEMENT, REPLACEMENT_FAILED = "Replacement", "ReplacementFailed"
MOST_WAITING = 10_000
MOST_PER_S = 50
"""Most events a second: a drain of thousands of pods must not overload the API server."""
State = actuator_pb2.DeletionState
Stage = actuator_pb2.ReplacementStage


class Subject(NamedTuple):
    """The object that an event is about. namespace : "" for a cluster-wide kind; uid : "" = not known; kind : as
    `Resource.kind`. name : of the object.
    """

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


class ClusterEvent(NamedTuple):
    """One event. `subject` : what it is about; `type` : Normal or Warning; `reason` : a word for programs; `message` :
    for people.
    """

    subject: Subject
    type: str
    reason: str
    message: str


class StatusEvents:
    """Turns successive statuses of the actuator into events. The first status gives none."""

    def __init__(self, status_map: Subject) -> None:
        self._map = status_map
        self._states: dict[tuple[str, str], int] | None = None
        self._stages: dict[str, int] = {}
        self._evicted: set[str] = set()

    def of_round(self, done: "RoundResult") -> list[ClusterEvent]:
        """Return the events of a round."""
        return self.of(done.status) if done.status is not None else []

    def of(self, status: actuator_pb2.ActuatorStatus) -> list[ClusterEvent]:
        """Return the events of the changes since the last status."""
        deletions = [*status.deletions, *status.finished]
        before, now = self._states, {(one.request_id, one.node): int(one.state) for one in deletions}
        evicted = {recent_eviction.uid for recent_eviction in status.recent_evictions}
        events: list[ClusterEvent] = []
        if before is not None:
            for eviction in status.recent_evictions:
                if eviction.uid not in self._evicted:
                    pod = Subject("Pod", eviction.name, eviction.namespace, eviction.uid)
                    events.append(ClusterEvent(pod, NORMAL, SCALE_DOWN, "deleting pod for node scale down"))
            for deletion in deletions:
                events.extend(self._of_deletion(deletion, before.get((deletion.request_id, deletion.node), 0)))
            for replacement in status.replacements:
                if replacement.stage != self._stages.get(replacement.request_id, 0):
                    events.extend(self._of_replacement(replacement))
        self._stages = {replacement.request_id: int(replacement.stage) for replacement in status.replacements}
        self._states, self._evicted = now, evicted
        return events

    def _of_deletion(self, one: actuator_pb2.NodeDeletion, before: int) -> Iterator[ClusterEvent]:
        node = Subject("Node", one.node, uid=one.node)
        if before < State.TAINTED <= one.state and one.state != State.FAILED:
            yield ClusterEvent(node, NORMAL, SCALE_DOWN, "marked the node as toBeDeleted/unschedulable")
            if one.drain:
                yield ClusterEvent(self._map, NORMAL, SCALE_DOWN, f"Scale-down: removing node {one.node} with drain")
            else:
                yield ClusterEvent(self._map, NORMAL, SCALE_DOWN_EMPTY, f'Scale-down: removing empty node "{one.node}"')
        if one.state == before:
            return
        if one.state == State.DELETED:
            yield ClusterEvent(node, NORMAL, SCALE_DOWN, "node removed by scale down")
        elif one.state == State.CANCELLED:
            yield ClusterEvent(
                node, NORMAL, SCALE_DOWN, f"removal of the node was cancelled: {one.detail}".rstrip(": ")
            )
        elif one.state == State.FAILED:
            reason = reason_pb2.DeletionReason.Code.Name(one.reason)
            what = "failed to drain the node" if one.pods_left else "failed to delete the node"
            yield ClusterEvent(node, WARNING, SCALE_DOWN_FAILED, f"{what}: {reason} {one.detail}".rstrip())
            for key in one.pods_left:
                namespace, _, name = key.partition("/")
                pod = Subject("Pod", name, namespace)
                yield ClusterEvent(pod, WARNING, SCALE_DOWN_FAILED, "failed to delete pod for ScaleDown")

    def _of_replacement(self, one: actuator_pb2.Replacement) -> Iterator[ClusterEvent]:
        """Yield the events of a replacement that has entered its stage."""
        leaving = ", ".join(node.node for node in one.leaving)
        groups = ", ".join(sorted({node.node_group for node in one.new_nodes}))
        why = f": {reason_pb2.ReplacementReason.Code.Name(one.reason)} {one.detail}".rstrip() if one.reason else ""
        if one.stage in (Stage.ORDERING, Stage.WAITING):
            text = f"Replacement: {len(one.new_nodes)} new nodes of {groups} in place of {leaving}{why}"
            yield ClusterEvent(self._map, NORMAL, REPLACEMENT, text)
        elif one.stage == Stage.DRAINING:
            for node in one.leaving:
                if node.state != actuator_pb2.LeavingNodeState.STAYS:
                    subject = Subject("Node", node.node, uid=node.node)
                    yield ClusterEvent(subject, NORMAL, REPLACEMENT, f"replaced by new nodes of {groups}")
        elif one.stage == Stage.DONE:
            gone = [node.node for node in one.leaving if node.state == actuator_pb2.LeavingNodeState.GONE]
            saved = f"{one.achieved_saving_per_hour:.6g} an hour saved"
            text = f"Replacement: {', '.join(gone)} replaced, {saved}{why}"
            yield ClusterEvent(self._map, NORMAL, REPLACEMENT, text)
        elif one.stage == Stage.FAILED:
            yield ClusterEvent(self._map, WARNING, REPLACEMENT_FAILED, f"Replacement of {leaving} rolled back{why}")
        elif one.stage == Stage.CANCELLED:
            yield ClusterEvent(self._map, NORMAL, REPLACEMENT, f"Replacement of {leaving} cancelled{why}")


class EventWriter:
    """Writes events in the background. `dropped` counts those that could not be written.

    uid_of : returns the uid of an object by kind, namespace and name, "" = not known: `kubectl describe` shows an event
    only if it has the uid of its object.
    """

    def __init__(self, api: "Api", identity: str, uid_of: Callable[[str, str, str], str] = lambda *_: "") -> None:
        self.dropped = 0
        self._api, self._identity, self._uid_of = api, identity, uid_of
        self._waiting: queue.Queue[ClusterEvent | None] = queue.Queue(MOST_WAITING)
        self._number = 0
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        """Start to write."""
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Write the waiting events, within the timeout, and end."""
        try:
            self._waiting.put(None, timeout=timeout_s)
        except queue.Full:
            return
        self._thread.join(timeout_s)

    def put(self, events: Iterable[ClusterEvent]) -> None:
        """Queue events; never blocks."""
        for event in events:
            try:
                self._waiting.put_nowait(event)
            except queue.Full:
                self.dropped += 1

    def _run(self) -> None:
        while True:
            event = self._waiting.get()
            if event is None:
                return
            self._write(event)
            time.sleep(1 / MOST_PER_S)

    def _write(self, event: ClusterEvent) -> None:
        self._number += 1
        if not event.subject.uid:
            uid = self._uid_of(event.subject.kind, event.subject.namespace, event.subject.name)
            event = event._replace(subject=event.subject._replace(uid=uid))
        document = event_document(event, self._identity, f"{time.time_ns():x}.{self._number:x}")
        namespace = document["metadata"]["namespace"]
        try:
            self._api.json("POST", _EVENT.path_in(namespace), document)
        except KubernetesError as error:
            self.dropped += 1
            log.warning("event_dropped", subject=event.subject.name, reason=event.reason, error=str(error))


def event_document(event: ClusterEvent, identity: str, suffix: str) -> dict[str, Any]:
    """Return an event as a core/v1 object; events on objects without namespace live in `default`."""
    subject, now = event.subject, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    namespace = subject.namespace or "default"
    resource = BY_KIND[subject.kind]
    about = {"kind": resource.object_kind, "name": subject.name, "apiVersion": resource.api_version}
    about |= {key: value for key, value in {"namespace": subject.namespace, "uid": subject.uid}.items() if value}
    return _EVENT.type_meta | {
        "metadata": {"name": f"{subject.name}.{suffix}"[:253], "namespace": namespace},
        "involvedObject": about,
        "type": event.type,
        "reason": event.reason,
        "message": event.message[:1024],
        "source": {"component": COMPONENT, "host": identity},
        "reportingComponent": COMPONENT,
        "reportingInstance": identity[:128],
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
