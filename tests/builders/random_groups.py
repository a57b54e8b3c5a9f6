"""Random groups of pods and ProvisioningRequests, and what pods say of them, as plain JSON dicts."""

from random import Random
from typing import Any

Json = dict[str, Any]
_COUNTS = (0, 1, 7, 7, 7)
_TOTAL = "kueue.x-k8s.io/pod-group-total-count"
CLAIMS: tuple[Json, ...] = (
    {"name": "gpu", "resourceClaimName": "shared"},
    {"name": "nic", "resourceClaimTemplateName": "template"},
    {"name": "more", "resourceClaimTemplateName": "more"},
    {"name": "none"},
)
"""Claims of a pod."""
CLAIMS_MADE: tuple[Json, ...] = ({"name": "nic", "resourceClaimName": "made"}, {"name": "nic"})


def group_of(random: Random) -> tuple[Json, Json, Json]:
    """Return what a pod says of its group: parts of its labels, annotations and spec."""
    return random.choice(
        (
            ({}, {}, {"schedulingGroup": {"podGroupName": random.choice(("gang", "basic", "absent"))}}),
            ({}, {"scheduling.k8s.io/group-name": random.choice(("v1", "v2"))}, {}),
            ({"kueue.x-k8s.io/pod-group-name": "k"}, {_TOTAL: random.choice(("3", "3", "3", "x"))}, {}),
            ({"kueue.x-k8s.io/pod-group-name": "one"}, {_TOTAL: "5"}, {}),
        )
    )


def group_objects(random: Random, namespaces: tuple[str, ...], controllers: list[tuple[str, str]]) -> list[Json]:
    """Return PodGroups, Workloads of some controllers (kind and name), and PodGroups of Volcano."""
    out = []
    for namespace in namespaces:
        out += [_pod_group(random, name, namespace) for name in ("gang", "basic") if random.random() < 0.5]
        if random.random() < 0.7:
            kind, name = random.choice([*controllers, ("Rollout", "r")])
            templates = [{"name": "workers"}, {"name": "more"}][: random.choice((1, 1, 2))]
            spec: Json = {"podGroupTemplates": templates}
            if random.random() < 0.9:
                spec["controllerRef"] = {"kind": kind, "name": name}
            out.append(_object("scheduling.k8s.io/v1beta1", "Workload", "w", namespace, spec))
        if random.random() < 0.5:
            spec = {"minMember": random.choice((0, 2, 5, -1))}
            out.append(_object("scheduling.volcano.sh/v1beta1", "PodGroup", "v1", namespace, spec))
    return out


def _object(api_version: str, kind: str, name: str, namespace: str, spec: Json) -> Json:
    meta = {"name": name, "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec}


def _pod_group(random: Random, name: str, namespace: str) -> Json:
    policy = {"gang": {"minCount": random.choice((0, 2, 4))}} if name == "gang" else {"basic": {}}
    spec: Json = {"schedulingPolicy": policy} if random.random() < 0.9 else {}
    if random.random() < 0.4:
        keys = [{"key": "topology.kubernetes.io/rack"}, {"key": "topology.kubernetes.io/zone"}]
        spec["schedulingConstraints"] = {"topology": keys[: random.choice((0, 1, 1, 2))]}
    if random.random() < 0.5:
        spec["disruptionMode"] = random.choice(("Pod", "PodGroup", {"all": {}}, {"single": {}}))
    if random.random() < 0.5:
        spec["resourceClaims"] = [{"name": "nic", "resourceClaimTemplateName": random.choice(("template", "more"))}]
    if random.random() < 0.3:
        spec["priority"] = random.randint(-5, 5)
    if random.random() < 0.5:
        spec |= random.choice(
            ({"workloadRef": {"workloadName": "w"}}, {"podGroupTemplateRef": {"workload": {"workloadName": "w"}}})
        )
    made = _object("scheduling.k8s.io/v1beta1", "PodGroup", name, namespace, spec)
    if random.random() < 0.3:
        made["metadata"]["annotations"] = {"trimtab.dev/slack": random.choice(("1", "2", "x"))}
    if name == "gang" and "resourceClaims" in spec:
        # Also where there is no such claim.
        made["status"] = {"resourceClaimStatuses": [{"name": "nic", "resourceClaimName": "made"}]}
    return made


def provisioning_requests(random: Random, templates: list[str], namespace: str) -> list[Json]:
    """Return ProvisioningRequests for pods of PodTemplates, some of which do not exist."""
    out = []
    for i in range(random.randint(0, 3)):
        sets = [
            {
                "podTemplateRef": {"name": random.choice([*templates * 3, "absent"])},
                "count": random.choice(_COUNTS),
            }
            for _ in range(random.choice((0, 1, 1, 2)))
        ]
        seconds = {"ValidUntilSeconds": random.choice(("600", "600", "x", "0"))}
        parameters = random.choice(({}, {"noRetry": "true"}, seconds, {"processorInstance": "p"}))
        spec = {"podSets": sets, "provisioningClassName": "check-capacity", "parameters": parameters}
        one = _object("autoscaling.x-k8s.io/v1", "ProvisioningRequest", f"request-{i}", namespace, spec)
        one["status"] = {
            "conditions": [
                {"type": kind, "status": random.choice(("True", "False")), "lastTransitionTime": "2026-01-01T00:10:00Z"}
                for kind in ("Provisioned", "Failed", "BookingExpired", "CapacityRevoked")
                if random.random() < 0.3
            ]
        }
        out.append(one)
    return out
