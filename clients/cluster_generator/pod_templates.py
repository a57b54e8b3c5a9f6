"""The spec that all pods of a synthetic workload share. Pure. Units as Kubernetes writes them."""

from typing import Any

from trimtab.clients.cluster_generator.layout import zone_name
from trimtab.clients.cluster_generator.shape import MIB, POOLS
from trimtab.clients.cluster_generator.workloads import Workload
from trimtab.common.kubernetes.signals import ours, well_known

Object = dict[str, Any]


def pod_labels(workload: Workload) -> dict[str, str]:
    """Return the labels, which are the selector of its controller, budget, spread and anti-affinity too."""
    return {well_known.APP_NAME.key: workload.name, well_known.APP_PART_OF.key: workload.namespace}


def pod_spec(workload: Workload, index: int) -> Object:
    """Return the spec without `nodeName`."""
    requests = {"cpu": f"{workload.cpu_milli}m", "memory": f"{workload.memory_bytes // MIB}Mi"}
    container: Object = {"name": "main", "resources": {"requests": requests}}
    spec: Object = {
        "containers": [container],
        "schedulerName": "default-scheduler",
        "restartPolicy": "OnFailure" if workload.kind == "Job" else "Always",
        "terminationGracePeriodSeconds": (5, 30, 30, 60)[index % 4],
        "tolerations": _tolerations(workload),
    }
    if workload.kind == "DaemonSet" or workload.namespace == "kube-system":
        spec["priority"] = 2_000_000_000
    if workload.tainted:
        spec["nodeSelector"] = {ours.GENERATED_POOL.key: next(pool.name for pool in POOLS if pool.taint)}
    if workload.unmovable == "local-storage":
        spec["volumes"] = [{"name": "scratch", "emptyDir": {}}]
        container["volumeMounts"] = [{"name": "scratch", "mountPath": "/scratch"}]
    affinity = _affinity(workload)
    if affinity:
        spec["affinity"] = affinity
    if workload.spread:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": well_known.ZONE.key,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": pod_labels(workload)},
            }
        ]
    return spec


def _tolerations(workload: Workload) -> list[Object]:
    """Return tolerations: of everything for DaemonSets; of the defaults and the pool's taint for others."""
    if workload.kind == "DaemonSet":
        return [{"operator": "Exists"}]
    usual: list[Object] = [
        {"key": row.key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for row in (well_known.NOT_READY, well_known.UNREACHABLE)
    ]
    if not workload.tainted:
        return usual
    taints = [pool.taint for pool in POOLS if pool.taint]
    return usual + [{"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"} for key, value in taints]


def _affinity(workload: Workload) -> Object:
    """Return required node affinity to zones and required anti-affinity to itself."""
    affinity: Object = {}
    if workload.zones:
        values = [f"region-1{zone_name(zone)}" for zone in workload.zones]
        term = {"matchExpressions": [{"key": well_known.ZONE.key, "operator": "In", "values": values}]}
        affinity["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
        }
    if workload.anti_affinity:
        selector = {"matchLabels": pod_labels(workload)}
        affinity["podAntiAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": selector, "topologyKey": well_known.HOSTNAME.key},
            ]
        }
    return affinity
