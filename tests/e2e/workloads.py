"""Workloads to be created on a real control plane: as a user writes them, without status."""

from typing import Any

from tests.builders import kubernetes as k8s

Json = dict[str, Any]


def nodes(prefix: str, count: int, cpu: str = "4", pool: str = "pool") -> list[Json]:
    """Return nodes managed by kwok, "PREFIX-1"… of one pool."""
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"{prefix}-{number}",
                "labels": {"kwok": "on", "pool": pool, "kubernetes.io/hostname": f"{prefix}-{number}"},
            },
            "status": {"capacity": amounts, "allocatable": amounts},
        }
        for number in range(1, count + 1)
    ]


def group(name: str, max_size: int, pool: str = "pool", cpu: str = "4") -> Json:
    """Return a NodeGroup of that pool."""
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    return {
        "apiVersion": "trimtab.dev/v1",
        "kind": "NodeGroup",
        "metadata": {"name": name},
        "spec": {
            "minSize": 0,
            "maxSize": max_size,
            "nodeSelector": {"pool": pool},
            "template": {
                "metadata": {"labels": {"pool": pool}},
                "status": {"capacity": amounts, "allocatable": amounts},
            },
        },
    }


def template(app: str, cpu: str, pool: str, **labels: str) -> Json:
    """Return a pod template."""
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    spec = {"containers": [container], "nodeSelector": {"pool": pool}, "terminationGracePeriodSeconds": 1}
    return {"metadata": {"labels": {"app": app, **labels}}, "spec": spec}


def deployment(name: str, replicas: int, cpu: str = "250m", pool: str = "pool", **labels: str) -> Json:
    """Return a Deployment."""
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": template(name, cpu, pool, **labels),
    }
    return _workload("apps/v1", "Deployment", name, spec)


def stateful_set(name: str, replicas: int, cpu: str = "250m", pool: str = "pool", **labels: str) -> Json:
    """Return a StatefulSet that starts its pods together."""
    spec = {
        "replicas": replicas,
        "serviceName": name,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": name}},
        "template": template(name, cpu, pool, **labels),
    }
    return _workload("apps/v1", "StatefulSet", name, spec)


def daemon_set(name: str, cpu: str = "50m", pool: str = "pool") -> Json:
    """Return a DaemonSet."""
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template(name, cpu, pool)}
    return _workload("apps/v1", "DaemonSet", name, spec)


def job(name: str, count: int, cpu: str = "250m", pool: str = "pool") -> Json:
    """Return a Job whose `count` pods run together."""
    pods = template(name, cpu, pool)
    pods["spec"]["restartPolicy"] = "Never"
    spec = {"completions": count, "parallelism": count, "backoffLimit": 100, "template": pods}
    return _workload("batch/v1", "Job", name, spec)


def bare_pod(name: str, cpu: str = "250m", pool: str = "pool") -> Json:
    """Return a bare pod."""
    pod = template(name, cpu, pool)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **pod["metadata"]}, "spec": pod["spec"]}


def budget(name: str, app: str, **limits: Any) -> Json:
    """Return a PodDisruptionBudget for a workload's pods; limits such as maxUnavailable=1."""
    spec = {"selector": {"matchLabels": {"app": app}}, **limits}
    return _workload("policy/v1", "PodDisruptionBudget", name, spec)


def _workload(version: str, kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def workload(name: str, replicas: int) -> k8s.Json:
    container = {
        "name": "main",
        "image": "none",
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}},
        "ports": [{"containerPort": 80, "hostPort": 9000 + sum(map(ord, name)) % 50, "protocol": "UDP"}],
    }
    side = {"name": "side", "image": "none", "restartPolicy": "Always", "resources": {"requests": {"cpu": "10m"}}}
    spread = {
        "maxSkew": 5,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": name}},
        "matchLabelKeys": ["pod-template-hash"],
    }
    spec = {
        "containers": [container],
        "initContainers": [side],
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "topologySpreadConstraints": [spread],
        "affinity": k8s.anti_affinity({"matchLabels": {"app": "nobody"}}),
        "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "cfg", "configMap": {"name": "x", "optional": True}}],
        "terminationGracePeriodSeconds": 5,
    }
    annotations = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true", "other": "value"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}, "annotations": annotations}, "spec": spec},
        },
    }


def kwok_node(name: str, zone: str, *, taint: bool = False) -> k8s.Json:
    node = k8s.node(name, zone=zone, labels={"kwok": "on"}, taints=["dedicated=x:NoSchedule"] if taint else [])
    del node["metadata"]["creationTimestamp"]
    del node["metadata"]["uid"]
    return node
