"""Random Kubernetes objects as plain JSON dicts, as an API server would print them: every field that a snapshot is made
of has some chance to be there. Deterministic in the seed. Clusters are small, and need not make sense to a scheduler.
"""

from typing import Any

from tests.builders.random_devices import device_objects, group_slices
from tests.builders.random_groups import CLAIMS_MADE, group_objects, group_of, provisioning_requests
from tests.builders.random_pod_specs import (
    APPS,
    CPU,
    CREATED,
    DEVICES,
    HOST,
    NAMESPACES,
    ZONE,
    ZONES,
    Draw,
    labels,
    pod_spec,
    resources,
    selector,
)
from tests.builders.random_storage import storage_objects

Json = dict[str, Any]
OWNERS = ("ReplicaSet", "StatefulSet", "ReplicationController", "Job", "DaemonSet")
_API = {"Job": "batch/v1", "ReplicationController": "v1"}


def random_objects(seed: int) -> list[Json]:
    """Return the objects of a cluster, in any order."""
    draw = Draw(seed)
    nodes = [_node(draw, f"n{i}") for i in range(draw.number(0, 7))]
    names = [node["metadata"]["name"] for node in nodes]
    objects = [*nodes, *_groups(draw, names), *(_owner(draw, i) for i in range(draw.number(0, 6)))]
    owners = [one for one in objects if one["kind"] in OWNERS]
    objects += [_pod(draw, i, names, owners) for i in range(draw.number(0, 14))]
    objects += [_budget(draw, i) for i in range(draw.number(0, 3))]
    objects += [_namespace(draw, name) for name in draw.some(NAMESPACES)]
    objects += [_priority_class(draw, i) for i in range(draw.number(0, 2))]
    if draw.random.random() < 0.7:
        objects += storage_objects(draw.random, names, NAMESPACES, ZONES)
    objects += _buffers(draw, owners)
    if draw.random.random() < 0.5:
        controllers = [(one["kind"], one["metadata"]["name"]) for one in owners if one["kind"] != "DaemonSet"]
        objects += group_objects(draw.random, tuple({one["metadata"]["namespace"]: 1 for one in owners}), controllers)
    if draw.random.random() < 0.3:
        objects += provisioning_requests(draw.random, ["template"], "default")
    if draw.random.random() < 0.6:
        pods = [one for one in objects if one["kind"] == "Pod"]
        objects += device_objects(draw.random.random(), names, NAMESPACES, pods)
    draw.random.shuffle(objects)
    return objects


def _meta(draw: Draw, name: str, namespace: str = "", **more: Any) -> Json:
    return {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        **draw.maybe(0.9, lambda: f"uid-{name}-{namespace}", "uid"),
        **draw.maybe(0.9, lambda: draw.one(CREATED), "creationTimestamp"),
        **draw.maybe(0.7, lambda: labels(draw), "labels"),
        **more,
    }


def _taint(draw: Draw) -> Json:
    return {
        "key": draw.one(("dedicated", "gpu", "spot")),
        **draw.maybe(0.6, lambda: draw.one(APPS), "value"),
        "effect": draw.one(("NoSchedule", "PreferNoSchedule", "NoExecute")),
    }


def _amounts(draw: Draw) -> Json:
    return {
        "cpu": draw.one(("4", "7910m", "16")),
        "memory": draw.one(("16Gi", "32113796Ki", "64Gi")),
        "pods": "110",
        **{name: draw.one(("0", "1", "8")) for name in draw.some(DEVICES)},
    }


def _node_shared(draw: Draw, name: str) -> Json:
    labels = {HOST: name, ZONE: draw.one(ZONES), "example.com/size": str(draw.number(1, 9))}
    status = draw.one(
        (
            {"allocatable": _amounts(draw), "capacity": _amounts(draw)},
            {"capacity": _amounts(draw)},
            {"allocatable": _amounts(draw)},
            {},
        )
    )
    return {
        "metadata": _meta(draw, name, labels=labels),
        "spec": draw.maybe(0.5, lambda: [_taint(draw) for _ in range(draw.number(0, 3))], "taints"),
        "status": status | draw.maybe(0.2, lambda: ["UserNamespacesHostNetworkSupport", "Other"], "declaredFeatures"),
    }


_KUBELETS = {"n0": "kwok-v0.7.0", "n1": "v1.36.3", "n2": "v1.37.1-eks-5e7a", "n3": ""}
"""Versions of kubelets, by node; others tell none."""


def _node(draw: Draw, name: str) -> Json:
    node = _node_shared(draw, name)
    annotations = draw.some(
        (
            ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "true"),
            ("karpenter.sh/do-not-disrupt", "true"),
            ("delay-deletion.cluster-autoscaler.kubernetes.io/csi", ""),
            ("trimtab.dev/steered", "x"),
        )
    )
    node["metadata"] |= draw.maybe(0.3, lambda: dict(annotations), "annotations")
    node["spec"] |= draw.maybe(0.8, lambda: f"test://{name}", "providerID")
    node["spec"] |= draw.maybe(0.1, lambda: True, "unschedulable")
    node["status"]["conditions"] = [
        {"type": "MemoryPressure", "status": "False"},
        *(
            {"type": "Ready", "status": draw.one(("True", "False", "Unknown")), "lastTransitionTime": draw.one(CREATED)}
            for _ in range(draw.one((1, 1, 1, 0)))
        ),
    ]
    version = _KUBELETS.get(name)
    if version is not None:
        node["status"]["nodeInfo"] = {"kubeletVersion": version, "osImage": "Linux"}
    return {"apiVersion": "v1", "kind": "Node", **node}


def _template_node(draw: Draw) -> Json:
    return _node_shared(draw, "template") | draw.maybe(
        0.2, lambda: group_slices(draw.random.random()), "resourceSlices"
    )


def _groups(draw: Draw, nodes: list[str]) -> list[Json]:
    groups = []
    for i in range(draw.number(0, 3)):
        spec = {
            "maxSize": draw.number(5, 9),
            **draw.maybe(0.6, lambda: draw.number(0, 4), "minSize"),
            **draw.maybe(0.6, lambda: draw.number(0, 12), "targetSize"),
            **draw.maybe(0.7, lambda i=i: nodes[i::4], "nodes"),
            **draw.maybe(0.7, lambda: draw.one((0.25, 1, 0.0, 3.75)), "price"),
            **draw.maybe(0.2, lambda: True, "zeroOrMax"),
            **draw.maybe(0.7, lambda: _template_node(draw), "template"),
        }
        status = {
            **draw.maybe(0.5, lambda: draw.one(("Healthy", "Unhealthy", "BackedOff")), "health"),
            **draw.maybe(0.3, lambda: draw.one(CREATED), "backoffUntil"),
            **draw.maybe(0.3, lambda: draw.one(CREATED), "lastScaleUpTime"),
        }
        groups.append(
            {
                "apiVersion": "trimtab.dev/v1",
                "kind": "NodeGroup",
                "metadata": {"name": f"Group_{i}"},
                "spec": spec,
                "status": status,
            }
        )
    if draw.random.random() < 0.4:
        spec = {"maxSize": 4, "nodeSelector": {HOST: draw.one(nodes or ["none"]), ZONE: draw.one(ZONES)}}
        named = {one for group in groups for one in group["spec"].get("nodes", ())}
        if spec["nodeSelector"][HOST] not in named:
            groups.append(
                {"apiVersion": "trimtab.dev/v1", "kind": "NodeGroup", "metadata": {"name": "by-label"}, "spec": spec}
            )
    return groups


TOGETHER = (("trimtab.dev/slack-together", "true"), ("trimtab.dev/slack-topology-key", "topology.kubernetes.io/zone"))
_ANNOTATIONS = (
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", ("true", "false", "on-completion", "x")),
    ("cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes", ("data", "data,cache", "")),
    ("cluster-autoscaler.kubernetes.io/enable-ds-eviction", ("true", "false", "x")),
    ("cluster-autoscaler.kubernetes.io/daemonset-pod", ("true", "no")),
    ("controller.kubernetes.io/pod-deletion-cost", ("5", "-3", "007", "0", "99999999999", "x")),
    ("kubernetes.io/config.mirror", ("abc",)),
    ("cluster-autoscaler.kubernetes.io/pod-scale-up-delay", ("1m30.5s", "10s", "x", "-1s")),
    ("zalando.org/topology-spread-timeout", ("1h", "2.9s", "1.5h3us", "")),
    ("trimtab.dev/slack", ("3", "20%", "x")),
    ("trimtab.dev/slack-ignore", ("true", "false")),
    ("karpenter.sh/do-not-disrupt", ("true", "1h", "90.0000000001s", "never")),
    ("karpenter.sh/disruption-cost", ("1.5", "nan", "0x10", "1_0", " 1", "-3e2", "٣")),
    ("example.com/cost", ("7", "inf", "1e400", "")),
    ("autoscaling.x-k8s.io/consume-provisioning-request", ("request-0", "")),
    ("cluster-autoscaler.kubernetes.io/consume-provisioning-request", ("request-1",)),
    ("example.com/unread", ("y",)),
    ("vpaUpdates", ("Pod resources updated by web", "")),
)


def _annotations(draw: Draw) -> Json:
    return {key: draw.one(values) for key, values in _ANNOTATIONS if draw.random.random() < 0.2}


def _reference(draw: Draw, owner: Json) -> Json:
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        **({"uid": meta["uid"]} if "uid" in meta else {}),
        "controller": draw.random.random() < 0.95,
    }


def _pod(draw: Draw, number: int, nodes: list[str], owners: list[Json]) -> Json:
    namespace = draw.one(NAMESPACES)
    foreign = {
        "apiVersion": "example.com/v1",
        "kind": draw.one(("StatefulSet", "Node", "Rollout")),
        "metadata": {"name": "o"},
    }
    node = draw.one([*nodes, "gone"]) if draw.random.random() < 0.7 else ""
    spec = pod_spec(draw, nodes) | ({"nodeName": node} if node else {})
    spec |= draw.maybe(0.2, lambda: draw.one(("Never", "PreemptLowerPriority")), "preemptionPolicy")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _meta(
            draw,
            f"p{number}",
            namespace,
            **draw.maybe(0.6, lambda: _annotations(draw), "annotations"),
            **draw.maybe(0.7, lambda: [_reference(draw, draw.one([*owners, foreign]))], "ownerReferences"),
            **draw.maybe(0.1, lambda: draw.one(CREATED), "deletionTimestamp"),
        ),
        "spec": spec,
        "status": _pod_status(draw, spec),
    }
    if draw.random.random() < 0.3:
        for part, more in zip(("labels", "annotations"), group_of(draw.random), strict=False):
            pod["metadata"][part] = pod["metadata"].get(part, {}) | more
        pod["spec"] |= group_of(draw.random)[2]
    return pod


def _pod_status(draw: Draw, spec: Json) -> Json:
    conditions = draw.some(
        (
            {"type": "Ready", "status": draw.one(("True", "False"))},
            {"type": "PodScheduled", "status": "False", "reason": draw.one(("Unschedulable", "SchedulerError"))},
            {"type": "PodResizePending", "status": "True", "reason": draw.one(("Infeasible", "Deferred"))},
        )
    )

    def statuses(containers: list[Json]) -> list[Json]:
        return [
            {
                "name": one["name"],
                **draw.maybe(0.8, lambda one=one: draw.one((one.get("resources", {}), resources(draw))), "resources"),
                **draw.maybe(0.5, lambda: {"cpu": draw.one(CPU)}, "allocatedResources"),
            }
            for one in containers
        ]

    return {
        **draw.maybe(0.9, lambda: draw.one(("Pending", "Running", "Succeeded", "Failed")), "phase"),
        **draw.maybe(0.5, lambda: "2026-01-01T00:00:01Z", "startTime"),
        **draw.maybe(0.8, lambda: conditions, "conditions"),
        **draw.maybe(0.3, lambda: statuses(spec["containers"]), "containerStatuses"),
        **draw.maybe(0.1, lambda: statuses(spec.get("initContainers", [])), "initContainerStatuses"),
        **draw.maybe(0.5, lambda: [draw.one(CLAIMS_MADE)], "resourceClaimStatuses"),
        **draw.maybe(0.3, lambda: draw.one(("n0", "n1", "gone")), "nominatedNodeName"),
    }


def _owner(draw: Draw, number: int) -> Json:
    kind = draw.one((*OWNERS, "Deployment"))
    name, namespace = f"o{number}", draw.one(NAMESPACES)
    template = {
        "metadata": draw.maybe(0.8, lambda: labels(draw), "labels"),
        "spec": pod_spec(draw, []),
    }
    spec: Json = {"template": template}
    if kind == "ReplicationController":
        spec |= draw.maybe(0.8, lambda: labels(draw), "selector")
    else:
        spec |= draw.maybe(0.9, lambda: selector(draw), "selector")
    count = draw.number(0, 4)
    if kind == "DaemonSet":
        status: Json = {"desiredNumberScheduled": count, "currentNumberScheduled": draw.number(0, 4)}
    elif kind == "Job":
        spec |= draw.maybe(0.8, lambda: count, "parallelism")
        status = draw.maybe(0.7, lambda: count, "active")
    else:
        spec |= draw.maybe(0.8, lambda: count, "replicas")
        status = {"replicas": draw.number(1, 4)}
    annotations = draw.some(
        (("deployment.kubernetes.io/revision", draw.one(("3", "x"))), ("trimtab.dev/slack", "2"), *TOGETHER)
    )
    above = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": draw.one(("o1", "d")),
        "uid": "u",
        "controller": True,
    }
    return {
        "apiVersion": _API.get(kind, "apps/v1"),
        "kind": kind,
        "metadata": _meta(
            draw,
            name,
            namespace,
            **draw.maybe(0.3, lambda: dict(annotations), "annotations"),
            **draw.maybe(0.3, lambda: [above], "ownerReferences"),
        ),
        "spec": spec,
        "status": status,
    }


def _budget(draw: Draw, number: int) -> Json:
    limit = draw.one((1, "50%", 0, "3"))
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _meta(draw, f"b{number}", draw.one(NAMESPACES), generation=draw.number(1, 3)),
        "spec": {
            **draw.maybe(0.9, lambda: selector(draw), "selector"),
            draw.one(("minAvailable", "maxUnavailable")): limit,
            **draw.maybe(0.3, lambda: draw.one(("AlwaysAllow", "IfHealthyBudget")), "unhealthyPodEvictionPolicy"),
        },
        "status": {
            "disruptionsAllowed": draw.number(0, 3),
            "currentHealthy": draw.number(0, 3),
            "desiredHealthy": draw.number(0, 3),
            "expectedPods": draw.number(0, 3),
            **draw.maybe(0.8, lambda: draw.number(1, 3), "observedGeneration"),
            **draw.maybe(0.3, lambda: {"p2": "2026-01-01T00:00:00Z", "p1": None}, "disruptedPods"),
        },
    }


def _namespace(draw: Draw, name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": _meta(draw, name)}


def _priority_class(draw: Draw, number: int) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": f"class-{number}"},
        "value": draw.number(-10, 1000),
        "globalDefault": number == 1,
    }


def _buffers(draw: Draw, owners: list[Json]) -> list[Json]:
    if draw.random.random() < 0.6:
        return []
    template = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "template", "namespace": "default"},
        "template": {"metadata": {"labels": labels(draw)}, "spec": pod_spec(draw, [])},
    }
    scalable = [{"kind": one["kind"], "name": one["metadata"]["name"]} for one in owners]
    spec = {
        **draw.maybe(0.3, lambda: draw.one(("buffer.x-k8s.io/active-capacity", "other")), "provisioningStrategy"),
        **draw.maybe(0.6, lambda: {"name": draw.one(("template", "absent"))}, "podTemplateRef"),
        **draw.maybe(0.4, lambda: draw.one([*scalable, {"kind": "Rollout", "name": "x"}]), "scalableRef"),
        **draw.maybe(0.5, lambda: draw.number(0, 5), "replicas"),
        **draw.maybe(0.5, lambda: draw.number(0, 50), "percentage"),
        **draw.maybe(0.5, lambda: {"cpu": "1500m", "memory": "1500m", "nvidia.com/gpu": "2"}, "limits"),
    }
    buffer = {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {
            "name": "buffer",
            "namespace": "default",
            **draw.maybe(0.4, lambda: dict(draw.some((*TOGETHER, ("trimtab.dev/slack-together", "x")))), "annotations"),
        },
        "spec": spec,
    }
    return [template, buffer]
