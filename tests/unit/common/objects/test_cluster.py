"""Nodes, node groups, owners, budgets and namespaces as rows."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.builders.kubernetes import (
    csi_node,
    daemon_set,
    deployment,
    job,
    labelled,
    namespace,
    node,
    node_group,
    pdb,
    pod,
    pod_affinity,
    pods_of,
    replica_set,
    replication_controller,
    stateful_set,
)
from tests.unit.common.objects.reading import build, label_set, notes, resolved, spec_of, text_column
from trimtab.common.kubernetes.kinds.metadata import ObjectMeta, OwnerReference
from trimtab.common.kubernetes.kinds.nodes import Node, NodeGroup, NodeGroupSpec
from trimtab.common.objects import ObjectError
from trimtab.common.objects.build import Prebuilt, build_watched_snapshot
from trimtab.common.objects.decode import decode_objects
from trimtab.common.objects.node_groups import Membership
from trimtab.common.objects.objects import Objects
from trimtab.common.objects.owners import controller_of
from trimtab.common.objects.pod_rows import pod_row


def amounts(snapshot: Any, values: Any) -> dict[str, int]:
    """Return amounts by resource, without zeros."""
    return {name: value for name, value in zip(snapshot.resources, values, strict=False) if value}


def test_a_node_keeps_labels_taints_amounts_and_times() -> None:
    capacity = {"cpu": "4", "memory": "16Gi", "pods": "110", "example.org/fpga": "2"}
    snapshot = build(
        node(
            "n1",
            cpu="3500m",
            zone="a",
            taints=["b:NoExecute", "a=x:NoSchedule"],
            extra={"example.org/fpga": "1"},
            capacity=capacity,
        )
    )
    [row] = snapshot.nodes
    assert (row.name, row.provider_id, row.ready, row.unschedulable) == ("n1", "test://n1", True, False)
    assert label_set(snapshot, row.label_set) == {"kubernetes.io/hostname": "n1", "topology.kubernetes.io/zone": "a"}
    assert resolved(snapshot, row)["taints"] == [
        {"key": "a", "value": "x", "effect": "NO_SCHEDULE"},
        {"key": "b", "effect": "NO_EXECUTE"},
    ]
    memory = 16 * 2**30
    assert amounts(snapshot, row.allocatable) == {"cpu": 3500, "memory": memory, "pods": 110, "example.org/fpga": 1}
    assert amounts(snapshot, row.capacity) == {"cpu": 4000, "memory": memory, "pods": 110, "example.org/fpga": 2}
    assert (row.create_time.seconds, row.ready_transition_time.seconds) == (1767225600, 1767225600)


def test_every_snapshot_begins_with_the_same_resources() -> None:
    names = ["cpu", "memory", "ephemeral-storage", "pods"]
    assert list(build(pod(requests={"example.org/b": "1"}), node(extra={"example.org/a": "1"})).resources) == [
        *names,
        "example.org/a",
        "example.org/b",
    ]


CA = "cluster-autoscaler.kubernetes.io/"


@pytest.mark.parametrize(
    ("built", "field", "expected"),
    [
        pytest.param(node(unschedulable=True), "unschedulable", True, id="unschedulable"),
        pytest.param(node(ready=False), "ready", False, id="not ready"),
        pytest.param(node(status={"conditions": None}), "ready", False, id="no conditions"),
        pytest.param(
            node(annotations={CA + "scale-down-disabled": "true"}), "scale_down_disabled", True, id="disabled"
        ),
        pytest.param(node(annotations={CA + "scale-down-disabled": "no"}), "scale_down_disabled", False, id="other"),
        pytest.param(node(annotations={f"delay-deletion.{CA}x": ""}), "deletion_delayed", True, id="delayed"),
    ],
)
def test_flags_of_nodes(built: Any, field: str, expected: bool) -> None:
    assert getattr(build(built).nodes[0], field) is expected


def test_attach_limits_come_from_the_csi_node_of_the_same_name() -> None:
    snapshot = build(node("n1"), node("n2"), csi_node("n1", {"b": 25, "a": 0, "unlimited": None}))
    assert resolved(snapshot, snapshot.nodes[0])["attachLimits"] == [{"driver": "a"}, {"driver": "b", "count": 25}]
    assert not snapshot.nodes[1].attach_limits


def test_nodes_belong_to_the_group_that_selects_or_names_them() -> None:
    snapshot = build(
        node("a", labels={"pool": "x"}),
        node("b"),
        node("c"),
        node_group("by-label", 1, 5, selector={"pool": "x"}, price=0.5),
        node_group("by-name", 0, 9, nodes=["b"], target=3),
        node_group("empty", selector={}),
    )
    assert {row.name: row.node_group for row in snapshot.nodes} == {"a": "by-label", "b": "by-name", "c": ""}
    groups = {row.id: row for row in snapshot.node_groups}
    assert (groups["by-label"].target_size, groups["by-label"].price_per_hour) == (1, 0.5)
    assert groups["by-name"].target_size == 3
    assert not groups["by-name"].HasField("price_per_hour")
    assert groups["empty"].target_size == 0


def in_turn(count: int, selector: Callable[[int], dict[str, str]]) -> list[dict[str, Any]]:
    return [node_group(f"g{i:04}", selector=selector(i)) for i in range(count)]


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param(lambda i: {"pool": f"p{i}"}, id="a label of its own"),
        pytest.param(lambda i: {"os": "linux", "pool": f"p{i}"}, id="one shared, one of its own"),
        pytest.param(lambda i: {"zone": f"z{i % 40}", "type": f"t{i // 40}"}, id="only together its own"),
    ],
)
def test_a_thousand_groups_find_their_nodes(selector: Callable[[int], dict[str, str]]) -> None:
    labels = [selector(i) | {"os": "linux", "other": "x"} for i in range(1000)]
    nodes = [node(f"n{i:04}", labels=labels[i]) for i in range(0, 1000, 2)]
    extra = node("named"), node("nobody", labels={"zone": "z1"}), node_group("by-name", nodes=["named", "gone"])
    snapshot = build(*nodes, *extra, *in_turn(1000, selector))
    expected = {f"n{i:04}": f"g{i:04}" for i in range(0, 1000, 2)}
    assert {row.name: row.node_group for row in snapshot.nodes} == expected | {"named": "by-name", "nobody": ""}
    sizes = {row.id: row.target_size for row in snapshot.node_groups}
    assert sizes == {f"g{i:04}": 1 - i % 2 for i in range(1000)} | {"by-name": 1}


class CountedLabels(dict[str, str]):
    """Labels that count iterations and look-ups."""

    uses = 0

    def items(self) -> Any:
        CountedLabels.uses += 1
        return super().items()

    def get(self, *key: Any) -> Any:
        CountedLabels.uses += 1
        return super().get(*key)


@pytest.mark.parametrize("count", [10, 1000])
def test_a_node_is_checked_as_often_however_many_groups_there_are(count: int) -> None:
    groups = [
        NodeGroup(metadata=ObjectMeta(name=f"g{i}"), spec=NodeGroupSpec(node_selector={"os": "linux", "pool": f"p{i}"}))
        for i in range(count)
    ]
    labels = CountedLabels({"os": "linux", "pool": "p3"})
    CountedLabels.uses = 0
    found = Membership(groups).groups_of("n", Node(metadata=ObjectMeta(name="n", labels=labels)))
    assert [group.metadata.name for group in found if group.metadata] == ["g3"]
    assert CountedLabels.uses <= 4


def test_a_node_of_two_groups_is_refused_with_both_names() -> None:
    with pytest.raises(ObjectError) as caught:
        build(
            node("n1", labels={"a": "1", "b": "2"}), node_group("x", selector={"a": "1"}), node_group("y", nodes=["n1"])
        )
    assert "y" in str(caught.value)
    assert caught.value.problem == "node n1 belongs to this group and to x"


def test_a_group_that_names_an_absent_node_is_noted() -> None:
    assert notes(node_group(nodes=["gone"])) == ["NodeGroup g1 names 1 node not in the input: gone"]


def test_an_unknown_field_of_a_group_is_refused_by_name() -> None:
    group = node_group()
    group["spec"]["maxsize"] = group["spec"].pop("maxSize")
    with pytest.raises(ObjectError) as caught:
        build(group)
    assert caught.value.path == "spec.maxsize"
    assert caught.value.problem.startswith("there is no such field; NodeGroup has minSize, maxSize, ")


def test_unknown_fields_of_kubernetes_own_kinds_are_left_alone_in_a_template_too() -> None:
    template = node("t") | {"spec": {"podCIDR": "10.0.0.0/24"}}
    snapshot = build(node_group(template=template), node("n1", spec={"podCIDR": "10.0.0.0/24"}))
    assert (len(snapshot.nodes), snapshot.node_groups[0].HasField("template")) == (1, True)


@pytest.mark.parametrize("status", [{"allocatable": None, "capacity": None}, None])
def test_a_node_that_has_reported_nothing_yet_has_nothing_and_is_noted(status: Any) -> None:
    silent = node("n1") | {"status": status}
    assert list(build(silent, node("n2")).nodes[0].allocatable) == []
    assert notes(silent, node("n2")) == ["1 node has no status.allocatable, so nothing fits there: n1"]


def test_a_node_that_tells_its_capacity_alone_has_all_of_it() -> None:
    snapshot = build(node("n1") | {"status": {"capacity": {"cpu": "2"}}})
    assert amounts(snapshot, snapshot.nodes[0].allocatable) == {"cpu": 2000}


def test_absurd_amounts_are_cut_so_that_absurd_pods_fit_no_node_and_are_noted() -> None:
    objects = [node("n1", memory="2E"), pod("a", memory="1E"), pod("b", memory="1E"), node("n2", memory="1Ei")]
    snapshot = build(*objects)
    assert spec_of(snapshot)["requests"]["memory"] == 2**50
    assert {amounts(snapshot, row.allocatable)["memory"] for row in snapshot.nodes} == {2**50 - 1}
    assert notes(*objects) == [
        f"Pod default/a and those like it: spec.containers request {10**18} of memory; that counts as {2**50}, more "
        "than any node has, so they fit nowhere; correct their requests",
        f"Node n1: status.allocatable.memory is {2 * 10**18}; that counts as {2**50 - 1}",
        f"Node n2: status.allocatable.memory is {2**60}; that counts as {2**50 - 1}",
    ]


def test_a_template_may_give_only_capacity() -> None:
    template = {"metadata": {"labels": {"pool": "x"}}, "status": {"capacity": {"cpu": "2", "pods": 10}}}
    group = node_group()
    group["spec"]["template"] = template
    snapshot = build(group)
    row = snapshot.node_groups[0].template
    assert amounts(snapshot, row.allocatable) == {"cpu": 2000, "pods": 10}
    assert label_set(snapshot, row.label_set) == {"pool": "x"}


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (11, ["NodeGroup g1: targetSize 11 is above maxSize 10"]),
        (1, ["NodeGroup g1: targetSize 1 is below minSize 2"]),
        (10, []),
    ],
)
def test_a_target_size_outside_of_the_limits_is_noted(target: int, expected: list[str]) -> None:
    group = node_group("g1", min_size=2, max_size=10, target=target)
    assert notes(group) == expected


@pytest.mark.parametrize(
    ("objects", "name", "message"),
    [
        pytest.param(
            [node("a"), node_group("g1", nodes=["a"]), node_group("g2", nodes=["a"])],
            "g2",
            "node a belongs to this group and to g1",
            id="node in two groups",
        ),
        pytest.param([node_group(min_size=3, max_size=2)], "g1", "spec.minSize: 3 is more than maxSize 2", id="min"),
        pytest.param([node_group(min_size=-1)], "g1", "spec.minSize: -1 is out of range", id="negative"),
        pytest.param([node_group(price=-1.0)], "g1", "spec.price: -1.0 is out of range", id="price"),
        pytest.param([node_group(price=1e308)], "g1", "spec.price: 1e+308 is out of range", id="huge price"),
        pytest.param([node_group() | {"spec": {"minSize": 1}}], "g1", "spec.maxSize: it is missing", id="no maximum"),
    ],
)
def test_a_broken_group_is_refused(objects: list[Any], name: str, message: str) -> None:
    with pytest.raises(ObjectError) as caught:
        build(*objects)
    assert caught.value.name == name
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("built", "path"),
    [
        pytest.param(node(taints=["a:Sometimes"]), "spec.taints[0].effect", id="effect"),
        pytest.param(node(cpu="x"), "status.allocatable.cpu", id="quantity"),
        pytest.param(node(cpu="-1"), "status.allocatable.cpu", id="negative"),
    ],
)
def test_a_broken_node_is_refused_with_its_field(built: Any, path: str) -> None:
    with pytest.raises(ObjectError) as caught:
        build(built)
    assert (caught.value.kind, caught.value.name, caught.value.path) == ("Node", "n1", path)


@pytest.mark.parametrize(
    ("name", "namespace", "path"),
    [
        pytest.param("../secrets/token", "default", "metadata.name", id="a path"),
        pytest.param("a\nb", "default", "metadata.name", id="two lines"),
        pytest.param("A", "default", "metadata.name", id="a capital"),
        pytest.param("é", "default", "metadata.name", id="not ASCII"),
        pytest.param("a..b", "default", "metadata.name", id="an empty part"),
        pytest.param("a", "kube.system", "metadata.namespace", id="a namespace with a dot"),
    ],
)
def test_a_name_that_kubernetes_does_not_allow_is_refused(name: str, namespace: str, path: str) -> None:
    with pytest.raises(ObjectError, match="is not a name that Kubernetes allows") as caught:
        build(pod("other"), pod(name, namespace=namespace))
    assert (caught.value.kind, caught.value.path) == ("Pod", path)
    row = pod_row(decode_objects([pod("a")]).of("Pod")[0])._replace(name=name, namespace=namespace)
    with pytest.raises(ObjectError, match="is not a name that Kubernetes allows"):
        build_watched_snapshot(Objects(), Prebuilt([row]))


@pytest.mark.parametrize(
    ("owner", "api_version", "desired", "current"),
    [
        pytest.param(replica_set(replicas=3, current=2), "apps/v1", 3, 2, id="ReplicaSet"),
        pytest.param(replica_set(replicas=None), "apps/v1", 1, None, id="replicas default to 1"),
        pytest.param(stateful_set(replicas=2), "apps/v1", 2, 2, id="StatefulSet"),
        pytest.param(replication_controller(replicas=2), "v1", 2, 2, id="ReplicationController"),
        pytest.param(job(parallelism=4, active=3), "batch/v1", 4, 3, id="Job"),
        pytest.param(job(parallelism=None), "batch/v1", 1, 0, id="Job without numbers"),
        pytest.param(
            daemon_set(status={"desiredNumberScheduled": 5, "currentNumberScheduled": 4}),
            "apps/v1",
            5,
            4,
            id="DaemonSet",
        ),
    ],
)
def test_owners_keep_wanted_and_present_replicas(
    owner: Any, api_version: str, desired: int, current: int | None
) -> None:
    snapshot = build(owner, *pods_of(owner, 1))
    [row] = snapshot.owners
    meta = owner["metadata"]
    assert (row.uid, row.kind, row.name, row.namespace) == (meta["uid"], owner["kind"], meta["name"], meta["namespace"])
    assert (row.api_version, row.desired_replicas) == (api_version, desired)
    assert (row.current_replicas if row.HasField("current_replicas") else None) == current
    assert text_column(snapshot, "owner") == [row.uid]


def test_only_owners_of_pods_and_those_that_want_pods_are_listed() -> None:
    snapshot = build(
        deployment("web", 3),
        replica_set("web-1", 0),
        replica_set("web-2", 3),
        *pods_of(replica_set("gone", 1), 1),
        *pods_of(replica_set("web-0", 0), 1),
        replica_set("web-0", 0),
    )
    assert [row.name for row in snapshot.owners] == ["web-0", "web-2"]


def test_the_controller_is_the_owner_that_says_so() -> None:
    other, controller = OwnerReference(kind="A"), OwnerReference(kind="B", controller=True)
    assert controller_of([other, controller]) is controller
    assert controller_of([other]) is None
    assert controller_of(None) is None


def test_an_owner_without_uid_is_found_by_kind_and_name() -> None:
    owner = replica_set("web", 1)
    [built] = pods_of(owner, 1)
    del owner["metadata"]["uid"]
    del built["metadata"]["ownerReferences"][0]["uid"]
    snapshot = build(owner, built)
    assert text_column(snapshot, "owner") == [snapshot.owners[0].uid]


def test_a_kind_of_controller_that_the_input_lacks_is_noted() -> None:
    pods = [*pods_of(replica_set("web"), 2), *pods_of(daemon_set(), 1), *pods_of(job(), 1)]
    empty = {"apiVersion": "batch/v1", "kind": "JobList", "items": []}
    with_one_controller = notes(*pods, empty, daemon_set())
    assert [note.split(",")[0] for note in with_one_controller] == ["2 pods have a ReplicaSet as controller"]
    assert notes(*pods, empty) == [], "the planner says that there are no controllers at all"


def test_namespaces_that_the_input_lacks_are_noted_when_labels_of_theirs_matter() -> None:
    team = pod_affinity(labelled(app="x"), namespaceSelector=labelled(team="a"))
    every = pod_affinity(labelled(app="x"), namespaceSelector={})
    assert ["Namespace" in note for note in notes(pod(affinity=team))] == [True]
    assert notes(pod(affinity=every)) == notes(pod(affinity=team), namespace()) == []


def test_two_owners_with_one_uid_are_refused() -> None:
    second = stateful_set("db", metadata={"uid": "replicaset-default-web"})
    with pytest.raises(ObjectError, match="is the uid of ReplicaSet default/web too"):
        build(replica_set("web"), second)


SELECTOR = {"requirements": [{"key": "app", "operator": "IN", "values": ["web"]}]}


def budget_of(built: Any) -> dict[str, Any]:
    snapshot = build(built)
    out: dict[str, Any] = resolved(snapshot, snapshot.pod_disruption_budgets[0])
    return out


def test_a_budget_keeps_its_selector_and_status() -> None:
    built = pdb(allowed=1, min_available="50%", spec={"unhealthyPodEvictionPolicy": "AlwaysAllow"})
    built["status"]["disruptedPods"] = {"b": "2026-01-01T00:00:00Z", "a": None}
    assert budget_of(built) == {
        "namespace": "default",
        "name": "budget",
        "selector": SELECTOR,
        "status": {
            "disruptionsAllowed": 1,
            "currentHealthy": 3,
            "desiredHealthy": 2,
            "expectedPods": 3,
            "observed": True,
            "disruptedPods": ["a", "b"],
        },
        "alwaysAllowUnhealthy": True,
        "minAvailable": "50%",
    }


@pytest.mark.parametrize(
    ("built", "selector"),
    [
        pytest.param(pdb(selector={}), {}, id="empty selects everything"),
        pytest.param(pdb(spec={"selector": None}), None, id="none selects nothing"),
        pytest.param(pdb(selector={}) | {"apiVersion": "policy/v1beta1"}, None, id="empty in v1beta1 selects nothing"),
    ],
)
def test_selectors_of_budgets(built: Any, selector: Any) -> None:
    assert budget_of(built).get("selector") == selector


@pytest.mark.parametrize(
    ("built", "observed"),
    [
        pytest.param(pdb(metadata={"generation": 2}), None, id="older generation"),
        pytest.param(pdb(metadata={"generation": 1}), True, id="current generation"),
    ],
)
def test_a_status_of_an_older_generation_is_not_observed(built: Any, observed: bool | None) -> None:
    assert budget_of(built)["status"].get("observed") == observed


def test_a_budget_without_status_has_none() -> None:
    assert "status" not in budget_of(pdb() | {"status": {}})


@pytest.mark.parametrize(
    ("built", "path"),
    [
        pytest.param(pdb(selector=labelled(("a", "In"))), "spec.selector.matchExpressions[0].values", id="selector"),
        pytest.param(pdb(allowed=-1), "status.disruptionsAllowed", id="negative"),
        pytest.param(pdb(spec={"unhealthyPodEvictionPolicy": "x"}), "spec.unhealthyPodEvictionPolicy", id="policy"),
        pytest.param(pdb(min_available="abc"), "spec.minAvailable", id="no number"),
        pytest.param(pdb(max_unavailable="10 %"), "spec.maxUnavailable", id="no percentage"),
        pytest.param(pdb(min_available=-1), "spec.minAvailable", id="negative number"),
        pytest.param(pdb(min_available=1, max_unavailable=1), "spec.maxUnavailable", id="both limits"),
    ],
)
def test_a_broken_budget_is_refused(built: Any, path: str) -> None:
    with pytest.raises(ObjectError) as caught:
        build(built)
    assert (caught.value.name, caught.value.path) == ("default/budget", path)


def test_namespaces_keep_their_labels_and_have_their_name_as_one() -> None:
    bare = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b"}}
    snapshot = build(bare, namespace("a", {"team": "x"}))
    label = "kubernetes.io/metadata.name"
    assert [(row.name, label_set(snapshot, row.label_set)) for row in snapshot.namespaces] == [
        ("a", {label: "a", "team": "x"}),
        ("b", {label: "b"}),
    ]
