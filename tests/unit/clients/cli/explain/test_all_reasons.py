"""`trimtab explain node/X` lists all pods of a node with all reasons, the worst first; `explain` of a workload says
which nodes it keeps, what they cost, and what only a plan can say: what its change would free.
"""

from pathlib import Path

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed

NOW = ("--now", "2026-03-01T00:00:00Z")
STORED = {"volumes": [{"name": "v", "emptyDir": {}}]}


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Write three nodes at 2 an hour: n1 with pods that block for several reasons, n2 with one of the same workload
    only, n3 with room.
    """
    web, cache = k8s.deployment("web", replicas=2), k8s.replica_set("cache", replicas=2)
    of_web = k8s.replica_set("web-1", replicas=2, owner=web)
    agent = k8s.daemon_set("agent")
    static = {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"}
    pods = [
        k8s.pod("web-1-a", node="n1", owner=of_web, labels={"app": "web"}, spec=STORED),
        k8s.pod("web-1-b", node="n2", owner=of_web, labels={"app": "web"}, spec=STORED),
        k8s.pod("bare", node="n1", spec=STORED),
        k8s.pod("cache-0", node="n1", owner=cache),
        k8s.pod("cache-1", node="n1", cpu="4500m", owner=cache),
        k8s.pod("agent-n1", node="n1", owner=agent),
        k8s.pod("static-n1", node="n1", annotations=static),
    ]
    budget = k8s.pdb("web", 0, labels={"app": "web"}, healthy=2, desired=2, expected=2)
    group = k8s.node_group("a", min_size=0, max_size=5, selector={"pool": "a"}, price=2.0)
    nodes = [k8s.node(name, cpu="8" if name == "n1" else "4", labels={"pool": "a"}) for name in ("n1", "n2", "n3")]
    nodes[2]["status"]["allocatable"]["cpu"] = "1"
    return listed(tmp_path, *nodes, web, of_web, cache, agent, *pods, budget, group)


def test_all_pods_of_a_node_are_listed_with_all_reasons_the_worst_first(
    trimtab: Run, kept: Path, tmp_path: Path
) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("scaleDown: {utilizationThreshold: 1.0}\n")
    every = ("explain", kept, "node/n1", "--settings", settings, *NOW)
    document = trimtab(*every, "-o", "json").document()
    assert [(one["pod"], one["reasons"]) for one in document["verdict"]["blockingPods"]] == [
        ("default/bare", ["NOT_REPLICATED", "LOCAL_STORAGE_REQUESTED"]),
        ("default/web-1-a", ["LOCAL_STORAGE_REQUESTED", "NOT_ENOUGH_PDB"]),
    ]
    lines = trimtab(*every).out.splitlines()
    assert "    It also has a PodDisruptionBudget that does not allow its eviction (NOT_ENOUGH_PDB)." in lines
    other = "Its other pods: 1 fits no other node, 1 can be evicted, 1 belongs to a DaemonSet, 1 is static."
    at = lines.index(other) + 1
    assert lines[at : at + 4] == [
        "  default/cache-1 fits no other node",
        "  default/cache-0 can be evicted",
        "  default/agent-n1 belongs to a DaemonSet and goes with the node",
        "  default/static-n1 is a static pod and goes with the node",
    ]


def test_a_workload_says_which_nodes_it_keeps_and_what_a_plan_without_its_blockers_frees(
    trimtab: Run, kept: Path
) -> None:
    out = trimtab("explain", kept, "deploy/default/web", "--settings", settings_of(kept), *NOW).out
    lines = out.splitlines()
    assert lines[0] == "Deployment default/web, with 2 pods on 2 nodes."
    assert lines[1] == "It keeps 2 nodes. They cost 4.00 an hour, 2,920 a month."
    assert "  1 node which nothing else keeps: n2" in lines
    assert "  1 node which something else keeps as well: n1" in lines
    assert "1 more node (1,460 a month) could go." in out, "not the price of both nodes that it keeps"
    assert '{"spec":{"maxUnavailable":1' in out
    assert '"cluster-autoscaler.kubernetes.io/safe-to-evict":"true"' in out


def settings_of(cluster: Path) -> Path:
    """Write settings with which every node is a candidate."""
    path = cluster.with_name("settings.yaml")
    path.write_text("scaleDown: {utilizationThreshold: 1.0}\n")
    return path


def test_a_replica_set_is_explained_as_its_deployment(trimtab: Run, kept: Path) -> None:
    outcome = trimtab("explain", kept, "rs/default/web-1", *NOW)
    assert outcome.out.startswith("Deployment default/web, ")
    assert "note: ReplicaSet default/web-1 belongs to Deployment default/web" in outcome.err


def test_a_workload_that_keeps_no_node_says_so_also_as_json(trimtab: Run, kept: Path) -> None:
    assert "It keeps no node." in trimtab("explain", kept, "ds/kube-system/agent", *NOW).out
    document = trimtab("explain", kept, "ds/kube-system/agent", *NOW, "-o", "json").document()["workload"]
    assert (document["kept"], document["advice"]) == ([], None)


def test_a_workload_document_has_every_kept_node_with_its_reasons(trimtab: Run, kept: Path) -> None:
    arguments = ("explain", kept, "deploy/default/web", "--settings", settings_of(kept), *NOW, "-o", "json")
    document = trimtab(*arguments).document()["workload"]
    reasons = ["LOCAL_STORAGE_REQUESTED", "NOT_ENOUGH_PDB"]
    assert document["workload"] == "Deployment/default/web"
    assert document["kept"] == [
        {"node": "n1", "nothingElseKeepsIt": False, "pods": [{"pod": "default/web-1-a", "reasons": reasons}]},
        {"node": "n2", "nothingElseKeepsIt": True, "pods": [{"pod": "default/web-1-b", "reasons": reasons}]},
    ]
    assert document["advice"]["nodes"] == ["n2"]


def test_a_workload_whose_change_lets_only_a_dearer_node_go_instead_says_what_that_saves(
    trimtab: Run, tmp_path: Path
) -> None:
    """One pod of two has room elsewhere: without the change that of the cheap node, with it that of the dear one."""
    web, most, other = k8s.deployment("web"), k8s.replica_set("most"), k8s.replica_set("other")
    of_web = k8s.replica_set("web-1", owner=web)
    prices = {"a": 2.0, "b": 0.5}
    groups = [k8s.node_group(name, 0, 9, selector={"pool": name}, price=price) for name, price in prices.items()]
    nodes = [k8s.node(name, labels={"pool": name[0]}) for name in ("a0", "a1", "b0")]
    pods = [
        k8s.pod("web-1-a", node="a0", cpu="1", owner=of_web, spec=STORED),
        k8s.pod("most-a", node="a1", cpu="2500m", owner=most, spec=STORED),
        k8s.pod("other-a", node="b0", cpu="1", owner=other),
    ]
    cluster = listed(tmp_path, *groups, *nodes, web, of_web, most, other, *pods)
    out = trimtab("explain", cluster, "deploy/default/web", *NOW).out
    assert "If Deployment default/web could be evicted, other nodes could go that save 1,095 a month more." in out, out
    assert "no more nodes could go" not in out
