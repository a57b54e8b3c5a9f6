"""Random clusters with everything that decides about scale-down, as Kubernetes prints them; one seed, one cluster.

Workloads are placed where selectors, taints, ports and room allow, so that moving a pod is what is hard, not its place.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

Object = dict[str, Any]

NOW = "2026-06-01T12:00:00Z"
OLD, YOUNG = "2026-05-01T00:00:00Z", "2026-06-01T11:50:00Z"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SHAPES = ((4_000, 16_384), (8_000, 32_768), (16_000, 32_768))
KNOWN = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch/v1", "ReplicationController": "v1"}
CONTROLLED = {**KNOWN, "Rollout": "argoproj.io/v1alpha1", "DaemonSet": "apps/v1"}
ANNOTATION = "cluster-autoscaler.kubernetes.io/"
LOCAL = ({"emptyDir": {}}, {"hostPath": {"path": "/var/lib/x"}}, {"emptyDir": {"medium": "Memory"}})


class Mix(NamedTuple):
    """nodes, replicas : inclusive ranges; use : share of cpu asked for; odd : how often what blocks or excludes."""

    nodes: tuple[int, int] = (5, 40)
    replicas: tuple[int, int] = (1, 14)
    use: tuple[float, float] = (0.15, 0.5)
    odd: float = 1.0
    constraints: float = 1.0
    budgets: float = 0.4
    pending: float = 0.1


class _FilledNode:
    """A node while it is being filled."""

    def __init__(self, name: str, cpu: int, memory: int, zone: str, group: str) -> None:
        self.name, self.zone, self.group = name, zone, group
        self.free = [cpu, memory]
        self.slots = 110
        self.labels = {HOST: name, ZONE: zone, "pool": group}
        self.taints: list[Object] = []
        self.annotations: dict[str, str] = {}
        self.allocatable = {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "pods": "110"}
        self.ready = "True"
        self.gpus = 0
        self.unschedulable = False
        self.ports: set[int] = set()
        self.apps: set[str] = set()

    def object(self) -> Object:
        spec: Object = {"unschedulable": True} if self.unschedulable else {}
        if self.taints:
            spec["taints"] = self.taints
        condition = {"type": "Ready", "status": self.ready, "lastTransitionTime": OLD}
        meta: Object = {"name": self.name, "uid": self.name, "labels": self.labels, "creationTimestamp": OLD}
        if self.annotations:
            meta["annotations"] = self.annotations
        status = {"allocatable": self.allocatable, "capacity": self.allocatable, "conditions": [condition]}
        return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status}


class _Workload(NamedTuple):
    name: str
    namespace: str
    kind: str
    labels: dict[str, str]
    annotations: dict[str, str]
    spec: Object
    cpu: int
    memory: int
    gpus: int


class MixedCluster:
    """One random cluster."""

    def __init__(self, seed: int, mix: Mix) -> None:
        self.r, self.mix = random.Random(seed), mix
        self.objects: list[Object] = []
        self.pods: list[Object] = []
        self.nodes = self._nodes()
        self.count = 0

    def items(self) -> list[Object]:
        """All objects; a pod is on a node that it fits, or pending."""
        self._daemons()
        total = sum(node.free[0] for node in self.nodes)
        limit = total * (1 - self.r.uniform(*self.mix.use))
        for _ in range(400):
            if sum(node.free[0] for node in self.nodes) <= limit:
                break
            self._fill()
        names = sorted({pod["metadata"]["namespace"] for pod in self.pods})
        spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]
        pods = sorted(self.pods, key=lambda pod: (pod["metadata"]["namespace"], pod["metadata"]["name"]))
        return [node.object() for node in self.nodes] + spaces + self.objects + pods

    def _odd(self, share: float) -> bool:
        return self.r.random() < share * self.mix.odd

    def _constrained(self, share: float) -> bool:
        return self.r.random() < share * self.mix.constraints

    def _nodes(self) -> list[_FilledNode]:
        r, nodes = self.r, []
        left = r.randint(*self.mix.nodes)
        zones = [f"zone-{letter}" for letter in "abcd"[: r.randint(1, 4)]]
        for number in range(r.randint(1, 5)):
            group, (cpu, memory) = f"group-{number}", r.choice(SHAPES)
            size = max(1, min(left, r.randint(1, max(1, left)))) if number < 4 else left
            left -= size
            taint = {"key": "dedicated", "value": group, "effect": "NoSchedule"} if self._constrained(0.2) else None
            gpus = r.choice([1, 4]) if self._odd(0.12) else 0
            for index in range(size):
                node = _FilledNode(f"{group}-{index:03d}", cpu, memory, r.choice(zones), group)
                node.taints = [taint] if taint else []
                self._decorate(node, gpus)
                nodes.append(node)
            self._group(group, size)
            if left <= 0:
                break
        r.shuffle(nodes)
        return nodes

    def _decorate(self, node: _FilledNode, gpus: int) -> None:
        if gpus:
            node.labels["cloud.google.com/gke-accelerator"] = "tesla"
            if not self._odd(0.1):
                node.gpus = gpus
                node.allocatable = node.allocatable | {"nvidia.com/gpu": str(gpus)}
        if self._odd(0.04):
            node.annotations[ANNOTATION + "scale-down-disabled"] = "true"
        if self._odd(0.04):
            node.ready = self.r.choice(["False", "Unknown"])
            node.taints = [*node.taints, {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
        if self._odd(0.03):
            node.unschedulable = True
            node.taints = [*node.taints, {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
        if self._odd(0.02):
            stamp = str(self.r.choice([1780315140, 1780310000]))  # a minute ago; long ago, so that it counts no more
            taint = {"key": "ToBeDeletedByClusterAutoscaler", "value": stamp, "effect": "NoSchedule"}
            node.taints = [*node.taints, taint]

    def _group(self, name: str, size: int) -> None:
        if self._odd(0.06):
            return
        spec: Object = {"minSize": 0, "maxSize": size + 5, "nodeSelector": {"pool": name}}
        if self._odd(0.25):
            spec["minSize"] = self.r.randint(1, size + 1)
            spec["maxSize"] = max(spec["maxSize"], spec["minSize"])
        if self._odd(0.06):
            spec["zeroOrMax"] = True
        meta = {"name": name}
        self.objects.append({"apiVersion": "trimtab.dev/v1", "kind": "NodeGroup", "metadata": meta, "spec": spec})

    def _daemons(self) -> None:
        for name in ("node-agent", "proxy")[: self.r.randint(0, 2)]:
            work = self._plain(name, "kube-system", "DaemonSet", self.r.choice([50, 200]), 128)
            work.spec["tolerations"] = [{"operator": "Exists"}]
            self._controller(work, len(self.nodes))
            for index, node in enumerate(self.nodes):
                self._pod(work, f"{name}-{index}", node)
        if self.r.random() < 0.3:
            work = self._plain("static", "kube-system", "Mirror", 100, 64)
            for node in self.nodes:
                self._pod(work, f"static-{node.name}", node)

    def _plain(self, name: str, namespace: str, kind: str, cpu: int, memory: int) -> _Workload:
        labels = {"app": name}
        resources = {"requests": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}}
        spec: Object = {"restartPolicy": "Always", "containers": [{"name": "c", "resources": resources}]}
        return _Workload(name, namespace, kind, labels, {}, spec, cpu, memory, 0)

    def _fill(self) -> None:
        r = self.r
        self.count += 1
        kind = "ReplicaSet" if not self._odd(0.3) else r.choice([*KNOWN, "Rollout", "Bare", "Gone"])
        namespace = "kube-system" if self._odd(0.04) else r.choice(["default", "team-a", "team-b"])
        cpu = r.choice([50, 100, 250, 500, 900, 1_500, 2_500])
        work = self._plain(f"w{self.count}", namespace, kind, cpu, r.choice([64, 256, 1_024, 3_072]))
        work = self._featured(work)
        replicas = r.randint(*self.mix.replicas)
        self._controller(work, replicas)
        placed = 0
        for index in range(replicas):
            homes = [node for node in self.nodes if self._takes(node, work)]
            if not homes:
                continue
            placed += 1
            self._pod(work, f"{work.name}-{index}", r.choice(homes))
        if r.random() < self.mix.pending:
            self._pod(work, f"{work.name}-pending", None)
        if r.random() < self.mix.budgets:
            self._budget(work, placed)

    def _featured(self, work: _Workload) -> _Workload:
        r, spec = self.r, work.spec
        selector = {"matchLabels": dict(work.labels)}
        if self._constrained(0.15):
            spec["nodeSelector"] = {ZONE: r.choice([n.zone for n in self.nodes])}
        if self._constrained(0.3):
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}]
        if self._constrained(0.1):
            zones = sorted({n.zone for n in self.nodes})
            values = r.sample(zones, r.randint(1, len(zones)))
            term = {"matchExpressions": [{"key": ZONE, "operator": r.choice(["In", "NotIn"]), "values": values}]}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
            spec.setdefault("affinity", {})["nodeAffinity"] = required
        if self._constrained(0.12):
            term = {"topologyKey": r.choice([HOST, HOST, ZONE]), "labelSelector": selector}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            spec.setdefault("affinity", {})["podAntiAffinity"] = required
        elif self._constrained(0.06):
            term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": f"w{r.randint(1, self.count)}"}}}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            spec.setdefault("affinity", {})["podAffinity"] = required
        if self._constrained(0.12):
            key = r.choice([ZONE, HOST])
            constraint = {"maxSkew": r.randint(1, 3), "topologyKey": key, "labelSelector": selector}
            spec["topologySpreadConstraints"] = [{**constraint, "whenUnsatisfiable": "DoNotSchedule"}]
        if self._constrained(0.05):
            port = {"hostPort": r.choice([8080, 9090]), "containerPort": 80, "protocol": "TCP"}
            spec["containers"][0]["ports"] = [port]
        return self._oddities(work)

    def _oddities(self, work: _Workload) -> _Workload:
        r, spec = self.r, work.spec
        annotations: dict[str, str] = {}
        if self._odd(0.06):
            spec["volumes"] = [{"name": "v", **r.choice(LOCAL)}]
            if r.random() < 0.3:
                annotations[ANNOTATION + "safe-to-evict-local-volumes"] = "v"
        if self._odd(0.08):
            annotations[ANNOTATION + "safe-to-evict"] = r.choice(["true", "false", "false", "on-completion"])
        if self._odd(0.03):
            spec["priority"] = r.choice([-20, -10, 1_000])
        gpus = 0
        if self._odd(0.1) and any(node.gpus for node in self.nodes):
            gpus = 1
            resources = spec["containers"][0]["resources"]
            resources["requests"]["nvidia.com/gpu"] = "1"
            resources["limits"] = {"nvidia.com/gpu": "1"}
        return work._replace(annotations=annotations, gpus=gpus)

    def _takes(self, node: _FilledNode, work: _Workload) -> bool:
        spec = work.spec
        if node.free[0] < work.cpu or node.free[1] < work.memory or node.slots < 1 or node.gpus < work.gpus:
            return False
        if any(node.labels.get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
            return False
        blocked = [t for t in node.taints if t["key"] != "dedicated" or "tolerations" not in spec]
        port = spec["containers"][0].get("ports", [{}])[0].get("hostPort")
        alone = "podAntiAffinity" in spec.get("affinity", {}) and work.name in node.apps
        return not blocked and not alone and port not in node.ports

    def _pod(self, work: _Workload, name: str, node: _FilledNode | None) -> None:
        meta: Object = {"name": name, "namespace": work.namespace, "uid": f"{work.namespace}.{name}"}
        meta["labels"] = work.labels
        meta["creationTimestamp"] = YOUNG if self._odd(0.5) and work.namespace == "kube-system" else OLD
        annotations = dict(work.annotations)
        if work.kind == "Mirror":
            annotations["kubernetes.io/config.mirror"] = "x"
        elif work.kind != "Bare":
            kind = "ReplicaSet" if work.kind == "Gone" else work.kind
            owner = {"apiVersion": CONTROLLED[kind], "kind": kind, "name": work.name, "uid": f"uid-{work.name}"}
            meta["ownerReferences"] = [{**owner, "controller": True}]
        if annotations:
            meta["annotations"] = annotations
        status: Object = {"phase": "Pending"}
        spec = dict(work.spec)
        if node is not None:
            spec["nodeName"] = node.name
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            node.free[0] -= work.cpu
            node.free[1] -= work.memory
            node.slots -= 1
            node.gpus -= work.gpus
            node.apps.add(work.name)
            node.ports |= {p["hostPort"] for p in spec["containers"][0].get("ports", ())}
            if self._odd(0.02):
                status["phase"] = self.r.choice(["Succeeded", "Failed"])
                spec["restartPolicy"] = self.r.choice(["Always", "OnFailure", "Never"])
            if self._odd(0.01):
                meta["deletionTimestamp"] = self.r.choice([YOUNG, "2026-06-01T12:00:20Z"])
                meta["deletionGracePeriodSeconds"] = 30
        self.pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status})

    def _controller(self, work: _Workload, replicas: int) -> None:
        if work.kind in ("Bare", "Gone", "Mirror", "Rollout"):
            return
        meta = {"name": work.name, "namespace": work.namespace, "uid": f"uid-{work.name}"}
        template = {"metadata": {"labels": work.labels}, "spec": work.spec}
        spec: Object = {"selector": {"matchLabels": work.labels}, "template": template, "replicas": replicas}
        status: Object = {"replicas": replicas, "readyReplicas": replicas}
        if work.kind == "Job":
            spec = {"parallelism": replicas, "completions": replicas, "template": template}
            status = {"active": replicas}
        elif work.kind == "DaemonSet":
            del spec["replicas"]
            status = {"desiredNumberScheduled": replicas, "currentNumberScheduled": replicas}
        elif work.kind == "ReplicationController":
            spec["selector"] = work.labels
        kind = {"apiVersion": CONTROLLED[work.kind], "kind": work.kind}
        self.objects.append({**kind, "metadata": meta, "spec": spec, "status": status})

    def _budget(self, work: _Workload, placed: int) -> None:
        r = self.r
        allowed = r.choice([0, 1, 1, 2, 3, max(1, placed // 4), max(1, placed // 2), placed])
        labels = {"matchLabels": work.labels}
        if self.count > 1 and r.random() < 0.2:  # one budget for two workloads
            names = [work.name, f"w{r.randint(1, self.count)}"]
            labels = {"matchExpressions": [{"key": "app", "operator": "In", "values": names}]}
        meta = {"name": f"{work.name}-pdb", "namespace": work.namespace}
        wanted: Any = r.choice([allowed, f"{100 * allowed // max(placed, 1)}%"])
        status = {"observedGeneration": 1, "expectedPods": placed, "currentHealthy": placed}
        status |= {"desiredHealthy": max(placed - allowed, 0), "disruptionsAllowed": allowed}
        spec = {"maxUnavailable": wanted, "selector": labels}
        kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
        self.objects.append({**kind, "metadata": meta, "spec": spec, "status": status})
