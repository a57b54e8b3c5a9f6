"""An overloaded planner refuses calls; the session continues to send deltas."""

from collections.abc import Iterator

import grpc
import pytest

from trimtab.clients import planner_client
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.planner_client import GrpcLink
from trimtab.common.rpc.errors import Reason, TrimtabError, overloaded
from trimtab.common.rpc.retries import ONCE, attempts
from trimtab.common.rpc.server import Registration, Shell
from trimtab.common.watched.snapshot_update import SnapshotUpdate
from trimtab.v1 import plan_pb2, planner_pb2, planner_pb2_grpc, snapshot_pb2

WHOLE = SnapshotUpdate(snapshot_pb2.ClusterSnapshot(resources=["cpu"]), None)
DELTA = SnapshotUpdate(None, snapshot_pb2.SnapshotDelta(deleted_nodes=["n1"]))
ATTEMPTS = 3


class BusyPlanner(planner_pb2_grpc.PlannerServicer):
    """Refuses a given number of calls, and records the base of each."""

    def __init__(self) -> None:
        self.bases: list[str] = []
        self.refusals = 0

    def Plan(
        self, request_iterator: Iterator[planner_pb2.PlanRequestPart], context: grpc.ServicerContext
    ) -> plan_pb2.PlanResponse:
        del context
        first, *_ = request_iterator
        self.bases.append(first.request.base_version)
        if self.refusals:
            self.refusals -= 1
            raise overloaded("too much to do")
        return plan_pb2.PlanResponse(snapshot_version=f"s{len(self.bases)}")


@pytest.fixture
def planner() -> BusyPlanner:
    return BusyPlanner()


@pytest.fixture
def session(planner: BusyPlanner, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlannerSession]:
    at_once = attempts(ATTEMPTS, 0.001, 0.001)
    monkeypatch.setattr(planner_client, "WHILE_BUSY", at_once)
    registration = Registration(planner_pb2_grpc.add_PlannerServicer_to_server, planner, "trimtab.v1.Planner")
    with Shell("test", [registration]) as shell, GrpcLink(shell.address, policy=ONCE) as link:
        yield PlannerSession(link)


def ask(session: PlannerSession, update: SnapshotUpdate) -> None:
    session.plan(plan_pb2.PlanRequest(), update, lambda: WHOLE)


def test_a_delta_that_is_refused_goes_again_as_a_delta(planner: BusyPlanner, session: PlannerSession) -> None:
    ask(session, WHOLE)
    planner.refusals = ATTEMPTS - 1
    ask(session, DELTA)
    assert planner.bases == ["", *["s1"] * ATTEMPTS]
    assert session.whole_count == 1


def test_a_planner_that_stays_busy_is_left_alone(planner: BusyPlanner, session: PlannerSession) -> None:
    ask(session, WHOLE)
    planner.refusals = ATTEMPTS
    with pytest.raises(TrimtabError) as caught:
        ask(session, DELTA)
    assert caught.value.reason == Reason.OVERLOADED
    assert planner.bases == ["", *["s1"] * ATTEMPTS]


def test_what_a_busy_planner_has_refused_may_go_again_as_a_delta_later(
    planner: BusyPlanner, session: PlannerSession
) -> None:
    ask(session, WHOLE)
    planner.refusals = ATTEMPTS
    with pytest.raises(TrimtabError):
        ask(session, DELTA)
    ask(session, DELTA)
    assert planner.bases == ["", *["s1"] * (ATTEMPTS + 1)]
    assert session.whole_count == 1


def test_what_follows_a_refused_snapshot_is_whole_too(planner: BusyPlanner, session: PlannerSession) -> None:
    ask(session, WHOLE)
    planner.refusals = ATTEMPTS
    with pytest.raises(TrimtabError):
        ask(session, WHOLE)
    assert not session.has_base
    ask(session, DELTA)
    assert planner.bases == ["", *[""] * ATTEMPTS, ""]
