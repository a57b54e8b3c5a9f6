"""The planner on loopback: its answers, its refusals, and that the next call always works."""

import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.planner_service import LIMIT, ONCE, asking, make_shell, parts, piece, refused, send
from tests.builders.waiting import LIMIT_S
from trimtab.clients.planner_client import PlannerClient
from trimtab.common.rpc.client import connect, invoke
from trimtab.common.rpc.errors import Reason, TrimtabError
from trimtab.common.rpc.telemetry import start_telemetry
from trimtab.planner.service.request_handler import Caller, RequestHandler
from trimtab.planner.service.snapshot_reader import MAX_PIECE_BYTES
from trimtab.planner.service.warm_up import small_cluster
from trimtab.v1 import plan_pb2, planner_pb2, planner_pb2_grpc

# Without shrinking: each example is a call, and the seed is printed.
BRIEF = settings(examples(60), phases=[Phase.explicit, Phase.reuse, Phase.generate])


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with make_shell() as shell:
        yield shell.address


@pytest.fixture(scope="module")
def stub(address: str) -> Iterator[planner_pb2_grpc.PlannerStub]:
    with connect(address) as channel:
        yield planner_pb2_grpc.PlannerStub(channel)


def plain(answer: plan_pb2.PlanResponse) -> bytes:
    """Return an answer without its durations."""
    copy = plan_pb2.PlanResponse()
    copy.CopyFrom(answer)
    del copy.diagnostics.stages[:]
    return copy.SerializeToString(deterministic=True)


def test_a_plan_names_request_snapshot_state_and_counts(stub: planner_pb2_grpc.PlannerStub) -> None:
    answer = send(stub, parts(asking(request_id="r1")))
    assert answer.request_id == "r1"
    assert len(answer.snapshot_version) == 32
    assert len(answer.state_version) == 32
    nodes = [one.node for one in answer.nodes]
    assert sorted(nodes) == ["a", "b", "c"]
    diagnostics = answer.diagnostics
    assert (diagnostics.node_count, diagnostics.pod_count) == (3, 5)
    assert diagnostics.pod_class_count > 1
    assert {"decode", "columns", "classes", "simulate"} <= {stage.stage for stage in diagnostics.stages}


def test_equal_requests_have_equal_answers_whatever_is_in_the_cache(stub: planner_pb2_grpc.PlannerStub) -> None:
    first = send(stub, parts(asking()))
    whole = send(stub, parts(asking(), size=17))
    empty_delta = send(stub, parts(asking(base_version=first.snapshot_version), b""))
    elsewhere = send(stub, parts(asking(cluster="other")))
    assert plain(first) == plain(whole) == plain(empty_delta) == plain(elsewhere)


def test_a_state_may_be_named_by_its_version(stub: planner_pb2_grpc.PlannerStub) -> None:
    first = send(stub, parts(asking()))
    inline = asking()
    inline.state.CopyFrom(first.state)
    assert plain(send(stub, parts(inline))) == plain(send(stub, parts(asking(state_version=first.state_version))))


def test_info_lists_what_this_build_can_do(stub: planner_pb2_grpc.PlannerStub) -> None:
    info = stub.GetInfo(planner_pb2.GetPlannerInfoRequest(), timeout=LIMIT_S)
    kinds = plan_pb2.Decision
    every = [kinds.SCALE_UP, kinds.SLACK, kinds.SCALE_DOWN, kinds.POD_COSTS, kinds.REPLACEMENT, kinds.CAPACITY_REQUESTS]
    assert list(info.decisions) == every
    assert list(info.rpcs) == ["GetInfo", "Plan", "CheckFit", "BalanceScaleUp"]
    assert "NodeResourcesFit" in info.predicates
    assert info.max_snapshot_size_bytes == LIMIT
    assert {"resource-limits", "evict-rules", "taint-comparison-operators"} <= set(info.features)
    assert list(info.features) == sorted(info.features)


def test_every_feature_that_info_lists_may_be_required(stub: planner_pb2_grpc.PlannerStub) -> None:
    info = stub.GetInfo(planner_pb2.GetPlannerInfoRequest(), timeout=LIMIT_S)
    assert plain(send(stub, parts(asking(required_features=list(info.features))))) == plain(send(stub, parts(asking())))


@pytest.mark.parametrize("method", ["Plan", "CheckFit"])
def test_a_feature_that_the_planner_lacks_is_refused_by_name_even_if_the_snapshot_is_no_message(
    stub: planner_pb2_grpc.PlannerStub, method: str
) -> None:
    request = asking(required_features=["evict-rules", "of-tomorrow"])

    def call() -> Any:
        answer = getattr(stub, method)(iter(parts(request, b"\xff\xff")), timeout=LIMIT_S)
        return list(answer) if method == "CheckFit" else answer

    error = refused(lambda: invoke(call, ONCE))
    assert (error.code, error.reason) == (grpc.StatusCode.UNIMPLEMENTED, Reason.FEATURE_UNKNOWN)
    assert error.metadata == {"feature": "of-tomorrow"}


def test_fitting_is_reported_for_each_pod_and_node(stub: planner_pb2_grpc.PlannerStub) -> None:
    request = asking(decisions=[], fit_pods=["default/waits", "default/bound"])
    answers = list(stub.CheckFit(iter(parts(request)), timeout=2 * LIMIT_S))
    assert [answer.pod for answer in answers] == ["default/bound", "default/waits"]
    assert [[node.node for node in answer.nodes] for answer in answers] == [["a", "b", "c"]] * 2
    assert [node.fits for node in answers[1].nodes] == [True, True, False]
    assert all(node.fits != bool(node.reasons) for answer in answers for node in answer.nodes)


def test_without_names_every_waiting_pod_is_checked_and_lacking_resources_are_named(
    stub: planner_pb2_grpc.PlannerStub,
) -> None:
    cluster = small_cluster()
    cluster.pod_specs[1].requests[0].amount = 5000
    (answer,) = stub.CheckFit(iter(parts(asking(decisions=[]), cluster.SerializeToString())), timeout=2 * LIMIT_S)
    assert answer.pod == "default/waits"
    assert [list(node.insufficient) for node in answer.nodes] == [["cpu"]] * 3


def with_duration(field: str, seconds: int) -> plan_pb2.PlanRequest:
    """Return a request with one duration in its settings."""
    request = asking()
    getattr(request.settings.scale_down, field).seconds = seconds
    return request


def with_setting(**fields: Any) -> plan_pb2.PlanRequest:
    """Return a request with settings of scale-down."""
    request = asking()
    for name, value in fields.items():
        setattr(request.settings.scale_down, name, value)
    return request


def without_now() -> plan_pb2.PlanRequest:
    """Return a request without `now`."""
    request = asking()
    request.ClearField("now")
    return request


def at(seconds: int) -> plan_pb2.PlanRequest:
    """Return a request for another time."""
    request = asking()
    request.now.seconds = seconds
    return request


NAN = float("nan")


@pytest.mark.parametrize(
    ("request_", "reason", "field"),
    [
        pytest.param(without_now(), Reason.REQUEST_INVALID, "now", id="no moment"),
        pytest.param(at(-5), Reason.REQUEST_INVALID, "now", id="moment before 1970"),
        pytest.param(at(2**50), Reason.REQUEST_INVALID, "now", id="absurd moment"),
        pytest.param(asking(decisions=[]), Reason.REQUEST_INVALID, "decisions", id="no decision"),
        pytest.param(asking(decisions=[0]), Reason.REQUEST_INVALID, "decisions[0]", id="decision unspecified"),
        pytest.param(asking(decisions=[3, 99]), Reason.REQUEST_INVALID, "decisions[1]", id="decision unknown"),
        pytest.param(asking(decisions=[3, 3]), Reason.REQUEST_INVALID, "decisions[1]", id="decision twice"),
        pytest.param(asking(request_id="x" * 129), Reason.REQUEST_INVALID, "request_id", id="long request id"),
        pytest.param(
            asking(required_features=["evict-rules"] * 257), Reason.REQUEST_INVALID, "required_features", id="features"
        ),
        pytest.param(
            asking(required_features=["x" * 129]), Reason.REQUEST_INVALID, "required_features[0]", id="long feature"
        ),
        pytest.param(asking(cluster="é" * 127), Reason.REQUEST_INVALID, "cluster", id="long cluster name"),
        pytest.param(
            with_setting(utilization_threshold=NAN),
            Reason.SETTINGS_INVALID,
            "scale_down.utilization_threshold",
            id="NaN",
        ),
        pytest.param(
            with_setting(max_scale_down_parallelism=0),
            Reason.SETTINGS_INVALID,
            "scale_down.max_scale_down_parallelism",
            id="parallelism of zero",
        ),
        pytest.param(
            with_duration("unneeded_time", -1), Reason.SETTINGS_INVALID, "scale_down.unneeded_time", id="negative time"
        ),
    ],
)
def test_an_unusable_request_is_refused_and_its_field_named(
    stub: planner_pb2_grpc.PlannerStub, request_: plan_pb2.PlanRequest, reason: int, field: str
) -> None:
    error = refused(lambda: send(stub, parts(request_)))
    assert (error.reason, error.metadata["field"]) == (reason, field)
    assert send(stub, parts(asking())).snapshot_version


def test_new_nodes_are_split_between_groups(stub: planner_pb2_grpc.PlannerStub) -> None:
    groups = [planner_pb2.NodeGroupSize(node_group=name, current_size=size, max_size=9) for name, size in SIZES]
    answer = stub.BalanceScaleUp(
        planner_pb2.BalanceScaleUpRequest(node_groups=groups, new_nodes=4), timeout=2 * LIMIT_S
    )
    assert [(one.node_group, one.new_size) for one in answer.splits] == [("a", 4), ("b", 4)]


SIZES = (("c", 6), ("b", 3), ("a", 1))


def test_a_split_that_cannot_be_made_names_the_field(stub: planner_pb2_grpc.PlannerStub) -> None:
    request = planner_pb2.BalanceScaleUpRequest(new_nodes=1)
    error = refused(lambda: invoke(lambda: stub.BalanceScaleUp(request, timeout=2 * LIMIT_S), ONCE))
    assert (error.reason, error.metadata) == (Reason.REQUEST_INVALID, {"field": "node_groups"})


def announced(size: int) -> planner_pb2.PlanRequestPart:
    """Return a header that announces a size."""
    return planner_pb2.PlanRequestPart(request=asking(snapshot_size_bytes=size))


HEADER, *PIECES = parts(asking(), size=100)
BIG = b"x" * (MAX_PIECE_BYTES + 1)


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        pytest.param([], Reason.STREAM_INVALID, id="no part"),
        pytest.param(PIECES, Reason.STREAM_INVALID, id="no header"),
        pytest.param([planner_pb2.PlanRequestPart()], Reason.STREAM_INVALID, id="empty part first"),
        pytest.param([HEADER, HEADER], Reason.STREAM_INVALID, id="header twice"),
        pytest.param([HEADER, *PIECES[:1], *PIECES], Reason.STREAM_INVALID, id="a piece twice"),
        pytest.param([HEADER, *PIECES[1:]], Reason.STREAM_INVALID, id="first piece missing"),
        pytest.param([HEADER, *reversed(PIECES)], Reason.STREAM_INVALID, id="pieces out of order"),
        pytest.param([HEADER, *PIECES[:-1]], Reason.STREAM_INVALID, id="last piece missing"),
        pytest.param([HEADER], Reason.STREAM_INVALID, id="all pieces missing"),
        pytest.param([HEADER, *PIECES, piece(len(PIECES), b"x")], Reason.STREAM_INVALID, id="a piece too many"),
        pytest.param([HEADER, piece(0, b"")], Reason.STREAM_INVALID, id="empty piece"),
        pytest.param([HEADER, planner_pb2.PlanRequestPart()], Reason.STREAM_INVALID, id="empty part"),
        pytest.param([announced(len(BIG)), piece(0, BIG)], Reason.STREAM_INVALID, id="piece too large"),
        pytest.param([announced(-1)], Reason.REQUEST_INVALID, id="negative size"),
        pytest.param([announced(LIMIT + 1)], Reason.SNAPSHOT_TOO_LARGE, id="too large"),
        pytest.param([announced(2**62)], Reason.SNAPSHOT_TOO_LARGE, id="absurdly large"),
        pytest.param([announced(2), piece(0, b"\xff\xff")], Reason.SNAPSHOT_MALFORMED, id="no message"),
    ],
)
def test_a_stream_that_makes_no_request_is_refused(
    stub: planner_pb2_grpc.PlannerStub, stream: list[planner_pb2.PlanRequestPart], reason: int
) -> None:
    assert refused(lambda: send(stub, stream)).reason == reason
    assert send(stub, parts(asking())).snapshot_version


def test_a_broken_row_is_named_in_the_metadata(stub: planner_pb2_grpc.PlannerStub) -> None:
    cluster = small_cluster()
    cluster.nodes[2].name = "a"
    error = refused(lambda: send(stub, parts(asking(), cluster.SerializeToString())))
    assert error.reason == Reason.SNAPSHOT_INVALID
    assert error.metadata == {"table": "nodes", "row": "2", "field": "name"}


def test_a_lost_base_and_a_lost_state_are_distinguished(stub: planner_pb2_grpc.PlannerStub) -> None:
    error = refused(lambda: send(stub, parts(asking(base_version="0" * 32), b"")))
    assert (error.reason, error.metadata) == (Reason.SNAPSHOT_BASE_UNKNOWN, {"base_version": "0" * 32})
    error = refused(lambda: send(stub, parts(asking(state_version="1" * 32))))
    assert (error.reason, error.metadata) == (Reason.STATE_UNKNOWN, {"state_version": "1" * 32})


def test_no_caller_gets_a_snapshot_of_another_cluster(stub: planner_pb2_grpc.PlannerStub) -> None:
    version = send(stub, parts(asking(cluster="mine"))).snapshot_version
    error = refused(lambda: send(stub, parts(asking(cluster="yours", base_version=version), b"")))
    assert error.reason == Reason.SNAPSHOT_BASE_UNKNOWN


def test_a_deadline_that_has_passed_is_reported_and_the_next_call_works(stub: planner_pb2_grpc.PlannerStub) -> None:
    with pytest.raises(TrimtabError) as caught:
        send(stub, parts(asking()), timeout_s=0.000001)
    assert caught.value.code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert send(stub, parts(asking())).snapshot_version


def test_a_caller_that_disconnects_midway_leaves_nothing_behind(address: str) -> None:
    for _ in range(20):
        with connect(address) as channel:
            may_end = threading.Event()

            def half(may_end: threading.Event = may_end) -> Iterator[planner_pb2.PlanRequestPart]:
                yield HEADER
                yield PIECES[0]
                may_end.wait(LIMIT_S)

            call = planner_pb2_grpc.PlannerStub(channel).Plan.future(half())
            time.sleep(0.005)
            call.cancel()
            may_end.set()
    with PlannerClient(address, ONCE) as client:
        assert client.plan(small_cluster(), asking()).snapshot_version


class HeldHandler(RequestHandler):
    """Holds the first plan until it is released."""

    def __init__(self) -> None:
        super().__init__(start_telemetry("planner").meter, 0)
        self.entered, self.may_go_on = threading.Event(), threading.Event()

    def plan(self, request: plan_pb2.PlanRequest, payload: bytes, caller: Caller) -> plan_pb2.PlanResponse:
        self.entered.set()
        assert self.may_go_on.wait(LIMIT_S)
        return super().plan(request, payload, caller)


def test_calls_above_the_limit_are_refused_and_a_freed_slot_is_used_again() -> None:
    handler = HeldHandler()
    with make_shell(handler, max_concurrent=1, queue_s=0) as shell, connect(shell.address) as channel:
        stub = planner_pb2_grpc.PlannerStub(channel)
        call = stub.Plan.future(iter(parts(asking())))
        assert handler.entered.wait(LIMIT_S)
        assert refused(lambda: send(stub, parts(asking()))).reason == Reason.OVERLOADED
        handler.may_go_on.set()
        assert call.result(LIMIT_S).snapshot_version
        assert send(stub, parts(asking())).snapshot_version


def test_a_call_without_a_free_slot_waits() -> None:
    handler = HeldHandler()
    with make_shell(handler, max_concurrent=1, queue_s=LIMIT_S) as shell, connect(shell.address) as channel:
        stub = planner_pb2_grpc.PlannerStub(channel)
        calls = [stub.Plan.future(iter(parts(asking()))) for _ in range(6)]
        assert handler.entered.wait(LIMIT_S)
        handler.may_go_on.set()
        assert len({call.result(LIMIT_S).snapshot_version for call in calls}) == 1


def test_an_incomplete_request_takes_no_slot() -> None:
    may_end = threading.Event()

    def half() -> Iterator[planner_pb2.PlanRequestPart]:
        yield HEADER
        may_end.wait(LIMIT_S)

    with make_shell(max_concurrent=1) as shell, connect(shell.address) as channel:
        stub = planner_pb2_grpc.PlannerStub(channel)
        calls = [stub.Plan.future(half()) for _ in range(20)]
        assert send(stub, parts(asking())).snapshot_version
        may_end.set()
        assert {type(call.exception(LIMIT_S)) for call in calls} != {type(None)}


@BRIEF
@given(seed=st.integers(0, 10**9))
def test_a_shuffled_and_damaged_stream_has_a_clear_status(stub: planner_pb2_grpc.PlannerStub, seed: int) -> None:
    chance = random.Random(seed)
    stream = parts(asking(), size=chance.choice([50, 200]))
    for _ in range(chance.randint(1, 3)):
        act, i = chance.randint(0, 3), chance.randrange(len(stream))
        if act == 0:
            stream.insert(chance.randrange(len(stream)), stream[i])
        elif act == 1 and len(stream) > 1:
            del stream[i]
        elif act == 2:
            chance.shuffle(stream)
        else:
            stream[i] = piece(chance.randint(-1, 5), chance.randbytes(chance.randint(0, 60)))
    try:
        send(stub, stream)
    except TrimtabError as error:
        known = {Reason.STREAM_INVALID, Reason.SNAPSHOT_MALFORMED, Reason.SNAPSHOT_INVALID}
        if error.reason not in known:
            raise
