"""Templates of new nodes: from template or node, without temporary taints, with the pods of DaemonSets."""

from typing import Any

import pytest

from tests.builders.kubernetes import (
    Json,
    daemon_set,
    node,
    node_affinity,
    node_group,
    pod,
    pods_of,
    snapshot_of,
    toleration,
)
from trimtab.planner.facts.nodes import being_deleted
from trimtab.planner.model.settings import Readiness, ScaleUpSettings, TaintNames
from trimtab.planner.placement.group_templates import GroupTemplates, group_templates
from trimtab.planner.service.session import CachedSnapshot
from trimtab.planner.simulation.virtual_rows import GroupTemplate
from trimtab.planner.snapshot.caches import EVERYTHING, SnapshotKey
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize

NOW_NS = 1_800_000_000 * 10**9
GROUP = {"group": "g1"}
DEFAULTS = ScaleUpSettings()
NODE = ScaleUpSettings(prefer_template=False)
MIRROR = {"kubernetes.io/config.mirror": "x"}


def snapshot(*objects: Json) -> Snapshot:
    return canonicalize(snapshot_of(list(objects)))


def templates(*objects: Json, settings: ScaleUpSettings = DEFAULTS) -> GroupTemplates:
    given = snapshot(*objects)
    return group_templates(given, settings, being_deleted(given, NOW_NS), NOW_NS)


def template(*objects: Json, settings: ScaleUpSettings = DEFAULTS) -> GroupTemplate:
    (found,) = templates(*objects, settings=settings)
    assert found is not None
    return found


def group(**more: Any) -> Json:
    return node_group("g1", selector=GROUP, **more)


def cpus(found: GroupTemplate) -> list[int]:
    """Return the cpu requests of the DaemonSet pods."""
    return sorted(dict(one.spec.requests)["cpu"] for one in found.daemonset_pods)


def example(name: str = "n1", cpu: str = "4", **more: Any) -> Json:
    return node(name, cpu, labels=GROUP, **more)


def other(**labels: str) -> Json:
    """Return a node of no group on which DaemonSets run."""
    return node("elsewhere", "8", labels=labels)


def test_the_template_is_preferred_unless_settings_prefer_a_node() -> None:
    objects = group(template=node("t", "2")), example(cpu="8")
    assert dict(template(*objects).template.allocatable)["cpu"] == 2000
    assert template(*objects).node == -1
    assert dict(template(*objects, settings=NODE).template.allocatable)["cpu"] == 8000
    assert template(*objects, settings=NODE).node == 0


def test_without_a_node_the_template_counts_and_without_a_template_a_node() -> None:
    assert template(group(template=node("t", "2")), settings=NODE).node == -1
    assert template(group(), example()).node == 0
    assert templates(group()) == (None,)
    assert templates() == ()


WORSE = {
    "unready": {"ready": False},
    "cordoned": {"unschedulable": True},
    "being deleted": {"taints": ["ToBeDeletedByClusterAutoscaler=1:NoSchedule"]},
    "starting": {"taints": ["startup-taint.cluster-autoscaler.kubernetes.io/x:NoSchedule"]},
    "just ready": {"created": "2027-01-15T07:59:30Z"},
}


@pytest.mark.parametrize("state", WORSE)
def test_a_good_node_is_the_example_and_any_other_only_without_a_good_one(state: str) -> None:
    worse = example("a", "1", **WORSE[state])
    assert template(group(), worse, example("b", "2")).node == 1
    assert template(group(template=node("t")), worse, settings=NODE).node == -1
    alone = template(group(), worse)
    assert (alone.node, alone.template.taints, alone.template.unschedulable) == (0, (), False)


TRANSIENT = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unschedulable",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "DeletionCandidateOfClusterAutoscaler",
    "ignore-taint.cluster-autoscaler.kubernetes.io/a",
    "status-taint.cluster-autoscaler.kubernetes.io/a",
    "warming",
    "cilium/agent-not-ready",
    "disk-slow",
]


def test_temporary_taints_are_not_part_of_a_new_node() -> None:
    settings = ScaleUpSettings(
        readiness=Readiness(TaintNames(frozenset({"warming"}), ("cilium/",)), TaintNames(frozenset({"disk-slow"})))
    )
    taints = [f"{key}:NoSchedule" for key in (*TRANSIENT, "dedicated", "node.kubernetes.io/mine", "warming-too")]
    for objects in ((group(template=node("t", taints=taints)),), (group(), example(taints=taints))):
        found = template(*objects, settings=settings)
        assert [one.key for one in found.template.taints] == ["dedicated", "node.kubernetes.io/mine", "warming-too"]


def test_a_template_gets_the_deprecated_labels_that_its_nodes_will_have() -> None:
    given = node(
        "t", zone="z1", labels={"node.kubernetes.io/instance-type": "m5", "topology.kubernetes.io/region": "r"}
    )
    labels = dict(template(group(template=given)).template.labels)
    assert labels["beta.kubernetes.io/instance-type"] == "m5"
    assert labels["failure-domain.beta.kubernetes.io/region"] == "r"
    assert labels["failure-domain.beta.kubernetes.io/zone"] == "z1"


def test_capacity_and_allocatable_are_kept_apart() -> None:
    found = template(group(template=node("t", "2", capacity={"cpu": "3", "memory": "1Gi"})))
    assert dict(found.template.allocatable)["cpu"] == 2000
    assert dict(found.capacity) == {"cpu": 3000, "memory": 2**30}


def agent(cpu: str = "300m", at: str = "elsewhere", name: str = "agent", **more: Any) -> list[Json]:
    """Return a DaemonSet with one pod."""
    owner = daemon_set(name)
    pinned = node_affinity([("metadata.name", "In", [at])])
    return [owner, *pods_of(owner, 1, cpu=cpu, node=at, affinity=more.pop("affinity", pinned), **more)]


def test_daemon_sets_that_would_run_there_are_on_a_node_whose_template_names_none() -> None:
    found = template(group(template=node("t")), other(), *agent())
    assert cpus(found) == [300]
    (its,) = found.daemonset_pods
    assert (its.namespace, its.pinned, its.created_s, dict(its.labels)) == ("kube-system", -1, 0, {"app": "agent"})


def test_selectors_and_taints_decide_which_daemon_sets_would_run_there() -> None:
    tainted = group(template=node("t", taints=["dedicated=a:NoSchedule"], labels={"os": "linux"}))
    bearing = agent("1m", name="a", tolerations=[toleration()], node_selector={"os": "linux"})
    elsewhere = agent("2m", name="b", tolerations=[toleration()], node_selector={"os": "windows"})
    bare = agent("4m", name="c", node_selector={"os": "linux"})
    term = [("metadata.name", "In", ["elsewhere"]), ("os", "In", ["linux"])]
    by_affinity = agent("8m", name="d", tolerations=[toleration()], affinity=node_affinity(term))
    found = template(tainted, other(os="linux"), *bearing, *elsewhere, *bare, *by_affinity)
    assert cpus(found) == [1, 8]


def of_template(cpu: str = "300m", name: str = "agent", **more: Any) -> Json:
    """Return a DaemonSet with a pod template and without pods."""
    return daemon_set(name, template={"cpu": cpu, **more})


def test_a_daemon_set_without_pods_runs_where_its_template_says() -> None:
    tainted = group(template=node("t", taints=["dedicated=a:NoSchedule"], labels={"os": "linux"}))
    found = template(
        tainted,
        of_template("1m", "a", tolerations=[toleration()], node_selector={"os": "linux"}),
        of_template("2m", "b", tolerations=[toleration()], node_selector={"os": "windows"}),
        of_template("4m", "c", node_selector={"os": "linux"}),
        of_template("8m", "d", tolerations=[toleration()], affinity=node_affinity([("os", "In", ["linux"])])),
        of_template("16m", "e", tolerations=[toleration()], affinity=node_affinity([("os", "NotIn", ["linux"])])),
    )
    assert cpus(found) == [1, 8]
    its = found.daemonset_pods[0]
    assert (its.namespace, its.pinned, dict(its.labels)) == ("kube-system", -1, {"app": "a"})


def test_the_template_of_a_daemon_set_counts_and_not_what_its_pods_became() -> None:
    # The DaemonSet controller replaces required node affinity by the name of the pod's node.
    windows = node_affinity([("os", "In", ["windows"])])
    owner = of_template("300m", affinity=windows)
    pinned = node_affinity([("metadata.name", "In", ["elsewhere"])])
    objects = (other(os="windows"), owner, *pods_of(owner, 1, cpu="200m", node="elsewhere", affinity=pinned))
    assert cpus(template(group(template=node("t", labels={"os": "linux"})), *objects)) == []
    assert cpus(template(group(template=node("t", labels={"os": "windows"})), *objects)) == [300]


def test_pods_of_daemon_sets_tolerate_what_the_daemon_set_controller_lets_them() -> None:
    def tolerated(**more: Any) -> set[str]:
        (its,) = template(group(template=node("t")), of_template(**more)).daemonset_pods
        return {one.key.removeprefix("node.kubernetes.io/") for one in its.spec.tolerations}

    always = {"not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"}
    assert tolerated() == always
    assert tolerated(spec={"hostNetwork": True}) == {*always, "network-unavailable"}


def test_a_daemon_set_without_pods_is_on_a_node_modelled_on_another_only_if_forced_or_critical() -> None:
    critical = of_template("4m", "c", priority=2_000_001_000)
    objects = (group(), example(), *agent("1m", at="n1", name="a"), of_template("2m", "b"), critical)
    assert cpus(template(*objects)) == [1, 4]
    assert cpus(template(*objects, settings=ScaleUpSettings(force_daemonsets=True))) == [1, 2, 4]


def test_a_pod_that_a_template_names_is_not_counted_twice_whether_as_it_runs_or_as_its_daemon_set_says() -> None:
    owner = of_template("2m", "a")
    pinned = node_affinity([("metadata.name", "In", ["elsewhere"])])
    message = snapshot_of(
        [group(template=node("t")), other(), owner, *pods_of(owner, 1, cpu="1m", node="elsewhere", affinity=pinned)]
    )
    as_it_runs, label_set = (
        int.from_bytes(column[:4], "little") for column in (message.pods.spec, message.pods.label_set)
    )
    as_its_template = message.owners[0].pod_template.spec
    for spec, cpu in ((as_it_runs, 1), (as_its_template, 2)):
        named = message.node_groups[0].template.daemonset_pods
        del named[:]
        named.add(namespace="kube-system", spec=spec, label_set=label_set)
        given = canonicalize(message)
        forced = ScaleUpSettings(force_daemonsets=True)
        (found,) = group_templates(given, forced, being_deleted(given, NOW_NS), NOW_NS)
        assert found is not None
        assert cpus(found) == [cpu]


def test_of_a_daemon_set_without_template_the_newest_pod_says_what_it_is_now() -> None:
    owner = daemon_set("agent")
    old, new = pods_of(owner, 2, node="elsewhere")
    old["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100m"
    new["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "200m"
    for one, other_one in ((old, new), (new, old)):
        one["metadata"]["creationTimestamp"], other_one["metadata"]["creationTimestamp"] = (
            "2026-01-01T00:00:00Z",
            "2026-01-02T00:00:00Z",
        )
        expected = 200 if one is old else 100
        assert cpus(template(group(template=node("t")), other(), owner, old, new)) == [expected]


def test_of_a_node_the_daemon_set_pods_stay_and_static_pods_take_their_share() -> None:
    objects = (
        group(),
        example(),
        *agent("300m", at="n1"),
        pod("proxy", "500m", "1Gi", node="n1", annotations=MIRROR, owner=None),
        pod("web", "1", node="n1"),
    )
    found = template(*objects)
    assert cpus(found) == [300]
    assert dict(found.template.allocatable) == {"cpu": 3500, "memory": 15 * 2**30, "pods": 109}
    assert dict(found.capacity)["cpu"] == 4000


def test_a_terminating_or_ended_daemon_set_pod_does_not_count() -> None:
    for over in ({"deletion": "2026-01-01T00:00:00Z"}, {"phase": "Failed"}):
        assert cpus(template(group(), example(), *agent(at="n1", **over))) == []


def test_on_a_node_others_would_run_only_if_forced_or_if_they_evict_others() -> None:
    objects = (group(), example(), other(), *agent("1m", at="n1", name="a"), *agent("2m", name="b"))
    critical = agent("4m", name="c", priority=2_000_001_000)
    assert cpus(template(*objects)) == [1]
    assert cpus(template(*objects, *critical)) == [1, 4]
    assert cpus(template(*objects, *critical, settings=ScaleUpSettings(force_daemonsets=True))) == [1, 2, 4]


def test_a_template_that_names_pods_has_those_and_others_only_if_forced() -> None:
    message = snapshot_of([group(template=node("t")), other(), *agent("1m", name="a"), *agent("2m", name="b")])
    spec = next(i for i, one in enumerate(message.pod_specs) if any(r.amount == 1 for r in one.requests))
    message.node_groups[0].template.daemonset_pods.add(
        namespace="kube-system", spec=spec, label_set=int.from_bytes(message.pods.label_set[:4], "little")
    )
    given = canonicalize(message)
    leaving = being_deleted(given, NOW_NS)
    (named,) = group_templates(given, DEFAULTS, leaving, NOW_NS)
    (forced,) = group_templates(given, ScaleUpSettings(force_daemonsets=True), leaving, NOW_NS)
    assert named is not None
    assert forced is not None
    assert cpus(named) == [1]
    assert cpus(forced) == [1, 2]


def test_daemon_sets_that_the_snapshot_does_not_list_are_distinguished() -> None:
    one, two = agent("1m", name="a"), agent("2m", name="b")
    assert cpus(template(group(template=node("t")), other(), one[1], two[1])) == [1, 2]


def test_what_is_kept_is_kept_by_nodes_and_settings() -> None:
    given = snapshot(group(template=node("t", "2")), example())
    leaving = being_deleted(given, NOW_NS)
    kept = CachedSnapshot(given)
    first = group_templates(given, DEFAULTS, leaving, NOW_NS, kept)
    assert group_templates(given, ScaleUpSettings(max_new_nodes=5), leaving, NOW_NS + 1, kept) is first
    assert group_templates(given, NODE, leaving, NOW_NS, kept)[0] != first[0]
    assert group_templates(given, ScaleUpSettings(force_daemonsets=True), leaving, NOW_NS, kept) is not first
    assert len(kept.values_of_same(given)) == 3


def kept_as(*objects: Json, settings: ScaleUpSettings = DEFAULTS) -> tuple[SnapshotKey[Any], frozenset[str]]:
    """Return the key under which templates are kept, and the fields that were read for them."""
    given = snapshot(*objects)
    kept = CachedSnapshot(given)
    group_templates(given, settings, being_deleted(given, NOW_NS), NOW_NS, kept)
    ((key, found),) = kept.values_of_same(given).items()
    return key, found.reads


def test_templates_of_groups_are_kept_across_changes_that_do_not_concern_them() -> None:
    own = group(template=node("t"))
    name, of = kept_as(own, other(), *agent())
    assert kept_as(own, other(), *agent(), pod("new", "3"), node("more")) == (name, of)
    assert kept_as(own, other(), *agent("400m"))[0] != name
    assert kept_as(own, other(), *agent(), *agent(name="more"))[0] != name
    assert kept_as(own, other(), *agent(), of_template(name="more"))[0] != name
    assert "groups" in of
    assert {"templates.label_set", "templates.allocatable"} <= of
    assert not {"pods", "nodes"} & {field.partition(".")[0] for field in of}
    # A template modelled on a node is valid only for that snapshot.
    assert kept_as(own, example(), settings=NODE)[1] >= {EVERYTHING}
