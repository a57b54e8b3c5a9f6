"""Synthetic clusters: repeatable, of the requested size, and valid."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from trimtab.clients.cluster_generator import ClusterShape, generate, objects, write_list

CONSTRAINED = ClusterShape(
    nodes=60, pods=1_200, seed=3, spread_share=0.3, anti_affinity_share=0.3, pending_pods=25
)  # fmt: skip


def as_json(shape: ClusterShape) -> list[dict[str, Any]]:
    return [json.loads(msgspec.json.encode(item)) for item in objects(generate(shape))]


def of_kind(items: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [item for item in items if item["kind"] == kind]


def test_the_same_shape_makes_the_same_file_byte_for_byte(tmp_path: Path) -> None:
    for name in ("one.json.gz", "two.json.gz"):
        write_list(generate(ClusterShape(nodes=30, pods=400)), tmp_path / name)
    assert (tmp_path / "one.json.gz").read_bytes() == (tmp_path / "two.json.gz").read_bytes()


def test_another_seed_makes_another_cluster() -> None:
    assert as_json(ClusterShape(nodes=30, pods=400, seed=1)) != as_json(ClusterShape(nodes=30, pods=400, seed=2))


@pytest.mark.parametrize(
    ("nodes", "pods"),
    [pytest.param(12, 240, id="tiny"), pytest.param(300, 6_000, id="demo"), pytest.param(2_000, 60_000, id="large")],
)
def test_size_and_utilization_are_close_to_the_request(nodes: int, pods: int) -> None:
    cluster = generate(ClusterShape(nodes=nodes, pods=pods))
    sizes = np.array([[workload.cpu_milli, 1] for workload in cluster.workloads])[cluster.workload]
    allocatable = cluster.nodes.free[:, 0].sum() + sizes[:, 0].sum()
    assert len(cluster.nodes.pool) == nodes
    assert len(cluster.node) == pytest.approx(pods, rel=0.1)
    assert sizes[:, 0].sum() / allocatable == pytest.approx(0.4, abs=0.05)


def test_no_node_gives_more_than_it_has() -> None:
    cluster = generate(CONSTRAINED)
    assert (cluster.nodes.free >= 0).all()


def test_names_and_uids_are_unique() -> None:
    items = as_json(CONSTRAINED)
    names = Counter((item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]) for item in items)
    uids = Counter(item["metadata"]["uid"] for item in items if "uid" in item["metadata"])
    assert [name for name, count in names.items() if count > 1] == []
    assert [uid for uid, count in uids.items() if count > 1] == []


def test_taints_selectors_and_affinity_hold_for_every_pod() -> None:
    items = as_json(CONSTRAINED)
    nodes = {node["metadata"]["name"]: node for node in of_kind(items, "Node")}
    for pod in of_kind(items, "Pod"):
        if "nodeName" not in pod["spec"]:
            continue
        node = nodes[pod["spec"]["nodeName"]]
        tolerated = {toleration.get("key") for toleration in pod["spec"]["tolerations"]}
        assert all(taint["key"] in tolerated or None in tolerated for taint in node["spec"]["taints"])
        labels = node["metadata"]["labels"]
        assert all(labels[key] == value for key, value in pod["spec"].get("nodeSelector", {}).items())


def test_spread_and_anti_affinity_hold_for_every_workload() -> None:
    cluster = generate(CONSTRAINED)
    nodes_of: dict[int, list[int]] = defaultdict(list)
    for workload, node in zip(cluster.workload.tolist(), cluster.node.tolist(), strict=True):
        if node >= 0:
            nodes_of[workload].append(node)
    checked = Counter[str]()
    for index, workload in enumerate(cluster.workloads):
        if workload.anti_affinity:
            assert max(Counter(nodes_of[index]).values()) == 1
            checked["anti-affinity"] += 1
        if workload.spread and not workload.zones:
            zones = Counter(cluster.nodes.zone[nodes_of[index]].tolist())
            assert max(zones.values()) - min(zones[zone] for zone in range(3)) <= 1
            checked["spread"] += 1
    assert min(checked["anti-affinity"], checked["spread"]) > 5


def test_budgets_say_what_the_disruption_controller_would() -> None:
    items = as_json(CONSTRAINED)
    budgets = of_kind(items, "PodDisruptionBudget")
    assert len(budgets) > 10
    for budget in budgets:
        wanted = budget["spec"]["selector"]["matchLabels"].items()
        pods = [pod for pod in of_kind(items, "Pod") if wanted <= pod["metadata"]["labels"].items()]
        status = budget["status"]
        running = sum(pod["status"]["phase"] == "Running" for pod in pods)
        assert (status["expectedPods"], status["currentHealthy"]) == (len(pods), running)
        assert status["disruptionsAllowed"] == max(0, running - status["desiredHealthy"])


def test_pending_pods_are_on_no_node() -> None:
    items = as_json(CONSTRAINED)
    assert sum("nodeName" not in pod["spec"] for pod in of_kind(items, "Pod")) == 25


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        pytest.param({"nodes": 3}, "at least 12 nodes", id="too few nodes"),
        pytest.param({"nodes": 100, "pods": 100}, "at least 400 pods", id="fewer pods than DaemonSets make"),
        pytest.param({"utilization": 1.5}, "utilization", id="more than there is"),
    ],
)
def test_an_impossible_shape_is_refused_by_name(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        ClusterShape(**fields)
