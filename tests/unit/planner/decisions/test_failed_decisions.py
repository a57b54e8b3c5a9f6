"""A decision that fails ends with an error of its own; the others answer as if it had not been requested."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import cycle
from typing import Any

import grpc
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from structlog.testing import capture_logs

from tests.builders.capacity_requests import pod_template
from tests.builders.capacity_requests import request as capacity_request
from tests.builders.kubernetes import Json, node, node_group, pod, replica_set, snapshot_of
from trimtab.clients.planner_client import PIECE_BYTES
from trimtab.common.rpc.client import connect
from trimtab.common.rpc.errors import Reason, ServiceError
from trimtab.common.rpc.server import Registration, Shell
from trimtab.planner.decisions.plan import plan
from trimtab.planner.decisions.requests import RequestError
from trimtab.planner.decisions.table import TABLE, Table
from trimtab.planner.model.settings import SettingsError
from trimtab.planner.round.decision import Decided, Decision
from trimtab.planner.round.round import Round, Work
from trimtab.planner.service.request_handler import Caller, RequestHandler
from trimtab.planner.service.servicer import PlannerServicer
from trimtab.planner.service.settings import PlannerOptions
from trimtab.planner.simulation.growth import GrowthNeed
from trimtab.planner.simulation.kernels import remove
from trimtab.planner.snapshot.columns import NO_NODE
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import planner_pb2, planner_pb2_grpc

pytestmark = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="needs the compiler: 20 s a plan")

NOW_S = 1_800_000_000
WEB, OTHER = replica_set("web", 3), replica_set("other", 2)
CLUSTER: list[Json] = [
    *(node(name, cpu="4") for name in ("n1", "n2", "n3")),
    node_group("g", max_size=9, nodes=["n1", "n2", "n3"], target=4, price=1.0),
    WEB,
    OTHER,
    pod("a", "1", node="n1", owner=WEB),
    pod("b", "2", node="n2", owner=WEB),
    pod("c", "1", node="n3", owner=WEB),
    *(pod(name, "3500m", owner=OTHER) for name in ("large", "larger")),
    pod_template("gang", "1"),
    capacity_request("train", ("gang", 2)),
]
ALL = [decision.code for decision in TABLE]
SECRET = "detail that stays inside"


class FaultError(RuntimeError):
    """An error of a decision."""


def fail(*_: object) -> Any:
    raise FaultError(SECRET)


def at_begin(decision: Decision) -> Decision:
    return replace(decision, decide=fail)


def after_moves(decision: Decision) -> Decision:
    """Take all pods off their nodes, by moves and behind the back of the log, and fail."""

    def decide(this: Round, settings: Any, state: Any) -> Decided:
        decision.decide(this, settings, state)
        sim = this.simulation.state
        for number in range(len(sim.pod_node)):
            remove(sim, number)
        sim.pod_node[:] = NO_NODE
        return fail()

    return replace(decision, decide=decide)


def with_full_log(decision: Decision) -> Decision:
    """Refuse a move for lack of room in the log, which nobody looks at before the moves are made final."""

    def decide(this: Round, settings: Any, state: Any) -> Decided:
        decided = decision.decide(this, settings, state)
        this.simulation.state.log.refused[0] = 1
        return decided

    return replace(decision, decide=decide)


def changed(change: Callable[[Decided], Decided]) -> Callable[[Decision], Decision]:
    """Return a fault in what the decision returns."""

    def broken(decision: Decision) -> Decision:
        return replace(decision, decide=lambda *given: change(decision.decide(*given)))

    return broken


def in_summary(decision: Decision) -> Decision:
    return replace(decision, summarize=fail)


FAULTS: dict[str, Callable[[Decision], Decision]] = {
    "at its begin": at_begin,
    "after moves": after_moves,
    "a result of another kind": changed(lambda made: made._replace(result=pb.StageTime())),
    "a state of another kind": changed(lambda made: made._replace(state=pb.StageTime())),
    "in its summary": in_summary,
}
BEFORE_OTHERS = {
    "the log is full": with_full_log,
    "in its last moves": changed(lambda made: made._replace(finish=fail)),
}
"""Faults of decisions that others follow."""
# What catches a fault knows no decision, so not each is combined with each.
PAIRS = [*((decision, "after moves") for decision in TABLE), *zip(cycle(TABLE[:-1]), FAULTS | BEFORE_OTHERS)]
CASES = [
    pytest.param(decision, (FAULTS | BEFORE_OTHERS)[name], id=f"{decision.name}, {name}")
    for decision, name in dict.fromkeys(PAIRS)
]


def faulty(*decisions: Decision, fault: Callable[[Decision], Decision] = at_begin) -> Table:
    return tuple(fault(one) if one in decisions else one for one in TABLE)


def request(*without: Decision) -> pb.PlanRequest:
    left_out = {decision.code for decision in without}
    message = pb.PlanRequest(decisions=[code for code in ALL if code not in left_out], seed=3)
    message.now.seconds = NOW_S
    message.settings.search_effort = pb.SearchEffort.FIRST
    message.settings.scale_down.unneeded_time.seconds = 0
    message.settings.slack.extra_capacity_min_rate = 0.2
    target = message.settings.pod_costs.targets.add()
    target.strategies.add(strategy=pb.PodCostStrategy.YOUNGEST)
    target.strategies.add(strategy=pb.PodCostStrategy.NODE_DRAIN)
    return message


def message() -> Any:
    return snapshot_of(CLUSTER)


def decide(asked: pb.PlanRequest, table: Table = TABLE, state: pb.PlanState | None = None) -> pb.PlanResponse:
    return plan(canonicalize(message()), asked, state, Work(), table)


@cache
def state_before() -> pb.PlanState:
    return decide(request()).state


@cache
def expected(*without: Decision) -> pb.PlanResponse:
    """Return the answer to a request without some decisions."""
    return decide(request(*without), state=state_before())


def without_failures(answer: pb.PlanResponse) -> pb.PlanResponse:
    """Return an answer without what it says of failed decisions."""
    rest: Any = pb.PlanResponse()
    rest.CopyFrom(answer)
    kept = [one for one in rest.diagnostics.decisions if not one.failed]
    for one in rest.diagnostics.decisions:
        if one.failed:
            rest.ClearField(pb.Decision.Code.Name(one.decision).lower())
    del rest.diagnostics.decisions[:]
    rest.diagnostics.decisions.extend(kept)
    notes = [note for note in rest.summary.notes if " has failed: " not in note]
    del rest.summary.notes[:]
    rest.summary.notes.extend(notes)
    return rest


def test_every_decision_has_something_to_decide() -> None:
    answer = decide(request())
    results = {one.decision: one.result for one in answer.diagnostics.decisions}
    assert results == {
        pb.Decision.CAPACITY_REQUESTS: "CAPACITY_REQUESTS_MET",
        pb.Decision.SLACK: "SLACK_PRESENT",
        pb.Decision.SCALE_UP: "SCALE_UP_NEEDED",
        pb.Decision.SCALE_DOWN: results[pb.Decision.SCALE_DOWN],
        pb.Decision.REPLACEMENT: results[pb.Decision.REPLACEMENT],
        pb.Decision.POD_COSTS: "POD_COSTS_RANKED",
    }
    assert answer.slack.placeholders


@pytest.mark.parametrize(("decision", "fault"), CASES)
def test_the_others_answer_as_without_the_decision_that_fails(
    decision: Decision, fault: Callable[[Decision], Decision]
) -> None:
    answer = decide(request(), faulty(decision, fault=fault), state_before())
    assert without_failures(answer) == expected(decision)
    (summary,) = [one for one in answer.diagnostics.decisions if one.failed]
    result: Any = getattr(answer, decision.field)
    assert (summary.decision, summary.result) == (decision.code, f"{decision.name}_ERROR")
    assert {field.name for field, _ in result.ListFields()} == {"result", "detail"}
    assert [one.decision for one in answer.diagnostics.decisions] == [one.code for one in TABLE]
    assert SECRET not in str(answer)


@pytest.mark.parametrize("decision", TABLE, ids=lambda decision: decision.name)
def test_a_failed_decision_keeps_its_state_and_goes_on_from_it(decision: Decision) -> None:
    field: Any = decision.field
    failed = decide(request(), faulty(decision), state_before())
    assert getattr(failed.state, field) == getattr(state_before(), field)
    assert not decide(request(), faulty(decision)).state.HasField(field)
    assert getattr(decide(request(), state=failed.state), field) == getattr(expected(), field)


def test_several_decisions_may_fail_and_each_is_named() -> None:
    answer = decide(request(), faulty(*TABLE))
    assert [one.result for one in answer.diagnostics.decisions] == [f"{one.name}_ERROR" for one in TABLE]
    assert [note.split()[0] for note in answer.summary.notes] == [one.name for one in TABLE]
    first, second = TABLE[0], TABLE[2]
    answer = decide(request(), faulty(first, second, fault=after_moves))
    assert without_failures(answer) == decide(request(first, second))


@pytest.mark.parametrize("part", ["requirements", "templates", "spare_nodes"])
def test_the_decision_whose_new_nodes_cannot_be_laid_out_is_the_one_that_fails(part: str) -> None:
    """Slack comes first and builds the simulation, for which scale-up requires nodes."""

    def broken(decision: Decision) -> Decision:
        def growth(*given: Any) -> GrowthNeed | None:
            assert decision.growth is not None
            need = decision.growth(*given) if part != "requirements" else fail()
            return need._replace(**{part: fail}) if need is not None else None

        return replace(decision, growth=growth)

    scale_up = next(one for one in TABLE if one.code == pb.Decision.SCALE_UP)
    answer = decide(request(), faulty(scale_up, fault=broken))
    assert without_failures(answer) == decide(request(scale_up))
    assert [one.decision for one in answer.diagnostics.decisions if one.failed] == [pb.Decision.SCALE_UP]


class EndedError(Exception):
    """The caller has gone."""


@pytest.mark.parametrize(
    "error",
    [RequestError("field", "problem"), SettingsError("field", "problem"), EndedError()],
    ids=["request", "settings", "nobody waits"],
)
def test_errors_of_the_request_end_all_of_it(error: Exception) -> None:
    def raises(*_: object) -> Any:
        raise error

    table = faulty(TABLE[0], fault=lambda decision: replace(decision, decide=raises))
    with pytest.raises(type(error)):
        plan(canonicalize(message()), request(), None, Work(ends_request=(EndedError,)), table)


def counted(reader: InMemoryMetricReader, name: str) -> dict[str, int]:
    """Return the points of a counter by decision."""
    data: Any = reader.get_metrics_data()
    metrics = data.resource_metrics[0].scope_metrics[0].metrics
    points = [point for metric in metrics if metric.name == name for point in metric.data.data_points]
    return {point.attributes["decision"]: point.value for point in points}


@pytest.mark.parametrize("decision", [TABLE[0], TABLE[-1]], ids=lambda decision: decision.name)
def test_the_service_answers_and_counts_and_logs_the_failure(decision: Decision) -> None:
    reader = InMemoryMetricReader()
    handler = RequestHandler(
        MeterProvider([reader]).get_meter("test"), 1 << 24, table=faulty(decision, fault=after_moves)
    )
    servicer = PlannerServicer(handler, PlannerOptions())
    registration = Registration(planner_pb2_grpc.add_PlannerServicer_to_server, servicer, "trimtab.v1.Planner")
    payload = message().SerializeToString()
    assert len(payload) <= PIECE_BYTES
    with capture_logs() as logs, Shell("test", [registration]) as shell, connect(shell.address) as channel:
        stub = planner_pb2_grpc.PlannerStub(channel)

        def ask(*without: Decision) -> pb.PlanResponse:
            header = request(*without)
            header.snapshot_size_bytes = len(payload)
            parts = [
                planner_pb2.PlanRequestPart(request=header),
                planner_pb2.PlanRequestPart(snapshot=planner_pb2.SnapshotPart(data=payload)),
            ]
            answer = stub.Plan(iter(parts), timeout=60)
            del answer.diagnostics.stages[:]
            answer.state_version = ""
            return answer

        answer, expected = ask(), ask(decision)
    assert without_failures(answer) == expected
    assert counted(reader, "failed_decisions") == {decision.name: 1}
    (logged,) = [line for line in logs if line["event"] == "decision_failed"]
    assert (logged["decision"], logged["log_level"], str(logged["exc_info"])) == (decision.name, "error", SECRET)


def test_a_call_whose_request_is_wrong_still_fails() -> None:
    handler = RequestHandler(MeterProvider().get_meter("test"), 0)
    asked = request()
    asked.settings.slack.extra_capacity_min_rate = -1.0
    with pytest.raises(ServiceError) as caught:
        handler.plan(asked, message().SerializeToString(), Caller())
    assert (caught.value.code, caught.value.reason) == (grpc.StatusCode.INVALID_ARGUMENT, Reason.SETTINGS_INVALID)
