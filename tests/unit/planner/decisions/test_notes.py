"""Notes of an answer: input with a large effect that the caller may not have intended."""

from typing import Any

from google.protobuf.json_format import ParseDict

from tests.builders.kubernetes import Json, node, node_group, pod, replica_set, snapshot_of
from trimtab.planner.decisions.plan import plan
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2

NOW_S = 1_800_000_000
WEB = replica_set("web", 2)
CLUSTER: list[Json] = [node("n1"), node("n2"), node_group("g", nodes=["n1", "n2"]), pod("p", node="n1", owner=WEB)]


def notes(objects: list[Json], **settings: Any) -> list[str]:
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_DOWN])
    request.now.seconds = NOW_S
    ParseDict(settings, request.settings)
    return list(plan(canonicalize(snapshot_of(objects)), request, None, Work()).summary.notes)


def test_pods_of_controllers_that_were_not_listed_are_noted() -> None:
    assert notes(CLUSTER) == [
        "1 pod has a controller, but the snapshot lists no controllers: all count as not found and block their nodes; "
        "add them, as `kubectl get rs,sts,jobs,rc -A`"
    ]


def test_one_missing_controller_is_not_noted() -> None:
    other = replica_set("other", 1)
    assert notes([*CLUSTER, other, pod("q", node="n2", owner=other)]) == []


def test_settings_of_groups_that_do_not_exist_are_noted() -> None:
    objects = [*CLUSTER, WEB]
    assert notes(objects, nodeGroups={"g": {"utilizationThreshold": 0.1}}) == []
    assert notes(objects, nodeGroups={"x": {"utilizationThreshold": 0.1}}) == [
        "settings.node_groups['x'] has no effect: the snapshot has no such node group"
    ]
