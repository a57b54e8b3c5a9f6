"""Answers `grpcplugin.Expander`, as the Cluster Autoscaler calls it with `--expander=grpc`.

An answer to a request with options is never empty: since 1.32 the autoscaler treats an empty one as a veto. After an
error the autoscaler keeps all its options. It gets all of them back, and its next expander decides, while this process
has no plan of the cluster and so lacks the chain of expanders or the prices that the chain needs: that is so after each
start, until the loop plans. Writes one log line per choice; the input of choices is recorded if
configured.
"""

import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final, Protocol

import grpc
import structlog

from trimtab.clusterautoscaler import expander_pb2 as ca
from trimtab.clusterautoscaler import expander_pb2_grpc
from trimtab.common.recording import RecordingWriter
from trimtab.planner.expander.question import LastPlans, question
from trimtab.planner.model.execution import within
from trimtab.planner.model.settings import SettingsError
from trimtab.planner.scale_up.option_choice import NO_NODE_GROUP, choose_option
from trimtab.planner.service.failures import as_service_error, overloaded
from trimtab.planner.service.request_limits import Bounds, EnforcedLimits, RequestMemory
from trimtab.planner.service.settings import ExpanderOptions, PlannerOptions
from trimtab.v1 import option_choice_pb2 as pb
from trimtab.v1.plan_pb2 import Expander, PlanSettings
from trimtab.v1.reason_pb2 import NodeGroupReason
from trimtab.v1.recording_pb2 import RecordingHeader

log = structlog.get_logger("expander")

SERVICE: Final = "grpcplugin.Expander"
LONGEST_CALL_S: Final = 5.0
"""The autoscaler's own limit; it has no flag for it."""


class Recorder(Protocol):
    """Records choices."""

    def add(self, choice: pb.OptionChoice) -> None:
        """Record one choice with its answer."""


class ExpanderServicer(expander_pb2_grpc.ExpanderServicer):
    """Chooses among options. plans : known data of clusters; memory : of all requests of the process."""

    def __init__(
        self,
        plans: LastPlans,
        options: ExpanderOptions,
        limits: PlannerOptions,
        memory: RequestMemory,
        recorder: Recorder | None = None,
    ) -> None:
        self._plans, self._options, self._recorder = plans, options, recorder
        self._memory = memory
        self._slots = threading.BoundedSemaphore(limits.max_concurrent)
        self._most = limits.max_concurrent

    def BestOptions(  # noqa: N802
        self, request: ca.BestOptionsRequest, context: grpc.ServicerContext
    ) -> ca.BestOptionsResponse:
        """Return the chosen option; all options if an expander excludes all of them, or too little is known."""
        if not request.options:
            return ca.BestOptionsResponse()
        if not self._slots.acquire(blocking=False):
            raise overloaded(self._most)
        try:
            with self._memory.share() as take:
                remaining_s: float | None = context.time_remaining()
                within_s = LONGEST_CALL_S if remaining_s is None else min(remaining_s, LONGEST_CALL_S)
                limits = EnforcedLimits(Bounds.within(within_s, context.is_active), take)
                with within(limits):
                    return self._choose(request, limits)
        finally:
            self._slots.release()

    def _choose(self, request: ca.BestOptionsRequest, limits: EnforcedLimits) -> ca.BestOptionsResponse:
        begun_s = time.monotonic()
        plan = self._plans.find(self._options.expander_cluster, (option.node_group_id for option in request.options))
        lacking = self._options.lacks(plan.plan is not None)
        if lacking:
            return _all_options(request, f"{plan.note}, so its {lacking} not known")
        settings = PlanSettings() if plan.plan is None else plan.plan.settings
        choice = question(request, plan, self._options.chosen(settings), time.time_ns(), limits)
        try:
            choice.answer.CopyFrom(choose_option(choice, limits))
        except SettingsError as error:
            raise as_service_error(error) or error from error
        chosen = choice.answer.node_group
        _log(choice, time.monotonic() - begun_s)
        if self._recorder is not None:
            self._recorder.add(choice)
        names = [chosen] if chosen != NO_NODE_GROUP else [option.node_group for option in choice.options]
        return ca.BestOptionsResponse(options=[ca.Option(node_group_id=name) for name in names])


def _all_options(request: ca.BestOptionsRequest, note: str) -> ca.BestOptionsResponse:
    """Return all options, each group once, and log why."""
    names = list(dict.fromkeys(option.node_group_id for option in request.options))
    notes = [f"{note}: all options are returned, so that the Cluster Autoscaler's next expander decides"]
    log.warning("best_options", chosen=NO_NODE_GROUP, options=len(names), notes=notes)
    return ca.BestOptionsResponse(options=[ca.Option(node_group_id=name) for name in names])


def _log(choice: pb.OptionChoice, duration_s: float) -> None:
    """Log a choice; as a warning if data were missing, or no choice was made."""
    decided = {Expander.Code.Name(verdict.decided_by) for verdict in choice.answer.verdicts if verdict.decided_by}
    unable = [group.node_group for group in choice.groups if group.unable]
    write = log.warning if choice.notes or choice.answer.node_group == NO_NODE_GROUP else log.info
    write(
        "best_options",
        chosen=choice.answer.node_group,
        options=len(choice.options),
        decided_by=sorted(decided),
        unable={group.node_group: NodeGroupReason.Code.Name(group.unable) for group in choice.groups if group.unable}
        if unable
        else {},
        cluster=choice.cluster,
        snapshot_version=choice.snapshot_version,
        notes=list(choice.notes)[:5],
        duration_ms=round(duration_s * 1000.0, 1),
    )


class ChoiceRecorder:
    """Writes each choice as a frame that can be read at once. Thread-safe. Errors: OSError at the start."""

    def __init__(self, path: Path) -> None:
        header = RecordingHeader(producer=f"trimtab-planner {version('trimtab')}", comment="choices of the expander")
        header.create_time.FromDatetime(datetime.now(UTC))
        self._lock = threading.Lock()
        self._writer: RecordingWriter | None = RecordingWriter(path, header)

    def add(self, choice: pb.OptionChoice) -> None:
        """Record one choice with its answer."""
        with self._lock:
            if self._writer is None:
                return
            try:
                self._writer.write(choice)
                self._writer.flush()
            except OSError as error:
                log.error("recording_ended", error=str(error))
                with suppress(OSError):
                    self._writer.abandon()
                self._writer = None

    def close(self) -> None:
        """Write the end of the recording."""
        with self._lock, suppress(OSError):
            if self._writer is not None:
                self._writer.close()
            self._writer = None
