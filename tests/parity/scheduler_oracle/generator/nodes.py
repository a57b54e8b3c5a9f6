"""Nodes: shapes, zones, racks, labels that are not numbers, taints."""

from __future__ import annotations

from typing import Any

from .source import HOST, RACK, REGION, TAINTS, ZONE, Source

#: cpu in milli-cores, memory in MiB, pods, extended resources
SHAPES = [
    (2000, 8192, 30, {}),
    (4000, 16384, 58, {}),
    (8000, 32768, 110, {}),
    (16000, 65536, 110, {}),
    (32000, 131072, 250, {}),
    (8000, 61440, 110, {"nvidia.com/gpu": 4}),
    (4000, 8192, 8, {}),
    (16000, 32768, 110, {"example.com/fpga": 2}),
]


def _labels(s: Source, name: str, cpu_milli: int, zone: int) -> dict[str, str]:
    labels = {
        HOST: name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": s.pick(["amd64", "amd64", "amd64", "arm64"]),
        "node.kubernetes.io/instance-type": f"m{cpu_milli // 1000}",
        REGION: "r1" if zone < 3 else "r2",
    }
    if not s.chance(0.06):
        labels[ZONE] = f"zone-{'abcd'[zone]}"
    if s.chance(0.6):
        labels[RACK] = f"rack-{s.number(0, 5)}"
    if s.chance(0.7):
        labels["disk"] = s.pick(["ssd", "hdd", "nvme"])
    if s.chance(0.7):
        labels["gen"] = str(s.number(1, 9))
    if s.chance(0.1):
        labels["gen"] = s.pick(["x", "", "-3", "007", "4.5"])  # Gt and Lt must refuse what is not an integer
    if s.chance(0.5):
        labels["pool"] = s.pick(["blue", "green", "red"])
    if s.chance(0.03):
        del labels[HOST]
    return labels


def _taints(s: Source, zone: int) -> list[dict[str, str]]:
    taints: dict[tuple[str, str], dict[str, str]] = {}
    if s.chance(0.7 if zone == 3 else 0.25, "taints"):
        for key, value in s.some(TAINTS, 1, 2):
            effect = s.pick(["NoSchedule", "NoSchedule", "PreferNoSchedule", "NoExecute"])
            taint = {"key": key, "effect": effect}
            if value:
                taint["value"] = value
            taints.setdefault((key, effect), taint)
    return list(taints.values())


def node(s: Source, index: int) -> dict[str, Any]:
    """One node. The fourth zone is small and mostly tainted: there minDomains and the spread policies decide."""
    name = f"n{index:03d}"
    cpu_milli, memory_mib, pods, extended = s.pick(SHAPES)
    zone = s.pick([0] * 8 + [1] * 6 + [2] * 5 + [3])
    labels, taints = _labels(s, name, cpu_milli, zone), _taints(s, zone)
    spec: dict[str, Any] = {}
    if s.chance(0.06, "unschedulable"):
        spec["unschedulable"] = True
        if s.chance(0.7):
            taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    if taints:
        spec["taints"] = taints
    allocatable = {
        "cpu": f"{cpu_milli - s.pick([0, 70, 500])}m",
        "memory": f"{memory_mib - s.pick([0, 512, 1500])}Mi",
        "pods": str(pods),
    }
    if not s.chance(0.1):
        allocatable["ephemeral-storage"] = f"{s.pick([20, 50, 100])}Gi"
    if "extended" in s.features:
        allocatable |= {name: str(count) for name, count in extended.items()}
    if s.chance(0.15, "extended"):
        allocatable["hugepages-2Mi"] = f"{s.pick([64, 512])}Mi"
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"allocatable": allocatable}}
