"""The tracker: `handle(event, now_ms)` changes the data and returns the instructions that follow.

Decides how a deletion continues. Never reads a clock, acts or logs: `now_ms` (Unix milliseconds) comes with each event,
and a replay of the same events gives the same data, byte for byte.
Instructions are in the order of the event, then by node.
"""

from collections.abc import Callable
from sys import intern
from typing import Any

import msgspec

from trimtab.actuator.tracker import deletion_steps, groups, replacements
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker import instructions as i
from trimtab.actuator.tracker.deletion_steps import (
    apply,
    check_deletion,
    instruction_of,
    next_state,
)
from trimtab.actuator.tracker.states import (
    FINAL_STATES,
    CloudDeletionCall,
    Deletion,
    GrowthRecord,
    NodeAnswer,
    PodRef,
    Reason,
    RequestRecord,
    Retention,
    State,
    TrackedEviction,
    TrackerData,
)
from trimtab.actuator.tracker.transitions import ImpossibleEventError

_data_decoder: msgspec.json.Decoder[TrackerData] = msgspec.json.Decoder(TrackerData)


class Tracker:
    """All deletions, recent evictions and answered requests. Not thread-safe; the event processor is."""

    def __init__(self, retention: Retention | None = None, data: TrackerData | None = None) -> None:
        self.retention = retention or Retention()
        self.data = data or TrackerData()
        self._handlers: dict[type[e.Event], Callable[[Any, int], list[i.Instruction]]] = {
            e.SetAccepted: self._set_accepted,
            e.SetTainted: self._set_tainted,
            e.SetFailed: self._set_failed,
            e.InstancesAccepted: self._instances_accepted,
            e.GrowthRequested: self._growth_requested,
            e.GrowthAnswered: self._growth_answered,
            e.GroupFailed: self._group_event,
            e.NodesAwaited: self._group_event,
            e.NodesJoined: self._group_event,
            e.GroupBackedOff: self._group_event,
            e.GroupRecovered: self._group_event,
            e.RegistrationNoted: self._group_event,
            e.NodeTypesSeen: self._group_event,
            e.ClockJumped: self._clock_jumped,
            e.NodesCounted: self._hour_event,
            e.TimeNoted: self._hour_event,
            e.AbsenceEnded: self._hour_event,
        }

    def handle(self, event: e.Event, now_ms: int) -> list[i.Instruction]:
        """Handle one event. Raises `ImpossibleEventError`, and leaves the data unchanged, if it is impossible."""
        handler = self._handlers.get(type(event))
        if handler is not None:
            instructions = handler(event, now_ms)
        elif isinstance(event, e.ReplacementEvent):
            instructions = replacements.handle(self.data, event, now_ms)
        else:
            assert isinstance(event, e.NodeEvent)
            instructions = self._node_event(event, now_ms)
        self.data.revision += 1
        self.data.time_ms = now_ms
        self._forget(now_ms)
        return instructions

    def resume(self) -> list[i.Instruction]:
        """Return the instructions for everything in progress after a restart, sorted by node."""
        instructions: list[i.Instruction] = []
        for record in self.data.requests.values():
            if not record.settled:
                instructions.append(self._write_taints(record.request_id))
        for _, deletion in sorted(self.data.deletions.items()):
            if deletion.state is not State.PLANNED:
                instructions.append(self._instruction(deletion))
        for growth in self.data.growths.values():
            if growth.answers is None:
                instructions.append(i.Grow(growth.request_id, growth.growths, growth.time_ms))
        return instructions + replacements.resume(self.data)

    def planned_nodes(self, request_id: str) -> tuple[str, ...]:
        """Return the nodes of a request that wait for the taint, sorted."""
        return tuple(
            sorted(
                deletion.node
                for deletion in self.data.deletions.values()
                if deletion.request_id == request_id and deletion.state is State.PLANNED
            )
        )

    def cancellable(self, node: str) -> bool:
        """Return whether a node's deletion is in progress and can still be cancelled."""
        deletion = self.data.deletions.get(node)
        return deletion is not None and deletion.state in (State.TAINTED, State.DRAINING, State.DRAINED)

    def is_cancelled(self, node: str) -> bool:
        """Return whether the last recorded deletion of a node was cancelled."""
        deletion = self.data.deletions.get(node)
        if deletion is not None:
            return deletion.state is State.ROLLING_BACK and deletion.ending is State.CANCELLED
        last = next((deletion for deletion in reversed(self.data.finished) if deletion.node == node), None)
        return last is not None and last.state is State.CANCELLED

    def latest_ms(self) -> int:
        """Return the latest stored time; 0 = none."""
        data = self.data
        deletions = (deletion.state_ms for deletion in (*data.deletions.values(), *data.finished))
        requests = (request.time_ms for request in data.requests.values())
        growths = (growth.time_ms for growth in data.growths.values())
        evictions = (eviction.time_ms for eviction in data.evictions.values())
        calls = (call.time_ms for call in data.cloud_deletion_calls)
        return max(
            (groups.latest_ms(data), replacements.latest_ms(data), *deletions, *requests, *growths, *evictions, *calls)
        )

    def dump(self) -> bytes:
        """Return all data as JSON; `load` reads it."""
        return msgspec.json.encode(self.data, order="deterministic")

    @classmethod
    def load(cls, dump: bytes, retention: Retention | None = None) -> "Tracker":
        """Build a tracker from the data of `dump`. Raises `msgspec.DecodeError` when it is damaged."""
        data = _data_decoder.decode(dump)
        for deletion in data.deletions.values():
            deletion.pods = {pod.uid: pod.compact() for pod in deletion.pods.values()}
            deletion.evicted = {deletion.pods[uid].uid if uid in deletion.pods else uid for uid in deletion.evicted}
        evictions, data.evictions = data.evictions, {}
        for uid in list(evictions):
            # Removed one by one, so that the memory of each can be reused for the next.
            eviction = evictions.pop(uid)
            pod, node = _kept_once(data, eviction.pod, eviction.node)
            data.evictions[pod.uid] = TrackedEviction(pod, node, eviction.time_ms)
        return cls(retention, data)

    def check_invariants(self) -> None:
        """Raise AssertionError if the data contradicts itself."""
        data = self.data
        for node, deletion in data.deletions.items():
            assert deletion.node == node
            assert deletion.state not in FINAL_STATES, f"{node}: {deletion.state.name} but in progress"
            assert deletion.request_id in data.requests, f"{node}: request {deletion.request_id} is unknown"
            settled = data.requests[deletion.request_id].settled
            assert settled == (deletion.state is not State.PLANNED), f"{node}: its set is torn"
        for deletion in data.finished:
            assert deletion.state in FINAL_STATES, f"{deletion.node}: {deletion.state.name} but finished"
        for deletion in (*data.deletions.values(), *data.finished):
            check_deletion(deletion)
        for record in data.requests.values():
            assert record.settled or self.planned_nodes(record.request_id), f"{record.request_id}: waits for nothing"
        deletion_steps.check(data)
        replacements.check(data)

    def _set_accepted(self, event: e.SetAccepted, now_ms: int) -> list[i.Instruction]:
        data = self.data
        if any(deletion.request_id == event.request_id for deletion in data.deletions.values()):
            raise ImpossibleEventError(f"request {event.request_id} was accepted twice")
        busy = [planned.node for planned in event.nodes if planned.node in data.deletions]
        if busy:
            raise ImpossibleEventError(f"{', '.join(busy)}: accepted although in progress")
        replacements.note_accepted(data, event)
        data.epoch = max(data.epoch, event.epoch)
        data.requests.pop(event.request_id, None)
        data.requests[event.request_id] = RequestRecord(
            event.request_id, event.digest, now_ms, event.answers, settled=not event.nodes
        )
        for planned in event.nodes:
            data.deletions[planned.node] = Deletion(
                node=planned.node,
                node_group=planned.node_group,
                drain=planned.drain,
                request_id=event.request_id,
                start_ms=now_ms,
                state_ms=now_ms,
                drain_timeout_s=event.drain_timeout_s if planned.drain_timeout_s is None else planned.drain_timeout_s,
                planned_uids=planned.planned_uids,
                gpu=planned.gpu,
                provider_id=planned.provider_id,
                node_uid=planned.node_uid,
                gang=planned.gang,
            )
        if not event.nodes:
            return []
        return [self._write_taints(event.request_id)]

    def _write_taints(self, request_id: str) -> i.WriteTaints:
        nodes = self.planned_nodes(request_id)
        return i.WriteTaints(request_id, nodes, tuple(self.data.deletions[node].node_uid for node in nodes))

    def _settle(self, event: e.SetTainted | e.SetFailed) -> tuple[RequestRecord, tuple[str, ...]]:
        """Mark the request of an event as settled; return it and its nodes, or no nodes if it was settled before."""
        record = self.data.requests.get(event.request_id)
        if record is None:
            raise ImpossibleEventError(f"request {event.request_id} is unknown")
        nodes = self.planned_nodes(event.request_id)
        record.settled = True
        return record, nodes

    def _set_tainted(self, event: e.SetTainted, now_ms: int) -> list[i.Instruction]:
        _, nodes = self._settle(event)
        deletions = [self.data.deletions[node] for node in nodes]
        for deletion in deletions:
            deletion.tainted_ms = now_ms
            self._move(deletion, next_state(deletion.state, event), now_ms)
        # Empty nodes first: they do not wait for pods.
        return [self._instruction(deletion) for deletion in sorted(deletions, key=lambda d: (d.drain, d.node))]

    def _set_failed(self, event: e.SetFailed, now_ms: int) -> list[i.Instruction]:
        record, nodes = self._settle(event)
        answers = {answer.node: answer for answer in record.answers}
        instructions: list[i.Instruction] = []
        for node in nodes:
            deletion = self.data.deletions[node]
            failed_node = node == event.node
            deletion.reason = Reason.FAILED_TO_MARK_TO_BE_DELETED if failed_node else Reason.SET_ROLLED_BACK
            deletion.detail = event.detail if failed_node else f"{event.node} could not be tainted"
            deletion.ending = State.FAILED
            answers[node] = NodeAnswer(node, False, deletion.reason, deletion.detail)
            self._move(deletion, next_state(deletion.state, event), now_ms)
            instructions.append(instruction_of(deletion))
        record.answers = tuple(answers[answer.node] for answer in record.answers)
        return instructions

    def _instances_accepted(self, event: e.InstancesAccepted, now_ms: int) -> list[i.Instruction]:
        """Begin with the call to the cloud: taint and drain were the other autoscaler's."""
        data = self.data
        busy = [planned.node for planned in event.nodes if planned.node in data.deletions]
        if busy or event.request_id in data.requests:
            raise ImpossibleEventError(f"{event.request_id}: accepted twice, or in progress: {', '.join(busy)}")
        answers = tuple(NodeAnswer(node.node, True, node_group=node.node_group) for node in event.nodes)
        data.requests[event.request_id] = RequestRecord(event.request_id, "", now_ms, answers, settled=True)
        instructions: list[i.Instruction] = []
        for planned in sorted(event.nodes, key=lambda node: node.node):
            deletion = Deletion(
                node=planned.node,
                node_group=planned.node_group,
                drain=False,
                request_id=event.request_id,
                start_ms=now_ms,
                state_ms=now_ms,
                drain_timeout_s=0.0,
                state=State.DELETING,
                gpu=planned.gpu,
                provider_id=planned.provider_id,
                node_uid=planned.node_uid,
                drained_by_caller=planned.tainted,
                tainted_ms=now_ms,
                begun_ms=now_ms,
            )
            data.cloud_deletion_calls.append(CloudDeletionCall(planned.node, now_ms))
            data.deletions[planned.node] = deletion
            instructions.append(instruction_of(deletion))
        groups.note_deletions(data, event, now_ms)
        return instructions

    def _node_event(self, event: e.NodeEvent, now_ms: int) -> list[i.Instruction]:
        deletion = self.data.deletions.get(event.node)
        if deletion is None:
            if isinstance(event, e.PodsEvicted | e.CancelRequested):
                self._record_evictions(event, now_ms)
                return []
            raise ImpossibleEventError(f"{type(event).__name__}: {event.node} is not being deleted")
        target = next_state(deletion.state, event)
        self._record_evictions(event, now_ms)
        if target is None:
            if isinstance(event, e.PodsEvicted):
                apply(deletion, event, now_ms)
            return []
        if isinstance(event, e.DeleteBegun):
            self.data.cloud_deletion_calls.append(CloudDeletionCall(deletion.node, now_ms))
        if isinstance(event, e.RolledBack):
            target = deletion.ending or State.FAILED
        together = (
            deletion_steps.nodes_of_gang(self.data, deletion)
            if deletion_steps.waits_for_gang(self.data, deletion)
            else []
        )
        apply(deletion, event, now_ms)
        if target is deletion.state:
            return []
        self._move(deletion, target, now_ms)
        if together:
            return self._gang_event(deletion, together, event, now_ms)
        # The task that reported the start of the drain continues by itself.
        if target in FINAL_STATES or target is State.DRAINING:
            return []
        return [self._instruction(deletion)]

    def _gang_event(
        self, deletion: Deletion, together: list[Deletion], event: e.NodeEvent, now_ms: int
    ) -> list[i.Instruction]:
        """Return what follows if a node of a gang that waited has begun its drain, or has ended: then all nodes end."""
        if deletion.state is State.DRAINING:
            waits = deletion_steps.waits_for_gang(self.data, deletion)
            return [] if waits else [i.EvictPods(one.node) for one in together]
        for other in together:
            if other is not deletion:
                self._move(other, deletion_steps.end_with(other, deletion, event, now_ms), now_ms)
        return [self._instruction(one) for one in together if one.state not in FINAL_STATES]

    def _instruction(self, deletion: Deletion) -> i.Instruction:
        return instruction_of(deletion, deletion_steps.waits_for_gang(self.data, deletion))

    def _move(self, deletion: Deletion, target: State | None, now_ms: int) -> None:
        assert target is not None
        deletion.state = target
        deletion.state_ms = now_ms
        if target in FINAL_STATES:
            del self.data.deletions[deletion.node]
            # The record of an ended deletion does without these.
            deletion.planned_uids, deletion.pods, deletion.evicted = None, {}, set()
            self.data.finished.append(deletion)
            if target is State.DELETED:
                # A machine that comes under the same provider id has its own time to register.
                self.data.unregistered.pop(deletion.provider_id, None)
            replacements.note_ended(self.data, deletion)
            _renew(self.data.requests, deletion.request_id, now_ms)

    def _record_evictions(self, event: e.Event, now_ms: int) -> None:
        if isinstance(event, e.PodsEvicted):
            for reported in event.pods:
                pod, node = _kept_once(self.data, reported, event.node)
                self.data.evictions.setdefault(pod.uid, TrackedEviction(pod, node, now_ms))

    def _growth_requested(self, event: e.GrowthRequested, now_ms: int) -> list[i.Instruction]:
        known = self.data.growths.pop(event.request_id, None)
        if known is not None and known.answers is None:
            self.data.growths[event.request_id] = known
            raise ImpossibleEventError(f"growth {event.request_id} was requested twice")
        self.data.epoch = max(self.data.epoch, event.epoch)
        record = GrowthRecord(event.request_id, event.digest, now_ms, event.growths)
        self.data.growths[event.request_id] = record
        growing = {growth.node_group for growth in event.growths if not growth.is_reduction}
        ended: set[str] = set()
        for deletion in self.data.deletions.values():
            if deletion.state is State.DELETING and deletion.node_group in growing:
                deletion.group_grew = True
                ended.add(deletion.node_group)
        return [*map(i.EndRepeats, sorted(ended)), i.Grow(event.request_id, event.growths, now_ms)]

    def _growth_answered(self, event: e.GrowthAnswered, now_ms: int) -> list[i.Instruction]:
        record = self.data.growths.get(event.request_id)
        if record is None:
            raise ImpossibleEventError(f"growth {event.request_id} is unknown")
        if record.answers is None:
            record.answers = event.answers
            _renew(self.data.growths, event.request_id, now_ms)
            groups.note_growth(self.data, event, now_ms)
            replacements.note_answered(self.data, event, now_ms)
        return []

    def _hour_event(self, event: e.Event, now_ms: int) -> list[i.Instruction]:
        groups.handle_hour(self.data, event, now_ms)
        return []

    def _group_event(self, event: e.Event, now_ms: int) -> list[i.Instruction]:
        groups.handle(self.data, event, now_ms)
        return []

    def _clock_jumped(self, event: e.ClockJumped, _now_ms: int) -> list[i.Instruction]:
        """Shift all times: ages stay as they were before the jump."""
        data, by_ms = self.data, event.by_ms
        for deletion in (*data.deletions.values(), *data.finished):
            deletion.start_ms += by_ms
            deletion.state_ms += by_ms
            if deletion.tainted_ms:
                deletion.tainted_ms += by_ms
            if deletion.drain_deadline_ms:
                deletion.drain_deadline_ms += by_ms
            if deletion.begun_ms:
                deletion.begun_ms += by_ms
        groups.move_hour(data, by_ms)
        for request in data.requests.values():
            request.time_ms += by_ms
        for growth in data.growths.values():
            growth.time_ms += by_ms
        groups.move_times(data, by_ms)
        replacements.move_times(data, by_ms)
        data.evictions = {
            uid: TrackedEviction(eviction.pod, eviction.node, eviction.time_ms + by_ms)
            for uid, eviction in data.evictions.items()
        }
        data.jump_count += 1
        return []

    def _forget(self, now_ms: int) -> None:
        """Delete records older than the retention."""
        data = self.data
        finished_before = now_ms - int(self.retention.finished_s * 1000)
        answered_before = now_ms - int(max(self.retention.finished_s, self.retention.answers_s) * 1000)
        evicted_before = now_ms - int(self.retention.evictions_s * 1000)
        groups.forget_hour(data, now_ms)
        while data.finished and data.finished[0].state_ms < finished_before:
            data.finished.pop(0)
        while data.evictions:
            uid, oldest = next(iter(data.evictions.items()))
            if oldest.time_ms >= evicted_before:
                break
            del data.evictions[uid]
        groups.forget(data, now_ms)
        replacements.forget(data, answered_before)
        for request_id in _old(data.requests, answered_before):
            if not any(d.request_id == request_id for d in data.deletions.values()):
                del data.requests[request_id]
        for request_id in _old(data.growths, answered_before):
            if data.growths[request_id].answers is not None:
                del data.growths[request_id]


def _kept_once(data: TrackerData, pod: PodRef, node: str) -> tuple[PodRef, str]:
    """Return the pod and node objects of the deletion that are equal to these, so that they are not stored twice."""
    deletion = data.deletions.get(node)
    if deletion is None:
        return pod.compact(), intern(node)
    known = deletion.pods.get(pod.uid)
    return known if known == pod else pod.compact(), deletion.node


def _renew(records: dict[str, Any], request_id: str, now_ms: int) -> None:
    """Count the age of a record from now on, in place; records stay in order of time."""
    if request_id in records:
        record = records.pop(request_id)
        record.time_ms = now_ms
        records[request_id] = record


def _old(records: dict[str, Any], before_ms: int) -> list[str]:
    """Return ids of records made before `before_ms`. Records are in order of time, so the search stops early."""
    instructions = []
    for request_id, record in records.items():
        if record.time_ms >= before_ms:
            break
        instructions.append(request_id)
    return instructions
