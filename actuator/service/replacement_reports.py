"""Metrics, log lines and status messages of replacements, from durable events. Times are Unix milliseconds.

Decides names and labels; labels are those of enumerations. One log line, `replacement`, for each change of stage: with
its new nodes and nodes that leave by state, savings for one hour, and why a part was not carried out.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import structlog
from opentelemetry.metrics import CallbackOptions, Meter, Observation

from trimtab.actuator.runner.event_processor import EventProcessor
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.replacement_states import (
    FINAL_STAGES,
    LeavingNode,
    LeavingState,
    NewNode,
    NewNodeState,
    TrackedReplacement,
    WaveStage,
)
from trimtab.actuator.tracker.states import TrackerData
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.v1 import actuator_pb2, reason_pb2

log = structlog.get_logger("replacements")


class ReplacementReports:
    """Counts and logs replacements."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._ended = meter.create_counter("replacements", description="Replacements that have ended, by result")
        self._nodes = meter.create_counter("replaced_nodes", description="Nodes that left by replacements")
        self._saved = meter.create_counter(
            "replacement_savings", description="Savings for one hour, achieved by all replacements, in prices' currency"
        )
        self._given_back = meter.create_counter(
            "replacement_nodes_given_back",
            description="New nodes of replacements that were deleted again without having served",
        )
        # Last stage of the replacement in progress.
        self._stage: tuple[str, WaveStage] | None = None

    def watch(self, processor: EventProcessor) -> None:
        """Count the processor's events, and export what is in progress."""
        processor.listeners.append(self.on_event)

        def in_progress(_options: CallbackOptions) -> Iterable[Observation]:
            stages = processor.read(lambda tracker, _: [one.stage for one in tracker.data.replacements.values()])
            return [
                Observation(stages.count(stage), {"stage": stage.name})
                for stage in WaveStage
                if stage not in FINAL_STAGES
            ]

        self._meter.create_observable_gauge("replacements_in_progress", [in_progress], description="By stage")

    def on_event(self, event: e.Event, tracker: Tracker, now_ms: int) -> None:
        """Report a change of stage."""
        del now_ms
        data = tracker.data
        if isinstance(event, e.ReplacementEnded):
            self._stage = None
            ended = data.ended_replacements[-1]
            self._count(ended)
            _log(ended)
        for replacement in data.replacements.values():
            if self._stage != (replacement.request_id, replacement.stage):
                self._stage = replacement.request_id, replacement.stage
                _log(replacement)

    def _count(self, ended: TrackedReplacement) -> None:
        reason = reason_pb2.ReplacementReason.Code.Name(ended.reason)  # type: ignore[arg-type]
        self._ended.add(1, {"result": ended.stage.name, "reason": reason})
        self._nodes.add(sum(one.state is LeavingState.GONE for one in ended.leaving))
        self._given_back.add(sum(node.state is NewNodeState.GIVEN_BACK for node in ended.ordered_nodes))
        # A counter does not fall: what a wave costs until later ones is in the status.
        self._saved.add(max(0.0, ended.achieved or 0.0))


def _log(replacement: TrackedReplacement) -> None:
    level = log.warning if replacement.stage is WaveStage.FAILED else log.info
    why: dict[str, Any] = {}
    if replacement.reason:
        name = reason_pb2.ReplacementReason.Code.Name(replacement.reason)  # type: ignore[arg-type]
        why = {"reason": name, "detail": replacement.detail}
    level(
        "replacement",
        request_id=replacement.request_id,
        stage=replacement.stage.name,
        new_nodes=dict(Counter(node.state.name for node in replacement.ordered_nodes)),
        leaving=dict(Counter(one.state.name for one in replacement.leaving)),
        planned_saving_per_hour=round(replacement.planned_saving, 6),
        achieved_saving_per_hour=None if replacement.achieved is None else round(replacement.achieved, 6),
        **why,
    )


def replacement_messages(data: TrackerData) -> dict[str, actuator_pb2.Replacement]:
    """Return all by request id, sorted."""
    every = {one.request_id: one for one in (*data.ended_replacements, *data.replacements.values())}
    return {request_id: replacement_message(every[request_id]) for request_id in sorted(every)}


def replacement_message(replacement: TrackedReplacement) -> actuator_pb2.Replacement:
    """Return one replacement."""
    message = actuator_pb2.Replacement(
        request_id=replacement.request_id,
        stage=int(replacement.stage),  # type: ignore[arg-type]
        new_nodes=[_new_node(node) for node in replacement.ordered_nodes],
        leaving=[_leaving_node(one) for one in replacement.leaving],
        planned_saving_per_hour=replacement.planned_saving,
        achieved_saving_per_hour=replacement.achieved,
        min_saving_per_hour=replacement.min_saving,
        reason=replacement.reason,  # type: ignore[arg-type]
        detail=replacement.detail,
    )
    message.start_time.FromMilliseconds(replacement.start_ms)
    message.stage_time.FromMilliseconds(replacement.stage_ms)
    if replacement.stage is WaveStage.WAITING:
        message.ready_deadline.FromMilliseconds(replacement.deadline_ms)
    return message


def _new_node(node: NewNode) -> actuator_pb2.ReplacementNewNode:
    return actuator_pb2.ReplacementNewNode(
        name=node.name,
        node_group=node.node_group,
        price_per_hour=node.price,
        state=int(node.state),  # type: ignore[arg-type]
        node=node.node,
        failed_node_groups=node.failed,
        detail=node.detail,
    )


def _leaving_node(node: LeavingNode) -> actuator_pb2.ReplacementLeavingNode:
    return actuator_pb2.ReplacementLeavingNode(
        node=node.plan.node,
        node_group=node.plan.node_group,
        price_per_hour=node.plan.price,
        state=int(node.state),  # type: ignore[arg-type]
        reason=node.reason,  # type: ignore[arg-type]
        detail=node.detail,
    )
