"""Random specs of pods as plain JSON dicts, with every placement rule, and what makes them: random choices that read
like the fields they fill.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from tests.builders.random_groups import CLAIMS
from tests.builders.random_storage import claim_names, volumes_of

Json = dict[str, Any]
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES, APPS = ("a", "b", "c"), ("web", "db", "cache", "job")
NAMESPACES = ("default", "kube-system", "team-a")
CREATED = ("2026-01-01T00:00:00Z", "2025-12-24T08:30:07Z", "1969-07-20T20:17:00Z", "2026-02-01T00:00:00+02:00")
_CLASS = "deviceclass.resource.kubernetes.io/nic"
DEVICES = ("nvidia.com/gpu", "example.com/fpga", _CLASS, "hugepages-2Mi", "ephemeral-storage")
CPU = ("100m", "250m", "1", "1500m", "2", "500u", "0")
MEMORY = ("8Pi", "64Mi", "1Gi", "1500M", "512Ki", "1000000001", "1e3", "0.5Gi", "128974848m")


class Draw:
    """Random choices that read like the fields they fill."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def maybe(self, share: float, make: Callable[[], Any], key: str) -> Json:
        """Return {key: value}, or nothing."""
        return {key: make()} if self.random.random() < share else {}

    def one(self, values: Any) -> Any:
        """Return one of the values."""
        return self.random.choice(values)

    def some(self, values: Any, least: int = 0) -> list[Any]:
        """Return some of the values, in any order."""
        return self.random.sample(list(values), self.random.randint(least, len(values)))

    def number(self, low: int, high: int) -> int:
        """Return a number, both ends included."""
        return self.random.randint(low, high)


def labels(draw: Draw) -> Json:
    return {key: draw.one(APPS) for key in draw.some(("app", "tier", "controller-revision-hash", "x.io/é"))}


def selector(draw: Draw) -> Json:
    operators = (("In", ["web", "db", "web"]), ("NotIn", ["job"]), ("Exists", None), ("DoesNotExist", None))
    expressions = [
        {"key": draw.one(("app", "tier")), "operator": operator} | ({"values": values} if values else {})
        for operator, values in draw.some(operators)
    ]
    return {
        **draw.maybe(0.7, lambda: labels(draw), "matchLabels"),
        **draw.maybe(0.4, lambda: expressions, "matchExpressions"),
    }


def resources(draw: Draw) -> Json:
    def amounts() -> Json:
        return {
            **draw.maybe(0.8, lambda: draw.one(CPU), "cpu"),
            **draw.maybe(0.8, lambda: draw.one(MEMORY), "memory"),
            **{name: draw.one(("1", "2", "0")) for name in draw.some(DEVICES) if draw.random.random() < 0.2},
        }

    return {**draw.maybe(0.8, amounts, "requests"), **draw.maybe(0.4, amounts, "limits")}


def _container(draw: Draw, name: str, is_init: bool = False) -> Json:
    port = {
        "containerPort": 8080,
        **draw.maybe(0.5, lambda: draw.number(0, 3) * 1000, "hostPort"),
        **draw.maybe(0.5, lambda: draw.one(("TCP", "UDP", "SCTP")), "protocol"),
        **draw.maybe(0.3, lambda: draw.one(("0.0.0.0", "10.0.0.1", "")), "hostIP"),
    }
    return {
        "name": name,
        "image": "example.com/app:1",
        "env": [{"name": "A", "value": str(draw.number(0, 9))}],
        **draw.maybe(0.9, lambda: resources(draw), "resources"),
        **draw.maybe(0.3, lambda: [port], "ports"),
        **(draw.maybe(0.5, lambda: "Always", "restartPolicy") if is_init else {}),
        **draw.maybe(0.1, lambda: [{"action": draw.one(("Restart", "RestartAllContainers"))}], "restartPolicyRules"),
    }


def _pod_term(draw: Draw) -> Json:
    return {
        "topologyKey": draw.one((ZONE, HOST)),
        **draw.maybe(0.9, lambda: selector(draw), "labelSelector"),
        **draw.maybe(0.3, lambda: draw.some(NAMESPACES), "namespaces"),
        **draw.maybe(0.3, lambda: selector(draw), "namespaceSelector"),
        **draw.maybe(0.2, lambda: draw.some(("app", "tier")), "matchLabelKeys"),
        **draw.maybe(0.2, lambda: ["controller-revision-hash"], "mismatchLabelKeys"),
    }


def _affinity(draw: Draw, nodes: list[str]) -> Json:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"

    def node_term() -> Json:
        expressions = [
            draw.one(
                (
                    {"key": ZONE, "operator": "In", "values": draw.some(ZONES, 1)},
                    {"key": "example.com/size", "operator": draw.one(("Gt", "Lt")), "values": ["4"]},
                    {"key": "app", "operator": "Exists"},
                )
            )
            for _ in range(draw.number(0, 2))
        ]
        pin = {
            "key": "metadata.name",
            "operator": draw.one(("In", "In", "NotIn")),
            "values": [draw.one(nodes or ["x"])],
        }
        return {
            **draw.maybe(0.7, lambda: expressions, "matchExpressions"),
            **draw.maybe(0.4, lambda: [pin], "matchFields"),
        }

    def pods(has_preferences: bool) -> Json:
        return {
            **draw.maybe(0.7, lambda: [_pod_term(draw) for _ in range(draw.number(0, 2))], required),
            **(
                draw.maybe(
                    0.5, lambda: [{"weight": draw.number(1, 100), "podAffinityTerm": _pod_term(draw)}], preferred
                )
                if has_preferences
                else {}
            ),
        }

    node = {required: {"nodeSelectorTerms": [node_term() for _ in range(draw.number(1, 3))]}}
    return {
        **draw.maybe(0.6, lambda: node if draw.random.random() < 0.9 else {}, "nodeAffinity"),
        **draw.maybe(0.4, lambda: pods(False), "podAffinity"),
        **draw.maybe(0.5, lambda: pods(True), "podAntiAffinity"),
    }


def _spread(draw: Draw) -> Json:
    selected = draw.maybe(0.8, lambda: selector(draw), "labelSelector")
    return {
        "maxSkew": draw.number(1, 3),
        "topologyKey": draw.one((ZONE, HOST)),
        "whenUnsatisfiable": draw.one(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
        **selected,
        **draw.maybe(0.3, lambda: draw.number(1, 3), "minDomains"),
        **draw.maybe(0.3, lambda: draw.one(("Honor", "Ignore")), "nodeAffinityPolicy"),
        **draw.maybe(0.3, lambda: draw.one(("Honor", "Ignore")), "nodeTaintsPolicy"),
        **(draw.maybe(0.4, lambda: draw.some(("tier", "app")), "matchLabelKeys") if selected else {}),
    }


def _toleration(draw: Draw) -> Json:
    if draw.random.random() < 0.2:
        return {"operator": "Exists"}
    return {
        "key": draw.one(("dedicated", "gpu", "spot")),
        **draw.maybe(0.7, lambda: draw.one(("Equal", "Exists", "Gt", "Lt")), "operator"),
        **draw.maybe(0.6, lambda: draw.one(APPS), "value"),
        **draw.maybe(0.6, lambda: draw.one(("NoSchedule", "PreferNoSchedule", "NoExecute")), "effect"),
    }


def pod_spec(draw: Draw, nodes: list[str]) -> Json:
    return {
        "containers": [_container(draw, f"c{i}") for i in range(draw.number(1, 3))],
        **draw.maybe(
            0.3, lambda: [_container(draw, f"i{i}", True) for i in range(draw.number(0, 3))], "initContainers"
        ),
        **draw.maybe(0.15, lambda: resources(draw), "resources"),
        **draw.maybe(0.1, lambda: {"cpu": "10m", "memory": "8Mi"}, "overhead"),
        **draw.maybe(0.3, lambda: {ZONE: draw.one(ZONES), "app": "x"}, "nodeSelector"),
        **draw.maybe(0.5, lambda: _affinity(draw, nodes), "affinity"),
        **draw.maybe(0.4, lambda: [_toleration(draw) for _ in range(draw.number(0, 3))], "tolerations"),
        **draw.maybe(0.3, lambda: [_spread(draw) for _ in range(draw.number(1, 2))], "topologySpreadConstraints"),
        **draw.maybe(0.1, lambda: True, "hostNetwork"),
        **draw.maybe(0.1, lambda: False, "hostUsers"),
        **draw.maybe(0.3, lambda: draw.number(-5, 2_000_000_000), "priority"),
        **draw.maybe(0.3, lambda: draw.one(("class-0", "system-node-critical", "unknown")), "priorityClassName"),
        **draw.maybe(0.5, lambda: draw.one(("default-scheduler", "other")), "schedulerName"),
        **draw.maybe(0.5, lambda: draw.one(("Always", "OnFailure", "Never")), "restartPolicy"),
        **draw.maybe(0.4, lambda: draw.one((0, 30, 600)), "terminationGracePeriodSeconds"),
        **draw.maybe(0.25, lambda: draw.some(CLAIMS), "resourceClaims"),
        **draw.maybe(0.1, lambda: [{"name": "wait"}], "schedulingGates"),
        **draw.maybe(0.5, lambda: volumes_of(draw.random, claim_names()), "volumes"),
    }
