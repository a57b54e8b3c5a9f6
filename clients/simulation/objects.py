"""Kubernetes objects of a scenario. Decides names and labels: pods carry `app`, the name of their workload."""

import math
from collections.abc import Iterable
from typing import Any

from trimtab.clients.simulation.cluster.objects import made_uid
from trimtab.clients.simulation.cluster.placement_rules import ZONE
from trimtab.clients.simulation.scenario import BudgetModel, NodeGroupModel, PodModel, WorkloadModel
from trimtab.clients.simulation.scenario_values import JobRequestModel, StorageClassModel
from trimtab.common.kubernetes.kinds.pod_groups import OF_1_36, OF_1_37
from trimtab.common.kubernetes.signals import cluster_autoscaler, ours

Json = dict[str, Any]
GROUP_LABEL = ours.NODE_GROUP.key
CONSUMES = cluster_autoscaler.CONSUME_REQUEST.key
"""Annotation of pods that names the ProvisioningRequest whose room they use."""


def node_group(group: NodeGroupModel) -> Json:
    """Return a NodeGroup, empty."""
    labels = {**group.labels, GROUP_LABEL: group.name} | ({ZONE: group.zone} if group.zone else {})
    amounts = {"cpu": group.cpu, "memory": group.memory, "pods": str(group.pods), **group.resources}
    spec: Json = {
        "minSize": group.min_size,
        "maxSize": group.max_size,
        "targetSize": 0,
        "nodeSelector": {GROUP_LABEL: group.name},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"taints": [dict(taint) for taint in group.taints]},
            "status": {"capacity": amounts, "allocatable": amounts},
        },
    }
    if group.price is not None:
        spec["price"] = group.price
    return kubernetes_object("trimtab.dev/v1", "NodeGroup", "", group.name, spec)


def controller(workload: WorkloadModel) -> Json:
    """Return the controller of a workload, without replicas yet."""
    labels = {"app": workload.name}
    spec: Json = {
        "selector": {"matchLabels": labels},
        "template": pod_template(workload.pod, labels, gang_name(workload)),
    }
    if workload.kind != "DaemonSet":
        spec["replicas"] = 0
    if workload.volumes:
        spec["volumeClaimTemplates"] = [
            {
                "metadata": {"name": volume.name, "labels": labels},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": volume.storage_class,
                    "resources": {"requests": {"storage": volume.size}},
                },
            }
            for volume in workload.volumes
        ]
    return kubernetes_object("apps/v1", workload.kind, workload.namespace, workload.name, spec)


def storage_class(model: StorageClassModel, zones: Iterable[str]) -> Json:
    """Return a StorageClass; `zones` : those of the node groups, for a class that names none."""
    item = kubernetes_object("storage.k8s.io/v1", "StorageClass", "", model.name, {})
    del item["spec"]
    allowed = sorted(set(model.zones or zones) - {""})
    item |= {"provisioner": model.driver, "volumeBindingMode": model.binding}
    if allowed:
        item["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": allowed}]}]
    return item


def job(namespace: str, name: str, template: Json, pods: int) -> Json:
    """Return a Job with the given number of parallel pods."""
    spec = {"parallelism": pods, "template": template, "selector": {"matchLabels": template["metadata"]["labels"]}}
    return kubernetes_object("batch/v1", "Job", namespace, name, spec)


def gang_name(workload: WorkloadModel) -> str:
    """Return the name of the pod group of a workload's pods, "" = they are in none."""
    return "" if workload.gang is None else workload.gang.name or workload.name


def pod_group(namespace: str, name: str, min_count: int, pod: PodModel, version: str) -> Json:
    """Return the PodGroup of a gang of such pods. version : of Kubernetes; from 1.37 on it has a priority."""
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": min_count}}}
    if version == "1.36":
        return kubernetes_object(OF_1_36, "PodGroup", namespace, name, spec)
    spec["priority"] = pod.spec.get("priority") or 0
    return kubernetes_object(OF_1_37, "PodGroup", namespace, name, spec)


def provisioning_request(namespace: str, name: str, model: JobRequestModel, pods: int) -> Json:
    """Return the ProvisioningRequest of a job, for pods of the PodTemplate of the same name."""
    spec: Json = {
        "provisioningClassName": model.class_name,
        "podSets": [{"podTemplateRef": {"name": name}, "count": pods}],
    }
    if model.valid_until is not None:
        spec["parameters"] = {"ValidUntilSeconds": str(math.ceil(model.valid_until))}
    item = kubernetes_object("autoscaling.x-k8s.io/v1", "ProvisioningRequest", namespace, name, spec)
    item["metadata"] |= {"generation": 1, "resourceVersion": "1"}
    return item


def requested_template(namespace: str, name: str, template: Json) -> Json:
    """Return the PodTemplate of a ProvisioningRequest."""
    item = kubernetes_object("v1", "PodTemplate", namespace, name, {})
    del item["spec"]
    return {**item, "template": template}


def pod_template(pod: PodModel, labels: Json, group: str = "", request: str = "") -> Json:
    """Return the template of a workload's pods. group : name of their pod group, request : of the ProvisioningRequest
    whose room they use; "" = they have none."""
    requests = {"cpu": pod.cpu, "memory": pod.memory}
    metadata: Json = {"labels": {**labels, **pod.labels}}
    annotations = {**pod.annotations, **({CONSUMES: request} if request else {})}
    if annotations:
        metadata["annotations"] = annotations
    of_group = {"schedulingGroup": {"podGroupName": group}} if group else {}
    return {"metadata": metadata, "spec": {"containers": [_container(requests)], **pod.spec, **of_group}}


def budget(workload: WorkloadModel, wanted: BudgetModel) -> Json:
    """Return a workload's PodDisruptionBudget."""
    limits = {"minAvailable": wanted.min_available, "maxUnavailable": wanted.max_unavailable}
    spec = {name: value for name, value in limits.items() if value is not None}
    spec["selector"] = {"matchLabels": {"app": workload.name}}  # type: ignore[assignment]
    return kubernetes_object("policy/v1", "PodDisruptionBudget", workload.namespace, workload.name, spec)


def _container(requests: Json) -> Json:
    return {"name": "main", "resources": {"requests": requests}}


def kubernetes_object(version: str, kind: str, namespace: str, name: str, spec: Json) -> Json:
    """Return an object with a uid that follows from its name; namespace "" = it has none."""
    metadata = {"name": name, "uid": made_uid(f"{kind}/{namespace}/{name}", 0)}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
