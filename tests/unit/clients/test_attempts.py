"""A planner or API server that fails is asked as often as documented, in one layer: the link asks again, and whoever
uses it does not.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import grpc
import pytest

from tests.builders.json_api import Fault, JsonApiServer
from trimtab.clients import planner_client
from trimtab.clients.loop.health import Health
from trimtab.clients.loop.loop import Loop, LoopServices, LoopSettings
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.planner_client import GrpcLink, PlannerClient
from trimtab.common.kubernetes import api
from trimtab.common.kubernetes.connection import ApiRequest
from trimtab.common.kubernetes.errors import ApiError
from trimtab.common.rpc.errors import TrimtabError, not_ready, overloaded
from trimtab.common.rpc.retries import ONCE, Backoff, RetryPolicy, attempts, with_retries
from trimtab.common.rpc.server import Registration, Shell
from trimtab.common.watched.snapshot_update import SnapshotUpdate
from trimtab.v1 import plan_pb2, planner_pb2, planner_pb2_grpc, snapshot_pb2

AT_ONCE = Backoff(0.0, 0.0)
DEFAULT = replace(RetryPolicy(), backoff=AT_ONCE)
WHOLE = SnapshotUpdate(snapshot_pb2.ClusterSnapshot(resources=["cpu"]), None)
UNAVAILABLE_CALLS, OVERLOADED_CALLS, API_CALLS = 5, 3, 4


class FailingPlanner(planner_pb2_grpc.PlannerServicer):
    """Answers every `Plan` with the next error of a cycle, and counts the calls."""

    def __init__(self) -> None:
        self.errors: list[Callable[[], Exception]] = []
        self.calls = 0

    def Plan(
        self, request_iterator: Iterator[planner_pb2.PlanRequestPart], context: grpc.ServicerContext
    ) -> plan_pb2.PlanResponse:
        for _ in request_iterator:
            pass
        self.calls += 1
        raise self.errors[(self.calls - 1) % len(self.errors)]()


def busy() -> Exception:
    return overloaded("too much to do")


def away() -> Exception:
    return not_ready("starting")


@pytest.fixture
def planner() -> FailingPlanner:
    return FailingPlanner()


@pytest.fixture
def address(planner: FailingPlanner, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(planner_client, "WHILE_BUSY", replace(planner_client.WHILE_BUSY, backoff=AT_ONCE))
    registration = Registration(planner_pb2_grpc.add_PlannerServicer_to_server, planner, "trimtab.v1.Planner")
    with Shell("test", [registration]) as shell:
        yield shell.address


@pytest.mark.parametrize(
    ("policy", "errors", "expected"),
    [
        pytest.param(DEFAULT, [busy], OVERLOADED_CALLS, id="overloaded"),
        pytest.param(DEFAULT, [away], UNAVAILABLE_CALLS, id="unavailable"),
        pytest.param(DEFAULT, [away, busy], 4, id="by turns: at the second refusal three calls were made already"),
        pytest.param(ONCE, [away], 1, id="unavailable, in the loop"),
        pytest.param(ONCE, [busy], OVERLOADED_CALLS, id="overloaded, in the loop"),
    ],
)
def test_a_session_asks_a_failing_planner_this_often_in_total(
    planner: FailingPlanner, address: str, policy: RetryPolicy, errors: list[Callable[[], Exception]], expected: int
) -> None:
    planner.errors = errors
    with GrpcLink(address, policy=policy) as link, pytest.raises(TrimtabError):
        PlannerSession(link).plan(plan_pb2.PlanRequest(), WHOLE, lambda: WHOLE)
    assert planner.calls == expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(away, UNAVAILABLE_CALLS, id="unavailable"),
        pytest.param(busy, OVERLOADED_CALLS, id="overloaded"),
    ],
)
def test_the_client_asks_a_failing_planner_this_often_in_total(
    planner: FailingPlanner, address: str, error: Callable[[], Exception], expected: int
) -> None:
    planner.errors = [error]
    with PlannerClient(address, DEFAULT) as client, pytest.raises(TrimtabError):
        client.plan(snapshot_pb2.ClusterSnapshot(), plan_pb2.PlanRequest())
    assert planner.calls == expected


def test_each_round_of_the_loop_asks_an_unavailable_planner_once(planner: FailingPlanner, address: str) -> None:
    planner.errors = [away]
    rounds = 4

    class Rounds:
        """Rounds that only ask the planner, until so many have failed."""

        def __init__(self, link: GrpcLink) -> None:
            self.session, self.made = PlannerSession(link), 0

        def run(self, *_: object) -> None:
            self.made += 1
            if self.made == rounds:
                loop.stop()
            self.session.plan(plan_pb2.PlanRequest(), WHOLE, lambda: WHOLE)

    with GrpcLink(address, policy=ONCE) as link:
        failing = Rounds(link)
        loop = Loop(failing, LoopSettings(0.01, backoff=AT_ONCE), LoopServices(Health(60)))  # type: ignore[arg-type]
        loop.run()
    assert failing.made == planner.calls == rounds


def test_an_api_server_that_fails_is_asked_four_times_and_for_a_change_once() -> None:
    with JsonApiServer() as server:
        for method in ("GET", "POST"):
            server.fail(method, *[Fault(503)] * 100)
        http = server.api().http
        with pytest.raises(ApiError):
            http.read_with_retries(ApiRequest("GET", "/api/v1/nodes"))
        with pytest.raises(ApiError):
            http.json("POST", "/api/v1/nodes", {})
        assert Counter(server.requests) == {"GET /api/v1/nodes": API_CALLS, "POST /api/v1/nodes": 1}


def test_the_pause_is_what_the_service_asks_for() -> None:
    pauses: list[float] = []
    policy = replace(attempts(3, 9.0, 9.0), hint_s=0.0)
    with pytest.raises(OSError, match="no"):
        with_retries(fail, lambda _: policy, before_pause=lambda _error, _count, pause_s: pauses.append(pause_s))
    assert pauses == [0.0, 0.0]
    hint = api.read_policy(ApiError(429, "TooManyRequests", "later", retry_after_s=3600.0))
    assert hint is not None
    assert hint.hint_s == api.LONGEST_HINT_S


def test_a_stop_ends_a_pause_and_raises_the_last_error() -> None:
    stopped = threading.Event()
    with pytest.raises(OSError, match="no"):
        with_retries(fail, lambda _: attempts(9, 600.0, 600.0), stopped, lambda *_: stopped.set())


def fail() -> None:
    raise OSError("no")
