"""Removes from a normalised document all fields that no Filter plugin reads or that defaults restore."""

from __future__ import annotations

from typing import Any

#: Of a pod's spec: kept as they are. The API server's defaults restore the rest.
POD_SPEC = [
    *("affinity", "hostNetwork", "hostUsers", "nodeName", "nodeSelector", "overhead", "resources", "resourceClaims"),
    *("runtimeClassName", "schedulingGates", "tolerations", "topologySpreadConstraints", "volumes"),
]
CONTAINER = ["name", "ports", "resources", "restartPolicy", "restartPolicyRules"]
METADATA = ["name", "namespace", "labels", "annotations", "deletionTimestamp", "deletionGracePeriodSeconds"]
#: Annotations of claims and CSINodes that the plugins read.
ANNOTATIONS = [
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "pv.kubernetes.io/migrated-to",
    "storage.alpha.kubernetes.io/migrated-plugins",
    "volume.kubernetes.io/selected-node",
    "volume.beta.kubernetes.io/storage-class",
]
#: Volume sources that matter; any other is the same to the scheduler as an empty directory.
VOLUME_SOURCES = [
    "persistentVolumeClaim",
    "ephemeral",
    "csi",
    "awsElasticBlockStore",
    "gcePersistentDisk",
    "azureDisk",
    "rbd",
    "iscsi",
    "vsphereVolume",
    "cinder",
]


def _keep(obj: dict[str, Any], keys: list[str]) -> dict[str, Any]:
    return {k: obj[k] for k in keys if obj.get(k) not in (None, {}, [], "")}


def _metadata(obj: dict[str, Any], *extra: str) -> dict[str, Any]:
    metadata = _keep(obj["metadata"], [*METADATA, *extra])
    annotations = _keep(metadata.pop("annotations", {}), ANNOTATIONS)
    return metadata | ({"annotations": annotations} if annotations else {})


def _port(port: dict[str, Any]) -> dict[str, Any]:
    return _keep(port, ["hostIP", "hostPort", "protocol", "containerPort"])


def _container(container: dict[str, Any]) -> dict[str, Any]:
    kept = _keep(container, CONTAINER)
    ports = [_port(port) for port in kept.pop("ports", []) if port.get("hostPort")]
    return kept | ({"ports": ports} if ports else {})


def _ephemeral(volume: dict[str, Any]) -> dict[str, Any]:
    """Of a claim template the plugins read nothing, but the API server wants it."""
    if "ephemeral" in volume:
        volume["ephemeral"]["volumeClaimTemplate"].get("spec", {}).pop("volumeMode", None)
    return volume


def _pod(pod: dict[str, Any], usual_phase: str) -> dict[str, Any]:
    spec = _keep(pod["spec"], POD_SPEC)
    for key in ("containers", "initContainers"):
        if pod["spec"].get(key):
            spec[key] = [_container(c) for c in pod["spec"][key]]
    kept = [_ephemeral(_keep(v, ["name", *VOLUME_SOURCES])) for v in spec.pop("volumes", [])]
    volumes = [v for v in kept if len(v) > 1]
    if volumes:
        spec["volumes"] = volumes
    result: dict[str, Any] = {"metadata": _metadata(pod), "spec": spec}
    phase = pod.get("status", {}).get("phase", usual_phase)
    return result if phase == usual_phase else result | {"status": {"phase": phase}}


def _node(node: dict[str, Any]) -> dict[str, Any]:
    spec = _keep(node.get("spec", {}), ["taints", "unschedulable"])
    for taint in spec.get("taints", []):
        taint.pop("timeAdded", None)
    allocatable = node["status"].get("allocatable") or node["status"].get("capacity") or {}
    status = {"allocatable": allocatable} | _keep(node["status"], ["declaredFeatures"])
    return {"metadata": _metadata(node), "spec": spec, "status": status}


def _claim(claim: dict[str, Any]) -> dict[str, Any]:
    keys = ["accessModes", "resources", "selector", "storageClassName", "volumeName", "volumeMode"]
    return {
        "metadata": _metadata(claim, "ownerReferences"),
        "spec": _keep(claim["spec"], keys),
        "status": _keep(claim.get("status", {}), ["phase"]),
    }


def _volume(volume: dict[str, Any]) -> dict[str, Any]:
    spec = {k: v for k, v in volume["spec"].items() if k not in ("persistentVolumeReclaimPolicy",)}
    spec["claimRef"] = _keep(spec.get("claimRef") or {}, ["namespace", "name", "uid"])
    spec = {k: v for k, v in spec.items() if v not in (None, {}, [], "")}
    return {
        "metadata": _metadata(volume),
        "spec": spec,
        "status": _keep(volume.get("status", {}), ["phase"]),
    }


def _storage_class(item: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": _metadata(item)} | _keep(item, ["provisioner", "volumeBindingMode", "allowedTopologies"])


def strip(document: dict[str, Any]) -> dict[str, Any]:
    """The same question in as few bytes as readable JSON allows. The uid of a pod becomes "namespace/name"."""
    kept = _keep(document, ["name", "mode", "featureGates", "nodeOrder", "placements"])
    kept["nodes"] = [_node(n) for n in document["nodes"]]
    kept["pods"] = [_pod(p, "Running") for p in document.get("pods") or []]
    kept["pending"] = [_pod(p, "Pending") for p in document.get("pending") or []]
    kept["namespaces"] = [{"metadata": _metadata(n)} for n in document.get("namespaces") or []]
    kept["pvcs"] = [_claim(c) for c in document.get("pvcs") or []]
    kept["pvs"] = [_volume(v) for v in document.get("pvs") or []]
    kept["storageClasses"] = [_storage_class(c) for c in document.get("storageClasses") or []]
    kept["csiNodes"] = [{"metadata": _metadata(n), "spec": n["spec"]} for n in document.get("csiNodes") or []]
    kept["csiDrivers"] = [{"metadata": _metadata(n), "spec": n["spec"]} for n in document.get("csiDrivers") or []]
    return {k: v for k, v in kept.items() if v != [] or k in ("nodes", "pending")}
