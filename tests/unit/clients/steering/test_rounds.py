"""Steering rounds: the annotations follow the plan, and an actuator gets only pod costs."""

from collections.abc import Callable, Iterator

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.builders import kubernetes as k8s
from tests.builders.json_api import JsonApiServer
from tests.builders.loop import FakePlanner, plan_of
from trimtab.clients.live.cluster import Observation
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.loop.rounds import RoundSettings
from trimtab.clients.steering.marks import ours
from trimtab.clients.steering.rounds import SteeringRounds, SteerSettings, take_all_off
from trimtab.clients.steering.writer import MarkWriter
from trimtab.common.kubernetes.kinds.metadata import ObjectMeta
from trimtab.common.kubernetes.kinds.nodes import Node, NodeGroup
from trimtab.common.kubernetes.signals.cluster_autoscaler import SCALE_DOWN_DISABLED
from trimtab.common.kubernetes.signals.ours import STEERED
from trimtab.common.watched.snapshot_update import SnapshotUpdate
from trimtab.v1 import actuator_pb2, plan_pb2, snapshot_pb2
from trimtab.v1.reason_pb2 import UnremovableReason

KEY = SCALE_DOWN_DISABLED.key


class NodesOfServer:
    """The nodes of an API server; snapshots are empty."""

    def __init__(self, server: JsonApiServer) -> None:
        self._server = server

    def next_update(self, groups: list[NodeGroup], status: actuator_pb2.ActuatorStatus | None = None) -> Observation:
        del groups, status
        return Observation(SnapshotUpdate(snapshot_pb2.ClusterSnapshot(), None), [])

    def forget(self) -> None:
        """Do nothing."""

    def requeue(self) -> None:
        """Do nothing."""

    def nodes(self) -> list[Node]:
        metas = [one["metadata"] for path, one in self._server.objects.items() if "/nodes/" in path]
        return [
            Node(metadata=ObjectMeta(name=meta["name"], uid=meta["uid"], annotations=meta.get("annotations")))
            for meta in metas
        ]


@pytest.fixture
def server() -> Iterator[JsonApiServer]:
    with JsonApiServer() as started:
        for name in ("busy", "empty", "foreign", "manual"):
            started.put("/api/v1/nodes", {"metadata": {"name": name}})
        started.put("/api/v1/nodes", {"metadata": {"name": "manual", "annotations": {KEY: "true"}}})
        yield started


def plan() -> plan_pb2.PlanResponse:
    """Return a plan in which `empty` can go, `busy` and `manual` stay, and `foreign` is unknown."""
    answer = plan_of(waiting=["empty"])
    reasons = {"busy": UnremovableReason.NO_PLACE_TO_MOVE_PODS, "foreign": UnremovableReason.NOT_AUTOSCALED}
    reasons["manual"] = UnremovableReason.SCALE_DOWN_DISABLED_ANNOTATION
    for name, reason in reasons.items():
        answer.nodes.add(node=name, reason=reason, fate=plan_pb2.NodeFate.STAYS)
    return answer


def rounds(server: JsonApiServer, planner: FakePlanner, dry_run: bool = False) -> Callable[[], list[str]]:
    """Return a function that makes a round and returns our nodes after it."""
    steer = SteerSettings(KEY, dry_run=dry_run)
    settings = RoundSettings(decisions=(plan_pb2.Decision.SCALE_DOWN,), dry_run=dry_run)
    writer = MarkWriter(server.http(), 1000)
    made = SteeringRounds(NodesOfServer(server), PlannerSession(planner), None, settings, steer, writer)

    def make() -> list[str]:
        made.run("r", Timestamp(seconds=1_700_000_000), lambda: True)
        return marked(server)

    return make


def marked(server: JsonApiServer) -> list[str]:
    found = (one["metadata"] for path, one in server.objects.items() if "/nodes/" in path)
    return sorted(meta["name"] for meta in found if STEERED.key in meta.get("annotations", {}))


def test_nodes_that_stay_are_protected_and_a_steady_loop_writes_nothing(server: JsonApiServer) -> None:
    planner = FakePlanner(plan())
    make = rounds(server, planner)
    assert make() == ["busy"]
    writes = [one for one in server.requests if one.startswith("PATCH")]
    assert make() == ["busy"]
    assert [one for one in server.requests if one.startswith("PATCH")] == writes
    planner.answer = plan_of(waiting=["empty", "busy"])
    assert make() == []
    assert server.objects["/api/v1/nodes/manual"]["metadata"]["annotations"] == {KEY: "true"}


def test_a_dry_run_writes_nothing(server: JsonApiServer) -> None:
    assert rounds(server, FakePlanner(plan()), dry_run=True)() == []
    assert not [one for one in server.requests if one.startswith("PATCH")]


def test_without_a_decision_on_scale_down_the_annotations_stay_as_they_are(server: JsonApiServer) -> None:
    planner = FakePlanner(plan())
    make = rounds(server, planner)
    make()
    planner.answer = plan_pb2.PlanResponse()
    assert make() == ["busy"]


def test_in_the_end_all_annotations_of_trimtab_are_removed(server: JsonApiServer) -> None:
    rounds(server, FakePlanner(plan()))()
    assert take_all_off(NodesOfServer(server).nodes(), MarkWriter(server.http(), 1000), 60.0) == 0
    assert marked(server) == []
    assert server.objects["/api/v1/nodes/manual"]["metadata"]["annotations"] == {KEY: "true"}


def test_the_planner_does_not_take_our_annotation_for_a_wish_of_somebody() -> None:
    snapshot = k8s.snapshot_of(k8s.node("ours", annotations=ours(KEY)), k8s.node("theirs", annotations={KEY: "true"}))
    assert {one.name: one.scale_down_disabled for one in snapshot.nodes} == {"ours": False, "theirs": True}
