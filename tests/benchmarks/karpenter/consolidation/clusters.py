"""Clusters of wrong sizes, for Karpenter and for Trimtab.

Usage: python -m tests.benchmarks.karpenter.consolidation.clusters FILE NODES TYPES [SEED] [SPREAD]
Nodes are of random types; each is filled with pods of 100 to 499 m and 128 to 639 MiB, as in Karpenter's unmerged
benchmark of consolidation (pull request 2998), to a random share of 10 to 60 %. TYPES 100: four families of 2, 4, 8 and
16 GiB a core, 1 to 64 cores; 400: Karpenter's fake types of 1 to 400 cores with 2 GiB a core. Three zones, on-demand,
prices linear in cores and memory with a difference of a few per cent by type and zone. SPREAD: the share of pods that
spread over host names, 0 by default.
"""

import json
import random
import sys
from pathlib import Path
from typing import Any

ZONES = ("test-zone-1", "test-zone-2", "test-zone-3")
PER_CORE, PER_GIB = 0.034, 0.0038
RESERVED_CPU_MILLI, RESERVED_MEMORY_MIB = 100, 10
"""What Karpenter's fake types keep for the kubelet."""
REPLICAS = 10


def types(count: int, choose: random.Random) -> list[dict[str, Any]]:
    """Return instance types."""
    shapes = [(cores, 2 * cores, f"fake-it-{cores}") for cores in range(1, count + 1)]
    if count <= 100:
        sizes = [1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 28, 32, 36, 40, 44, 48, 52, 56, 58, 60, 64]
        families = {"c": 2, "m": 4, "r": 8, "x": 16}
        shapes = [(n, n * gib, f"{name}-{n}x") for name, gib in families.items() for n in sizes][:count]
    return [
        {
            "name": name,
            "cpuMilli": cores * 1000,
            "memoryMiB": gib * 1024,
            "pods": 110,
            "offerings": _offerings(cores, gib, choose),
        }
        for cores, gib, name in shapes
    ]


def _offerings(cores: int, gib: int, choose: random.Random) -> list[dict[str, Any]]:
    own = choose.uniform(0.95, 1.05)
    return [
        {
            "zone": zone,
            "capacityType": "on-demand",
            "price": round((cores * PER_CORE + gib * PER_GIB) * own * choose.uniform(0.99, 1.01), 5),
        }
        for zone in ZONES
    ]


def cluster(node_count: int, type_count: int, seed: int, spread: float) -> dict[str, Any]:
    """Return a cluster as the Go program reads it."""
    choose = random.Random(seed)
    known = types(type_count, choose)
    usable = [one for one in known if 4000 <= one["cpuMilli"] <= 32000]
    nodes, pods = [], list[dict[str, Any]]()
    for number in range(node_count):
        of = choose.choice(usable)
        name = f"node-{number:05d}"
        nodes.append({"name": name, "type": of["name"], "zone": choose.choice(ZONES), "capacityType": "on-demand"})
        share = choose.uniform(0.1, 0.6)
        free_cpu = (of["cpuMilli"] - RESERVED_CPU_MILLI) * share
        free_memory = (of["memoryMiB"] - RESERVED_MEMORY_MIB) * share
        while True:
            cpu, memory = choose.randint(100, 499), choose.randint(128, 639)
            if cpu > free_cpu or memory > free_memory:
                break
            free_cpu, free_memory = free_cpu - cpu, free_memory - memory
            pods.append({"node": name, "cpuMilli": cpu, "memoryMiB": memory})
    _name(pods, choose, spread)
    return {"types": known, "nodes": nodes, "pods": pods}


def _name(pods: list[dict[str, Any]], choose: random.Random, spread: float) -> None:
    """Give pods to apps of ten, the pods of which that spread are on different nodes."""
    order = list(range(len(pods)))
    choose.shuffle(order)
    apps: list[list[int]] = []
    waiting: list[set[str]] = []
    for index in order:
        node = pods[index]["node"]
        for app in range(max(len(apps) - 40, 0), len(apps)):
            if len(apps[app]) < REPLICAS and node not in waiting[app]:
                break
        else:
            app = len(apps)
            apps.append([])
            waiting.append(set())
        apps[app].append(index)
        waiting[app].add(node)
    for app, members in enumerate(apps):
        spreads = choose.random() < spread
        for number, index in enumerate(members):
            pods[index] |= {
                "name": f"app-{app:05d}-{number}",
                "app": f"app-{app:05d}",
                "spread": "kubernetes.io/hostname" if spreads else "",
            }


def objects(given: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the same cluster as Kubernetes objects with a node group for each type in each zone."""
    by_name = {one["name"]: one for one in given["types"]}
    items: list[dict[str, Any]] = []
    for one in given["types"]:
        for offer in one["offerings"]:
            items.append(_group(one, offer, given["nodes"]))
    for node in given["nodes"]:
        labels = _labels(node["type"], node["zone"], node["capacityType"])
        items.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": node["name"], "labels": labels | {"kubernetes.io/hostname": node["name"]}},
                "status": _status(by_name[node["type"]]) | {"conditions": [{"type": "Ready", "status": "True"}]},
            }
        )
    for app in sorted({pod["app"] for pod in given["pods"]}):
        items.append(
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {"name": app, "namespace": "default", "uid": f"uid-{app}"},
                "spec": {"replicas": REPLICAS, "selector": {"matchLabels": {"app": app}}},
            }
        )
    items.extend(map(_pod, given["pods"]))
    return items


def _labels(kind: str, zone: str, capacity: str) -> dict[str, str]:
    return {
        "node.kubernetes.io/instance-type": kind,
        "topology.kubernetes.io/zone": zone,
        "karpenter.sh/capacity-type": capacity,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
    }


def _status(kind: dict[str, Any]) -> dict[str, Any]:
    cpu, memory = kind["cpuMilli"], kind["memoryMiB"]
    return {
        "capacity": {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "pods": str(kind["pods"])},
        "allocatable": {
            "cpu": f"{cpu - RESERVED_CPU_MILLI}m",
            "memory": f"{memory - RESERVED_MEMORY_MIB}Mi",
            "pods": str(kind["pods"]),
        },
    }


def _group(kind: dict[str, Any], offer: dict[str, Any], nodes: list[dict[str, Any]]) -> dict[str, Any]:
    wanted = (kind["name"], offer["zone"], offer["capacityType"])
    members = [one["name"] for one in nodes if (one["type"], one["zone"], one["capacityType"]) == wanted]
    return {
        "apiVersion": "trimtab.dev/v1",
        "kind": "NodeGroup",
        "metadata": {"name": ".".join(wanted)},
        "spec": {
            "minSize": 0,
            "maxSize": 20000,
            "targetSize": len(members),
            "nodes": members,
            "price": offer["price"],
            "template": {"metadata": {"labels": _labels(*wanted)}, "status": _status(kind)},
        },
    }


def _pod(pod: dict[str, Any]) -> dict[str, Any]:
    labels = {"app": pod["app"]}
    requests = {"cpu": f"{pod['cpuMilli']}m", "memory": f"{pod['memoryMiB']}Mi"}
    spec: dict[str, Any] = {
        "nodeName": pod["node"],
        "containers": [{"name": "main", "image": "main", "resources": {"requests": requests}}],
    }
    if pod["spread"]:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": pod["spread"],
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": labels},
            }
        ]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": pod["app"], "uid": f"uid-{pod['app']}"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod["name"],
            "namespace": "default",
            "uid": f"uid-{pod['name']}",
            "labels": labels,
            "ownerReferences": [owner | {"controller": True}],
        },
        "spec": spec,
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def main(path: str, nodes: str, kinds: str, seed: str = "1", spread: str = "0") -> None:
    Path(path).write_text(json.dumps(cluster(int(nodes), int(kinds), int(seed), float(spread))))


if __name__ == "__main__":
    main(*sys.argv[1:])
