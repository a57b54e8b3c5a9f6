"""The controllers and budgets of a synthetic cluster, with the status that a healthy cluster shows. Pure."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from trimtab.clients.cluster_generator import identity
from trimtab.clients.cluster_generator.layout import SyntheticCluster
from trimtab.clients.cluster_generator.pod_templates import pod_labels, pod_spec
from trimtab.clients.cluster_generator.workloads import Workload
from trimtab.common.kubernetes.registry import CONTROLLERS

Object = dict[str, Any]
_CREATED = "2025-12-24T08:00:00Z"


def pod_owner(workload: Workload, index: int) -> list[Object]:
    """Return `ownerReferences` of a workload's pods; empty for bare pods."""
    if not workload.kind:
        return []
    kind = "ReplicaSet" if workload.kind == "Deployment" else workload.kind
    name = identity.replica_set_name(workload, index) if kind == "ReplicaSet" else workload.name
    return [_reference(kind, name, identity.owner_uid(index))]


def controllers(cluster: SyntheticCluster) -> Iterator[Object]:
    """Yield the controllers; for a Deployment its ReplicaSet too."""
    replicas = np.bincount(cluster.workload, minlength=len(cluster.workloads)).tolist()
    running = np.bincount(cluster.workload[cluster.node >= 0], minlength=len(cluster.workloads)).tolist()
    for index, workload in enumerate(cluster.workloads):
        if not workload.kind:
            continue
        yield _controller(workload, index, replicas[index], running[index])
        if workload.kind == "Deployment":
            yield _replica_set(workload, index, replicas[index], running[index])


def budgets(cluster: SyntheticCluster) -> Iterator[Object]:
    """Yield the PodDisruptionBudgets, with the status that the disruption controller would compute."""
    replicas = np.bincount(cluster.workload, minlength=len(cluster.workloads)).tolist()
    running = np.bincount(cluster.workload[cluster.node >= 0], minlength=len(cluster.workloads)).tolist()
    for index, workload in enumerate(cluster.workloads):
        if not workload.budget or workload.kind in {"", "DaemonSet", "Job"}:
            continue
        written, expected = workload.budget, replicas[index]
        # The controller rounds a percentage of maxUnavailable up.
        most = -(-int(written[:-1]) * expected // 100) if written.endswith("%") else int(written)
        desired = max(0, expected - most)
        yield {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": _metadata(workload, workload.name) | {"generation": 1},
            "spec": {
                "maxUnavailable": written if written.endswith("%") else int(written),
                "selector": {"matchLabels": pod_labels(workload)},
            },
            "status": {
                "observedGeneration": 1,
                "expectedPods": expected,
                "currentHealthy": running[index],
                "desiredHealthy": desired,
                "disruptionsAllowed": max(0, running[index] - desired),
            },
        }


def _metadata(workload: Workload, name: str, **more: Any) -> Object:
    """Return the metadata that controllers and budgets have."""
    return {"name": name, "namespace": workload.namespace, "creationTimestamp": _CREATED, **more}


def _reference(kind: str, name: str, uid: str) -> Object:
    """Return a controlling owner reference."""
    return {**CONTROLLERS[kind].type_meta, "name": name, "uid": uid, "controller": True}


def _template(workload: Workload, index: int) -> Object:
    """Return the pod template of a controller."""
    return {"metadata": {"labels": pod_labels(workload)}, "spec": pod_spec(workload, index)}


def _controller(workload: Workload, index: int, replicas: int, running: int) -> Object:
    """Return the controller that a user created."""
    uid = identity.deployment_uid(index) if workload.kind == "Deployment" else identity.owner_uid(index)
    spec: Object = {"selector": {"matchLabels": pod_labels(workload)}, "template": _template(workload, index)}
    status: Object = {"replicas": replicas, "readyReplicas": running}
    if workload.kind == "DaemonSet":
        status = {"desiredNumberScheduled": replicas, "currentNumberScheduled": running, "numberReady": running}
    elif workload.kind == "Job":
        spec |= {"parallelism": replicas, "completions": replicas}
        status = {"active": replicas}
    else:
        spec["replicas"] = replicas
    if workload.kind == "StatefulSet":
        spec["serviceName"] = workload.name
    return {
        "apiVersion": CONTROLLERS[workload.kind].api_version,
        "kind": workload.kind,
        "metadata": _metadata(workload, workload.name, uid=uid),
        "spec": spec,
        "status": status,
    }


def _replica_set(workload: Workload, index: int, replicas: int, running: int) -> Object:
    """Return the ReplicaSet of a Deployment."""
    owner = _reference("Deployment", workload.name, identity.deployment_uid(index))
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": _metadata(
            workload,
            identity.replica_set_name(workload, index),
            uid=identity.owner_uid(index),
            ownerReferences=[owner],
        ),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": pod_labels(workload)},
            "template": _template(workload, index),
        },
        "status": {"replicas": replicas, "readyReplicas": running},
    }
