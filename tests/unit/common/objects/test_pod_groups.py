"""Groups of pods that are scheduled together, of all forms and versions: which pods are in them, and their rows."""

from typing import Any

import msgspec
import pytest
from google.protobuf.json_format import MessageToDict

from tests.builders import kubernetes as k8s
from tests.builders import pod_group_objects as gangs
from tests.unit.common.objects.reading import build, text_column
from trimtab.common.kubernetes.kinds.controllers import PodTemplateSpec
from trimtab.common.kubernetes.kinds.pod_groups import SchedulingPodGroup
from trimtab.common.objects.pod_groups import PodGroupObjects, PodGroupReader
from trimtab.v1 import snapshot_pb2 as pb

Json = dict[str, Any]
KEY = ("default", "team")


def template(_spec: PodTemplateSpec, _namespace: str, _name: str) -> pb.TemplatePod:
    return pb.TemplatePod()


def groups_of(*objects: Json) -> dict[str, Json]:
    """Return the rows of groups by name, without namespace and time."""
    rows = {one.name: MessageToDict(one) for one in build(*objects).pod_groups}
    for row in rows.values():
        assert row.pop("namespace") == "default"
        del row["name"]
        row.pop("createTime", None)
    return rows


@pytest.mark.parametrize("version", [gangs.V1ALPHA2, "scheduling.k8s.io/v1alpha3", gangs.V1BETA1])
def test_a_pod_group_of_each_version_is_a_gang_of_the_pods_that_name_it(version: str) -> None:
    snapshot = build(gangs.pod_group(least=2, version=version), gangs.member("a"), gangs.member("b"), k8s.pod("c"))
    (row,) = snapshot.pod_groups
    assert (row.namespace, row.name, row.policy, row.min_count) == ("default", "team", pb.PodGroupPolicy.GANG, 2)
    assert row.create_time.ToJsonString() == k8s.CREATED
    assert text_column(snapshot, "pod_group") == ["team", "team", ""]


def test_a_group_that_is_no_gang_has_no_minimum() -> None:
    assert groups_of(gangs.pod_group(least=None)) == {"team": {"policy": "BASIC"}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"disruptionMode": "Pod"}, {"disruptionMode": "POD"}),
        ({"disruptionMode": "PodGroup"}, {"disruptionMode": "POD_GROUP"}),
        ({"disruptionMode": {"single": {}}}, {"disruptionMode": "POD"}),
        ({"disruptionMode": {"all": {}}}, {"disruptionMode": "POD_GROUP"}),
    ],
)
def test_disruption_mode_is_read_in_the_form_of_each_version(spec: Json, expected: Json) -> None:
    assert groups_of(gangs.pod_group(**spec)) == {"team": {"policy": "GANG", "minCount": 2, **expected}}


@pytest.mark.parametrize(
    ("version", "mode", "expected"),
    [
        (gangs.V1BETA1, {"all": {}}, -5), (gangs.V1BETA1, None, -5), ("", {"single": {}}, -5),
        (gangs.V1ALPHA2, None, None), ("", "Pod", None),
    ],
)  # fmt: skip
def test_the_priority_of_a_group_counts_from_kubernetes_1_37_on(version: str, mode: Any, expected: int | None) -> None:
    """A group without a version is an item of a list of an API server."""
    given = {} if mode is None else {"disruptionMode": mode}
    (row,) = build(gangs.pod_group(version=version or gangs.V1BETA1, priority=-5, **given)).pod_groups
    if not version:
        listed = msgspec.convert(gangs.pod_group(priority=-5, **given) | {"apiVersion": None}, SchedulingPodGroup)
        (row,) = PodGroupReader({}, PodGroupObjects({KEY: listed}), lambda _: 0, template).rows([KEY])
    assert (row.priority if row.HasField("priority") else None) == expected


def test_a_group_asks_for_room_for_more_gangs_like_it_by_an_annotation() -> None:
    made, volcano = gangs.pod_group(), gangs.volcano_group("other")
    for one in (made, volcano):
        one["metadata"]["annotations"] = {"trimtab.dev/slack": "2"}
    found = groups_of(made, volcano, gangs.volcano_member("v", "other"))
    assert {name: row["slack"] for name, row in found.items()} == {"team": "2", "volcano:other": "2"}


def test_the_domain_of_a_group_is_a_label_of_nodes() -> None:
    snapshot = build(gangs.pod_group(schedulingConstraints={"topology": [{"key": "rack"}]}))
    assert snapshot.strings[snapshot.pod_groups[0].topology_key] == "rack"


@pytest.mark.parametrize("version", [gangs.V1ALPHA2, gangs.V1BETA1])
def test_a_workload_tells_how_many_pods_its_controller_makes_and_which(version: str) -> None:
    job = k8s.job("train-job", 4)
    job["spec"]["template"] = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}
    group = gangs.pod_group(version=version, workload="train")
    snapshot = build(gangs.workload(version=version, job="train-job"), group, job)
    (row,) = snapshot.pod_groups
    assert (row.desired_count, row.pod_template.namespace) == (4, "default")
    assert len(snapshot.pod_specs) == 1


@pytest.mark.parametrize(
    "objects",
    [
        [gangs.pod_group(workload="train"), gangs.workload(job="gone")],
        [gangs.pod_group(workload="gone")],
        [gangs.pod_group(workload="train"), gangs.workload(job="train-job", groups=2), k8s.job("train-job", 4)],
    ],
    ids=["no controller", "no workload", "two groups share the controller"],
)
def test_otherwise_no_pod_is_expected_beyond_those_that_exist(objects: list[Json]) -> None:
    assert groups_of(*objects) == {"team": {"policy": "GANG", "minCount": 2}}


def test_a_group_of_a_workload_of_1_35_is_one_for_each_replica() -> None:
    pods = [
        gangs.workload_member("a", replica="0"),
        gangs.workload_member("b", replica="1"),
        gangs.workload_member("c"),
    ]
    gang = {"policy": "GANG", "minCount": 2, "object": "Workload/default/train"}
    expected = {f"workload:train:workers{rest}": gang for rest in (":0", ":1", "")}
    assert groups_of(*pods, gangs.workload(version=gangs.V1ALPHA1)) == expected
    assert groups_of(*pods) == {}  # so that the pods wait


def test_a_group_of_volcano_counts_pods_that_have_succeeded() -> None:
    pods = [
        gangs.volcano_member("a", node="n1", phase="Succeeded"),
        gangs.volcano_member("b"),
        gangs.volcano_member("c"),
    ]
    thing = {"object": "PodGroup.scheduling.volcano.sh/default/team"}
    assert groups_of(*pods, gangs.volcano_group(least=3)) == {
        "volcano:team": {"policy": "GANG", "minCount": 2, **thing}
    }
    assert groups_of(*pods, gangs.volcano_group(least=None)) == {"volcano:team": {"policy": "BASIC", **thing}}
    assert groups_of(*pods) == {"volcano:team": {"policy": "BASIC", **thing}}


def test_pod_groups_of_the_same_name_of_both_kinds_stay_apart() -> None:
    found = groups_of(gangs.pod_group(least=5), gangs.volcano_group(least=3), gangs.volcano_member("a"))
    assert {name: row["minCount"] for name, row in found.items()} == {"team": 5, "volcano:team": 3}


def test_a_group_of_kueue_is_as_many_pods_as_their_annotation_says() -> None:
    pods = [gangs.kueue_member("a"), gangs.kueue_member("b"), gangs.kueue_member("c", node="n1", phase="Succeeded")]
    expected = {"policy": "GANG", "minCount": 2, "desiredCount": 2, "object": "Pod/default/team"}
    assert groups_of(*pods) == {"kueue:team": expected}


@pytest.mark.parametrize(
    ("objects", "problem"),
    [
        (
            [gangs.pod_group(least=0)],
            "PodGroup default/team: spec.schedulingPolicy.gang.minCount: 0 is not a count of pods; give at least 1",
        ),
        (
            [gangs.pod_group(schedulingPolicy={})],
            "PodGroup default/team: spec.schedulingPolicy: neither of `basic` and `gang` is given",
        ),
        (
            [gangs.pod_group(schedulingPolicy={"basic": {}, "gang": {"minCount": 1}})],
            "PodGroup default/team: spec.schedulingPolicy: both of `basic` and `gang`",
        ),
        (
            [gangs.pod_group(schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]})],
            "PodGroup default/team: spec.schedulingConstraints.topology: there are 2; give at most 1",
        ),
        (
            [gangs.pod_group(schedulingConstraints={"topology": [{}]})],
            "PodGroup default/team: spec.schedulingConstraints.topology[0].key: it is missing",
        ),
        ([gangs.pod_group(priority=2**40)], "PodGroup default/team: spec.priority: 1099511627776 is out of range"),
        (
            [gangs.volcano_group(least=-1), gangs.volcano_member("a")],
            "PodGroup.scheduling.volcano.sh/default/team: spec.minMember: -1 is not a count of pods",
        ),
        (
            [gangs.workload(least=0, version=gangs.V1ALPHA1), gangs.workload_member("a")],
            "Workload/default/train: spec.podGroups, workers.policy.gang.minCount: 0 is not a count",
        ),
        (
            [gangs.kueue_member("a"), gangs.kueue_member("b", total="4")],
            "Pod/default/team: metadata.annotations, kueue.x-k8s.io/pod-group-total-count: '3', '4' is not one count",
        ),
        ([gangs.kueue_member("a", total="many")], "Pod/default/team: metadata.annotations, kueue"),
    ],
)
def test_a_group_that_cannot_be_read_says_which_field_and_has_nothing_else(objects: list[Json], problem: str) -> None:
    (row,) = groups_of(*objects, k8s.pod("other")).values()
    assert row.pop("problem").startswith(problem)
    assert row.keys() <= {"object"}


def test_pods_that_name_a_group_that_does_not_exist_still_name_it() -> None:
    snapshot = build(gangs.member("a", "gone"))
    assert (text_column(snapshot, "pod_group"), list(snapshot.pod_groups)) == (["gone"], [])
