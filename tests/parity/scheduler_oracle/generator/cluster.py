"""A whole cluster: nodes, running pods that roughly fit, pending pods, and the question about them."""

from __future__ import annotations

from typing import Any, NamedTuple

from .additions import ADDITIONS
from .nodes import node
from .pods import even_workload, pod, workload_spec
from .source import APPS, NAMESPACES, TIERS, Source
from .volumes import Volumes, csi_nodes, storage_classes


class Mix(NamedTuple):
    """What kind of clusters to make: `mode` as the oracle's, ranges inclusive."""

    mode: str
    features: frozenset[str]
    nodes: tuple[int, int]
    pods: tuple[int, int]


def _milli(quantity: str) -> int:
    return int(quantity[:-1]) if quantity.endswith("m") else int(quantity) * 1000


def _mib(quantity: str) -> int:
    for suffix, factor in (("Mi", 1.0), ("Gi", 1024.0), ("M", 0.953674)):
        if quantity.endswith(suffix):
            return int(float(quantity[: -len(suffix)]) * factor) + 1
    raise ValueError(quantity)


def _roughly(spec: dict[str, Any]) -> tuple[int, int]:
    """About what a pod asks (milli-cores, MiB), so that recorded nodes are not overfull; the oracle does the sum."""
    totals = []
    for name, zero, parse in (("cpu", "0m", _milli), ("memory", "0Mi", _mib)):
        total = 0
        for container in spec["containers"] + spec.get("initContainers", []):
            amounts = container["resources"].get("requests") or container["resources"].get("limits") or {}
            total += parse(amounts.get(name, zero))
        total += parse(spec.get("overhead", {}).get(name, zero))
        total = max(total, parse(spec.get("resources", {}).get("requests", {}).get(name, zero)))
        totals.append(total)
    return totals[0], totals[1]


class _Builder:
    def __init__(self, seed: int, mix: Mix) -> None:
        self.s, self.mix = Source(seed, mix.features), mix
        self.nodes = [node(self.s, i) for i in range(self.s.number(*mix.nodes))]
        names = [n["metadata"]["name"] for n in self.nodes]
        status = {n["metadata"]["name"]: n["status"]["allocatable"] for n in self.nodes}
        self.free_pods = {name: int(status[name]["pods"]) for name in names}
        self.free = {name: [_milli(status[name]["cpu"]), _mib(status[name]["memory"])] for name in names}
        self.volumes = Volumes(self.s, names, all_run=mix.mode == "verify")
        self.running: list[dict[str, Any]] = []
        self.pending: list[dict[str, Any]] = []

    def fill(self) -> None:
        target, workload = self.s.number(*self.mix.pods), 0
        while len(self.running) + len(self.pending) < target:
            workload += 1
            namespace = self.s.pick(sorted(NAMESPACES))
            if self.s.chance(0.3, "spread"):
                self._even(workload, namespace)
            else:
                self._any(workload, namespace)

    def _any(self, workload: int, namespace: str) -> None:
        s = self.s
        app = s.pick(APPS)
        labels = {"app": app, "tier": s.pick(TIERS), "pod-template-hash": f"h{s.number(0, 1 << 20):05x}"}
        if s.chance(0.2):
            labels["canary"] = "yes"
        spec = workload_spec(s, labels, len(self.nodes))
        favourites = s.some(sorted(self.free), 3, 10)
        with_volumes = s.chance(0.4, "volumes")
        for k in range(s.pick([1, 2, 3, 4, 6, 8, 12, 16])):
            made = pod(namespace, f"{app}-{workload}-{k}", labels, spec)
            if s.chance(0.05):
                del made["metadata"]["labels"]["tier"]
            self._put(made, s.pick(favourites))
            if with_volumes:
                self.volumes.add(made)

    def _put(self, made: dict[str, Any], name: str) -> None:
        s = self.s
        dead, dying = s.chance(0.04, "terminal"), s.chance(0.04, "terminating")
        pinned, gated = s.chance(0.03, "nodeName"), s.chance(0.03, "gates")
        wanted = _roughly(made["spec"])
        room = self.free[name]
        fits = self.free_pods[name] > 0 and all(w <= r * 0.9 for w, r in zip(wanted, room, strict=True))
        if dead or (fits and s.chance(0.55)):
            made["spec"]["nodeName"] = name
            if dead:
                made["status"] = {"phase": s.pick(["Succeeded", "Failed"])}
            else:
                self.free_pods[name] -= 1
                self.free[name] = [r - w for w, r in zip(wanted, room, strict=True)]
            self.running.append(made)
        else:
            if pinned:
                made["spec"]["nodeName"] = name
            elif gated:
                made["spec"]["schedulingGates"] = [{"name": "example.com/hold"}]
            self.pending.append(made)
        if dying:
            made["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}

    def _even(self, workload: int, namespace: str) -> None:
        """Running pods spread over the domains, so that the smallest domain is not always empty."""
        s = self.s
        labels, spec = even_workload(s, f"sp{workload}")
        key = spec["topologySpreadConstraints"][0]["topologyKey"]
        domains: dict[str, list[str]] = {}
        for n in self.nodes:
            if key in n["metadata"]["labels"]:
                domains.setdefault(n["metadata"]["labels"][key], []).append(n["metadata"]["name"])
        each = s.number(1, 2)
        skipped = s.pick(sorted(domains)) if domains and s.chance(0.35) else ""
        if s.chance(0.3):
            skipped = "zone-d"
        count = 0
        for domain in sorted(domains):
            for _ in range(0 if domain == skipped else each + s.chance(0.3)):
                name, previous = s.pick(domains[domain]), s.chance(0.25)
                if self.free_pods[name] < 1:
                    continue
                self.free_pods[name] -= 1
                count += 1
                made = pod(namespace, f"sp{workload}-e{count}", labels, spec)
                made["spec"]["nodeName"] = name
                if previous:
                    made["metadata"]["labels"]["pod-template-hash"] = "h0000"
                self.running.append(made)
        for k in range(s.number(1, 3)):
            self.pending.append(pod(namespace, f"sp{workload}-p{k}", labels, spec))

    def document(self, name: str) -> dict[str, Any]:
        s, mix = self.s, self.mix
        names = [n["metadata"]["name"] for n in self.nodes]
        document: dict[str, Any] = {"name": name, "mode": mix.mode, "admit": "all"}
        if mix.mode == "simulate":
            document["nodeOrder"] = s.random.sample(names, len(names))
        if mix.mode != "matrix":
            s.random.shuffle(self.pending)
            for made in self.pending:  # a pod that is told where to go is no question of order
                made["spec"].pop("nodeName", None)
        if mix.mode == "verify":
            keys = [f"{p['metadata']['namespace']}/{p['metadata']['name']}" for p in self.pending]
            document["placements"] = [{"pod": key, "node": s.pick(names)} for key in keys]
        document |= {"nodes": self.nodes, "pods": self.running, "pending": self.pending}
        document["namespaces"] = [{"metadata": {"name": k, "labels": v}} for k, v in NAMESPACES.items()]
        if "volumes" in mix.features:
            document |= {"pvcs": self.volumes.claims, "pvs": self.volumes.volumes}
            document |= {"storageClasses": storage_classes(), "csiNodes": csi_nodes(s, self.nodes)}
        return document


def cluster(name: str, seed: int, mix: Mix) -> dict[str, Any]:
    """A document in the oracle's form, before the API server's defaults."""
    builder = _Builder(seed, mix)
    builder.fill()
    document = builder.document(name)
    for feature, add in ADDITIONS.items():
        if feature in mix.features:
            add(Source(seed, mix.features), document)
    return document
