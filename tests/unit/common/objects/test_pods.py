"""Pods as columns and shared spec rows."""

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from tests.builders.kubernetes import (
    anti_affinity,
    daemon_set,
    labelled,
    node_affinity,
    pod,
    pod_affinity,
    pods_of,
    replica_set,
    spread,
    toleration,
)
from tests.unit.common.objects.reading import (
    build,
    column,
    label_set,
    names,
    notes,
    resolved,
    spec_of,
    text_column,
)
from trimtab.common.objects import ObjectError
from trimtab.v1 import snapshot_pb2 as pb

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def test_pods_are_sorted_by_namespace_and_name_and_keep_their_columns_together() -> None:
    snapshot = build(
        pod("b", namespace="z", node="n2", labels={"app": "b"}),
        pod("b", namespace="a"),
        pod("a", namespace="z", node="n1"),
    )
    assert names(snapshot) == ["b", "a", "b"]
    assert names(snapshot, "uid") == ["pod-a-b", "pod-z-a", "pod-z-b"]
    assert text_column(snapshot, "namespace") == ["a", "z", "z"]
    assert text_column(snapshot, "node") == ["", "n1", "n2"]
    assert [label_set(snapshot, i) for i in column(snapshot.pods.label_set)] == [{}, {}, {"app": "b"}]
    assert column(snapshot.pods.created, "<i8") == [1767225600] * 3
    assert list(snapshot.pods.phase) == [pb.PodPhase.PENDING, pb.PodPhase.RUNNING, pb.PodPhase.RUNNING]


def test_pods_that_differ_only_in_who_and_where_they_are_share_a_spec() -> None:
    owned = pods_of(replica_set("web"), 3, node="n1")
    service_account = {"name": "kube-api-access-xyz12", "projected": {"sources": []}}
    snapshot = build(*owned, pod("other", node="n2", volumes=[service_account], labels={"x": "y"}))
    assert len(snapshot.pod_specs) == 1


def test_a_spec_written_differently_with_the_same_meaning_is_the_same_spec() -> None:
    long = pod(
        "a",
        cpu="0.1",
        memory="65536Ki",
        grace=30,
        spec={"schedulerName": "default-scheduler", "restartPolicy": "Always"},
    )
    assert len(build(long, pod("b", cpu="100m", memory="64Mi")).pod_specs) == 1


@pytest.mark.parametrize(
    ("phase", "code"),
    [("Succeeded", pb.PodPhase.SUCCEEDED), ("Failed", pb.PodPhase.FAILED), ("Unknown", pb.PodPhase.UNSPECIFIED)],
)
def test_phases_become_their_codes(phase: str, code: int) -> None:
    assert list(build(pod(phase=phase)).pods.phase) == [code]


READY, MIRROR, DAEMON, GATED, OTHER_KIND, UNSCHEDULABLE, OTHER_STATEFUL_SET = 1, 2, 4, 8, 16, 32, 64
OTHER_SET = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "s", "uid": "u", "controller": True}


def scheduled(status: str, reason: str) -> Any:
    """Return a pod on no node, with the scheduler's condition."""
    return pod() | {"status": {"conditions": [{"type": "PodScheduled", "status": status, "reason": reason}]}}


@pytest.mark.parametrize(
    ("built", "flags"),
    [
        pytest.param(pod(node="n1", ready=False), 0, id="none"),
        pytest.param(scheduled("False", "Unschedulable"), UNSCHEDULABLE, id="marked"),
        pytest.param(scheduled("False", "SchedulerError"), 0, id="not marked"),
        pytest.param(scheduled("True", "Unschedulable"), 0, id="scheduled"),
        pytest.param(pod(node="n1", owner=OTHER_SET), READY | OTHER_STATEFUL_SET, id="StatefulSet of another group"),
        pytest.param(pod(node="n1"), READY, id="ready"),
        pytest.param(
            pod(annotations={"kubernetes.io/config.mirror": "x"}), MIRROR | UNSCHEDULABLE, id="mirror by annotation"
        ),
        pytest.param(
            pod(owner={"kind": "Node", "name": "n1", "uid": "u", "controller": True}),
            MIRROR | UNSCHEDULABLE,
            id="by owner",
        ),
        pytest.param(pod(owner=daemon_set()), DAEMON | UNSCHEDULABLE, id="daemon"),
        pytest.param(
            pod(annotations={"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"}),
            DAEMON | UNSCHEDULABLE,
            id="daemon, annotated",
        ),
        pytest.param(
            pod(owner={"kind": "CloneSet", "name": "c", "uid": "u", "controller": True}),
            OTHER_KIND | UNSCHEDULABLE,
            id="of another kind",
        ),
        pytest.param(pod(owner=replica_set()), UNSCHEDULABLE, id="of a known kind"),
        pytest.param(pod(spec={"schedulingGates": [{"name": "example.org/wait"}]}), GATED | UNSCHEDULABLE, id="gated"),
    ],
)
def test_flags_say_what_a_pod_is(built: Any, flags: int) -> None:
    assert list(build(built).pods.flags) == [flags]


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("5", 5),
        ("-7", -7),
        ("0", 0),
        ("+5", 0),
        ("05", 0),
        ("5.0", 0),
        ("", 0),
        ("2147483648", 0),
        ("-2147483648", -(2**31)),
    ],
)
def test_deletion_costs_are_read_as_the_replica_set_controller_does(text: str, cost: int) -> None:
    data = build(pod(annotations={"controller.kubernetes.io/pod-deletion-cost": text})).pods.deletion_cost
    assert (column(data) if data else [0]) == [cost]


def test_a_terminating_pod_keeps_its_time_of_deletion() -> None:
    assert column(build(pod(deletion="2026-01-01T00:00:05Z")).pods.deletion, "<i8") == [1767225605]


def test_a_pod_without_uid_gets_a_stable_one() -> None:
    without = pod()
    del without["metadata"]["uid"]
    assert names(build(without), "uid") == names(build(without), "uid") != [""]


ONE_NODE = [("metadata.name", "In", ["n1"])]


def test_daemon_pods_pinned_to_their_nodes_share_a_spec() -> None:
    pods = [pod(f"d{i}", affinity=node_affinity([("metadata.name", "In", [f"n{i}"])])) for i in range(3)]
    snapshot = build(*pods)
    assert len(snapshot.pod_specs) == 1
    assert text_column(snapshot, "pinned_node") == ["n0", "n1", "n2"]
    assert not snapshot.pod_specs[0].HasField("node_affinity")


@pytest.mark.parametrize(
    ("terms", "pinned", "left"),
    [
        pytest.param([ONE_NODE], "n1", None, id="alone"),
        pytest.param(
            [[*ONE_NODE, ("a", "Exists")]], "n1", [{"matchExpressions": [{"key": "a", "operator": "EXISTS"}]}], id="and"
        ),
        pytest.param([[*ONE_NODE, ("a", "Exists")], ONE_NODE], "n1", None, id="one alternative has nothing else"),
        pytest.param([ONE_NODE, []], "n1", None, id="an empty term matches nothing"),
        pytest.param([ONE_NODE, [("metadata.name", "In", ["n2"])]], "", 2, id="two nodes"),
        pytest.param([ONE_NODE, [("a", "Exists")]], "", 2, id="only one alternative pins"),
        pytest.param([[("metadata.name", "NotIn", ["n1"])]], "", 1, id="not in"),
    ],
)
def test_the_one_node_that_every_term_names_is_taken_out(terms: Any, pinned: str, left: Any) -> None:
    snapshot = build(pod(affinity=node_affinity(*terms)))
    rest = spec_of(snapshot).get("nodeAffinity", {}).get("terms")
    assert text_column(snapshot, "pinned_node") == [pinned]
    assert (len(rest) if isinstance(left, int) else rest) == left


def test_node_affinity_without_terms_is_kept_because_it_matches_no_node() -> None:
    assert build(pod(affinity=node_affinity())).pod_specs[0].HasField("node_affinity")


def test_tolerations_keep_their_order_and_default_to_equal() -> None:
    built = pod(tolerations=[{"key": "b", "value": "v"}, toleration(), toleration("a", effect="NoExecute")])
    assert spec_of(build(built))["tolerations"] == [
        {"key": "b", "operator": "EQUAL", "value": "v"},
        {"operator": "EXISTS"},
        {"key": "a", "operator": "EXISTS", "effect": "NO_EXECUTE"},
    ]


@pytest.mark.parametrize(
    ("built", "ports"),
    [
        pytest.param(pod(host_ports=[80, 80]), [{"port": 80}], id="once"),
        pytest.param(pod(host_ports=[{"containerPort": 80}, {"hostPort": 0}]), [], id="port 0 is none"),
        pytest.param(
            pod(host_ports=[{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]),
            [{"protocol": "UDP", "hostIp": "10.0.0.1", "port": 53}],
            id="protocol and address",
        ),
        pytest.param(pod(host_ports=[{"hostPort": 53, "hostIP": "0.0.0.0"}]), [{"port": 53}], id="every address"),
        pytest.param(
            pod(host_ports=[{"containerPort": 80}], spec={"hostNetwork": True}), [{"port": 80}], id="host network"
        ),
        pytest.param(
            pod(init_containers=[{"name": "s", "restartPolicy": "Always", "ports": [{"hostPort": 81}]}]),
            [{"port": 81}],
            id="sidecar",
        ),
        pytest.param(pod(init_containers=[{"name": "i", "ports": [{"hostPort": 81}]}]), [], id="init container"),
    ],
)
def test_host_ports_are_kept_once_each(built: Any, ports: list[dict[str, Any]]) -> None:
    assert spec_of(build(built)).get("hostPorts", []) == ports


def test_affinity_terms_keep_namespaces_and_an_empty_namespace_selector_apart() -> None:
    same, listed, every = (
        pod_affinity(labelled(app="x"), **more)
        for more in ({}, {"namespaces": ["b", "a"]}, {"namespaceSelector": {}, "topologyKey": ZONE})
    )
    terms = [spec_of(build(pod(affinity=one)))["podAffinity"][0] for one in (same, listed, every)]
    selector = {"requirements": [{"key": "app", "operator": "IN", "values": ["x"]}]}
    assert terms == [
        {"selector": selector, "topologyKey": HOST},
        {"selector": selector, "topologyKey": HOST, "namespaces": ["a", "b"]},
        {"selector": selector, "topologyKey": ZONE, "namespaceSelector": {}},
    ]


def test_label_keys_of_recorded_affinity_are_not_merged_again() -> None:
    affinity = anti_affinity(labelled(app="x"), matchLabelKeys=["hash"], mismatchLabelKeys=["tenant"])
    term = spec_of(build(pod(labels={"hash": "1", "tenant": "t"}, affinity=affinity)))["podAntiAffinity"][0]
    assert [one["key"] for one in term["selector"]["requirements"]] == ["app"]


def test_only_constraints_that_forbid_are_kept_with_defaults_left_out() -> None:
    built = pod(
        spread=[
            spread(labelled(app="x"), minDomains=1, nodeAffinityPolicy="Honor", nodeTaintsPolicy="Ignore"),
            spread(when="ScheduleAnyway"),
            spread(
                labelled(),
                2,
                HOST,
                minDomains=3,
                nodeAffinityPolicy="Ignore",
                nodeTaintsPolicy="Honor",
                matchLabelKeys=["h"],
            ),
            spread(None),
        ]
    )
    assert spec_of(build(built))["topologySpread"] == [
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "selector": {"requirements": [{"key": "app", "operator": "IN", "values": ["x"]}]},
        },
        {
            "maxSkew": 2,
            "topologyKey": HOST,
            "selector": {},
            "minDomains": 3,
            "honorNodeAffinity": False,
            "honorNodeTaints": True,
            "matchLabelKeys": ["h"],
        },
        {"maxSkew": 1, "topologyKey": ZONE},
    ]


CA = "cluster-autoscaler.kubernetes.io/"
EMPTY_DIR, MEMORY, HOST_PATH = {"emptyDir": {}}, {"emptyDir": {"medium": "Memory"}}, {"hostPath": {"path": "/x"}}


@pytest.mark.parametrize(
    ("volume", "annotation", "local"),
    [
        pytest.param(EMPTY_DIR, None, True, id="emptyDir"),
        pytest.param(HOST_PATH, None, True, id="hostPath"),
        pytest.param(MEMORY, None, False, id="in memory"),
        pytest.param({"configMap": {"name": "c"}}, None, False, id="config map"),
        pytest.param(EMPTY_DIR, "other,v", False, id="excused"),
        pytest.param(EMPTY_DIR, "other", True, id="another is excused"),
        pytest.param(EMPTY_DIR, "other, v", True, id="names are not trimmed upstream"),
    ],
)
def test_local_storage_is_what_the_annotation_does_not_excuse(
    volume: dict[str, Any], annotation: str | None, local: bool
) -> None:
    annotations = {CA + "safe-to-evict-local-volumes": annotation} if annotation else None
    snapshot = build(pod(volumes=[{"name": "v"} | volume], annotations=annotations))
    assert snapshot.pod_specs[0].local_storage is local


@pytest.mark.parametrize(
    ("annotation", "value", "field", "expected"),
    [
        (CA + "safe-to-evict", "true", "safe_to_evict", pb.SafeToEvict.TRUE),
        (CA + "safe-to-evict", "false", "safe_to_evict", pb.SafeToEvict.FALSE),
        (CA + "safe-to-evict", "on-completion", "safe_to_evict", pb.SafeToEvict.ON_COMPLETION),
        (CA + "safe-to-evict", "yes", "safe_to_evict", pb.SafeToEvict.UNSPECIFIED),
        (CA + "enable-ds-eviction", "false", "enable_ds_eviction", False),
        ("zalando.org/topology-spread-timeout", "2m", "topology_spread_timeout", Duration(seconds=120)),
        ("zalando.org/topology-spread-timeout", "1.9s", "topology_spread_timeout", Duration(seconds=1)),
        (CA + "pod-scale-up-delay", "1m30s", "scale_up_delay", Duration(seconds=90)),
        (CA + "pod-scale-up-delay", "1.1s", "scale_up_delay", Duration(seconds=2)),
        (CA + "pod-scale-up-delay", "-5s", "scale_up_delay", Duration()),
    ],
)
def test_annotations_become_fields_of_the_spec(annotation: str, value: str, field: str, expected: Any) -> None:
    row = build(pod(annotations={annotation: value})).pod_specs[0]
    assert getattr(row, field) == expected
    assert field == "safe_to_evict" or row.HasField(field)


@pytest.mark.parametrize(
    ("annotation", "field"),
    [
        ("zalando.org/topology-spread-timeout", "topology_spread_timeout"),
        (CA + "pod-scale-up-delay", "scale_up_delay"),
    ],
)
def test_an_annotation_that_is_not_a_duration_is_ignored_with_a_note(annotation: str, field: Any) -> None:
    built = pod(annotations={annotation: "soon"})
    assert not build(built).pod_specs[0].HasField(field)
    assert notes(built) == [f"annotation {annotation} is ignored: 'soon' is not a duration"]


@pytest.mark.parametrize("annotation", [CA + "pod-scale-up-delay", "zalando.org/topology-spread-timeout"])
def test_a_duration_too_long_for_go_is_ignored_with_a_note(annotation: str) -> None:
    [told] = notes(pod(annotations={annotation: "99999999999999999999h"}))
    assert told == f"annotation {annotation} is ignored: '99999999999999999999h' is not a duration"


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (CA + "safe-to-evict", "false"),
        (CA + "enable-ds-eviction", "true"),
        (CA + "pod-scale-up-delay", "1h"),
        ("zalando.org/topology-spread-timeout", "5m"),
        ("trimtab.dev/slack-ignore", "true"),
    ],
)
def test_pods_that_only_an_annotation_distinguishes_have_different_specs(annotation: str, value: str) -> None:
    snapshot = build(pod("a", annotations={annotation: value}), pod("b"))
    assert len(snapshot.pod_specs) == 2
    assert spec_of(snapshot, 0) != spec_of(snapshot, 1)


@pytest.mark.parametrize(
    ("spec", "classes", "priority"),
    [
        pytest.param({"priority": 7, "priorityClassName": "high"}, {}, 7, id="filled in"),
        pytest.param({"priorityClassName": "high"}, {"high": (1000, False)}, 1000, id="by class"),
        pytest.param({"priorityClassName": "system-node-critical"}, {}, 2_000_001_000, id="built in"),
        pytest.param({}, {"usual": (5, True)}, 5, id="default class"),
        pytest.param({}, {}, 0, id="none"),
    ],
)
def test_priorities_come_from_the_pod_or_its_class(
    spec: dict[str, Any], classes: dict[str, tuple[int, bool]], priority: int
) -> None:
    objects = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "globalDefault": default,
        }
        for name, (value, default) in classes.items()
    ]
    assert build(pod(spec=spec), *objects).pod_specs[0].priority == priority


@pytest.mark.parametrize(
    ("disk", "field", "expected"),
    [
        ({"awsElasticBlockStore": {"volumeID": "v1"}}, "exclusiveDisks", ["aws-ebs/v1"]),
        ({"gcePersistentDisk": {"pdName": "d"}}, "exclusiveDisks", ["gce-pd/d"]),
        ({"gcePersistentDisk": {"pdName": "d", "readOnly": True}}, "readOnlyDisks", ["gce-pd/d"]),
        ({"iscsi": {"iqn": "i"}}, "exclusiveDisks", ["iscsi/i"]),
        ({"rbd": {"monitors": ["m2", "m1"], "image": "i"}}, "exclusiveDisks", ["rbd/m1/rbd/i", "rbd/m2/rbd/i"]),
    ],
)
def test_inline_disks_that_may_not_be_shared(disk: dict[str, Any], field: str, expected: list[str]) -> None:
    assert spec_of(build(pod(volumes=[{"name": "v"} | disk])))[field] == expected


PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("built", "path"),
    [
        pytest.param(pod(cpu="lots"), "spec.containers[0].resources.requests.cpu", id="quantity"),
        pytest.param(pod(spread=[spread(max_skew=0)]), "spec.topologySpreadConstraints[0].maxSkew", id="skew 0"),
        pytest.param(pod(spread=[spread(max_skew=-1)]), "spec.topologySpreadConstraints[0].maxSkew", id="skew -1"),
        pytest.param(pod(spread=[spread(topology_key="")]), "spec.topologySpreadConstraints[0].topologyKey", id="key"),
        pytest.param(pod(spread=[spread(when="Maybe")]), "spec.topologySpreadConstraints[0].whenUnsatisfiable", id="w"),
        pytest.param(pod(spread=[spread(minDomains=0)]), "spec.topologySpreadConstraints[0].minDomains", id="domains"),
        pytest.param(
            pod(spread=[spread(nodeTaintsPolicy="no")]), "spec.topologySpreadConstraints[0].nodeTaintsPolicy", id="p"
        ),
        pytest.param(
            pod(spread=[spread(matchLabelKeys=["a"])]), "spec.topologySpreadConstraints[0].matchLabelKeys", id="keys"
        ),
        pytest.param(
            pod(affinity=anti_affinity(labelled(app="x"), topology_key="")),
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey",
            id="affinity key",
        ),
        pytest.param(
            pod(affinity=pod_affinity(labelled(("a", "Foo", ["x"])))),
            "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector."
            "matchExpressions[0].operator",
            id="affinity operator",
        ),
        pytest.param(
            pod(affinity=node_affinity([("a", "Like", ["x"])])),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
            "matchExpressions[0].operator",
            id="node affinity operator",
        ),
        pytest.param(
            pod(spec={"affinity": {"podAntiAffinity": {PREFERRED: [{"weight": 0, "podAffinityTerm": {}}]}}}),
            f"spec.affinity.podAntiAffinity.{PREFERRED}[0].weight",
            id="weight",
        ),
        pytest.param(pod(tolerations=[{"operator": "Always"}]), "spec.tolerations[0].operator", id="toleration"),
        pytest.param(pod(tolerations=[{"effect": "Never"}]), "spec.tolerations[0].effect", id="effect"),
        pytest.param(pod(host_ports=[70000]), "spec.containers[0].ports[0].hostPort", id="port"),
        pytest.param(
            pod(host_ports=[{"hostPort": 1, "protocol": "IP"}]), "spec.containers[0].ports[0].protocol", id="protocol"
        ),
        pytest.param(pod(grace=-1), "spec.terminationGracePeriodSeconds", id="grace"),
        pytest.param(pod(priority=2**31), "spec.priority", id="priority"),
        pytest.param(pod(spec={"restartPolicy": "Maybe"}), "spec.restartPolicy", id="restart policy"),
        pytest.param(pod(containers=[]), "spec.containers", id="no containers"),
    ],
)
def test_a_broken_pod_is_refused_with_its_name_and_field(built: Any, path: str) -> None:
    with pytest.raises(ObjectError) as caught:
        build(pod("fine"), built)
    assert (caught.value.kind, caught.value.name, caught.value.path) == ("Pod", "default/p1", path)


def test_a_name_too_long_is_refused() -> None:
    with pytest.raises(ObjectError, match=r"metadata\.name"):
        build(pod("x" * 254))


def test_scheduler_names_other_than_the_default_are_kept() -> None:
    assert spec_of(build(pod(spec={"schedulerName": "mine"})))["schedulerName"] == "mine"
    snapshot = build(pod(spec={"schedulerName": "default-scheduler"}))
    assert "schedulerName" not in resolved(snapshot, snapshot.pod_specs[0])
