"""Stand-ins for the planner, the actuator and the cluster of the reference loop, and rounds and loops over them."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from tests.builders.waiting import LIMIT_S
from trimtab.clients.loop.loop import Loop
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.loop.rounds import RoundResult, RoundRunner, RoundSettings
from trimtab.common.kubernetes.kinds.nodes import NodeGroup
from trimtab.common.rpc.errors import Reason, TrimtabError
from trimtab.common.watched.snapshot_update import Observation, SnapshotUpdate
from trimtab.v1 import actuator_pb2, plan_pb2, planner_pb2, reason_pb2, snapshot_pb2


def failure(reason: int, code: grpc.StatusCode = grpc.StatusCode.FAILED_PRECONDITION) -> TrimtabError:
    """Return an error of a service."""
    return TrimtabError(code, Reason.Name(reason) and reason, "as the test wants")  # type: ignore[arg-type]


def unavailable() -> TrimtabError:
    """Return the error of an unavailable service."""
    return failure(Reason.NOT_READY, grpc.StatusCode.UNAVAILABLE)


class FakePlanner:
    """Answers with `answer` and numbered versions, and records requests; `failures` come first, one per call."""

    def __init__(self, answer: plan_pb2.PlanResponse | None = None) -> None:
        self.answer = answer or plan_pb2.PlanResponse()
        self.offered = [plan_pb2.Decision.SCALE_DOWN]
        self.failures: deque[TrimtabError] = deque()
        self.requests: list[plan_pb2.PlanRequest] = []
        self.payloads: list[bytes] = []

    def info(self) -> planner_pb2.GetPlannerInfoResponse:
        return planner_pb2.GetPlannerInfoResponse(decisions=self.offered)

    def close(self) -> None:
        raise AssertionError("nobody was told to stop")

    def send(self, request: plan_pb2.PlanRequest, payload: bytes) -> plan_pb2.PlanResponse:
        copied = plan_pb2.PlanRequest()
        copied.CopyFrom(request)
        self.requests.append(copied)
        self.payloads.append(payload)
        if self.failures:
            raise self.failures.popleft()
        answer = plan_pb2.PlanResponse()
        answer.CopyFrom(self.answer)
        answer.request_id = request.request_id
        answer.snapshot_version = f"s{len(self.requests)}"
        answer.state.scale_down.undone_drains.times = len(self.requests)
        answer.state_version = f"t{len(self.requests)}"
        return answer

    def snapshot(self, index: int) -> snapshot_pb2.ClusterSnapshot:
        """Return the whole snapshot that came with a request."""
        return snapshot_pb2.ClusterSnapshot.FromString(self.payloads[index])


class FakeActuator:
    """Accepts and records everything."""

    def __init__(self) -> None:
        self.status = actuator_pb2.ActuatorStatus()
        self.rpcs = ["GetStatus", "StartDeletion", "ScaleUp", "ApplyTaints", "ApplyPodCosts", "ApplyBufferStatus"]
        self.rpcs += ["StartReplacement", "LowerTargets"]
        self.refused: set[str] = set()
        self.failures: deque[TrimtabError] = deque()
        self.orders: list[actuator_pb2.StartDeletionRequest] = []
        self.tainted: list[list[str]] = []
        # By call, the owners that got costs, and whether others lost theirs; the answer.
        self.ranked: list[tuple[list[str], bool]] = []
        self.ranking = actuator_pb2.ApplyPodCostsResponse()
        # CapacityBuffers by call; the answer.
        self.buffers: list[list[plan_pb2.SlackObject]] = []
        self.buffer_answer = actuator_pb2.ApplyBufferStatusResponse()
        self.grown: list[list[plan_pb2.ScaleUpSplit]] = []
        self.lowered: list[tuple[str, int, int]] = []
        self.replacing: list[actuator_pb2.StartReplacementRequest] = []
        self.replacement_answer = actuator_pb2.StartReplacementResponse(accepted=True)

    def get_info(self) -> actuator_pb2.GetActuatorInfoResponse:
        return actuator_pb2.GetActuatorInfoResponse(rpcs=self.rpcs)

    def get_status(self, without_finished: bool = False, with_instances: bool = False) -> actuator_pb2.ActuatorStatus:
        if self.failures:
            raise self.failures.popleft()
        return self.status

    def start_deletion(self, request: actuator_pb2.StartDeletionRequest) -> actuator_pb2.StartDeletionResponse:
        self.orders.append(request)
        answers = [
            actuator_pb2.NodeDeletionAnswer(node=one.node, accepted=one.node not in self.refused, detail="why")
            for one in request.nodes
        ]
        return actuator_pb2.StartDeletionResponse(nodes=answers)

    def scale_up(self, request_id: str, splits: Sequence[plan_pb2.ScaleUpSplit]) -> actuator_pb2.ScaleUpResponse:
        self.grown.append(list(splits))
        return actuator_pb2.ScaleUpResponse(
            splits=[self._growth(one.node_group) for one in splits],
        )

    def lower_targets(
        self, request_id: str, reductions: Sequence[actuator_pb2.TargetReduction]
    ) -> actuator_pb2.LowerTargetsResponse:
        self.lowered += [(one.node_group, one.current_size, one.new_size) for one in reductions]
        return actuator_pb2.LowerTargetsResponse(reductions=[self._growth(one.node_group) for one in reductions])

    def _growth(self, group: str) -> actuator_pb2.ScaleUpAnswer:
        if group in self.refused:
            reason = reason_pb2.GrowthReason.REFUSED
            return actuator_pb2.ScaleUpAnswer(node_group=group, reason=reason, detail="why")
        return actuator_pb2.ScaleUpAnswer(node_group=group, accepted=True)

    def start_replacement(self, request: actuator_pb2.StartReplacementRequest) -> actuator_pb2.StartReplacementResponse:
        self.replacing.append(request)
        return self.replacement_answer

    def apply_taints(self, unneeded_nodes: Iterable[str]) -> actuator_pb2.ApplyTaintsResponse:
        self.tainted.append(list(unneeded_nodes))
        return actuator_pb2.ApplyTaintsResponse()

    def apply_pod_costs(
        self, groups: Sequence[plan_pb2.PodCostGroup], plan_time: Timestamp | None = None, remove_others: bool = False
    ) -> actuator_pb2.ApplyPodCostsResponse:
        self.ranked.append(([one.owner for one in groups], remove_others))
        return self.ranking

    def apply_buffer_status(self, buffers: Sequence[plan_pb2.SlackObject]) -> actuator_pb2.ApplyBufferStatusResponse:
        self.buffers.append(list(buffers))
        return self.buffer_answer


def plan_of(empty: Sequence[str] = (), drain: Sequence[str] = (), waiting: Sequence[str] = ()) -> plan_pb2.PlanResponse:
    """Return a plan that removes nodes now, and finds others unneeded."""
    decision = plan_pb2.ScaleDownDecision(delete_empty=empty, drain=drain)
    for node in (*empty, *drain, *waiting):
        decision.unneeded.add(node=node).assumption.pods_to_move_digest = f"digest-{node}"
    return plan_pb2.PlanResponse(scale_down=decision)


def replacing_plan(waves: int = 1, saving: float = 0.6) -> plan_pb2.PlanResponse:
    """Return a plan that replaces "n1" by a node of "s", wave after wave."""
    answer = plan_of()
    for number in range(waves):
        wave = answer.replacement.waves.add(saving_per_hour=saving, evicted_pod_count=2)
        wave.new_nodes.add(name=f"s#{number}", node_group="s", price_per_hour=0.4, alternatives=["t", "u"])
        wave.leaving.add(node=f"n{number + 1}", node_group="l", price_per_hour=1.0)
    answer.replacement.result = reason_pb2.ReplacementResult.REPLACEMENT_PLANNED
    return answer


class FakeCluster:
    """Returns the whole snapshot first, then empty deltas."""

    def __init__(self) -> None:
        self.is_fresh = True
        self.requeue_count = 0
        self.statuses: list[actuator_pb2.ActuatorStatus | None] = []

    def next_update(self, groups: list[NodeGroup], status: actuator_pb2.ActuatorStatus | None = None) -> Observation:
        self.statuses.append(status)
        fresh, self.is_fresh = self.is_fresh, False
        whole = snapshot_pb2.ClusterSnapshot(resources=["cpu"])
        return Observation(
            SnapshotUpdate(whole, None) if fresh else SnapshotUpdate(None, snapshot_pb2.SnapshotDelta(), True),
            ["a note"],
        )

    def forget(self) -> None:
        self.is_fresh = True

    def requeue(self) -> None:
        self.requeue_count += 1


class Setup:
    """A round with fake services."""

    def __init__(self, answer: plan_pb2.PlanResponse | None = None, **settings: object) -> None:
        self.cluster, self.planner, self.actuator = FakeCluster(), FakePlanner(answer), FakeActuator()
        self.leads = True
        wanted = RoundSettings(**settings)  # type: ignore[arg-type]
        self.rounds = RoundRunner(self.cluster, PlannerSession(self.planner), self.actuator, wanted)

    def run(self) -> RoundResult:
        return self.rounds.run("id", Timestamp(seconds=100), lambda: self.leads)


class Scripted:
    """Rounds with results set by a test, then successful ones."""

    def __init__(self, *failures: Exception) -> None:
        self.failures, self.count, self.on_round = list(failures), 0, lambda: None
        self.setup = Setup()
        self.resumed: list[plan_pb2.PlanState | None] = []

    def resume(self, state: plan_pb2.PlanState | None) -> None:
        self.resumed.append(state)

    def shift_timers(self, by_s: float) -> None:
        raise AssertionError("nobody set the clock")

    def run(self, request_id: str, now: Any, may_act: Callable[[], bool]) -> RoundResult:
        self.count += 1
        self.on_round()
        if self.failures:
            raise self.failures.pop(0)
        return self.setup.run()


def run(loop: Loop) -> None:
    """Run a loop to its end, within a limit."""
    thread = threading.Thread(target=loop.run, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    loop.stop()
    thread.join(LIMIT_S)
    assert not thread.is_alive()


def replacing_setup(answer: plan_pb2.PlanResponse, **settings: Any) -> Setup:
    """Return a loop whose planner offers scale-down and replacement."""
    setup = Setup(answer, **settings)
    setup.planner.offered = [plan_pb2.Decision.SCALE_DOWN, plan_pb2.Decision.REPLACEMENT]
    return setup
