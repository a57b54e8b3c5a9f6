"""Which pods have to be placed anew, and what comes with every new node."""

from typing import Any

from tests.builders import kubernetes as k8s
from trimtab.clients.cli.rightsize.empty_cluster import EmptyCluster, empty_cluster
from trimtab.clients.cli.rightsize.machines import Profile, profiles_of
from trimtab.clients.cluster_view import ClusterView
from trimtab.common.objects import build_snapshot, decode_objects

Json = dict[str, Any]
MASTER = {"node-role.kubernetes.io/control-plane": ""}


def emptied(*objects: Json) -> EmptyCluster:
    return empty_cluster(build_snapshot(decode_objects([k8s.namespace(), *objects])).snapshot)


def test_running_and_waiting_pods_are_placed_anew_but_no_ended_leaving_or_daemon_pods() -> None:
    agent = k8s.daemon_set("agent")
    leaving = k8s.pod("leaving", node="n1")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    pods = [
        k8s.pod("runs", node="n1", cpu="2"),
        k8s.pod("waits"),
        k8s.pod("done", node="n1", phase="Succeeded"),
        leaving,
    ]
    empty = emptied(k8s.node("n1"), *pods, *k8s.pods_of(agent, 1, node="n1"))
    assert empty.pods == {"default/runs", "default/waits"}
    assert empty.waiting_count == 1
    assert empty.workers == ["n1"]
    assert empty.total(empty.pods)["cpu"] == 2100
    view = ClusterView(empty.snapshot)
    assert view.waiting_pods() == ["default/runs", "default/waits"]
    assert view.pod_keys == ["default/runs", "default/waits"]


def test_control_plane_nodes_stay_with_their_pods_and_take_no_others() -> None:
    empty = emptied(k8s.node("m", labels=MASTER), k8s.node("n"), k8s.pod("api", node="m"), k8s.pod("web", node="n"))
    assert empty.pods == {"default/web"}
    assert [(node.name, node.unschedulable) for node in empty.snapshot.nodes] == [("m", True)]
    api = ClusterView(empty.snapshot).pod("default/api")
    assert api is not None
    assert api.node == "m"


def test_a_daemon_set_without_template_runs_as_its_newest_pod() -> None:
    pods = k8s.pods_of(k8s.daemon_set("agent"), 1, node="n1", cpu="300m")
    empty = emptied(k8s.node("n1"), *pods, k8s.pod("web", node="n1"))
    (owner,) = [one for one in empty.snapshot.owners if one.kind == "DaemonSet"]
    spec = empty.snapshot.pod_specs[owner.pod_template.spec]
    amounts = {empty.snapshot.resources[one.resource]: one.amount for one in spec.requests}
    assert amounts["cpu"] == 300


def test_labels_that_no_pod_reads_and_taints_that_pass_are_no_profile() -> None:
    labels = {"team": "a", "rack": "7", "node.kubernetes.io/instance-type": "x"}
    taints = ["only=a:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"]
    objects = [k8s.namespace(), k8s.node("n1", labels=labels, taints=taints), k8s.node("n2", labels={"rack": "8"})]
    objects.append(k8s.pod("p", node_selector={"team": "a", "kubernetes.io/hostname": "n1"}))
    snapshot = build_snapshot(decode_objects(objects)).snapshot
    assert profiles_of(snapshot, ["n1", "n2"]) == [
        Profile(""),
        Profile("a", (("team", "a"),), (("only", "a", "NoSchedule"),)),
    ]
