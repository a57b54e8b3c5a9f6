"""Annotated workloads and CapacityBuffers become requests for room; unusable ones are named."""

from typing import Any

import pytest

from tests.builders.capacity_buffers import TEMPLATE, buffer, template
from tests.builders.kubernetes import Json, deployment, job, owner_of, pod, replica_set, snapshot_of, stateful_set
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.pod_specs import read_slack_requests
from trimtab.v1 import snapshot_pb2 as pb

ASKS = {"annotations": {"trimtab.dev/slack": "20%"}}


def with_template(made: Json, template: Json | None = None) -> Json:
    """Return a controller that creates pods from a template."""
    return made | {"spec": made.get("spec", {}) | {"template": template or TEMPLATE}}


def requests(*objects: Any) -> dict[str, Any]:
    """Return the planner's input by object."""
    return {one.object: one for one in read_slack_requests(snapshot_of(*objects).slack_requests)}


def test_an_annotated_workload_asks_for_pods_like_its_own() -> None:
    found = requests(with_template(deployment("web", 10, metadata=ASKS)))
    one = found["Deployment/default/web"]
    assert (one.amount, one.scale, one.namespace, one.labels) == ("20%", 10, "default", (("app", "web"),))
    assert one.spec.requests == (("cpu", 500), ("memory", 1 << 30))
    assert one.spec.node_selector == (("disk", "ssd"),)


def test_all_kinds_of_workloads_may_be_annotated() -> None:
    found = requests(
        with_template(stateful_set("db", 3, metadata=ASKS)),
        with_template(job("batch", metadata=ASKS)),
        with_template(replica_set("set", 2, metadata=ASKS)),
        pod("alone", annotations={"trimtab.dev/slack": "2"}),
    )
    assert sorted(found) == [
        "Job/default/batch", "Pod/default/alone", "ReplicaSet/default/set", "StatefulSet/default/db"
    ]  # fmt: skip
    assert found["Pod/default/alone"].scale == 1


def test_an_annotation_that_controllers_copy_counts_once() -> None:
    above = with_template(deployment("web", 4, metadata=ASKS))
    below = with_template(replica_set("web-1", 4, metadata=ASKS | {"ownerReferences": [owner_of(above)]}))
    pods = [pod(f"web-{i}", owner=below, annotations={"trimtab.dev/slack": "20%"}) for i in range(4)]
    assert list(requests(above, below, *pods)) == ["Deployment/default/web"]


def test_a_replica_set_whose_deployment_no_longer_asks_does_not_ask_either() -> None:
    """The Deployment controller copies annotations, and never removes a copied one."""
    above = with_template(deployment("web", 4))
    below = with_template(replica_set("web-1", 4, metadata=ASKS | {"ownerReferences": [owner_of(above)]}))
    assert not requests(above, below)
    # If the Deployment is unknown, nothing else is known.
    assert list(requests(below)) == ["ReplicaSet/default/web-1"]


def test_pods_of_an_annotated_template_ask_once_for_their_workload() -> None:
    above = with_template(deployment("web", 4))
    below = with_template(replica_set("web-1", 4, metadata={"ownerReferences": [owner_of(above)]}))
    pods = [pod(f"web-{i}", owner=below, annotations={"trimtab.dev/slack": "50%"}) for i in range(4)]
    found = requests(above, below, *pods)
    assert [(name, one.amount, one.scale) for name, one in found.items()] == [("Deployment/default/web", "50%", 4)]


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_a_buffer_refers_to_a_pod_template_or_to_a_workload(version: str) -> None:
    found = requests(
        template(),
        buffer("by-template", version=version, podTemplateRef={"name": "chunk"}, replicas=3, limits={"cpu": "1750m"}),
        with_template(deployment("web", 8)),
        buffer("by-scale", version=version, scalableRef={"kind": "Deployment", "name": "web"}, percentage=25),
    )
    one, other = found["CapacityBuffer/default/by-template"], found["CapacityBuffer/default/by-scale"]
    assert (one.replicas, one.percentage, one.limits) == (3, -1, (("cpu", 1750),))
    assert (other.replicas, other.percentage, other.scale) == (-1, 25, 8)
    assert one.spec == other.spec


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"podTemplateRef": {"name": "absent"}, "replicas": 1}, "there is no PodTemplate default/absent"),
        ({"scalableRef": {"kind": "Deployment", "name": "absent"}, "replicas": 1}, "there is no Deployment"),
        ({"scalableRef": {"kind": "Node", "name": "n"}, "replicas": 1}, "'Node' is not served"),
        ({"replicas": 1}, "either podTemplateRef or scalableRef"),
        ({"podTemplateRef": {"name": "a"}, "scalableRef": {"kind": "Job", "name": "b"}}, "either podTemplateRef or"),
        ({"podTemplateRef": {"name": "chunk"}, "replicas": -1}, "-1 is not a count"),
        ({"podTemplateRef": {"name": "chunk"}, "limits": {"cpu": "many"}}, "is not a quantity"),
        ({"podTemplateRef": {"name": "chunk"}, "provisioningStrategy": "other"}, "'other' is not served"),
    ],
)
def test_a_buffer_that_cannot_be_used_is_named_and_the_others_continue(spec: Json, problem: str) -> None:
    good = buffer("good", podTemplateRef={"name": "chunk"}, replicas=1)
    found = requests(template(), buffer("bad", **spec), good)
    assert problem in found["CapacityBuffer/default/bad"].problem
    assert found["CapacityBuffer/default/good"].replicas == 1


def test_a_workload_without_template_is_named() -> None:
    assert "no pod template" in requests(deployment("web", 1, metadata=ASKS))["Deployment/default/web"].problem


def test_pods_left_out_of_slack_are_marked() -> None:
    made = canonicalize(snapshot_of(pod("db", annotations={"trimtab.dev/slack-ignore": "true"}), pod("web")))
    assert sorted(spec.ignored_by_slack for spec in made.specs) == [False, True]


TOGETHER, TOPOLOGY = "trimtab.dev/slack-together", "trimtab.dev/slack-topology-key"


def test_workloads_and_buffers_may_ask_for_room_for_all_their_pods_or_none() -> None:
    marks = {TOGETHER: "true", TOPOLOGY: "rack"}
    gang = buffer("gang", podTemplateRef={"name": "chunk"}, replicas=3)
    gang["metadata"]["annotations"] = marks
    web = with_template(deployment("web", 8, metadata={"annotations": marks | ASKS["annotations"]}))
    plain = with_template(stateful_set("db", 3, metadata={"annotations": {TOGETHER: "false"} | ASKS["annotations"]}))
    found = requests(template(), gang, web, plain)
    assert {name: (one.is_gang, one.topology_key) for name, one in found.items()} == {
        "CapacityBuffer/default/gang": (True, "rack"),
        "Deployment/default/web": (True, "rack"),
        "StatefulSet/default/db": (False, ""),
    }


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        ({TOGETHER: "yes"}, "metadata.annotations, trimtab.dev/slack-together: 'yes' is not a boolean"),
        ({TOPOLOGY: "rack"}, "metadata.annotations, trimtab.dev/slack-topology-key: it needs trimtab.dev/slack-togeth"),
    ],
)
def test_an_object_whose_annotations_on_gangs_cannot_be_read_is_named(annotations: Json, problem: str) -> None:
    bad = buffer("bad", podTemplateRef={"name": "chunk"}, replicas=3)
    bad["metadata"]["annotations"] = annotations
    web = with_template(deployment("web", 8, metadata={"annotations": annotations | ASKS["annotations"]}))
    found = requests(template(), bad, web)
    assert {one.problem.startswith(problem) for one in found.values()} == {True}


def test_without_requests_there_is_no_table() -> None:
    assert not snapshot_of(deployment("web", 1)).HasField("slack_requests")
    assert read_slack_requests(pb.SlackRequests()) == ()
