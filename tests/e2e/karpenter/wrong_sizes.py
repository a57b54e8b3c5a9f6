"""A cluster of Karpenter's whose nodes have the wrong sizes: large ones that are hardly used, after a peak has gone."""

import json
import random
import time
from collections import Counter
from itertools import pairwise
from typing import Any, NamedTuple

from tests.e2e.actuator_process import apply, until
from tests.e2e.control_plane.control_plane import ControlPlane
from tests.e2e.watch_log import is_healthy

Json = dict[str, Any]
POOL = "default"
PRICE = "eks-node-viewer/instance-price"
HOSTNAME = "kubernetes.io/hostname"
ZONES = ("test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d")
REFERENCE: Json = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
CLOSED: list[Json] = [{"nodes": "0"}]


def requirement(key: str, *values: str) -> Json:
    """Return a requirement with In."""
    return {"key": key, "operator": "In", "values": list(values)}


def pool_objects() -> list[Json]:
    """Return the NodePool, which disrupts nothing yet, and its node class."""
    requirements = [
        requirement("kubernetes.io/arch", "amd64"),
        requirement("kubernetes.io/os", "linux"),
        requirement("karpenter.sh/capacity-type", "on-demand"),
        requirement("karpenter.kwok.sh/instance-cpu", "1", "2", "4", "8", "16"),
    ]
    spec = {"requirements": requirements, "nodeClassRef": REFERENCE, "expireAfter": "Never"}
    template = {"metadata": {"labels": {"kwok": "on"}}, "spec": spec}
    disruption = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s", "budgets": CLOSED}
    return [
        {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}},
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": POOL},
            "spec": {"template": template, "disruption": disruption},
        },
    ]


def claim(name: str, pool_uid: str, kind: str, zone: str) -> Json:
    """Return a NodeClaim for a node of a type."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": name,
            "labels": {"karpenter.sh/nodepool": POOL, "kwok": "on"},
            "ownerReferences": [{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": POOL, "uid": pool_uid}],
        },
        "spec": {
            "expireAfter": "Never",
            "nodeClassRef": REFERENCE,
            "requirements": [
                requirement("node.kubernetes.io/instance-type", f"{kind}-amd64-linux"),
                requirement("topology.kubernetes.io/zone", zone),
                requirement("karpenter.sh/capacity-type", "on-demand"),
            ],
            "resources": {"requests": {"cpu": "1"}},
        },
    }


def deployment(name: str, replicas: int, cpu: str, memory: str, spread: str = "") -> Json:
    """Return a Deployment. spread : label of nodes over which its pods are spread; that of hosts = one pod a node."""
    labels = {"app": name}
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    spec: Json = {"containers": [container], "terminationGracePeriodSeconds": 1}
    if spread == HOSTNAME:
        term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    elif spread:
        rule = {"maxSkew": 1, "topologyKey": spread, "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [{**rule, "labelSelector": {"matchLabels": labels}}]
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def budget(name: str, max_unavailable: str) -> Json:
    """Return a PodDisruptionBudget of a Deployment."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"maxUnavailable": max_unavailable, "selector": {"matchLabels": {"app": name}}},
    }


class App(NamedTuple):
    """A Deployment with a budget of a quarter of its pods."""

    name: str
    replicas: int
    cpu: str
    memory: str
    spread: str = ""

    @property
    def least_healthy(self) -> int:
        """The fewest pods that its budget allows to be healthy: shares of maxUnavailable are rounded up."""
        return self.replicas - -(-self.replicas // 4)


class Shape(NamedTuple):
    """A cluster: the types of its nodes, and its Deployments as a share of the number of nodes."""

    kinds: tuple[str, ...]
    apps: tuple[tuple[str, float, str, str, str], ...]

    def apps_of(self, node_count: int) -> list[App]:
        """Return the Deployments for a number of nodes."""
        return [App(name, int(share * node_count), *rest) for name, share, *rest in self.apps]


ZONE = "topology.kubernetes.io/zone"
AFTER_A_PEAK = Shape(
    ("c-16x", "s-16x", "m-16x", "s-8x", "m-8x"),
    (
        ("web", 1, "500m", "1Gi", ""),
        ("api", 0.5, "1", "1Gi", ""),
        ("cache", 0.25, "500m", "6Gi", ""),
        ("jobs", 0.25, "2", "2Gi", ""),
        ("zonal", 0.2, "1", "2Gi", ZONE),
    ),
)
"""Large nodes that are hardly used: 15 % of cpu."""
WRONG_FAMILY = Shape(
    ("m-8x",),
    (
        ("web", 1.2, "500m", "1Gi", ""),
        ("api", 3, "1", "1Gi", ""),
        ("jobs", 0.4, "2", "2Gi", ""),
        ("zonal", 0.4, "1", "2Gi", ZONE),
    ),
)
"""Nodes with eight times the memory that their pods ask for: 60 % of cpu is used, 8 % of memory."""
ONE_A_NODE = Shape(("m-8x",), (("single", 1, "500m", "1Gi", HOSTNAME),))
"""Large nodes with one small pod each, of which no two may be on a node."""
SHAPES = {"after-a-peak": AFTER_A_PEAK, "wrong-family": WRONG_FAMILY}


def fill(plane: ControlPlane, node_count: int, shape: Shape = AFTER_A_PEAK) -> list[App]:
    """Create nodes, and then pods that the scheduler spreads over them; return the Deployments."""
    apply(plane, *pool_objects())
    until(lambda: _is_ready(plane), 60, "the NodePool is ready")
    uid = json.loads(plane.kubectl("get", "nodepool", POOL, "-o", "json"))["metadata"]["uid"]
    chance = random.Random(1)
    apply(
        plane,
        *(
            claim(f"old-{number:04d}", uid, chance.choice(shape.kinds), ZONES[number % len(ZONES)])
            for number in range(node_count)
        ),
    )
    until(lambda: len(ready_nodes(plane)) == node_count, 600, "all nodes are ready")
    apps = shape.apps_of(node_count)
    apply(plane, *(deployment(*app) for app in apps), *(budget(app.name, "25%") for app in apps))
    count = sum(app.replicas for app in apps)
    until(lambda: running_pods(plane) == count, 600, "all pods run")
    return apps


def open_budget(plane: ControlPlane, nodes: str = "10%") -> None:
    """Let Karpenter disrupt nodes."""
    patch = json.dumps({"spec": {"disruption": {"budgets": [{"nodes": nodes}]}}})
    plane.kubectl("patch", "nodepool", POOL, "--type=merge", "-p", patch)


def listed(plane: ControlPlane, kind: str) -> list[Json]:
    """Return all objects of a kind."""
    items: list[Json] = json.loads(plane.kubectl("get", kind, "-A", "-o", "json"))["items"]
    return items


def ready_nodes(plane: ControlPlane) -> list[Json]:
    """Return the nodes that Karpenter has initialized."""
    nodes = listed(plane, "nodes")
    return [one for one in nodes if one["metadata"]["labels"].get("karpenter.sh/initialized") == "true"]


def running_pods(plane: ControlPlane) -> int:
    """Return the number of pods that are ready on a node that is there."""
    nodes = {one["metadata"]["name"] for one in listed(plane, "nodes")}
    return sum(is_healthy(pod) and pod["spec"].get("nodeName") in nodes for pod in listed(plane, "pods"))


def price_of(nodes: list[Json]) -> float:
    """Return what nodes cost for one hour."""
    return sum(float(node["metadata"]["labels"].get(PRICE, "0")) for node in nodes)


def is_disrupted(node: Json) -> bool:
    """Return whether a node is leaving."""
    taints = {taint["key"] for taint in node["spec"].get("taints", ())}
    return "deletionTimestamp" in node["metadata"] or "karpenter.sh/disrupted" in taints


def sizes(nodes: list[Json]) -> Counter[str]:
    """Return the number of nodes of each type."""
    return Counter(node["metadata"]["labels"]["node.kubernetes.io/instance-type"] for node in nodes)


Sample = tuple[float, float, int, int]
"""Seconds, price of an hour, nodes, disrupted nodes."""


def cost_over(samples: list[Sample], seconds: float) -> float:
    """Return what the nodes cost within a time; after the last sample, the price stays."""
    times = [*(one[0] for one in samples if one[0] < seconds), seconds]
    return sum(samples[i][1] * (end - begin) for i, (begin, end) in enumerate(pairwise(times))) / 3600


def most_saved_after(samples: list[Sample]) -> float:
    """Return after how many seconds 90 % of what is saved at the end was saved."""
    first, last = samples[0][1], samples[-1][1]
    return next(one[0] for one in samples if one[1] <= last + (first - last) / 10)


def watch_until_settled(plane: ControlPlane, limit_s: float, quiet_s: float) -> list[Sample]:
    """Return a sample every two seconds, until nothing changes for a while."""
    found: list[Sample] = []
    began = last_change = time.monotonic()
    names: set[str] = set()
    while True:
        nodes, now = listed(plane, "nodes"), time.monotonic()
        seen = {node["metadata"]["name"] for node in nodes}
        if seen != names or any(map(is_disrupted, nodes)):
            names, last_change = seen, now
        found.append((now - began, price_of(nodes), len(nodes), sum(map(is_disrupted, nodes))))
        if now - began > limit_s or now - last_change > quiet_s:
            return found
        time.sleep(2)


def _is_ready(plane: ControlPlane) -> bool:
    (pool,) = listed(plane, "nodepools")
    conditions = pool.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
