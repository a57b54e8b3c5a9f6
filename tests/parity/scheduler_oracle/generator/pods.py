"""Pod specs of workloads: containers of every kind, host ports, and what selectors.py offers."""

from __future__ import annotations

import copy
from typing import Any

from .selectors import affinity_term, node_affinity, spread_constraints, spread_policies, toleration
from .source import HOST, RACK, REGION, TIERS, ZONE, Source

CPU_MILLI = [50, 100, 100, 250, 250, 500, 1000, 1500, 3000]
CPU_MILLI_SIDECAR = [10, 50, 100, 250, 500, 1000, 2000]
MEMORY = ["64Mi", "128Mi", "300M", "512Mi", "1Gi", "2Gi", "5Gi"]


def _resources(s: Source, cpu_milli: list[int]) -> dict[str, Any]:
    amounts: dict[str, str] = {}
    if not s.chance(0.12):
        amounts["cpu"] = f"{s.pick(cpu_milli)}m"
    if not s.chance(0.12):
        amounts["memory"] = s.pick(MEMORY)
    if s.chance(0.1, "ephemeral"):
        amounts["ephemeral-storage"] = s.pick(["1Gi", "10Gi", "40Gi"])
    if s.chance(0.1, "limitsOnly"):
        return {"limits": amounts}
    return {"requests": amounts} if amounts else {}


def _add_extended(s: Source, resources: dict[str, Any]) -> None:
    name, amount = s.pick(
        [
            ("nvidia.com/gpu", str(s.number(1, 4))),
            ("example.com/fpga", str(s.number(1, 2))),
            ("hugepages-2Mi", f"{s.pick([32, 128])}Mi"),
        ]
    )
    limits_only = "limits" in resources
    resources.setdefault("limits", {})[name] = amount
    counted = resources["limits"] if limits_only else resources.setdefault("requests", {})
    counted[name] = amount
    if name.startswith("hugepages"):
        counted.setdefault("cpu", "50m")  # the API server wants cpu or memory beside huge pages


def _init_containers(s: Source) -> list[dict[str, Any]]:
    containers: list[dict[str, Any]] = []
    if s.chance(0.2, "init"):
        containers.append({"name": "i0", "resources": _resources(s, CPU_MILLI)})
    if s.chance(0.15, "sidecar"):
        sidecar = {"name": "s0", "restartPolicy": "Always", "resources": _resources(s, CPU_MILLI_SIDECAR)}
        containers.insert(s.number(0, len(containers)), sidecar)
    if s.chance(0.08, "init"):
        containers.append({"name": "i1", "resources": _resources(s, CPU_MILLI)})
    return containers


def _containers(s: Source, spec: dict[str, Any]) -> None:
    count = s.pick([1, 1, 1, 2, 3])
    spec["containers"] = [{"name": f"c{i}", "resources": _resources(s, CPU_MILLI)} for i in range(count)]
    if s.chance(0.12, "extended"):
        _add_extended(s, spec["containers"][0]["resources"])
    init = _init_containers(s)
    if init:
        spec["initContainers"] = init
    if s.chance(0.08, "overhead"):
        spec["overhead"] = {"cpu": s.pick(["100m", "250m"]), "memory": "120Mi"}
    if s.chance(0.05, "podLevel") and not any("limits" in c["resources"] for c in spec["containers"] + init):
        large = s.chance(0.2)
        requests = {"cpu": "24", "memory": "48Gi"} if large else {"cpu": "20", "memory": "20Gi"}
        spec["resources"] = {"requests": requests}


def _affinity(s: Source, labels: dict[str, str], node_count: int) -> dict[str, Any]:
    affinity: dict[str, Any] = {}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    if s.chance(0.25, "nodeAffinity"):
        affinity["nodeAffinity"] = node_affinity(s, node_count)
    if s.chance(0.15, "podAffinity"):
        keys, count = [ZONE, ZONE, REGION, RACK, HOST], s.pick([1, 1, 2])
        affinity["podAffinity"] = {required: [affinity_term(s, labels, keys) for _ in range(count)]}
    if s.chance(0.25, "podAntiAffinity"):
        keys, count = [HOST, HOST, HOST, ZONE, RACK], s.pick([1, 1, 1, 2])
        affinity["podAntiAffinity"] = {required: [affinity_term(s, labels, keys) for _ in range(count)]}
    return affinity


def _host_port(s: Source, spec: dict[str, Any]) -> None:
    number = s.pick([80, 80, 443])
    port: dict[str, Any] = {"containerPort": number, "hostPort": number}
    if s.chance(0.3):
        port["protocol"] = s.pick(["TCP", "UDP", "SCTP"])
    if s.chance(0.55):
        port["hostIP"] = s.pick(["0.0.0.0", "127.0.0.1", "10.0.0.1", "10.0.0.2"])
    containers = spec["containers"]
    if "initContainers" in spec and s.chance(0.3):
        containers = spec["initContainers"]  # of these, only a sidecar's ports count
    containers[0]["ports"] = [port]
    if s.chance(0.2) and "hostIP" not in port:
        spec["hostNetwork"] = True


def workload_spec(s: Source, labels: dict[str, str], node_count: int) -> dict[str, Any]:
    """A pod spec that may use every feature."""
    spec: dict[str, Any] = {}
    _containers(s, spec)
    if s.chance(0.18, "nodeSelector"):
        choices = [{"disk": "ssd"}, {"pool": "blue"}, {"kubernetes.io/arch": "amd64"}, {ZONE: "zone-a"}]
        spec["nodeSelector"] = s.pick([*choices, {"disk": "ssd", "pool": "green"}])
    affinity = _affinity(s, labels, node_count)
    if affinity:
        spec["affinity"] = affinity
    if s.chance(0.3, "spread"):
        spec["topologySpreadConstraints"] = spread_constraints(s, labels)
    tolerations = [toleration(s) for _ in range(s.number(1, 3))] if s.chance(0.45, "taints") else []
    if s.chance(0.05, "unschedulable"):
        tolerations.append({"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"})
    if tolerations:
        spec["tolerations"] = tolerations
    if s.chance(0.2, "hostPorts"):
        _host_port(s, spec)
    return spec


def even_workload(s: Source, name: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Labels and spec of a small workload with one spread constraint on itself, for clusters where it is spread."""
    labels = {"app": name, "tier": s.pick(TIERS), "pod-template-hash": f"h{s.number(0, 1 << 20):05x}"}
    constraint: dict[str, Any] = {
        "maxSkew": s.pick([1, 1, 1, 2]),
        "topologyKey": s.pick([ZONE, ZONE, ZONE, RACK]),
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": name}},
    }
    if s.chance(0.45, "minDomains"):
        constraint["minDomains"] = s.number(1, 8)
    spread_policies(s, constraint, 0.5)
    if s.chance(0.4, "matchLabelKeys"):
        constraint["matchLabelKeys"] = ["pod-template-hash"]
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}],
        "topologySpreadConstraints": [constraint],
    }
    if s.chance(0.45, "nodeAffinity"):
        requirement = s.pick(
            [
                {"key": ZONE, "operator": "NotIn", "values": ["zone-d"]},
                {"key": ZONE, "operator": "In", "values": ["zone-a", "zone-b"]},
                {"key": "pool", "operator": "Exists"},
                {"key": "gen", "operator": "Gt", "values": ["3"]},
            ]
        )
        term = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
    if s.chance(0.4, "taints"):
        spec["tolerations"] = [toleration(s)]
    return labels, spec


def pod(namespace: str, name: str, labels: dict[str, str], spec: dict[str, Any]) -> dict[str, Any]:
    """A pod object of its own (nothing shared with the template)."""
    return {
        "metadata": {"namespace": namespace, "name": name, "labels": dict(labels)},
        "spec": copy.deepcopy(spec),
    }
