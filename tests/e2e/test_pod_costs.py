"""Pod deletion costs on a real control plane: what the ReplicaSet controller removes, who may set costs, what is
evicted."""

import json
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import workloads
from tests.e2e.actuator_process import all_ready, apply, command, listed, running, serving, until
from tests.e2e.control_plane.control_plane import ControlPlane
from tests.e2e.helm.binary import rendered
from tests.e2e.ranked_pods import SLOW_S, S, pods_of, scale, targets
from tests.e2e.rounds_over_plane import rounds_over
from trimtab.actuator.kube.api import connect
from trimtab.actuator.kube.cluster import CostWrite, ForbiddenError, NotFoundError
from trimtab.actuator.kube.live import KubeCluster
from trimtab.clients.loop.rounds import RoundSettings
from trimtab.v1 import actuator_pb2, plan_pb2, reason_pb2

pytestmark = pytest.mark.e2e
Json = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"


@pytest.fixture(scope="module", autouse=True)
def content(plane: ControlPlane) -> None:
    apply(plane, *rendered(template="pod-group-costs.yaml"))


def three_zones(pool: str) -> list[Json]:
    """Four small nodes in zone a, one large one in b and c each: room for four pods of 750m in each zone."""
    small = workloads.nodes(f"{pool}-a", 4, "1", pool)
    large = [*workloads.nodes(f"{pool}-b", 1, "3200m", pool), *workloads.nodes(f"{pool}-c", 1, "3200m", pool)]
    for node, zone in zip((*small, *large), "aaaabc", strict=True):
        node["metadata"]["labels"][ZONE] = zone
    return [*small, *large]


def zones(plane: ControlPlane, app: str, pool: str) -> Counter[str]:
    """Pods by zone."""
    return Counter(pod["spec"]["nodeName"].removeprefix(f"{pool}-")[0] for pod in pods_of(plane, app))


def skew(found: Counter[str]) -> int:
    """How far zones differ."""
    return max(found[zone] for zone in "abc") - min(found[zone] for zone in "abc")


def test_the_real_controller_keeps_zones_balanced_from_twelve_pods_to_three(
    plane: ControlPlane, tmp_path: Path
) -> None:
    for app in ("ranked", "control"):
        apply(plane, *three_zones(app), workloads.deployment(app, 12, "750m", app))
    until(lambda: all_ready(plane), SLOW_S, "pods ready")
    settings = targets("ranked", plan_pb2.PodCostTerm(strategy=S.BALANCE_DOMAINS, topology_key=ZONE))
    asked = RoundSettings("e2e", (plan_pb2.Decision.POD_COSTS,), settings, apply_pod_costs=True)
    skews: dict[str, list[int]] = {"ranked": [], "control": []}
    with rounds_over(plane, tmp_path / "actuator", asked, [workloads.group("ranked", 10, "ranked")]) as rounds:
        assert zones(plane, "ranked", "ranked") == Counter("aaaabbbbcccc")
        for replicas in range(11, 2, -1):
            rounds.run()
            for app, found in skews.items():
                scale(plane, app, replicas)
                found.append(skew(zones(plane, app, app)))
    print("skews from 11 pods to 3, with costs:", skews["ranked"], "without:", skews["control"])
    assert max(skews["ranked"]) <= 1
    # Without costs the controller looks at nodes alone.
    assert max(skews["control"]) > 1
    costs = [pod["metadata"]["annotations"] for pod in pods_of(plane, "ranked")]
    assert all(int(one["scheduling.alpha.kubernetes.io/cost"]) > 0 for one in costs)


def ready_nodes(plane: ControlPlane) -> set[str]:
    """Names of nodes that are ready and have no taint."""
    return {
        node["metadata"]["name"]
        for node in listed(plane, "nodes")
        if not node["spec"].get("taints")
        and any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"].get("conditions", ()))
    }


def evictions(plane: ControlPlane, directory: Path, pool: str, ranks: bool) -> int:
    """How many pods are evicted when a node goes after a Deployment has shrunk by two."""
    nodes = workloads.nodes(pool, 3, "4", pool)
    apply(plane, *nodes)
    # The scheduler spreads pods over the nodes that it knows: no node is left empty, which would go without evictions.
    until(lambda: ready_nodes(plane) >= {one["metadata"]["name"] for one in nodes}, SLOW_S, "nodes ready")
    apply(plane, workloads.deployment(pool, 8, "1", pool))
    until(lambda: all_ready(plane), SLOW_S, "pods ready")
    settings = targets(pool, plan_pb2.PodCostTerm(strategy=S.NODE_DRAIN))
    settings.scale_down.utilization_threshold = 1.0
    decisions = (plan_pb2.Decision.SCALE_DOWN, plan_pb2.Decision.POD_COSTS)
    asked = RoundSettings("e2e", decisions, settings, apply_pod_costs=ranks)
    with rounds_over(plane, directory, asked, [workloads.group(pool, 10, pool)]) as rounds:
        answer = rounds.run().answer.scale_down
        going = [one.node for one in answer.unneeded if one.node.startswith(pool)]
        assert len(going) == 1
        scale(plane, pool, 6)
        settings.scale_down.unneeded_time.SetInParent()
        accepted = rounds.run().accepted
        assert len(accepted) == 1
        until(lambda: len(rounds.actuator.get_status().finished) == 1, SLOW_S, "the node is gone")
        deletion = rounds.actuator.get_status().finished[0]
        assert deletion.state == actuator_pb2.DeletionState.DELETED
        return deletion.pods_total_count


def test_pods_on_nodes_that_go_are_removed_first_so_that_fewer_are_evicted(plane: ControlPlane, tmp_path: Path) -> None:
    found = {app: evictions(plane, tmp_path / app, app, ranks=app == "drains") for app in ("drains", "plain")}
    print("pods evicted, with costs and without:", found)
    assert found["drains"] < found["plain"]


def cluster_of(plane: ControlPlane, user: str) -> KubeCluster:
    return KubeCluster(connect(plane.kubeconfig(user)))


@pytest.fixture(scope="module")
def pods(plane: ControlPlane) -> list[str]:
    """Keys of two pods in a protected namespace, and of one elsewhere."""
    protected = {"kind": "Namespace", "metadata": {"name": "guarded", "labels": {"trimtab.dev/pod-costs": "protected"}}}
    apply(plane, {"apiVersion": "v1", **protected}, *workloads.nodes("guard", 1, "4", "guard"))
    names = (("guarded", "one"), ("guarded", "two"), ("default", "free"))
    for namespace, name in names:
        pod = workloads.bare_pod(name, pool="guard")
        pod["metadata"]["namespace"] = namespace
        until(lambda: "default" in plane.kubectl("get", "sa", "-n", "guarded"), SLOW_S, "a service account")
        apply(plane, pod)
    return ["/".join(name) for name in names]


def annotate(plane: ControlPlane, pod: str, value: str) -> str:
    """Set a cost as a user does; return the error, "" = none."""
    namespace, _, name = pod.partition("/")
    text = f"controller.kubernetes.io/pod-deletion-cost={value}"
    try:
        plane.kubectl("annotate", "--overwrite", "pod", "-n", namespace, name, text)
    except RuntimeError as error:
        return str(error)
    return ""


def test_costs_are_applied_beside_those_of_others_and_only_to_the_same_pod(
    plane: ControlPlane, pods: list[str]
) -> None:
    cluster, free = cluster_of(plane, "admin"), pods[2]
    made = CostWrite(-(2**31), "2026-01-01T00:00:00Z")
    pod = cluster.pod_costs([free])[free]
    cluster.write_pod_cost(pod, made)
    # Costs are read from the API server's cache, which may be a moment behind.
    written = (str(-(2**31)), str(2**31 - 1), made.made)
    until(lambda: cluster.pod_costs([free])[free][3:6] == written, SLOW_S, "the cost is there")
    until(lambda: free in [one.key for one in cluster.own_pod_costs()], SLOW_S, "the pod is known as one of ours")
    with pytest.raises(NotFoundError):
        cluster.write_pod_cost(pod._replace(uid="00000000-0000-0000-0000-000000000000"), made)
    cluster.write_pod_cost(pod, None)
    until(lambda: cluster.pod_costs([free])[free][3:6] == (None, None, None), SLOW_S, "the cost is gone")
    assert annotate(plane, free, "7") == ""
    with pytest.raises(Exception, match="Apply failed with"):
        cluster.write_pod_cost(pod, made)
    cluster.write_pod_cost(pod, None)
    until(lambda: cluster.pod_costs([free])[free].cost == "7", SLOW_S, "the cost of the user is there")


def test_group_objects_have_a_status_of_one_generation_and_columns(plane: ControlPlane) -> None:
    from trimtab.actuator.service.pod_costs import CostOrders, GroupOrder, apply_pod_costs
    from trimtab.actuator.service.settings import WriteLimits

    cluster = cluster_of(plane, "admin")
    order = GroupOrder("ReplicaSet/default/again", {"default/gone": -5}, after_each_removal=True)
    done = apply_pod_costs(cluster, CostOrders([order], made="2026-01-01T00:00:00Z"), WriteLimits())
    assert done.objects_written_count == 1
    item = json.loads(plane.kubectl("get", "pgc", "-n", "default", "replicaset-again", "-o", "json"))
    assert item["spec"]["costs"] == {"gone": 5}
    assert item["status"]["generation"] == item["metadata"]["generation"] == 1
    assert (item["status"]["complete"], item["status"]["observedPods"]) == (False, 0)
    assert "shrinks faster than it is ranked" in item["status"]["message"]
    head = plane.kubectl("get", "pgc", "-n", "default").splitlines()[0].split()
    assert head == ["NAME", "KIND", "OWNER", "RANKED", "OBSERVED", "COMPLETE", "RANKED", "AT"]
    dropped = CostOrders([], remove_others=True, made="2026-01-01T00:00:00Z")
    assert apply_pod_costs(cluster, dropped, WriteLimits()).objects_removed_count == 1
    assert not cluster.group_costs()


def test_only_the_actuator_sets_costs_where_a_namespace_is_protected(plane: ControlPlane, pods: list[str]) -> None:
    objects = rendered(template="pod-cost-policy.yaml")
    text = json.dumps(objects).replace("system:serviceaccount:trimtab:trimtab-actuator", "trimtab")
    apply(plane, *json.loads(text))
    for item in rendered(template="rbac.yaml"):
        if item["metadata"]["name"] == "trimtab-actuator-pod-costs":
            if item["kind"].endswith("Binding"):
                item["subjects"] = [{"kind": "User", "name": "trimtab", "apiGroup": "rbac.authorization.k8s.io"}]
            apply(plane, item)
    denied = "only trimtab-actuator sets pod deletion costs"
    # Until it is in force, each value has to be a change.
    values = count(1)
    until(lambda: denied in annotate(plane, pods[0], str(next(values))), SLOW_S, "the policy is in force")
    # Others may change everything else, and costs elsewhere.
    plane.kubectl("annotate", "pod", "-n", "guarded", "one", "team=blue")
    plane.kubectl("label", "pod", "-n", "guarded", "one", "team=blue")
    assert annotate(plane, pods[2], "2") == ""
    actuator = cluster_of(plane, "trimtab")
    pod = actuator.pod_costs([pods[1]])[pods[1]]
    actuator.write_pod_cost(pod, CostWrite(-1, "2026-01-01T00:00:00Z"))
    assert denied in annotate(plane, pods[1], "5")
    assert actuator.pod_costs([pods[1]])[pods[1]].cost == "-1"
    # A pod cannot bring a cost with it either, nor lose one.
    born = workloads.bare_pod("born", pool="guard")
    born["metadata"] |= {"namespace": "guarded", "annotations": {"scheduling.alpha.kubernetes.io/cost": "1"}}
    with pytest.raises(Exception, match=denied):
        apply(plane, born)
    with pytest.raises(Exception, match=denied):
        plane.kubectl("annotate", "pod", "-n", "guarded", "two", "controller.kubernetes.io/pod-deletion-cost-")
    plane.kubectl("delete", "pod", "-n", "guarded", "two", "--grace-period=0", "--force")
    with pytest.raises(ForbiddenError):
        cluster_of(plane, "nobody").write_pod_cost(pod, CostWrite(-1, "2026-01-01T00:00:00Z"))


def test_a_cost_of_another_client_is_reported_by_the_call(plane: ControlPlane, pods: list[str], tmp_path: Path) -> None:
    assert annotate(plane, pods[2], "9") == ""
    options = command(plane, tmp_path / "a", [workloads.group("none", 1, "none")])
    with running(tmp_path / "a", options) as (process, client):
        serving(process, client)
        groups = [plan_pb2.PodCostGroup(owner="ReplicaSet/default/x", pods=[pods[2]], costs=[-3])]
        answer = client.apply_pod_costs(groups)
        assert [one.reason for one in answer.failures] == [reason_pb2.PodCostReason.FOREIGN_COST]
        assert answer.incomplete[0].owner == "ReplicaSet/default/x"
