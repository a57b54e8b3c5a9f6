"""How long the records of requests are kept: a caller that waits finds its answer."""

from dataclasses import replace

import grpc
import pytest

from tests.builders.actuator import SETTINGS, Stage, small_cluster
from trimtab.actuator.cloud.provider import CloudError
from trimtab.actuator.kube.cluster import RefusedError
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.states import GroupGrowth, GrowthAnswer, NodeAnswer, Retention
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.common.rpc.errors import ServiceError
from trimtab.v1 import actuator_pb2, plan_pb2

MINUTE_MS = 60_000
NONE = Retention(finished_s=0.0, evictions_s=0.0)
GROWTHS = (GroupGrowth("g", 8, 9),)
ANSWERS = (GrowthAnswer("g", True),)


def growth(request_id: str = "grow") -> actuator_pb2.ScaleUpRequest:
    split = plan_pb2.ScaleUpSplit(node_group="g", current_size=8, new_size=9)
    return actuator_pb2.ScaleUpRequest(request_id=request_id, splits=[split])


def test_a_growth_ages_from_its_answer() -> None:
    tracker = Tracker(Retention(finished_s=600.0, evictions_s=0.0))
    tracker.handle(e.GrowthRequested("old", "d", GROWTHS), 0)
    tracker.handle(e.GrowthRequested("quick", "d", GROWTHS), MINUTE_MS)
    tracker.handle(e.GrowthAnswered("quick", ANSWERS), 2 * MINUTE_MS)
    tracker.handle(e.GrowthAnswered("old", ANSWERS), 60 * MINUTE_MS)
    assert list(tracker.data.growths) == ["old"], "the other one was answered long before"
    assert tracker.data.growths["old"].answers == ANSWERS
    tracker.handle(e.NodesJoined("g"), 69 * MINUTE_MS)
    assert list(tracker.data.growths) == ["old"]
    tracker.handle(e.NodesJoined("g"), 71 * MINUTE_MS)
    assert not tracker.data.growths


def test_a_request_ages_from_the_end_of_its_last_deletion() -> None:
    tracker = Tracker(NONE)
    planned = (e.PlannedNode("n1", "g", True), e.PlannedNode("n2", "g", True))
    tracker.handle(e.SetAccepted("r", "d", planned, tuple(NodeAnswer(one.node, True) for one in planned), 60.0), 0)
    tracker.handle(e.SetFailed("r", "n1", "forbidden"), 50 * MINUTE_MS)
    tracker.handle(e.RolledBack("n1"), 60 * MINUTE_MS)
    tracker.handle(e.RolledBack("n2"), 70 * MINUTE_MS)
    for minutes, is_kept in ((74, True), (76, False)):
        tracker.handle(e.NodesJoined("g"), minutes * MINUTE_MS)
        assert ("r" in tracker.data.requests) == is_kept


def short_memory() -> Stage:
    return Stage(small_cluster(), replace(SETTINGS, retention=NONE))


def test_a_refused_deletion_is_answered_however_short_results_are_kept() -> None:
    stage = short_memory()
    stage.cluster.faults.add(Fault("add_taint", "n6", RefusedError("forbidden"), times=1))
    request = stage.request("r", "n6", drain=False)
    assert stage.start(request) == {"n6": (False, "FAILED_TO_MARK_TO_BE_DELETED")}
    stage.run()
    stage.start(stage.request("other", "n7", drain=False))
    stage.run()
    assert stage.start(request) == {"n6": (False, "FAILED_TO_MARK_TO_BE_DELETED")}


def test_a_growth_that_is_answered_late_is_answered_however_short_results_are_kept() -> None:
    stage = short_memory()
    stage.cluster.faults.add(Fault("set_size", error=CloudError("away"), delay_s=20.0, times=1))
    stage.actuator.growths.begin(growth())
    stage.run()
    stage.start(stage.request("other", "n7", drain=False))
    stage.run()
    (answer,) = stage.actuator.growths.answers("grow") or ()
    assert answer.accepted


def test_a_growth_whose_answer_is_no_longer_kept_is_an_error_that_says_so() -> None:
    stage = short_memory()
    with pytest.raises(ServiceError, match="no longer kept") as caught:
        stage.actuator.growths.answers("grow")
    assert caught.value.code is grpc.StatusCode.UNAVAILABLE
