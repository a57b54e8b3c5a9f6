"""Released nodes that the autoscaler has forgotten: others are released, and both stay so until it takes them up."""

from collections.abc import Iterator

import numpy as np
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.builders import kubernetes as k8s
from tests.builders.json_api import JsonApiServer
from trimtab.clients.in_process_planner import InProcessLink
from trimtab.clients.live.cluster import Observation
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.loop.rounds import RoundSettings
from trimtab.clients.steering.marks import NodeMarks, ours, settings_to_steer
from trimtab.clients.steering.rounds import SteeringRounds, SteerSettings
from trimtab.clients.steering.stalled import RECHECK_S, Patience, StalledNodes, hold
from trimtab.clients.steering.writer import MarkWriter
from trimtab.common.kubernetes.kinds.metadata import ObjectMeta
from trimtab.common.kubernetes.kinds.nodes import Node, NodeGroup, NodeSpec, Taint
from trimtab.common.kubernetes.signals.cluster_autoscaler import DELETION_CANDIDATE, SCALE_DOWN_DISABLED, TO_BE_DELETED
from trimtab.common.watched.snapshot_update import SnapshotUpdate
from trimtab.v1 import actuator_pb2, plan_pb2

KEY = SCALE_DOWN_DISABLED.key
NAMES = ("a", "b", "c")


class Place:
    """Three nodes, of which any one can go: its pod fits on another one, and no two pods fit on the third."""

    def __init__(self, server: JsonApiServer) -> None:
        self.server = server
        self.now_s = 0.0
        self.taints: dict[str, str] = {}
        owner = k8s.replica_set("web", 3)
        pods = [k8s.pod(f"web-{name}", cpu="1500m", node=name, owner=owner) for name in NAMES]
        nodes = [k8s.node(name, cpu="4") for name in NAMES]
        self.snapshot = k8s.snapshot_of(nodes, pods, owner, k8s.node_group("g", nodes=list(NAMES), target=3))
        for name in NAMES:
            server.put("/api/v1/nodes", {"metadata": {"name": name}})
        plan = plan_pb2.PlanSettings()
        plan.scale_down.unneeded_time.FromSeconds(0)
        settings = RoundSettings(decisions=(plan_pb2.Decision.SCALE_DOWN,), plan=settings_to_steer(plan))
        steer = SteerSettings(KEY, clock=lambda: self.now_s)
        session = PlannerSession(InProcessLink())
        self.rounds = SteeringRounds(self, session, None, settings, steer, MarkWriter(server.http(), 1000))

    def next_update(self, groups: list[NodeGroup], status: actuator_pb2.ActuatorStatus | None = None) -> Observation:
        del groups, status
        return Observation(SnapshotUpdate(self.snapshot, None), [])

    def forget(self) -> None:
        """Do nothing."""

    def requeue(self) -> None:
        """Do nothing."""

    def nodes(self) -> list[Node]:
        found = []
        for name in NAMES:
            meta = self.server.objects[f"/api/v1/nodes/{name}"]["metadata"]
            taints = [Taint(key=self.taints[name], effect="NoSchedule")] if name in self.taints else None
            metadata = ObjectMeta(name=name, uid=meta["uid"], annotations=meta.get("annotations"))
            found.append(Node(metadata=metadata, spec=NodeSpec(taints=taints)))
        return found

    def run_for(self, seconds: float) -> list[str]:
        """Make a round every ten seconds; return the nodes that are released then."""
        for _ in range(int(seconds / 10)):
            self.now_s += 10
            self.rounds.run("r", Timestamp(seconds=1_700_000_000 + int(self.now_s)), lambda: True)
        return [node.metadata.name or "" for node in self.nodes() if node.metadata and not _is_protected(node)]


def _is_protected(node: Node) -> bool:
    return bool(node.metadata and KEY in (node.metadata.annotations or {}))


@pytest.fixture
def place() -> Iterator[Place]:
    with JsonApiServer() as server:
        yield Place(server)


def test_when_the_released_node_does_not_go_another_one_is_released_with_it(place: Place) -> None:
    (first,) = place.run_for(50)
    assert place.run_for(20) == [first]
    second = place.run_for(30)
    assert (len(second), first in second) == (2, True)
    assert place.run_for(90) == list(NAMES)
    # All have stalled. Each is left out of the plans for as long as the autoscaler forgets a node.
    place.run_for(RECHECK_S)
    (again,) = place.run_for(150)[:1]
    assert again in NAMES


@pytest.mark.parametrize("key", [DELETION_CANDIDATE.key, TO_BE_DELETED.key])
def test_a_released_node_that_the_autoscaler_works_on_stays_alone(place: Place, key: str) -> None:
    (first,) = place.run_for(50)
    place.taints[first] = key
    assert place.run_for(600) == [first]


def test_a_stalled_node_that_becomes_a_candidate_again_is_planned_with_again(place: Place) -> None:
    (first,) = place.run_for(50)
    assert len(place.run_for(60)) == 2
    place.taints[first] = DELETION_CANDIDATE.key
    # Together they cannot go.
    assert len(place.run_for(20)) == 1


def test_where_the_autoscaler_marks_no_candidates_its_own_time_is_waited_for_too() -> None:
    watch = StalledNodes(Patience(60.0, 600.0))
    nodes = [NodeMarks("a", "uid", {}), NodeMarks("b", "uid", ours(KEY))]
    for now_s in range(0, 660, 10):
        watch.look(nodes, ["a", "b"], float(now_s))
        assert watch.names == frozenset()
    watch.look(nodes, ["a", "b"], 670.0)
    assert watch.names == {"a"}


def test_a_held_node_is_noted_once_and_without_the_notes_on_others_if_these_are_not_kept() -> None:
    state = plan_pb2.PlanState()
    hold(state, {"a"}, 5, alone=False)
    hold(state, {"b", "a"}, 7, alone=False)
    failed = state.scale_down.unremovable
    assert list(state.scale_down.strings) == ["", "a", "b"]
    assert np.frombuffer(failed.node, "<i4").tolist() == [1, 2]
    assert np.frombuffer(failed.time_ns, "<i8").tolist() == [7, 7]
    hold(state, {"a"}, 9, alone=True)
    assert np.frombuffer(failed.node, "<i4").tolist() == [1]
    assert (len(failed.reason), len(failed.blocking_reason), list(failed.blocking_pod)) == (1, 1, [""])


def test_what_was_noted_of_a_node_under_another_index_of_its_name_is_removed_too() -> None:
    state = plan_pb2.PlanState()
    state.scale_down.strings.extend(["", "n1", "n1"])
    failed = state.scale_down.unremovable
    failed.node, failed.time_ns = np.array([1, 2], "<i4").tobytes(), np.array([1, 2], "<i8").tobytes()
    failed.reason, failed.blocking_reason = bytes(2), bytes(2)
    failed.blocking_pod.extend(["", ""])
    hold(state, ["n1"], 7, alone=False)
    assert np.frombuffer(failed.time_ns, "<i8").tolist() == [7]
