"""One round of the loop: what the actuator is doing, what the cluster is, what the planner decides, carry it out.

Decides the order of steps, and to act only as leader and not in a dry run. Asks only for decisions that the planner
offers, and gives the actuator only orders that it takes. Keeps nothing but the sessions; each step's failure is the
round's. Raises TrimtabError, ClusterError.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog
from google.protobuf.timestamp_pb2 import Timestamp
from trimtab.v1 import actuator_pb2, plan_pb2, reason_pb2

from clients.kubernetes_objects.kinds import NodeGroup
from clients.live_cluster.cluster import Seen
from clients.live_cluster.snapshots import Taken
from clients.reference_loop.orders import deletion_order, soft_tainted
from clients.reference_loop.planner_session import PlannerSession

log = structlog.get_logger("loop")

Decision = plan_pb2.Decision


class Cluster(Protocol):
    """The cluster as a round sees it: `clients.live_cluster.LiveCluster`."""

    def take(self, groups: list[NodeGroup], status: actuator_pb2.ActuatorStatus | None = None) -> Seen:
        """What has changed since the last call, or all."""

    def forget(self) -> None:
        """Make the next one whole."""


class Actuator(Protocol):
    """The actuator as a round sees it: `clients.actuator_client.ActuatorClient`. Raises TrimtabError."""

    def get_info(self) -> actuator_pb2.GetActuatorInfoResponse:
        """What it can do."""

    def get_status(self, without_finished: bool = False) -> actuator_pb2.ActuatorStatus:
        """All that goes on."""

    def start_deletion(self, request: actuator_pb2.StartDeletionRequest) -> actuator_pb2.StartDeletionResponse:
        """Start deletions."""

    def scale_up(self, request_id: str, splits: Sequence[plan_pb2.ScaleUpSplit]) -> actuator_pb2.ScaleUpResponse:
        """Grow node groups."""

    def apply_taints(self, unneeded_nodes: Iterable[str]) -> actuator_pb2.ApplyTaintsResponse:
        """Write soft taints."""

    def apply_pod_costs(self, groups: Sequence[plan_pb2.PodCostGroup]) -> actuator_pb2.ApplyPodCostsResponse:
        """Write pod deletion costs."""


class Recorder(Protocol):
    """Keeps what went into the planner and what came out."""

    def add(self, taken: Taken, request: plan_pb2.PlanRequest, answer: plan_pb2.PlanResponse) -> None:
        """Keep one round; the state the request was made with is that of the answer before."""


@dataclass(frozen=True)
class RoundSettings:
    """What a round asks for and may do."""

    # Name of the cluster, for the planner's cache and logs.
    cluster: str = ""
    # Decisions wanted; () = all that the planner offers.
    decisions: tuple[plan_pb2.Decision.Code.ValueType, ...] = ()
    plan: plan_pb2.PlanSettings = field(default_factory=plan_pb2.PlanSettings)
    # Node groups as declared; sizes come from the actuator.
    groups: tuple[NodeGroup, ...] = ()
    # Decide, but carry nothing out.
    dry_run: bool = False


@dataclass
class Round:
    """What a round did."""

    request: plan_pb2.PlanRequest
    answer: plan_pb2.PlanResponse
    status: actuator_pb2.ActuatorStatus | None
    was_delta: bool
    accepted: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class Rounds:
    """Makes rounds over one cluster, planner and actuator. `actuator` None = there is none: decide only."""

    def __init__(
        self,
        cluster: Cluster,
        planner: PlannerSession,
        actuator: Actuator | None,
        settings: RoundSettings,
        recorder: Recorder | None = None,
    ) -> None:
        self._cluster, self._planner, self._actuator = cluster, planner, actuator
        self._settings, self._recorder = settings, recorder

    def run(self, request_id: str, now: Timestamp, may_act: Callable[[], bool]) -> Round:
        """Make one round. `may_act` is asked just before each order."""
        decisions = self._decisions()
        status = self._actuator.get_status() if self._actuator is not None else None
        seen = self._take(status)
        request = plan_pb2.PlanRequest(
            request_id=request_id,
            cluster=self._settings.cluster,
            decisions=decisions,
            now=now,
            settings=self._settings.plan,
        )
        try:
            answer, told = self._planner.plan(request, seen.taken, lambda: self._whole(status))
        except Exception:
            self._cluster.forget()  # what was taken never arrived, or nobody knows
            raise
        done = Round(request, answer, status, was_delta=told.delta is not None, notes=[*seen.notes])
        self._record(told, done)
        if self._actuator is not None and not self._settings.dry_run:
            self._act(self._actuator, done, may_act)
        return done

    def _record(self, told: Taken, done: Round) -> None:
        """Keep the round; a disk that is full ends the recording, not the loop."""
        if self._recorder is None:
            return
        try:
            self._recorder.add(told, done.request, done.answer)
        except OSError as error:
            self._recorder = None
            done.notes.append(f"the recording ends here, it cannot be written any more: {error}")
            log.error("recording_ended", error=str(error))

    def resume(self, state: plan_pb2.PlanState | None) -> None:
        """Go on from the memory of another loop, or of an earlier life; None = from none."""
        self._planner.resume(state)

    def _take(self, status: actuator_pb2.ActuatorStatus | None) -> Seen:
        return self._cluster.take(list(self._settings.groups), status)

    def _whole(self, status: actuator_pb2.ActuatorStatus | None) -> Taken:
        self._cluster.forget()
        return self._take(status).taken

    def _decisions(self) -> list[plan_pb2.Decision.Code.ValueType]:
        """The decisions to ask for: wanted and offered."""
        offered = self._planner.decisions()
        wanted = self._settings.decisions or tuple(offered)
        missing = [plan_pb2.Decision.Code.Name(one) for one in wanted if one not in offered]
        if missing:
            log.warning("decisions_not_offered", decisions=missing)
        return [one for one in wanted if one in offered]

    def _act(self, actuator: Actuator, done: Round, may_act: Callable[[], bool]) -> None:
        """Give the orders that the plan makes and the actuator takes; growth first, it helps whoever waits."""
        takes = set(actuator.get_info().rpcs)
        answer, costs = done.answer, done.answer.pod_costs.groups
        steps: list[tuple[str, bool, Callable[[], None]]] = [
            ("ScaleUp", bool(answer.scale_up.splits), lambda: self._grow(actuator, done)),
            ("StartDeletion", _removes(answer), lambda: self._remove(actuator, done)),
            (
                "ApplyTaints",
                answer.HasField("scale_down"),
                lambda: _ignore(actuator.apply_taints(soft_tainted(answer))),
            ),
            ("ApplyPodCosts", bool(costs), lambda: _ignore(actuator.apply_pod_costs(costs))),
        ]
        for rpc, is_due, step in steps:
            if not is_due or rpc not in takes:
                continue
            if not may_act():
                done.notes.append(f"{rpc} is left to the new leader")
                return
            step()

    def _grow(self, actuator: Actuator, done: Round) -> None:
        for one in actuator.scale_up(done.request.request_id, done.answer.scale_up.splits).splits:
            if not one.accepted:
                done.refused[one.node_group] = one.detail

    def _remove(self, actuator: Actuator, done: Round) -> None:
        for one in actuator.start_deletion(deletion_order(done.request, done.answer)).nodes:
            if one.accepted:
                done.accepted.append(one.node)
            else:
                done.refused[one.node] = f"{reason_pb2.DeletionReason.Code.Name(one.reason)} {one.detail}".rstrip()


def _removes(answer: plan_pb2.PlanResponse) -> bool:
    return bool(answer.scale_down.delete_empty or answer.scale_down.drain)


def _ignore(_answer: object) -> None:
    """The actuator logs and counts what it wrote."""
