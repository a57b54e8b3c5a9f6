"""What Kubernetes 1.35 to 1.37 added to the Filter plugins, put into a finished cluster.

Each addition has a source of chance of its own, so that the clusters of older recordings stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .source import Source
from .volumes import EBS, OTHER

RESTART_ALL = "RestartAllContainersOnContainerExits"
USER_NAMESPACES = "UserNamespacesHostNetworkSupport"
#: No pod of these clusters needs the last two.
DECLARED = [RESTART_ALL, USER_NAMESPACES, "VolumeBindMountOptions", "ZoneOfTheFuture"]

SLA = "example.com/sla"
#: Values of taints; the last five are no canonical 64-bit decimals.
LEVELS = ["0", "5", "95", "950", "9223372036854775807", "007", "9.5", "x", "", "9223372036854775808"]
BOUNDS = ["-1", "0", "5", "95", "500", "950", "9223372036854775807"]


def _pods(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [*document["pods"], *document["pending"]]


def _restart_rules(s: Source, spec: dict[str, Any]) -> None:
    """A rule for one container, perhaps after others; an init container that is no sidecar may have one too."""
    containers = spec["containers"] + spec.get("initContainers", [])
    container = s.pick(containers)
    actions = s.pick([["RestartAllContainers"], ["Restart"], ["Restart", "RestartAllContainers"]])
    container.setdefault("restartPolicy", "Never")
    container["restartPolicyRules"] = [
        {"action": action, "exitCodes": {"operator": "In", "values": [40 + at]}} for at, action in enumerate(actions)
    ]


def declared_features(s: Source, document: dict[str, Any]) -> None:
    """Let nodes declare some features, or none, and pods need one or two; at least one node declares something."""
    document["featureGates"] = {USER_NAMESPACES: True}
    for number, node in enumerate(document["nodes"]):
        if s.chance(0.8) or number == 0:
            node["status"]["declaredFeatures"] = sorted(s.some(DECLARED, 1, len(DECLARED)))
    for pod in _pods(document):
        spec = pod["spec"]
        if s.chance(0.5):
            spec["hostNetwork"] = True
        if s.chance(0.6):
            spec["hostUsers"] = s.chance(0.3)
        if s.chance(0.35):
            _restart_rules(s, spec)


def csi_drivers(s: Source, document: dict[str, Any]) -> None:
    """Let drivers ask that pods wait for them; one may be unknown."""
    choices: list[dict[str, Any]] = [
        {"preventPodSchedulingIfMissing": True},
        {"preventPodSchedulingIfMissing": True},
        {"preventPodSchedulingIfMissing": True},
        {"preventPodSchedulingIfMissing": False},
        {},
    ]
    document["csiDrivers"] = [
        {"metadata": {"name": name}, "spec": {"attachRequired": s.chance(0.5)} | s.pick(choices)}
        for name in (EBS, OTHER)
        if not s.chance(0.1)
    ]


def compared_tolerations(s: Source, document: dict[str, Any]) -> None:
    """Taint nodes with a level, and let pods tolerate levels below or above a bound; now and then without the gate."""
    document["featureGates"] = {"TaintTolerationComparisonOperators": not s.chance(0.15)}
    for node in document["nodes"]:
        if s.chance(0.75):
            effect = s.pick(["NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule"])
            level = s.pick(LEVELS[:5] if s.chance(0.8) else LEVELS[5:])
            node["spec"].setdefault("taints", []).append({"key": SLA, "value": level, "effect": effect})
    for pod in _pods(document):
        tolerations = pod["spec"].setdefault("tolerations", [])
        for _ in range(s.pick([0, 1, 1, 2])):
            toleration = {"key": SLA, "operator": s.pick(["Lt", "Gt"]), "value": s.pick(BOUNDS)}
            if s.chance(0.4):
                toleration["effect"] = s.pick(["NoSchedule", "NoExecute"])
            tolerations.append(toleration)


Addition = Callable[[Source, dict[str, Any]], None]
ADDITIONS: dict[str, Addition] = {
    "declaredFeatures": declared_features,
    "csiDrivers": csi_drivers,
    "comparedTolerations": compared_tolerations,
}
