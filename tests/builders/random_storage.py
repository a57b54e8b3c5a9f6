"""Random volumes of pods, and the claims, volumes, classes and drivers behind them, as plain JSON dicts."""

from collections.abc import Sequence
from random import Random
from typing import Any

Json = dict[str, Any]
_CLAIMS, _VOLUMES, _CLASSES = 6, 5, ("fast", "local", "wait", "old")
_ZONE, _OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
_PLUGINS = ("kubernetes.io/aws-ebs", "kubernetes.io/gce-pd", "kubernetes.io/cinder")


def claim_names() -> list[str]:
    """Return the names that claims may have, in any namespace; the last are those of ephemeral volumes."""
    return [f"claim{i}" for i in range(_CLAIMS)]


def volumes_of(random: Random, claims: list[str]) -> list[Json]:
    """Return the volumes of a pod."""
    kinds: list[Json] = [
        {"emptyDir": {}},
        {"emptyDir": {"medium": "Memory"}},
        {"hostPath": {"path": "/data"}},
        {"configMap": {"name": "c"}},
        {"persistentVolumeClaim": {"claimName": random.choice([*claims, "absent"])}},
        {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"awsElasticBlockStore": {"volumeID": random.choice(("vol-1", "aws://a/vol-1/", "aws://x"))}},
        {"gcePersistentDisk": {"pdName": "disk", "readOnly": random.random() < 0.5}},
        {"azureDisk": {"diskName": "d", "diskURI": random.choice(("", "/uri"))}},
        {"cinder": {"volumeID": "cinder-1"}},
        {"rbd": {"monitors": ["m1", "m2"], "image": "i", "readOnly": random.random() < 0.5}},
        {"iscsi": {"targetPortal": "t", "iqn": "iqn", "lun": 0, "readOnly": random.random() < 0.5}},
    ]
    names = ("data", "cache", "v2", "v3")
    return [{"name": name} | random.choice(kinds) for name in names[: random.randint(0, 4)]]


def storage_objects(random: Random, nodes: list[str], namespaces: Sequence[str], zones: Sequence[str]) -> list[Json]:
    """Return claims in some namespaces, volumes, classes, CSINodes, CSIDrivers and VolumeAttachments."""
    out = [
        _claim(random, name, namespace) for name in claim_names() for namespace in namespaces if random.random() < 0.6
    ]
    # Claims of ephemeral volumes have the name of the pod and of the volume.
    out += [_claim(random, f"p{i}-data", namespaces[0]) for i in range(4)]
    out += [_volume(random, f"pv{i}", zones) for i in range(_VOLUMES) if random.random() < 0.9]
    out += [_class(random, name, zones) for name in _CLASSES if random.random() < 0.9]
    out += [_csi_node(random, name) for name in nodes if random.random() < 0.8]
    out += [_csi_driver(random, name) for name in ("ebs.csi.aws.com", "csi.example.com", "pd.csi.storage.gke.io")]
    return out + [_attachment(random, f"va{i}", nodes) for i in range(random.randint(0, 8))]


def _claim(random: Random, name: str, namespace: str) -> Json:
    annotations: Json = {}
    if random.random() < 0.8:
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
    if random.random() < 0.2:
        annotations["volume.kubernetes.io/selected-node"] = "n1"
    if random.random() < 0.1:
        annotations["volume.beta.kubernetes.io/storage-class"] = "old"
    spec: Json = {"resources": {"requests": {"storage": random.choice(("1Gi", "10Gi", "1500M"))}}}
    spec |= {"accessModes": random.choice((["ReadWriteOnce"], ["ReadWriteOncePod"], ["ReadOnlyMany", "ReadWriteOnce"]))}
    if random.random() < 0.6:
        spec["volumeName"] = f"pv{random.randrange(_VOLUMES)}"
    if random.random() < 0.8:
        spec["storageClassName"] = random.choice((*_CLASSES, "absent", ""))
    if random.random() < 0.2:
        spec["volumeMode"] = random.choice(("Block", "Filesystem"))
    if random.random() < 0.2:
        spec["selector"] = {"matchLabels": {"disk": "ssd"}}
    if random.random() < 0.1:
        spec["volumeAttributesClassName"] = "gold"
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "p0",
        "uid": f"uid-p{random.randrange(3)}-default",
        "controller": True,
    }
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}-{namespace}", "annotations": annotations}
    if random.random() < 0.5:
        meta["ownerReferences"] = [owner]
    if random.random() < 0.05:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta,
        "spec": spec,
        "status": {"phase": random.choice(("Bound", "Pending", "Lost", "Bound"))},
    }


def _volume(random: Random, name: str, zones: Sequence[str]) -> Json:
    source: Json = random.choice(
        (
            {"csi": {"driver": "csi.example.com", "volumeHandle": f"h-{name}"}},
            {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-9"}},
            {"awsElasticBlockStore": {"volumeID": random.choice(("aws://a/vol-1", "vol-2", "aws://broken"))}},
            {"gcePersistentDisk": {"pdName": "pd"}},
            {"azureDisk": {"diskName": "d", "diskURI": "/uri"}},
            {"cinder": {"volumeID": "c"}},
            {"nfs": {"server": "s", "path": "/"}},
        )
    )
    key = random.choice((_ZONE, _OLD_ZONE, "kubernetes.io/hostname"))
    terms: list[Json] = [{"matchExpressions": [{"key": key, "operator": "In", "values": [random.choice(zones)]}]}]
    if random.random() < 0.2:
        terms.append({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]})
    if random.random() < 0.2:
        terms.append({})
    labels: Json = {"disk": random.choice(("ssd", "hdd"))}
    for label in (_ZONE, _OLD_ZONE, "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"):
        if random.random() < 0.3:
            labels[label] = random.choice(("a", "b__a", "us-east-a__us-east-b", " a __ b", "a__"))
    spec: Json = {
        **source,
        "capacity": {"storage": random.choice(("1Gi", "20Gi"))},
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "storageClassName": random.choice(_CLASSES),
    }
    if random.random() < 0.6:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if random.random() < 0.3:
        spec["claimRef"] = {"namespace": "default", "name": "claim1", "uid": random.choice(("", "uid-claim1-default"))}
    if random.random() < 0.2:
        spec["volumeMode"] = "Block"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"phase": random.choice(("Available", "Available", "Bound"))},
    }


def _class(random: Random, name: str, zones: Sequence[str]) -> Json:
    out: Json = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": random.choice(
            (
                "ebs.csi.aws.com",
                "kubernetes.io/no-provisioner",
                *_PLUGINS,
                "kubernetes.io/azure-file",
                "csi.example.com",
            )
        ),
        "volumeBindingMode": random.choice(("WaitForFirstConsumer", "WaitForFirstConsumer", "Immediate")),
    }
    if random.random() < 0.4:
        key = random.choice((_ZONE, "topology.ebs.csi.aws.com/zone"))
        out["allowedTopologies"] = [
            {"matchLabelExpressions": [{"key": key, "values": random.sample(list(zones), random.randint(1, 2))}]}
        ]
    return out


def _csi_node(random: Random, name: str) -> Json:
    drivers: list[Json] = [
        {"name": driver, "nodeID": name}
        | ({"allocatable": {"count": random.randint(0, 30)}} if random.random() < 0.7 else {})
        for driver in ("pd.csi.storage.gke.io", "ebs.csi.aws.com", "csi.example.com")
        if random.random() < 0.6
    ]
    meta: Json = {"name": name}
    if random.random() < 0.6:
        plugins = ",".join(random.sample(_PLUGINS, random.randint(1, 3)))
        meta["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": plugins}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": meta, "spec": {"drivers": drivers}}


def _csi_driver(random: Random, name: str) -> Json:
    spec = {"preventPodSchedulingIfMissing": True} if random.random() < 0.3 else {}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name}, "spec": spec}


def _attachment(random: Random, name: str, nodes: list[str]) -> Json:
    """Build an attachment: often of a volume that a pod mounts, sometimes of one without a driver, or of none."""
    volume = random.choice([*(f"pv{i}" for i in range(_VOLUMES)), "absent"])
    spec: Json = {
        "attacher": random.choice(("csi.example.com", "csi.example.com", "ebs.csi.aws.com")),
        "nodeName": random.choice([*nodes, "gone"]),
        "source": {"persistentVolumeName": volume} if random.random() < 0.9 else {"inlineVolumeSpec": {}},
    }
    meta: Json = {"name": name}
    if random.random() < 0.2:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": meta, "spec": spec}
