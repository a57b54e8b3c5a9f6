"""One round of the loop: read the actuator's status and the cluster, ask the planner, carry out its decisions.

Decides the order of the steps. Acts only as leader, never in a dry run, and starts no deletion while the actuator's
clock differs too much. Asks only for decisions that the planner offers, and calls only RPCs that the actuator offers.
A failed step fails the round. Raises TrimtabError, KubernetesError.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import structlog
from google.protobuf.timestamp_pb2 import Timestamp
from opentelemetry import trace
from opentelemetry.context import Context

from trimtab.clients.actuator_client import ActuatorCalls
from trimtab.clients.decisions import failed_fields
from trimtab.clients.loop.capacity import ToldRequests, all_splits, target_reductions
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.loop.replacing import (
    REPLACEMENT,
    ReplacementMemory,
    in_progress,
    may_start,
    replacement_order,
)
from trimtab.common.kubernetes.kinds.nodes import NodeGroup
from trimtab.common.watched.cloud_groups import known_prices, with_cloud_settings
from trimtab.common.watched.snapshot_update import Observation, SnapshotUpdate
from trimtab.v1 import actuator_pb2, plan_pb2, reason_pb2

_tracer = trace.get_tracer("trimtab.loop")
log = structlog.get_logger("loop")

Decision = plan_pb2.Decision


class LoopCluster(Protocol):
    """The cluster as a round sees it: `trimtab.clients.live.LiveCluster`."""

    def next_update(self, groups: list[NodeGroup], status: actuator_pb2.ActuatorStatus | None = None) -> Observation:
        """Return the changes since the last call, or the whole cluster."""

    def forget(self) -> None:
        """Make the next `next_update` return the whole cluster."""

    def requeue(self) -> None:
        """Make the next `next_update` return the last changes again, plus those since."""


REFUSED_REPLACEMENT: Final = "replacement"
NO_REPLACEMENT: Final = (
    "the actuator replaces no nodes: it is too old, or another autoscaler sets the sizes (--serve-externalgrpc)"
)
MOST_NOTED = 5
"""Most incomplete groups of pod costs, and most buffers without status, that are noted in a round."""


class RoundRecorder(Protocol):
    """Records requests and answers of the planner."""

    def add(self, update: SnapshotUpdate, request: plan_pb2.PlanRequest, answer: plan_pb2.PlanResponse) -> None:
        """Record one round; its request continues from the state of the answer before."""


GroupCompletion = Callable[[tuple[NodeGroup, ...], actuator_pb2.ActuatorStatus | None], tuple[NodeGroup, ...]]


@dataclass(frozen=True)
class RoundSettings:
    """Settings of a round."""

    # Name of the cluster, for the planner's cache and logs.
    cluster: str = ""
    # Requested decisions; () = all that the planner offers.
    decisions: tuple[plan_pb2.Decision.Code.ValueType, ...] = ()
    plan: plan_pb2.PlanSettings = field(default_factory=plan_pb2.PlanSettings)
    # Node groups as declared; the actuator's data take precedence.
    groups: tuple[NodeGroup, ...] = ()
    # Decide, but carry nothing out.
    dry_run: bool = False
    # Have the actuator write pod deletion costs. Otherwise they are only in the answer.
    apply_pod_costs: bool = False
    # Ask for replacements, and have the actuator carry them out. Otherwise `decisions` says whether they are decided.
    replace: bool = False
    # Deletions are started only if the difference between our clock and the actuator's is at most this, seconds:
    # otherwise timers may be wrong, or a plan may seem older or newer than it is.
    max_clock_skew_s: float = 30.0
    # Completes the declared groups before each round, as by prices; also, in place, those of the status.
    complete_groups: GroupCompletion = lambda groups, _status: groups
    # Completes the settings of plans after the groups, as by what NodePools ask.
    complete_settings: Callable[[plan_pb2.PlanSettings], plan_pb2.PlanSettings] = lambda settings: settings


@dataclass
class RoundResult:
    """The result of a round. `request`, `answer` : of the planner; `status` : of the actuator, None = there is none;
    `was_delta` : whether a delta was enough.
    """

    request: plan_pb2.PlanRequest
    answer: plan_pb2.PlanResponse
    status: actuator_pb2.ActuatorStatus | None
    was_delta: bool
    # How far the actuator's clock is at least ahead of ours, seconds; negative = behind. None = not known.
    clock_skew_s: float | None = None
    # Nodes whose deletion has started, and node groups that the cloud has grown.
    accepted: list[str] = field(default_factory=list)
    grown: list[str] = field(default_factory=list)
    # Answers to ProvisioningRequests that were told in this round.
    told_requests: list[plan_pb2.CapacityRequestAnswer] = field(default_factory=list)
    # Nodes whose replacement has started.
    replaced: list[str] = field(default_factory=list)
    # Nodes and node groups that were refused, and why; a replacement is `REFUSED_REPLACEMENT`.
    refused: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    # Kinds that the API server does not know.
    absent: tuple[str, ...] = ()
    # Hourly price of a node by node group, where known.
    prices: dict[str, float] = field(default_factory=dict)


class RoundRunner:
    """Makes rounds over one cluster, planner and actuator. `actuator` None = decide only."""

    def __init__(
        self,
        cluster: LoopCluster,
        planner: PlannerSession,
        actuator: ActuatorCalls | None,
        settings: RoundSettings,
        recorder: RoundRecorder | None = None,
    ) -> None:
        self._cluster, self._planner, self._actuator = cluster, planner, actuator
        self._settings, self._recorder = settings, recorder
        # The declared groups with their prices, as of the round.
        self._groups = settings.groups
        # Owners whose pods got costs in the last round; None = not known, an earlier process may have written some.
        self._ranked_owners: frozenset[str] | None = None
        # The status of CapacityBuffers as last written.
        self._told_buffers: list[plan_pb2.SlackObject] = []
        self._told_requests = ToldRequests()
        self._ended_replacements = ReplacementMemory()

    def run(self, request_id: str, now: Timestamp, may_act: Callable[[], bool]) -> RoundResult:
        """Make one round, in a trace of its own. `may_act` is called just before each order."""
        attributes = {"trimtab.request_id": request_id, "trimtab.cluster": self._settings.cluster}
        with _tracer.start_as_current_span("round", Context(), attributes=attributes):
            return self._run(request_id, now, may_act)

    def _run(self, request_id: str, now: Timestamp, may_act: Callable[[], bool]) -> RoundResult:
        begun_s = time.monotonic()
        status = self._actuator.get_status(with_instances=True) if self._actuator is not None else None
        skew_s = _skew_s(status, now, time.monotonic() - begun_s)
        self._groups = self._settings.complete_groups(self._settings.groups, status)
        decisions = self._decisions(status)
        self._ended_replacements.tell(self._planner, status, self._settings.plan.replacement)
        seen = self._take(status)
        request = plan_pb2.PlanRequest(
            request_id=request_id,
            cluster=self._settings.cluster,
            decisions=decisions,
            now=now,
            settings=with_cloud_settings(self._settings.complete_settings(self._settings.plan), status),
        )
        try:
            answer, sent = self._planner.plan(request, seen.update, lambda: self._whole(status))
        except Exception:
            # The changes must be sent again. They are enough if the planner still has their base.
            if self._planner.has_base:
                self._cluster.requeue()
            else:
                self._cluster.forget()
            raise
        done = RoundResult(
            request, answer, status, sent.delta is not None, skew_s, notes=[*seen.notes], absent=seen.absent
        )
        done.prices = known_prices(self._groups, status)
        self._record(sent, done)
        leave_out_failed(done)
        if self._actuator is not None and not self._settings.dry_run:
            self._act(self._actuator, done, may_act)
        return done

    def _record(self, sent: SnapshotUpdate, done: RoundResult) -> None:
        """Record the round; a full disk ends the recording, not the loop."""
        if self._recorder is None:
            return
        try:
            self._recorder.add(sent, done.request, done.answer)
        except OSError as error:
            self._recorder = None
            done.notes.append(f"the recording ends here, it can no longer be written: {error}")
            log.error("recording_ended", error=str(error))

    def resume(self, state: plan_pb2.PlanState | None) -> None:
        """Continue from the state of another loop or an earlier process; None = without state."""
        self._planner.resume(state)

    def shift_timers(self, by_s: float) -> None:
        """Shift the timers of nodes by a step of the wall clock."""
        self._planner.shift_timers(by_s)

    def _take(self, status: actuator_pb2.ActuatorStatus | None) -> Observation:
        return self._cluster.next_update(list(self._groups), status)

    def _whole(self, status: actuator_pb2.ActuatorStatus | None) -> SnapshotUpdate:
        self._cluster.forget()
        return self._take(status).update

    def _decisions(self, status: actuator_pb2.ActuatorStatus | None) -> list[plan_pb2.Decision.Code.ValueType]:
        """Return the decisions to ask for: those requested and offered; no second replacement."""
        offered = self._planner.decisions()
        wanted = self._settings.decisions or tuple(one for one in offered if one != REPLACEMENT)
        if self._settings.replace and REPLACEMENT not in wanted:
            wanted = (*wanted, REPLACEMENT)
        if in_progress(status):
            wanted = tuple(one for one in wanted if one != REPLACEMENT)
        missing = [plan_pb2.Decision.Code.Name(one) for one in wanted if one not in offered]
        if missing:
            log.warning("decisions_not_offered", decisions=missing)
        return [one for one in wanted if one in offered]

    def _act(self, actuator: ActuatorCalls, done: RoundResult, may_act: Callable[[], bool]) -> None:
        """Send the orders of the plan that the actuator supports; growth first, as pods wait for it."""
        takes = set(actuator.get_info().rpcs)
        answer = done.answer
        ranks = self._settings.apply_pod_costs and answer.HasField("pod_costs")
        steps: list[tuple[str, bool, Callable[[], None]]] = [
            ("ScaleUp", bool(all_splits(answer)), lambda: self._grow(actuator, done)),
            ("LowerTargets", bool(target_reductions(answer, done.status)), lambda: self._lower(actuator, done)),
            (
                "ApplyCapacityStatus",
                answer.HasField("capacity_requests"),
                lambda: self._tell_requests(actuator, done),
            ),
            ("StartDeletion", _removes(answer), lambda: self._remove(actuator, done)),
            (
                "StartReplacement",
                self._settings.replace and may_start(answer, done.status),
                lambda: self._replace(actuator, done),
            ),
            (
                "ApplyTaints",
                answer.HasField("scale_down"),
                lambda: _ignore(actuator.apply_taints(soft_tainted(answer))),
            ),
            ("ApplyPodCosts", ranks, lambda: self._rank(actuator, done)),
            ("ApplyBufferStatus", answer.HasField("slack"), lambda: self._tell_buffers(actuator, done)),
        ]
        for rpc, is_due, step in steps:
            if is_due and rpc == "StartReplacement" and rpc not in takes:
                done.notes.append(NO_REPLACEMENT)
            if not is_due or rpc not in takes or (rpc.startswith("Start") and self._clocks_differ(done)):
                continue
            if not may_act():
                done.notes.append(f"{rpc} is left to the new leader")
                return
            step()

    def _rank(self, actuator: ActuatorCalls, done: RoundResult) -> None:
        """Have the actuator write costs, and remove those of owners that are no longer ranked."""
        groups = done.answer.pod_costs.groups
        owners = frozenset(group.owner for group in groups)
        known = self._ranked_owners
        others = known is None or not known <= owners
        if not groups and not others:
            return
        answer = actuator.apply_pod_costs(groups, done.request.now, others)
        # Costs left because of the limit of one call are removed by a later one.
        self._ranked_owners = None if others and answer.left_count else owners
        for one in answer.incomplete[:MOST_NOTED]:
            done.notes.append(
                f"{one.owner}: {one.ranked_count} of {one.pod_count} pods got their deletion cost: {one.detail}"
            )

    def _tell_buffers(self, actuator: ActuatorCalls, done: RoundResult) -> None:
        """Have the actuator write the status of CapacityBuffers where it has changed since the last round."""
        buffers = [one for one in done.answer.slack.objects if one.object.startswith("CapacityBuffer/")]
        if buffers == self._told_buffers or not buffers:
            return
        answer = actuator.apply_buffer_status(buffers)
        self._told_buffers = [] if answer.left_count or answer.failed_count else buffers
        for failure in answer.failures[:MOST_NOTED]:
            done.notes.append(f"the status of a CapacityBuffer is not written: {failure}")

    def _tell_requests(self, actuator: ActuatorCalls, done: RoundResult) -> None:
        """Have the actuator write the conditions of ProvisioningRequests where they have changed."""
        decision = done.answer.capacity_requests
        self._told_requests.forget_others(decision)
        due = self._told_requests.due(decision, set(done.refused))
        if due:
            failures = self._told_requests.tell(actuator, due)
            done.told_requests.extend(due)
            for failure in failures[:MOST_NOTED]:
                done.notes.append(f"the conditions of a ProvisioningRequest are not written: {failure}")

    def _clocks_differ(self, done: RoundResult) -> bool:
        """Return whether the clocks differ too much to delete nodes, and log it."""
        skew_s, limit_s = done.clock_skew_s, self._settings.max_clock_skew_s
        if skew_s is None or abs(skew_s) <= limit_s:
            return False
        log.error("clock_skew", skew_s=round(skew_s, 3), limit_s=limit_s, effect="no deletion is started")
        side = "ahead of" if skew_s > 0 else "behind"
        note = (
            f"no deletion is started: the actuator's clock is {abs(skew_s):.0f} s {side} this loop's, more than "
            f"{limit_s:.0f} s; synchronize both"
        )
        done.notes += [note] if note not in done.notes else []
        return True

    def _replace(self, actuator: ActuatorCalls, done: RoundResult) -> None:
        """Start the first wave of the replacements."""
        order = replacement_order(done.request, done.answer, done.prices)
        answer = actuator.start_replacement(order)
        if answer.accepted:
            done.replaced.extend(one.node for one in order.wave.leaving)
        else:
            reason = reason_pb2.ReplacementReason.Code.Name(answer.reason)
            done.refused[REFUSED_REPLACEMENT] = f"{reason} {answer.detail}".rstrip()

    def _grow(self, actuator: ActuatorCalls, done: RoundResult) -> None:
        for split in actuator.scale_up(done.request.request_id, all_splits(done.answer)).splits:
            if split.accepted:
                done.grown.append(split.node_group)
            else:
                reason = reason_pb2.GrowthReason.Code.Name(split.reason)
                done.refused[split.node_group] = f"{reason} {split.detail}".rstrip()

    def _lower(self, actuator: ActuatorCalls, done: RoundResult) -> None:
        """Give up ordered nodes that no gang and no ProvisioningRequest can use any longer."""
        wanted = target_reductions(done.answer, done.status)
        answers = actuator.lower_targets(done.request.request_id, wanted).reductions
        for one, answer in zip(wanted, answers, strict=True):
            change = f"the target size of {one.node_group} from {one.current_size} to {one.new_size}"
            if answer.accepted:
                done.notes.append(
                    f"lowered {change}: the nodes still to come were for gangs that cannot be placed whole"
                )
            else:
                reason = reason_pb2.GrowthReason.Code.Name(answer.reason)
                done.notes.append(f"did not lower {change}: {reason} {answer.detail}".rstrip())

    def _remove(self, actuator: ActuatorCalls, done: RoundResult) -> None:
        for node in actuator.start_deletion(deletion_order(done.request, done.answer)).nodes:
            if node.accepted:
                done.accepted.append(node.node)
            else:
                done.refused[node.node] = f"{reason_pb2.DeletionReason.Code.Name(node.reason)} {node.detail}".rstrip()


def leave_out_failed(done: RoundResult) -> None:
    """Remove the results of failed decisions from the answer, so that no order follows from them; note each."""
    for name in failed_fields(done.answer):
        field: Any = name
        done.notes.append(f"{name.replace('_', '-')} failed: {getattr(done.answer, field).detail}")
        done.answer.ClearField(field)


def _skew_s(status: actuator_pb2.ActuatorStatus | None, now: Timestamp, elapsed_s: float) -> float | None:
    """Return the least difference of clocks that explains a status's time. By our clock, the status was made between
    `now` and `elapsed_s` later.
    """
    if status is None or not status.HasField("time"):
        return None
    ahead_s = (status.time.ToNanoseconds() - now.ToNanoseconds()) / 1e9
    if ahead_s < 0:
        return ahead_s
    return max(0.0, ahead_s - elapsed_s)


def _removes(answer: plan_pb2.PlanResponse) -> bool:
    return bool(answer.scale_down.delete_empty or answer.scale_down.drain or answer.capacity_requests.release.nodes)


def _ignore(_answer: object) -> None:
    """Ignore an answer: the actuator logs and counts its own writes."""


def deletion_order(request: plan_pb2.PlanRequest, answer: plan_pb2.PlanResponse) -> actuator_pb2.StartDeletionRequest:
    """Return the nodes to remove now, with the plan's assumptions and limits. Nodes that are given back have no pods to
    move: the actuator refuses one that has meanwhile."""
    decision, limits = answer.scale_down, request.settings.scale_down
    unneeded = {node.node: node for node in decision.unneeded}
    drained = set(decision.drain)
    going = {*decision.delete_empty, *decision.drain}
    give_back = [node for node in answer.capacity_requests.release.nodes if node not in going]
    return actuator_pb2.StartDeletionRequest(
        request_id=request.request_id,
        nodes=[
            actuator_pb2.NodeToDelete(
                node=node,
                drain=node in drained,
                assumption=unneeded[node].assumption,
                gang=unneeded[node].gang if node in drained else "",
            )
            for node in (*decision.delete_empty, *decision.drain)
        ]
        + [actuator_pb2.NodeToDelete(node=node) for node in give_back],
        plan_time=request.now,
        snapshot_version=answer.snapshot_version,
        max_parallelism=limits.max_scale_down_parallelism,
        max_drain_parallelism=limits.max_drain_parallelism,
    )


def soft_tainted(answer: plan_pb2.PlanResponse) -> list[str]:
    """Return the nodes that get the soft taint: unneeded ones that are not deleted now."""
    decision = answer.scale_down
    going = {*decision.delete_empty, *decision.drain}
    return [one.node for one in decision.unneeded if one.node not in going]
