"""Random clusters with pods that wait and node groups that can grow, as Kubernetes prints them; one seed, one cluster.

Groups have templates, which their nodes are like; some are alike but for their zone. What makes one node different from
the next (odd nodes, odd pods) is left to `mixed`: here it is the choice of groups that is hard.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from .mixed import CONTROLLED, HOST, NOW, ZONE, Mix, MixedCluster, Object, _FilledNode
from .widened import UNSCHEDULABLE

SHAPES = ((2_000, 4_096), (2_000, 8_192), (4_000, 8_192), (4_000, 16_384), (8_000, 32_768), (16_000, 32_768))
GPU_LABEL = "cloud.google.com/gke-accelerator"


class Waiting(NamedTuple):
    """groups, nodes, workloads, replicas : inclusive ranges; use : share of cpu of existing nodes that is asked for.

    constraints : how often a pod has selectors, affinity, spread, ports; alike : how often a group is like another one.
    """

    groups: tuple[int, int] = (1, 6)
    nodes: tuple[int, int] = (1, 8)
    workloads: tuple[int, int] = (1, 8)
    replicas: tuple[int, int] = (1, 20)
    use: tuple[float, float] = (0.3, 0.9)
    constraints: float = 1.0
    alike: float = 0.4
    limits: float = 0.25


WAITING = (
    Waiting(),
    Waiting(constraints=0),
    Waiting(constraints=2),
    Waiting(constraints=0, alike=0.8, groups=(3, 9)),
    Waiting(constraints=0.5, alike=0.8, groups=(3, 9)),
    Waiting(workloads=(6, 20), replicas=(1, 8)),
    Waiting(workloads=(1, 2), replicas=(20, 60), constraints=1.5),
    Waiting(limits=1),
)
CHAINS = (
    ["LEAST_WASTE"],
    ["MOST_PODS", "LEAST_NODES"],
    ["LEAST_NODES", "MOST_PODS"],
    ["PRICE"],
    ["PRIORITY", "LEAST_NODES"],
    ["PRIORITY", "LEAST_WASTE"],
    ["LEAST_NODES", "PRICE"],
)


class _Pooled(_FilledNode):
    """A node, or what one of a group is like, that keeps something for itself."""

    capacity: dict[str, str]

    def object(self) -> Object:
        found = super().object()
        return found | {"status": found["status"] | {"capacity": self.capacity}}


class _Group(NamedTuple):
    name: str
    sample: _Pooled


class PendingCluster(MixedCluster):
    """One random cluster whose pods wait."""

    def __init__(self, seed: int, waiting: Waiting) -> None:
        self.waiting = waiting
        self.groups: list[_Group] = []
        super().__init__(seed, Mix(odd=0, constraints=waiting.constraints, use=waiting.use, budgets=0, pending=0))

    def items(self) -> list[Object]:
        """All objects; pods that run are placed as in `mixed`, the others are marked by the scheduler."""
        listed = super().items()
        objects, running = len(self.objects), len(self.pods)
        for _ in range(self.r.randint(*self.waiting.workloads)):
            self._wait()
        pods = self.pods[running:]
        spaces = {item["metadata"]["name"] for item in listed if item["kind"] == "Namespace"}
        wanted = {pod["metadata"]["namespace"] for pod in pods} - spaces
        more = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in sorted(wanted)]
        owners = {one["uid"] for pod in self.pods for one in pod["metadata"].get("ownerReferences", ())}
        found = listed + self.objects[objects:] + more + pods
        bare = CONTROLLED.keys() - {"DaemonSet"}
        return [item for item in found if item["kind"] not in bare or item["metadata"]["uid"] in owners]

    def _nodes(self) -> list[_FilledNode]:
        r, nodes = self.r, []
        zones = [f"zone-{letter}" for letter in "abc"[: r.randint(1, 3)]]
        for number in range(r.randint(*self.waiting.groups)):
            name = f"group-{number}"
            if self.groups and r.random() < self.waiting.alike:
                group = self._like(r.choice(self.groups), name, r.choice(zones))
            else:
                group = self._new(name, r.choice(zones))
            self.groups.append(group)
        left = r.randint(*self.waiting.nodes)
        for group in self.groups:
            size = min(left, r.choice([0, 0, 1, 2, 3]))
            left -= size
            names = [f"{group.name}-{index}" for index in range(size)]
            nodes += [self._copy(group, name) for name in names]
            self._declare(group, names)
        if not nodes:
            nodes.append(self._copy(self.groups[0], "single"))  # of no group
        return nodes

    def _new(self, name: str, zone: str) -> _Group:
        r = self.r
        cpu, memory = r.choice(SHAPES)
        kept = r.choice([0, 0, 100, 250])
        sample = _Pooled(name, cpu - kept, memory - 4 * kept, zone, name)
        del sample.labels[HOST]
        if self._constrained(0.2):
            sample.taints = [{"key": "dedicated", "value": name, "effect": "NoSchedule"}]
        sample.slots = r.choice([110, 110, 30, 8])
        sample.allocatable["pods"] = str(sample.slots)
        if r.random() < 0.08:
            sample.labels[GPU_LABEL] = "tesla"
            sample.gpus = r.choice([1, 4])
            sample.allocatable["nvidia.com/gpu"] = str(sample.gpus)
        sample.capacity = sample.allocatable | {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
        return _Group(name, sample)

    def _like(self, other: _Group, name: str, zone: str) -> _Group:
        """Return a group of the same labels and amounts in any zone."""
        sample = self._copied(other, name, zone)
        del sample.labels[HOST]
        return _Group(name, sample)

    def _copied(self, group: _Group, name: str, zone: str) -> _Pooled:
        like = group.sample
        node = _Pooled(name, *like.free, zone, like.group)
        node.labels |= {key: value for key, value in like.labels.items() if key not in (HOST, ZONE)}
        node.taints, node.gpus, node.slots = like.taints, like.gpus, like.slots
        node.allocatable, node.capacity = like.allocatable, like.capacity
        return node

    def _copy(self, group: _Group, name: str) -> _Pooled:
        return self._copied(group, name, group.sample.zone)

    def _declare(self, group: _Group, nodes: list[str]) -> None:
        r, like = self.r, group.sample
        cores, gib = int(group.sample.capacity["cpu"][:-1]) / 1_000, int(group.sample.capacity["memory"][:-2]) / 1_024
        template: Object = {
            "metadata": {"labels": like.labels},
            "spec": {"taints": like.taints} if like.taints else {},
            "status": {"capacity": like.capacity, "allocatable": like.allocatable},
        }
        spec: Object = {"minSize": 0, "maxSize": len(nodes) + r.choice([0, 1, 2, 5, 20, 50, 50, 50]), "nodes": nodes}
        spec["price"] = round((0.02 * cores + 0.003 * gib) * r.choice([0.7, 1, 1, 1.2]) + 0.9 * like.gpus, 4)
        if r.random() < 0.03:
            spec["zeroOrMax"] = True
        if r.random() < 0.08:
            spec["targetSize"] = min(len(nodes) + r.randint(1, 2), spec["maxSize"])
        found: Object = {"apiVersion": "trimtab.dev/v1", "kind": "NodeGroup", "metadata": {"name": group.name}}
        found["spec"] = {**spec, "template": template}
        if r.random() < 0.05:
            found["status"] = {"health": "BackedOff"}
        self.objects.append(found)

    def _wait(self) -> None:
        r = self.r
        self.count += 1
        kind = r.choice(["ReplicaSet", "ReplicaSet", "ReplicaSet", "StatefulSet", "Job", "Bare"])
        cpu = r.choice([50, 100, 250, 500, 900, 1_500, 2_500])
        work = self._plain(
            f"w{self.count}", r.choice(["default", "team-a"]), kind, cpu, r.choice([64, 256, 1_024, 3_072])
        )
        nodes, self.nodes = self.nodes, [group.sample for group in self.groups]
        work = self._featured(work)
        self.nodes = nodes
        if r.random() < 0.2 and any(group.sample.gpus for group in self.groups):
            work.spec["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1"
            work.spec["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"}
        if r.random() < 0.05:
            work.spec["priority"] = r.choice([-5, 1_000])
        replicas = r.randint(*self.waiting.replicas)
        self._controller(work, replicas)
        for index in range(replicas):
            self._pod(work, f"{work.name}-{index}", None)
            self.pods[-1]["status"]["conditions"] = [UNSCHEDULABLE]


def pending(seed: int) -> dict[str, Any]:
    """A small cluster whose pods wait, and settings."""
    r = random.Random(seed)
    waiting = r.choice(WAITING)
    cluster = PendingCluster(seed, waiting)
    items = cluster.items()
    chain = CHAINS[seed % len(CHAINS)]
    scale_up: Object = {"expanders": chain, "balanceSimilarNodeGroups": r.random() < 0.5}
    scale_up["templateSource"] = "PREFER_NODE"  # as upstream
    if "PRIORITY" in chain:
        scale_up["priority"] = {
            "ranks": [{"rank": 10, "patterns": ["group-[02]"]}, {"rank": 20, "patterns": ["[13]$"]}]
        }
    settings: Object = {"scaleUp": scale_up}
    if r.random() < waiting.limits:
        settings["planner"] = {"limits": [_limit(r, cluster)]}
    return {"name": f"pending-{seed}", "now": NOW, "settings": settings, "items": items}


def _limit(r: random.Random, cluster: PendingCluster) -> Object:
    nodes = len(cluster.nodes)
    resource = r.choice(["nodes", "cpu", "memory"])
    cores = sum(int(group.sample.capacity["cpu"][:-1]) for group in cluster.groups) // 1_000
    amount = {
        "nodes": nodes + r.randint(0, 10),
        "cpu": 1_000 * (cores + r.randint(4, 60)),
        "memory": r.randint(30, 300) << 30,
    }
    limit: Object = {"resource": resource, "maximum": str(amount[resource])}
    if r.random() < 0.4:
        limit["nodes"] = {"matchLabels": {ZONE: "zone-a"}}
    return limit
