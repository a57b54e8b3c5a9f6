"""Data sent to the planner: as little as needed, and everything if the planner reports that something is missing."""

import pytest

from tests.builders.loop import FakePlanner, failure, unavailable
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.common.rpc.errors import Reason, TrimtabError
from trimtab.common.watched.snapshot_update import SnapshotUpdate
from trimtab.v1 import plan_pb2, snapshot_pb2

WHOLE = SnapshotUpdate(snapshot_pb2.ClusterSnapshot(resources=["cpu"]), None)
DELTA = SnapshotUpdate(None, snapshot_pb2.SnapshotDelta(deleted_nodes=["n1"]))
NOTHING = SnapshotUpdate(None, snapshot_pb2.SnapshotDelta(), is_empty=True)


def ask(session: PlannerSession, update: SnapshotUpdate) -> SnapshotUpdate:
    """Make one call; return what was sent to the planner."""
    return session.plan(plan_pb2.PlanRequest(), update, lambda: WHOLE)[1]


def test_after_the_whole_only_deltas_travel_each_against_the_last_answer() -> None:
    planner = FakePlanner()
    session = PlannerSession(planner)
    for update in (WHOLE, DELTA, NOTHING):
        assert ask(session, update) is update
    assert [one.base_version for one in planner.requests] == ["", "s1", "s2"]
    assert [one.snapshot_size_bytes for one in planner.requests] == [len(payload) for payload in planner.payloads]
    assert planner.payloads[2] == b""


def test_a_planner_that_lacks_the_base_gets_the_whole() -> None:
    planner = FakePlanner()
    session = PlannerSession(planner)
    ask(session, WHOLE)
    planner.failures.append(failure(Reason.SNAPSHOT_BASE_UNKNOWN))
    assert ask(session, DELTA) is WHOLE
    assert [one.base_version for one in planner.requests] == ["", "s1", ""]
    assert planner.snapshot(2) == WHOLE.snapshot


def test_the_state_travels_by_version_and_in_full_when_that_is_unknown() -> None:
    planner = FakePlanner()
    session = PlannerSession(planner)
    ask(session, WHOLE)
    planner.failures.append(failure(Reason.STATE_UNKNOWN))
    ask(session, NOTHING)
    assert not planner.requests[0].HasField("state")
    assert planner.requests[1].state_version == "t1"
    assert planner.requests[2].state.scale_down.undone_drains.times == 1
    assert planner.requests[2].state_version == ""


def test_after_a_failure_a_delta_is_not_trusted() -> None:
    planner = FakePlanner()
    session = PlannerSession(planner)
    ask(session, WHOLE)
    planner.failures.append(unavailable())
    with pytest.raises(TrimtabError):
        ask(session, DELTA)
    assert ask(session, DELTA) is WHOLE


def test_a_recorded_request_brings_its_own_state_or_continues_from_the_last_answer() -> None:
    planner = FakePlanner()
    session = PlannerSession(planner)
    session.ask(plan_pb2.PlanRequest(), WHOLE)
    session.ask(plan_pb2.PlanRequest(state_version="recorded"), NOTHING)
    own = plan_pb2.PlanState()
    own.scale_down.undone_drains.times = 77
    session.ask(plan_pb2.PlanRequest(state=own), NOTHING)
    assert not planner.requests[0].HasField("state")
    assert planner.requests[1].state_version == "t1"
    assert planner.requests[2].state.scale_down.undone_drains.times == 77


def test_a_snapshot_and_a_delta_with_devices_require_a_planner_that_knows_them_and_other_deltas_do_not() -> None:
    planner = FakePlanner()
    session = PlannerSession(planner)
    devices = snapshot_pb2.ClusterSnapshot(devices=snapshot_pb2.Devices(kubernetes_minor=36))
    for update in (WHOLE, SnapshotUpdate(None, snapshot_pb2.SnapshotDelta(changed=devices)), DELTA, NOTHING):
        ask(session, update)
    session.plan(plan_pb2.PlanRequest(), SnapshotUpdate(devices, None), lambda: WHOLE)
    assert [list(one.required_features) for one in planner.requests] == [[], ["devices"], [], [], ["devices"]]
