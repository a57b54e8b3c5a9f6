"""StartReplacement and CancelReplacement.

Decides whether a replacement begins: once nothing stands against it by the plan's assumptions, the groups' sizes and
the limits; `trimtab.actuator.replacements` carries it out. It is answered once that is recorded.
"""

from collections.abc import Sequence
from typing import NamedTuple

import grpc
import structlog

from trimtab.actuator.cloud.provider import CloudError, CloudProvider, NodeGroupView
from trimtab.actuator.runner.event_processor import EventProcessor
from trimtab.actuator.runner.observe import observe
from trimtab.actuator.runner.tasks import TaskContext
from trimtab.actuator.service.deletions import Deletions
from trimtab.actuator.service.settings import ActuatorSettings
from trimtab.actuator.service.validation import (
    check_epoch,
    check_replacement,
    check_request_ids,
    check_same,
    departing_nodes,
    digest_request,
    ready_timeout_s,
    wanted_nodes,
)
from trimtab.actuator.tracker.admission import AdmissionFacts, DecisionTime, admit, pending_nodes, request_of
from trimtab.actuator.tracker.events import Event, ReplacementAccepted, ReplacementCancelled
from trimtab.actuator.tracker.replacement_states import (
    DepartingNode,
    LeavingState,
    ReplacementReason,
    TrackedReplacement,
    WantedNode,
    WaveStage,
)
from trimtab.actuator.tracker.replacements import TOLERANCE
from trimtab.actuator.tracker.states import Reason, TrackerData
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.common.rpc.errors import Reason as ErrorReason
from trimtab.common.rpc.errors import ServiceError
from trimtab.v1 import actuator_pb2, reason_pb2
from trimtab.v1.actuator_pb2 import StartReplacementResponse

log = structlog.get_logger("replacements")

_PLAN_REASONS = {
    Reason.PLAN_TOO_OLD: ReplacementReason.REPLACEMENT_PLAN_TOO_OLD,
    Reason.PLAN_AHEAD: ReplacementReason.REPLACEMENT_PLAN_AHEAD,
    Reason.PLAN_TIME_REQUIRED: ReplacementReason.REPLACEMENT_PLAN_INCOMPLETE,
    Reason.ASSUMPTION_REQUIRED: ReplacementReason.REPLACEMENT_PLAN_INCOMPLETE,
}


class _WaveFacts(NamedTuple):
    """A request as the tracker needs it, with the observed cluster. `prices` : by node group."""

    new_nodes: tuple[WantedNode, ...]
    leaving: tuple[DepartingNode, ...]
    prices: dict[str, float]
    nodes: AdmissionFacts
    groups: dict[str, NodeGroupView]


class ReplacementOrders:
    """Starts and cancels replacements."""

    def __init__(
        self, processor: EventProcessor, context: TaskContext, settings: ActuatorSettings, deletions: Deletions
    ) -> None:
        self._processor, self._context, self._settings, self._deletions = processor, context, settings, deletions

    def start(self, request: actuator_pb2.StartReplacementRequest) -> StartReplacementResponse:
        """Begin a replacement, or return that it has begun."""
        check_replacement(request)
        request_id, digest = request.request_id, digest_request(request)
        if self._processor.read(lambda tracker, _: _is_known(tracker, request_id, digest)):
            return StartReplacementResponse(accepted=True)
        self._check_may_order()
        facts = self._observe(request)
        answers: list[StartReplacementResponse] = []

        def proposal(tracker: Tracker, now_ms: int) -> Event | None:
            if _is_known(tracker, request_id, digest):
                answers.append(StartReplacementResponse(accepted=True))
                return None
            check_epoch(request.epoch, tracker.data)
            answers.append(self._decide(tracker.data, request, facts, now_ms))
            if not answers[-1].accepted:
                return None
            return ReplacementAccepted(
                request_id,
                digest,
                facts.new_nodes,
                facts.leaving,
                _planned_saving(facts),
                request.min_saving_per_hour,
                ready_timeout_s(request),
                tuple(sorted(facts.prices.items())),
                request.epoch,
            )

        self._processor.propose(proposal)
        answer = answers[-1]
        log.info(
            "replacement decided",
            request_id=request_id,
            accepted=answer.accepted,
            reason=reason_pb2.ReplacementReason.Code.Name(answer.reason),
            detail=answer.detail,
            leaving=len(facts.leaving),
            new=len(facts.new_nodes),
            snapshot_version=request.snapshot_version,
        )
        return answer

    def _check_may_order(self) -> None:
        """Raise ServiceError where another autoscaler sets the sizes: it would take ordered nodes for its own."""
        if self._settings.groups.sized_by_caller:
            raise ServiceError(
                grpc.StatusCode.UNIMPLEMENTED,
                ErrorReason.DECISION_UNAVAILABLE,
                "this actuator serves a Cluster Autoscaler (--serve-externalgrpc), which sets the sizes of the node "
                "groups: it replaces no nodes; start it without --serve-externalgrpc, and let trimtab decide, or do "
                "not request replacements",
            )

    def cancel(self, request: actuator_pb2.CancelReplacementRequest) -> tuple[list[str], list[str]]:
        """End replacements; returns those that are cancelled and the others, in the order of the request."""
        check_request_ids(request)
        detail = request.reason or "cancelled by a caller"
        cancelled: list[str] = []
        for request_id in request.request_ids:
            self._processor.propose(lambda tracker, _, name=request_id: _cancel(tracker, name, detail))  # type: ignore[misc]
            nodes, is_cancelled = self._processor.read(lambda tracker, _, name=request_id: _cancelled(tracker, name))  # type: ignore[misc]
            if nodes:
                self._deletions.begin_cancel(nodes, detail)
            if is_cancelled:
                cancelled.append(request_id)
        return cancelled, [one for one in request.request_ids if one not in cancelled]

    def _observe(self, request: actuator_pb2.StartReplacementRequest) -> _WaveFacts:
        """Read nodes, pods, groups and prices. Raises `ClusterError`, `CloudError`."""
        leaving = departing_nodes(request.wave)
        pending = self._processor.read(lambda tracker, _: pending_nodes(tracker.data))
        facts = observe(self._context, [request_of(one) for one in leaving], pending)
        groups = {view.id: view for view in self._context.cloud.node_groups()}
        new_nodes, prices = wanted_nodes(request, lambda group: _price(self._context.cloud, groups, group))
        return _WaveFacts(new_nodes, leaving, prices, facts, groups)

    def _decide(
        self, data: TrackerData, request: actuator_pb2.StartReplacementRequest, facts: _WaveFacts, now_ms: int
    ) -> StartReplacementResponse:
        if data.replacements:
            names = ", ".join(data.replacements)
            return _refusal(ReplacementReason.REPLACEMENT_IN_PROGRESS, f"{names} is in progress")
        age_s = (now_ms - request.plan_time.ToMilliseconds()) / 1000 if request.HasField("plan_time") else None
        # How many deletions may be in progress is no matter before the new nodes are there.
        count = len(data.deletions) + len(facts.leaving)
        limits = self._settings.present_limits()._replace(max_parallelism=count, max_drain_parallelism=count)
        requests = [request_of(one) for one in facts.leaving]
        admission = admit(data, requests, facts.nodes, limits, DecisionTime(now_ms, age_s))
        refused = next((one for one in admission.answers if not one.accepted), None)
        if refused is not None:
            reason = _PLAN_REASONS.get(refused.reason, ReplacementReason.LEAVING_NODE_REFUSED)  # type: ignore[call-overload]
            name = reason_pb2.DeletionReason.Code.Name(refused.reason)  # type: ignore[arg-type]
            return _refusal(reason, f"{refused.node}: {name} {refused.detail}")
        full = _full_group(facts)
        if full:
            return _refusal(ReplacementReason.NEW_NODE_GROUP_FULL, full)
        saving = _planned_saving(facts)
        if saving < request.min_saving_per_hour - TOLERANCE:
            detail = f"the plan saves {saving:.6g} an hour, less than {request.min_saving_per_hour:.6g}"
            return _refusal(ReplacementReason.PLANNED_SAVING_TOO_SMALL, detail)
        return StartReplacementResponse(accepted=True)


def _refusal(reason: reason_pb2.ReplacementReason.Code.ValueType, detail: str) -> StartReplacementResponse:
    return StartReplacementResponse(reason=reason, detail=detail)


def _price(cloud: CloudProvider, groups: dict[str, NodeGroupView], group: str) -> float | None:
    """Return the cloud's price of a group; None = there is no such group, or no price can be read."""
    try:
        return cloud.price_per_hour(group) if group in groups else None
    except (CloudError, ValueError) as error:
        log.warning("group_not_read", node_group=group, detail=str(error))
        return None


def _full_group(facts: _WaveFacts) -> str:
    """Return which group has no room for its new nodes, which have no alternative either; "" = none."""
    counts: dict[str, int] = {}
    for node in facts.new_nodes:
        if not node.alternatives:
            counts[node.node_group] = counts.get(node.node_group, 0) + 1
    for group, count in sorted(counts.items()):
        view = facts.groups.get(group)
        if view is None:
            return f"the cloud has no node group {group}"
        if view.target_size + count > view.max_size:
            return f"{group}: size {view.target_size}, {count} more, maximum {view.max_size}"
    return ""


def _planned_saving(facts: _WaveFacts) -> float:
    return sum(one.price for one in facts.leaving) - sum(node.price for node in facts.new_nodes)


def _find(tracker: Tracker, request_id: str) -> TrackedReplacement | None:
    ended = (one for one in tracker.data.ended_replacements if one.request_id == request_id)
    return tracker.data.replacements.get(request_id) or next(ended, None)


def _is_known(tracker: Tracker, request_id: str, digest: str) -> bool:
    """Return whether the replacement began before. Raises when the id belongs to another request."""
    known = _find(tracker, request_id)
    if known is not None:
        check_same(request_id, known.digest, digest, "StartReplacement")
    return known is not None


def _cancel(tracker: Tracker, request_id: str, detail: str) -> Event | None:
    replacement = tracker.data.replacements.get(request_id)
    if replacement is None or replacement.stage is WaveStage.ROLLING_BACK:
        return None
    return ReplacementCancelled(request_id, detail)


def _cancelled(tracker: Tracker, request_id: str) -> tuple[Sequence[str], bool]:
    """Return the nodes whose deletion can still be cancelled, and whether the replacement was cancelled."""
    replacement = _find(tracker, request_id)
    if replacement is None:
        return (), False
    is_cancelled = replacement.reason == ReplacementReason.REPLACEMENT_CANCELLED
    in_deletion = [one.plan.node for one in replacement.leaving if one.state is LeavingState.IN_DELETION]
    return [node for node in in_deletion if is_cancelled and tracker.cancellable(node)], is_cancelled
