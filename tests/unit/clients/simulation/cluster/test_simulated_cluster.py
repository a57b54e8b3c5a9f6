"""The simulated cluster behaves like a small Kubernetes: budgets, owners, scheduling, machines, persistence."""

from pathlib import Path
from typing import Any

import pytest

from tests.builders.actuator import place
from tests.builders.kubernetes import (
    Json,
    daemon_set,
    job,
    node,
    node_affinity,
    node_group,
    pdb,
    pod,
    pods_of,
    replica_set,
    stateful_set,
    toleration,
)
from tests.builders.simulations import Simulation
from trimtab.actuator.cloud.provider import CloudRefusedError, InstanceState, SizeChangedError
from trimtab.actuator.kube.cluster import NotFoundError, RefusedError, TaintView, TooManyRequestsError
from trimtab.common.kubernetes.object_files import ObjectFileError


def instance(node_name: str) -> str:
    """Return the provider id of a node that was read."""
    return f"test://{node_name}"


def owned(owner: Json, count: int, *nodes: str) -> list[Json]:
    pods = pods_of(owner, count)
    for number, item in enumerate(pods):
        place(item, nodes[number % len(nodes)])
    return [owner, *pods]


def test_an_evicted_replica_comes_back_elsewhere_under_a_new_name() -> None:
    simulation = Simulation(node("n1"), node("n2"), *owned(replica_set("web", 1), 1, "n1"))
    simulation.cluster.add_taint("n1", TaintView("t", "", "NoSchedule"))
    simulation.evict("web-0")
    ((name, (where, phase)),) = simulation.pods().items()
    assert (where, phase) == ("n2", "Pending")
    assert name != "web-0"
    simulation.time.now_s += 5
    assert simulation.pods() == {name: ("n2", "Running")}
    assert "web-0" not in simulation.objects("Pod")


def test_a_stateful_pod_comes_back_under_its_name_once_it_is_gone() -> None:
    simulation = Simulation(node("n1"), *owned(stateful_set("db", 1), 1, "n1"))
    uid = simulation.objects("Pod")["db-0"]["metadata"]["uid"]
    simulation.evict("db-0")
    assert simulation.pods() == {}
    simulation.time.now_s += 1
    assert simulation.pods() == {"db-0": ("n1", "Pending")}
    assert simulation.objects("Pod")["db-0"]["metadata"]["uid"] != uid


@pytest.mark.parametrize(
    ("owner", "count"),
    [
        pytest.param(job("batch", 1), 1, id="a Job's pod is replaced"),
        pytest.param(None, 0, id="a bare pod is not"),
        pytest.param(
            {"apiVersion": "x/v1", "kind": "Foo", "name": "f", "uid": "u", "controller": True}, 0, id="unknown"
        ),
        pytest.param(replica_set("web", 0), 0, id="nor one that its owner does not want"),
    ],
)
def test_which_pods_get_a_replacement(owner: Json | None, count: int) -> None:
    items = [owner] if owner and "metadata" in owner else []
    simulation = Simulation(node("n1"), *items, pod("p", node="n1", owner=owner))
    simulation.evict("p")
    assert len(simulation.pods()) == count


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        pytest.param({"max_unavailable": 1}, 1, id="one may be missing"),
        pytest.param({"max_unavailable": "50%"}, 2, id="half may"),
        pytest.param({"max_unavailable": "26%"}, 2, id="percentages of unavailable are rounded up"),
        pytest.param({"min_available": 3}, 1, id="three must be there"),
        pytest.param({"min_available": "75%"}, 1, id="three quarters must"),
        pytest.param({"min_available": "51%"}, 1, id="percentages of available are rounded up"),
        pytest.param({"min_available": 9}, 0, id="more than there are"),
    ],
)
def test_a_budgets_status_is_the_disruption_controllers(spec: dict[str, Any], allowed: int) -> None:
    simulation = Simulation(
        node("n1"), *owned(replica_set("web", 4), 4, "n1"), pdb("b", allowed=99, labels={"app": "web"}, **spec)
    )
    status = simulation.objects("PodDisruptionBudget")["b"]["status"]
    assert (status["disruptionsAllowed"], status["currentHealthy"], status["expectedPods"]) == (allowed, 4, 4)


def test_a_budget_refuses_until_the_replacement_is_ready() -> None:
    web = owned(replica_set("web", 2), 2, "n1")
    simulation = Simulation(node("n1"), *web, pdb("b", labels={"app": "web"}, max_unavailable=1))
    simulation.evict("web-0")
    assert simulation.objects("PodDisruptionBudget")["b"]["status"]["disruptionsAllowed"] == 0
    with pytest.raises(TooManyRequestsError, match="default/b needs 1 healthy pods and has 1"):
        simulation.evict("web-1")
    simulation.time.now_s += 5
    simulation.evict("web-1")


def test_a_pod_under_two_budgets_is_never_evicted() -> None:
    budgets = [pdb(name, labels={"app": "web"}, max_unavailable=1) for name in ("a", "b")]
    simulation = Simulation(node("n1"), *owned(replica_set("web", 2), 2, "n1"), *budgets)
    with pytest.raises(RefusedError, match="2 PodDisruptionBudgets"):
        simulation.evict("web-0")


@pytest.mark.parametrize(
    ("policy", "ready_count", "granted"),
    [
        pytest.param(None, 2, True, id="unready beside enough healthy ones"),
        pytest.param(None, 1, False, id="unready, and too few healthy ones"),
        pytest.param("AlwaysAllow", 1, True, id="unready ones may always go"),
    ],
)
def test_when_an_unready_pod_may_be_evicted(policy: str | None, ready_count: int, granted: bool) -> None:
    web = owned(replica_set("web", 3), 3, "n1")
    for item in web[1 + ready_count :]:
        item["status"]["conditions"] = []
    budget = pdb("b", labels={"app": "web"}, max_unavailable=1)
    if policy:
        budget["spec"]["unhealthyPodEvictionPolicy"] = policy
    simulation = Simulation(node("n1"), *web, budget)
    if granted:
        simulation.evict("web-2")
    else:
        with pytest.raises(TooManyRequestsError):
            simulation.evict("web-2")


def test_evicting_a_pod_that_is_gone_or_another_is_not_found() -> None:
    simulation = Simulation(node("n1"), *owned(stateful_set("db", 1), 1, "n1"))
    old = simulation.cluster.state.pods["default", "db-0"].view()
    simulation.evict("db-0")
    simulation.time.now_s += 2
    with pytest.raises(NotFoundError):
        simulation.cluster.evict(old, None)
    assert simulation.pods()["db-0"]


@pytest.mark.parametrize(
    ("pending", "where"),
    [
        pytest.param({}, "full", id="the fullest node that fits"),
        pytest.param({"cpu": "3500m"}, "roomy", id="the only one with room"),
        pytest.param({"cpu": "9"}, "", id="none is large enough"),
        pytest.param({"node_selector": {"disk": "ssd"}}, "roomy", id="node selector"),
        pytest.param({"affinity": node_affinity([("disk", "In", ["ssd"])])}, "roomy", id="node affinity"),
        pytest.param({"affinity": node_affinity([("metadata.name", "In", ["roomy"])])}, "roomy", id="a node's name"),
        pytest.param({"node_selector": {"disk": "none"}}, "", id="no such label"),
        pytest.param({"host_ports": [80]}, "roomy", id="host port taken"),
        pytest.param({"tolerations": [toleration("gpu")], "extra": True}, "tainted", id="tolerated and fullest"),
    ],
)
def test_where_a_pending_pod_is_scheduled(pending: dict[str, Any], where: str) -> None:
    tainted_pod = [pod("t", "3800m", "15Gi", node="tainted")] if pending.pop("extra", False) else []
    simulation = Simulation(
        node("full"), node("roomy", labels={"disk": "ssd"}), node("tainted", taints=["gpu:NoSchedule"]),
        node("cordoned", unschedulable=True), pod("a", "2", node="full", host_ports=[80]), *tainted_pod,
        pod("p", **({"cpu": "100m"} | pending)),
    )  # fmt: skip
    assert simulation.pods()["p"][0] == where


def test_the_pod_limit_of_a_node_counts() -> None:
    simulation = Simulation(node("n1", pods="1"), pod("a", node="n1"), pod("b"))
    assert simulation.pods()["b"] == ("", "Pending")
    simulation.evict("a")
    simulation.time.now_s += 5
    assert simulation.pods()["b"] == ("n1", "Running")


def test_machines_come_and_go_with_their_group() -> None:
    template = node("template", labels={"pool": "a"}, taints=["dedicated:NoSchedule"])
    agent = daemon_set("agent")
    daemon = pod("agent-n1", namespace="kube-system", node="n1", owner=agent, tolerations=[toleration()])
    simulation = Simulation(node("n1"), agent, daemon, node_group("g", 0, 3, nodes=["n1"], template=template))
    simulation.cloud.set_size("g", 1, 3, "token")
    simulation.cloud.set_size("g", 1, 3, "token")
    assert (simulation.cloud.was_set("g", 3, "token"), simulation.cloud.was_set("g", 4, "other")) == (True, False)
    assert simulation.groups() == {"g": (3, 3)}
    assert len(simulation.objects("Node")) == 1
    simulation.time.now_s += 10
    nodes = simulation.objects("Node")
    assert len(nodes) == 3
    new = next(name for name in nodes if name != "n1")
    assert nodes[new]["metadata"]["labels"]["pool"] == "a"
    assert nodes[new]["metadata"]["labels"]["kubernetes.io/hostname"] == new
    assert nodes[new]["spec"]["taints"] == template["spec"]["taints"]
    assert len([o for o in simulation.objects("Pod").values() if o["spec"].get("nodeName") == new]) == 1
    assert set(simulation.objects("NodeGroup")["g"]["spec"]["nodes"]) == set(nodes)
    with pytest.raises(CloudRefusedError, match="exceeds the maximum 3"):
        simulation.cloud.set_size("g", 3, 4, "other")
    with pytest.raises(SizeChangedError, match="has size 3, not 9999"):
        simulation.cloud.set_size("g", 9999, 10_000, "another")
    new_instance = nodes[new]["spec"]["providerID"]
    assert simulation.cloud.delete_instances("g", [new_instance]) == {}
    assert simulation.cloud.delete_instances("g", [new_instance]) == {}
    assert simulation.groups() == {"g": (2, 3)}
    states = simulation.cloud.instance_states("g", [new_instance, instance("n1"), instance("x")])
    assert list(states.values()) == [InstanceState.DELETING, InstanceState.RUNNING, InstanceState.UNKNOWN]
    simulation.time.now_s += 10
    assert new not in simulation.objects("Node")
    assert simulation.cloud.instance_states("g", [new_instance]) == {new_instance: InstanceState.GONE}
    assert isinstance(simulation.cloud.delete_instances("g", ["x"])["x"], CloudRefusedError)
    assert simulation.groups() == {"g": (2, 2)}


def test_a_group_is_not_shrunk_below_its_minimum() -> None:
    simulation = Simulation(node("n1"), node("n2"), node_group("g", 1, 3, nodes=["n1", "n2"]))
    failed = simulation.cloud.delete_instances("g", [instance("n1"), instance("n2")])
    assert list(failed) == [instance("n2")]
    assert isinstance(failed[instance("n2")], CloudRefusedError)


def test_a_machine_deleted_under_its_pods_loses_them_and_the_journal_says_so() -> None:
    simulation = Simulation(
        node("n1"), node("n2"), *owned(replica_set("web", 1), 1, "n1"), node_group("g", nodes=["n1", "n2"])
    )
    simulation.cloud.delete_instances("g", [instance("n1")])
    simulation.time.now_s += 10
    assert [(e.what, e.subject) for e in simulation.cluster.journal() if e.what == "pod_lost"] == [
        ("pod_lost", "default/web-0")
    ]
    assert [where for where, _ in simulation.pods().values()] == ["n2"]


@pytest.mark.parametrize("selector", [{"pool": "a"}, {"matchLabels": {"pool": "a"}}])
def test_a_group_may_name_its_nodes_by_label(selector: dict[str, Any]) -> None:
    group = node_group("g", selector={"pool": "a"})
    group["spec"]["nodeSelector"] = selector
    simulation = Simulation(node("n1", labels={"pool": "a"}), node("n2", labels={"pool": "b"}), group)
    assert simulation.cloud.groups_of([instance("n1"), instance("n2")]) == {instance("n1"): "g"}
    simulation.cloud.set_size("g", 1, 2, "t")
    simulation.time.now_s += 10
    assert [n for n in simulation.objects("Node").values() if n["metadata"]["labels"].get("pool") == "a"][1:]


def test_the_cluster_continues_after_its_process_died(tmp_path: Path) -> None:
    path = tmp_path / "cluster.sqlite"
    objects = [node("n1"), node("n2"), *owned(stateful_set("db", 2), 2, "n1"), node_group("g", nodes=["n1", "n2"])]
    simulation = Simulation(*objects, path=path)
    simulation.evict("db-0")
    simulation.cloud.set_size("g", 2, 3, "t")
    simulation.cloud.delete_instances("g", [instance("n2")])
    # No close(): the process has died. Files given again are ignored.
    again = Simulation(node("other"), path=path)
    assert again.cluster.restored
    again.cloud.set_size("g", 2, 3, "t")
    assert again.groups() == {"g": (2, 3)}
    again.time.now_s += 20
    assert set(again.pods()) == {"db-0", "db-1"}
    assert again.groups() == {"g": (2, 2)}
    third = Simulation(path=path)
    third.time.now_s = again.time.now_s
    assert third.cloud.instance_states("g", [instance("n2")]) == {instance("n2"): InstanceState.GONE}
    assert "n2" not in again.objects("Node")
    assert [entry.what for entry in again.cluster.journal()][:1] == ["evicted"]
    third.cluster.close()
    again.cluster.close()
    simulation.cluster.close()


def test_owners_status_counts_active_pods() -> None:
    simulation = Simulation(
        node("n1", pods="2"), *owned(replica_set("web", 2, current=7), 2, "n1"), *owned(job("batch", 1), 0, "n1")
    )
    simulation.evict("web-0")
    assert simulation.objects("ReplicaSet")["web"]["status"] == {"replicas": 2, "readyReplicas": 1}
    assert simulation.objects("Job")["batch"]["status"]["active"] == 0


def test_the_same_calls_at_the_same_times_give_the_same_cluster() -> None:
    def life() -> list[Json]:
        simulation = Simulation(
            node("n1"), node("n2"), *owned(replica_set("web", 6), 6, "n1"), node_group("g", nodes=["n1", "n2"])
        )
        for number in range(4):
            simulation.evict(f"web-{number}")
            simulation.time.now_s += 0.7
        simulation.cloud.set_size("g", 2, 4, "t")
        simulation.time.now_s += 10
        return simulation.cluster.objects()

    assert life() == life()


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        pytest.param([node("n1", cpu="much")], "Node /n1: .*much", id="a quantity"),
        pytest.param([pod("p", "x1")], "Pod default/p: .*x1", id="a request"),
        pytest.param([node("n1"), node("n1")], "Node /n1: given twice", id="a node twice"),
        pytest.param([{"kind": "Pod", "metadata": {}}], "metadata.name", id="no name"),
        pytest.param([{"kind": "Pod", "metadata": {"name": "p"}, "spec": []}], "Pod p: spec|Pod /p", id="no spec"),
        pytest.param([pdb("b", max_unavailable="x%")], "PodDisruptionBudget default/b", id="a budget"),
        pytest.param([{**node_group("g"), "spec": {"minSize": -1}}], "spec.minSize must be a whole number", id="size"),
    ],
)
def test_a_broken_object_is_named(objects: list[Json], message: str) -> None:
    if objects[0]["kind"] == "Pod" and objects[0].get("spec") == []:
        objects[0]["spec"] = ["x"]
    if objects[0]["kind"] == "PodDisruptionBudget":
        objects = [*objects, node("n1"), *owned(replica_set("web", 1), 1, "n1")]
    with pytest.raises(ObjectFileError, match=message):
        Simulation(*objects)
