"""The in-memory cluster behaves like a small Kubernetes: budgets, owners, scheduling, machines, persistence."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from actuator.cloud.memory.cloud import MemoryCloud
from actuator.cloud.memory.cluster import MemoryCluster
from actuator.cloud.memory.controllers import Delays
from actuator.cloud.memory.objects import ObjectError, load_files
from actuator.cloud.memory.quantities import parse_quantity, pod_requests
from actuator.cloud.memory.selectors import matches, tolerates
from actuator.cloud.provider import CloudRefusedError, InstanceState
from actuator.kube.cluster import NotFoundError, RefusedError, Taint, TooManyRequestsError
from tests.builders.actuator import DELAYS, VirtualTime, place
from tests.builders.kubernetes import (
    Json,
    daemon_set,
    job,
    labelled,
    listed,
    node,
    node_affinity,
    node_group,
    pdb,
    pod,
    pods_of,
    replica_set,
    stateful_set,
    taint,
    toleration,
)


class World:
    """A cluster on virtual time."""

    def __init__(self, *objects: Json, path: Path | None = None, delays: Delays = DELAYS) -> None:
        self.time = VirtualTime()
        self.cluster = MemoryCluster(objects, path, delays, self.time.clock, self.time.sleep)
        self.cloud = MemoryCloud(self.cluster)

    def evict(self, name: str, namespace: str = "default") -> None:
        pods = self.cluster.world.pods
        self.cluster.evict(pods[namespace, name].view(), None)

    def pods(self) -> dict[str, tuple[str, str]]:
        """Node and phase of each pod that is not leaving."""
        return {
            o["metadata"]["name"]: (o["spec"].get("nodeName", ""), o["status"]["phase"])
            for o in self.objects("Pod").values()
            if "deletionTimestamp" not in o["metadata"]
        }

    def objects(self, kind: str) -> dict[str, Json]:
        return {o["metadata"]["name"]: o for o in self.cluster.objects() if o["kind"] == kind}

    def groups(self) -> dict[str, tuple[int, int]]:
        return {group.id: (group.target_size, group.instance_count) for group in self.cloud.node_groups()}


def owned(owner: Json, count: int, *nodes: str) -> list[Json]:
    pods = pods_of(owner, count)
    for number, item in enumerate(pods):
        place(item, nodes[number % len(nodes)])
    return [owner, *pods]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("1", 1), ("100m", Fraction(1, 10)), ("1.5Gi", 3 << 29), ("1k", 1000), ("1M", 10**6),
        ("2E", 2 * 10**18), ("1e3", 1000), ("1E3", 1000), ("1e-3", Fraction(1, 1000)), ("5u", Fraction(5, 10**6)),
        ("7n", Fraction(7, 10**9)),
        (".5", Fraction(1, 2)), ("1.", 1), ("+3", 3), ("1Ki", 1024), ("2Ti", 2 << 40), ("12E", 12 * 10**18),
    ],
)  # fmt: skip
def test_a_quantity_is_read(text: str, value: Any) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize("text", ["", "x", "1kk", "1 Gi", "Gi", "1e", "--1", "1e9999", "0x10", "1Ki5", "\u0661"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)


def container(cpu: str = "", limit: str = "", **more: Any) -> Json:
    resources = {"requests": {"cpu": cpu} if cpu else {}, "limits": {"cpu": limit} if limit else {}}
    return {"name": "c", "resources": resources, **more}


@pytest.mark.parametrize(
    ("spec", "cpu_milli"),
    [
        pytest.param({"containers": [container("100m"), container("1")]}, 1100, id="containers together"),
        pytest.param({"containers": [container(limit="2")]}, 2000, id="a limit where no request is"),
        pytest.param({"containers": [container("1", "2")]}, 1000, id="a request beside a limit"),
        pytest.param({"containers": [container("0.0001")]}, 1, id="rounded up"),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("3")]}, 3000, id="a large init container"
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("2", restartPolicy="Always")]},
            3000,
            id="a sidecar",
        ),
        pytest.param(
            {
                "containers": [container("1")],
                "initContainers": [container("2", restartPolicy="Always"), container("4")],
            },
            6000,
            id="an init container beside a sidecar",
        ),
        pytest.param({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250, id="overhead"),
        pytest.param({"containers": [container("1")], "resources": {"requests": {"cpu": "5"}}}, 5000, id="pod level"),
    ],
)
def test_what_a_pod_requests(spec: Json, cpu_milli: int) -> None:
    assert pod_requests(spec).get("cpu") == cpu_milli


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param(None, False, id="absent matches nothing"),
        pytest.param({}, True, id="empty matches everything"),
        pytest.param(labelled(app="web"), True, id="label"),
        pytest.param(labelled(app="db"), False, id="other value"),
        pytest.param(labelled(("app", "In", ["db", "web"])), True, id="in"),
        pytest.param(labelled(("app", "NotIn", ["db"])), True, id="not in"),
        pytest.param(labelled(("zone", "NotIn", ["a"])), True, id="not in, absent"),
        pytest.param(labelled(("app", "Exists")), True, id="exists"),
        pytest.param(labelled(("app", "DoesNotExist")), False, id="does not exist"),
        pytest.param(labelled(("app", "Unheard", ["web"])), False, id="unknown operator"),
    ],
)
def test_which_labels_a_selector_matches(selector: Json | None, expected: bool) -> None:
    assert matches(selector, {"app": "web"}) is expected


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param([], False, id="none"),
        pytest.param([toleration()], True, id="everything"),
        pytest.param([toleration("k")], True, id="key"),
        pytest.param([toleration("k", "v")], True, id="key and value"),
        pytest.param([toleration("k", "w")], False, id="other value"),
        pytest.param([toleration("k", effect="NoExecute")], False, id="other effect"),
        pytest.param([{"operator": "Equal", "value": "v"}], False, id="Equal needs a key"),
    ],
)
def test_which_tolerations_cover_a_taint(tolerations: list[Json], expected: bool) -> None:
    assert tolerates(tolerations, taint("k=v:NoSchedule")) is expected


def test_an_evicted_replica_comes_back_elsewhere_under_a_new_name() -> None:
    world = World(node("n1"), node("n2"), *owned(replica_set("web", 1), 1, "n1"))
    world.cluster.add_taint("n1", Taint("t", "", "NoSchedule"))
    world.evict("web-0")
    ((name, (where, phase)),) = world.pods().items()
    assert (where, phase) == ("n2", "Pending")
    assert name != "web-0"
    world.time.now_s += 5
    assert world.pods() == {name: ("n2", "Running")}
    assert "web-0" not in world.objects("Pod")


def test_a_stateful_pod_comes_back_under_its_name_once_it_is_gone() -> None:
    world = World(node("n1"), *owned(stateful_set("db", 1), 1, "n1"))
    uid = world.objects("Pod")["db-0"]["metadata"]["uid"]
    world.evict("db-0")
    assert world.pods() == {}
    world.time.now_s += 1
    assert world.pods() == {"db-0": ("n1", "Pending")}
    assert world.objects("Pod")["db-0"]["metadata"]["uid"] != uid


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
def test_who_gets_a_replacement(owner: Json | None, count: int) -> None:
    items = [owner] if owner and "metadata" in owner else []
    world = World(node("n1"), *items, pod("p", node="n1", owner=owner))
    world.evict("p")
    assert len(world.pods()) == count


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
    world = World(
        node("n1"), *owned(replica_set("web", 4), 4, "n1"), pdb("b", allowed=99, labels={"app": "web"}, **spec)
    )
    status = world.objects("PodDisruptionBudget")["b"]["status"]
    assert (status["disruptionsAllowed"], status["currentHealthy"], status["expectedPods"]) == (allowed, 4, 4)


def test_a_budget_refuses_until_the_replacement_is_ready() -> None:
    web = owned(replica_set("web", 2), 2, "n1")
    world = World(node("n1"), *web, pdb("b", labels={"app": "web"}, max_unavailable=1))
    world.evict("web-0")
    assert world.objects("PodDisruptionBudget")["b"]["status"]["disruptionsAllowed"] == 0
    with pytest.raises(TooManyRequestsError, match="default/b needs 1 healthy pods and has 1"):
        world.evict("web-1")
    world.time.now_s += 5
    world.evict("web-1")


def test_a_pod_under_two_budgets_is_never_evicted() -> None:
    budgets = [pdb(name, labels={"app": "web"}, max_unavailable=1) for name in ("a", "b")]
    world = World(node("n1"), *owned(replica_set("web", 2), 2, "n1"), *budgets)
    with pytest.raises(RefusedError, match="2 PodDisruptionBudgets"):
        world.evict("web-0")


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
    world = World(node("n1"), *web, budget)
    if granted:
        world.evict("web-2")
    else:
        with pytest.raises(TooManyRequestsError):
            world.evict("web-2")


def test_evicting_a_pod_that_is_gone_or_another_is_not_found() -> None:
    world = World(node("n1"), *owned(stateful_set("db", 1), 1, "n1"))
    old = world.cluster.world.pods["default", "db-0"].view()
    world.evict("db-0")
    world.time.now_s += 2
    with pytest.raises(NotFoundError):
        world.cluster.evict(old, None)
    assert world.pods()["db-0"]


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
def test_where_a_pending_pod_goes(pending: dict[str, Any], where: str) -> None:
    tainted_pod = [pod("t", "3800m", node="tainted")] if pending.pop("extra", False) else []
    world = World(
        node("full"), node("roomy", labels={"disk": "ssd"}), node("tainted", taints=["gpu:NoSchedule"]),
        node("cordoned", unschedulable=True), pod("a", "2", node="full", host_ports=[80]), *tainted_pod,
        pod("p", **({"cpu": "100m"} | pending)),
    )  # fmt: skip
    assert world.pods()["p"][0] == where


def test_the_pod_limit_of_a_node_counts() -> None:
    world = World(node("n1", pods="1"), pod("a", node="n1"), pod("b"))
    assert world.pods()["b"] == ("", "Pending")
    world.evict("a")
    world.time.now_s += 5
    assert world.pods()["b"] == ("n1", "Running")


def test_machines_come_and_go_with_their_group() -> None:
    template = node("template", labels={"pool": "a"}, taints=["dedicated:NoSchedule"])
    agent = daemon_set("agent")
    daemon = pod("agent-n1", namespace="kube-system", node="n1", owner=agent, tolerations=[toleration()])
    world = World(node("n1"), agent, daemon, node_group("g", 0, 3, nodes=["n1"], template=template))
    world.cloud.grow("g", 2, "token")
    world.cloud.grow("g", 2, "token")
    assert world.groups() == {"g": (3, 3)}
    assert len(world.objects("Node")) == 1
    world.time.now_s += 10
    nodes = world.objects("Node")
    assert len(nodes) == 3
    new = next(name for name in nodes if name != "n1")
    assert nodes[new]["metadata"]["labels"]["pool"] == "a"
    assert nodes[new]["metadata"]["labels"]["kubernetes.io/hostname"] == new
    assert nodes[new]["spec"]["taints"] == template["spec"]["taints"]
    assert len([o for o in world.objects("Pod").values() if o["spec"].get("nodeName") == new]) == 1
    assert set(world.objects("NodeGroup")["g"]["spec"]["nodes"]) == set(nodes)
    with pytest.raises(CloudRefusedError, match="exceeds the maximum 3"):
        world.cloud.grow("g", 1, "other")
    assert world.cloud.delete_instances("g", [new]) == {}
    assert world.cloud.delete_instances("g", [new]) == {}
    assert world.groups() == {"g": (2, 3)}
    assert world.cloud.instance_states("g", [new, "n1", "x"]) == {
        new: InstanceState.DELETING,
        "n1": InstanceState.RUNNING,
        "x": InstanceState.GONE,
    }
    world.time.now_s += 10
    assert new not in world.objects("Node")
    assert world.groups() == {"g": (2, 2)}


def test_a_group_is_not_shrunk_below_its_minimum() -> None:
    world = World(node("n1"), node("n2"), node_group("g", 1, 3, nodes=["n1", "n2"]))
    failed = world.cloud.delete_instances("g", ["n1", "n2"])
    assert list(failed) == ["n2"]
    assert isinstance(failed["n2"], CloudRefusedError)


def test_a_machine_deleted_under_its_pods_loses_them_and_the_journal_says_so() -> None:
    world = World(node("n1"), node("n2"), *owned(replica_set("web", 1), 1, "n1"), node_group("g", nodes=["n1", "n2"]))
    world.cloud.delete_instances("g", ["n1"])
    world.time.now_s += 10
    assert [(e.what, e.subject) for e in world.cluster.journal() if e.what == "pod_lost"] == [
        ("pod_lost", "default/web-0")
    ]
    assert [where for where, _ in world.pods().values()] == ["n2"]


@pytest.mark.parametrize("selector", [{"pool": "a"}, {"matchLabels": {"pool": "a"}}])
def test_a_group_may_name_its_nodes_by_label(selector: dict[str, Any]) -> None:
    group = node_group("g", selector={"pool": "a"})
    group["spec"]["nodeSelector"] = selector
    world = World(node("n1", labels={"pool": "a"}), node("n2", labels={"pool": "b"}), group)
    assert world.cloud.groups_of(["n1", "n2"]) == {"n1": "g"}
    world.cloud.grow("g", 1, "t")
    world.time.now_s += 10
    assert [n for n in world.objects("Node").values() if n["metadata"]["labels"].get("pool") == "a"][1:]


def test_the_cluster_goes_on_after_its_process_died(tmp_path: Path) -> None:
    path = tmp_path / "cluster.sqlite"
    objects = [node("n1"), node("n2"), *owned(stateful_set("db", 2), 2, "n1"), node_group("g", nodes=["n1", "n2"])]
    world = World(*objects, path=path)
    world.evict("db-0")
    world.cloud.grow("g", 1, "t")
    world.cloud.delete_instances("g", ["n2"])
    # No close(): the process is gone. Files given again do not count.
    again = World(node("other"), path=path)
    assert again.cluster.restored
    again.cloud.grow("g", 1, "t")
    assert again.groups() == {"g": (2, 3)}
    again.time.now_s += 20
    assert set(again.pods()) == {"db-0", "db-1"}
    assert again.groups() == {"g": (2, 2)}
    assert "n2" not in again.objects("Node")
    assert [entry.what for entry in again.cluster.journal()][:1] == ["evicted"]
    again.cluster.close()
    world.cluster.close()


def test_owners_status_counts_active_pods() -> None:
    world = World(
        node("n1", pods="2"), *owned(replica_set("web", 2, current=7), 2, "n1"), *owned(job("batch", 1), 0, "n1")
    )
    world.evict("web-0")
    assert world.objects("ReplicaSet")["web"]["status"] == {"replicas": 2, "readyReplicas": 1}
    assert world.objects("Job")["batch"]["status"]["active"] == 0


def test_the_same_calls_at_the_same_times_give_the_same_cluster() -> None:
    def life() -> list[Json]:
        world = World(
            node("n1"), node("n2"), *owned(replica_set("web", 6), 6, "n1"), node_group("g", nodes=["n1", "n2"])
        )
        for number in range(4):
            world.evict(f"web-{number}")
            world.time.now_s += 0.7
        world.cloud.grow("g", 2, "t")
        world.time.now_s += 10
        return world.cluster.objects()

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
    with pytest.raises(ObjectError, match=message):
        World(*objects)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        pytest.param("a.json", "{", "a.json", id="truncated JSON"),
        pytest.param("a.yaml", "a: [", "a.yaml", id="broken YAML"),
        pytest.param("a.txt", "{}", "unknown kind of file", id="unknown suffix"),
        pytest.param("a.json.gz", "{}", "cannot be read", id="not compressed"),
        pytest.param("a.json", "[1]", "an object was expected, not list", id="no object"),
        pytest.param(
            "a.json", '{"kind":"List","items":[5]}', r"items\[0\]: an object was expected, not int", id="item"
        ),
        pytest.param(
            "a.json", '{"kind":"List","items":[{"kind":"Pod"}]}', r"items\[0\]: kind and metadata", id="no name"
        ),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ObjectError, match=message):
        load_files([tmp_path / name])


def test_files_of_every_form_are_read(tmp_path: Path) -> None:
    import gzip

    import yaml

    (tmp_path / "a.json").write_text(json.dumps(listed(node("n1"), node("n2"))))
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(json.dumps(node("n3")).encode()))
    (tmp_path / "c.yaml").write_text(yaml.safe_dump_all([node("n4"), listed(node("n5")), None]))
    bare = {"kind": "NodeList", "items": [{key: value for key, value in node("n6").items() if key != "kind"}]}
    (tmp_path / "d.json").write_text(json.dumps(bare))
    items = load_files(sorted(tmp_path.iterdir()))
    assert [item["metadata"]["name"] for item in items] == ["n1", "n2", "n3", "n4", "n5", "n6"]
    assert {item["kind"] for item in items} == {"Node"}
