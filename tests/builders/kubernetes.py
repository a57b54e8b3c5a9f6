"""Kubernetes objects as plain JSON dicts, as `kubectl get -o json` prints them.

Every builder takes the varying parts as keywords; everything else goes into `spec`, `status` and `metadata`, dicts that
are merged into the built object last and win. Uids derive from kind and name, so they are stable.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Json = dict[str, Any]

CREATED = "2026-01-01T00:00:00Z"


def node(
    name: str = "n1",
    cpu: str | None = "4",
    memory: str | None = "16Gi",
    pods: str | None = "110",
    *,
    labels: Mapping[str, str] | None = None,
    zone: str = "",
    taints: Sequence[str | Json] = (),
    unschedulable: bool = False,
    ready: bool = True,
    annotations: Mapping[str, str] | None = None,
    extra: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
    created: str = CREATED,
    provider_id: str | None = None,
    **over: Json,
) -> Json:
    """Build a Node. `extra` are further allocatable resources; taints are dicts or "key=value:Effect" strings."""
    allocatable = {k: v for k, v in {"cpu": cpu, "memory": memory, "pods": pods}.items() if v is not None}
    allocatable |= extra or {}
    all_labels = {"kubernetes.io/hostname": name} | ({"topology.kubernetes.io/zone": zone} if zone else {})
    spec: Json = {"providerID": provider_id if provider_id is not None else f"test://{name}"}
    if taints:
        spec["taints"] = [taint(t) if isinstance(t, str) else t for t in taints]
    if unschedulable:
        spec["unschedulable"] = True
    status = {
        "allocatable": allocatable,
        "capacity": dict(capacity or allocatable),
        "conditions": [{"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": created}],
    }
    metadata = {"labels": all_labels | dict(labels or {}), "creationTimestamp": created}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return _object("v1", "Node", name, None, {"metadata": metadata, "spec": spec, "status": status}, over)


def pod(
    name: str = "p1",
    cpu: str | None = "100m",
    memory: str | None = "64Mi",
    *,
    namespace: str = "default",
    node: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: Json | None = None,
    tolerations: Sequence[Json] = (),
    node_selector: Mapping[str, str] | None = None,
    affinity: Json | None = None,
    spread: Sequence[Json] = (),
    host_ports: Sequence[int | Json] = (),
    volumes: Sequence[Json] = (),
    claims: Sequence[str] = (),
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    containers: Sequence[Json] | None = None,
    init_containers: Sequence[Json] = (),
    phase: str | None = None,
    ready: bool | None = None,
    created: str = CREATED,
    deletion: str | None = None,
    priority: int | None = None,
    grace: int | None = None,
    **over: Json,
) -> Json:
    """Build a Pod: one container with `cpu`, `memory` and `requests`; running and ready when it has a node."""
    wanted = {k: v for k, v in {"cpu": cpu, "memory": memory}.items() if v is not None} | dict(requests or {})
    resources: Json = {"requests": wanted} if wanted else {}
    if limits:
        resources["limits"] = dict(limits)
    container: Json = {"name": "main", "resources": resources}
    if host_ports:
        container["ports"] = [
            {"containerPort": p, "hostPort": p, "protocol": "TCP"} if isinstance(p, int) else p for p in host_ports
        ]
    claim_volumes = [{"name": f"v-{c}", "persistentVolumeClaim": {"claimName": c}} for c in claims]
    optional = {
        "nodeName": node,
        "initContainers": list(init_containers),
        "tolerations": list(tolerations),
        "nodeSelector": dict(node_selector or {}),
        "affinity": affinity,
        "topologySpreadConstraints": list(spread),
        "volumes": [*volumes, *claim_volumes],
        "priority": priority,
        "terminationGracePeriodSeconds": grace,
    }
    spec: Json = {"containers": [container] if containers is None else list(containers)}
    spec |= {k: v for k, v in optional.items() if v not in (None, "", [], {})}
    metadata: Json = {"namespace": namespace, "creationTimestamp": created}
    about = {"labels": labels and dict(labels), "annotations": annotations and dict(annotations)}
    about |= {"deletionTimestamp": deletion, "ownerReferences": owner and [owner_of(owner)]}
    metadata |= {k: v for k, v in about.items() if v}
    is_ready = bool(node) if ready is None else ready
    status: Json = {"phase": phase or ("Running" if node else "Pending")}
    status["conditions"] = [{"type": "Ready", "status": "True" if is_ready else "False"}]
    if not node:
        status["conditions"].append({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"})
    return _object("v1", "Pod", name, namespace, {"metadata": metadata, "spec": spec, "status": status}, over)


def pods_of(owner: Json, count: int, **pod_arguments: Any) -> list[Json]:
    """Build `count` pods NAME-0, NAME-1, … controlled by `owner`, in its namespace and with its selector's labels."""
    meta = owner["metadata"]
    labels = owner.get("spec", {}).get("selector", {})
    labels = labels.get("matchLabels", {}) if "matchLabels" in labels else {}
    arguments = {"namespace": meta["namespace"], "labels": labels, "owner": owner} | pod_arguments
    return [pod(f"{meta['name']}-{i}", **arguments) for i in range(count)]


def owner_of(obj: Json) -> Json:
    """Build the controller ownerReference to an object; an ownerReference is returned as it is."""
    if "metadata" not in obj:
        return obj
    meta = obj["metadata"]
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }


def deployment(name: str = "web", replicas: int | None = 1, *, namespace: str = "default", **over: Json) -> Json:
    """Build a Deployment."""
    return _replicated("apps/v1", "Deployment", name, replicas, namespace, over)


def replica_set(
    name: str = "web",
    replicas: int | None = 1,
    *,
    namespace: str = "default",
    current: int | None = None,
    owner: Json | None = None,
    **over: Json,
) -> Json:
    """Build a ReplicaSet; `current` is `status.replicas`, by default as many as wanted."""
    built = _replicated("apps/v1", "ReplicaSet", name, replicas, namespace, over, current)
    if owner:
        built["metadata"]["ownerReferences"] = [owner_of(owner)]
    return built


def stateful_set(
    name: str = "db", replicas: int | None = 1, *, namespace: str = "default", current: int | None = None, **over: Json
) -> Json:
    """Build a StatefulSet."""
    return _replicated("apps/v1", "StatefulSet", name, replicas, namespace, over, current)


def replication_controller(
    name: str = "rc", replicas: int | None = 1, *, namespace: str = "default", current: int | None = None, **over: Json
) -> Json:
    """Build a ReplicationController; its selector is a plain map."""
    built = _replicated("v1", "ReplicationController", name, replicas, namespace, over, current)
    built["spec"]["selector"] = {"app": name}
    return built


def job(
    name: str = "batch",
    parallelism: int | None = 1,
    *,
    namespace: str = "default",
    active: int | None = None,
    **over: Json,
) -> Json:
    """Build a Job."""
    spec = {} if parallelism is None else {"parallelism": parallelism}
    status = {} if active is None else {"active": active}
    body = {"metadata": {"namespace": namespace}, "spec": spec, "status": status}
    return _object("batch/v1", "Job", name, namespace, body, over)


def daemon_set(
    name: str = "agent", *, namespace: str = "kube-system", template: Json | None = None, **over: Json
) -> Json:
    """Build a DaemonSet. template : arguments of `pod` for its pod template, None = it has none."""
    built = _replicated("apps/v1", "DaemonSet", name, None, namespace, over)
    if template is not None:
        one = pod(name, labels={"app": name}, **template)
        built["spec"]["template"] = {"metadata": {"labels": one["metadata"]["labels"]}, "spec": one["spec"]}
    return built


def pdb(
    name: str = "budget",
    allowed: int = 1,
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    selector: Json | None = None,
    healthy: int = 3,
    desired: int = 2,
    expected: int = 3,
    min_available: int | str | None = None,
    max_unavailable: int | str | None = None,
    **over: Json,
) -> Json:
    """Build a PodDisruptionBudget over the pods with `labels`, observed, with `allowed` disruptions left."""
    spec: Json = {"selector": selector if selector is not None else {"matchLabels": dict(labels or {"app": "web"})}}
    spec |= {k: v for k, v in {"minAvailable": min_available, "maxUnavailable": max_unavailable}.items() if v}
    status = {
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "observedGeneration": 1,
    }
    body = {"metadata": {"namespace": namespace, "generation": 1}, "spec": spec, "status": status}
    return _object("policy/v1", "PodDisruptionBudget", name, namespace, body, over)


def namespace(name: str = "default", labels: Mapping[str, str] | None = None) -> Json:
    """Build a Namespace, with the name label the API server adds."""
    all_labels = {"kubernetes.io/metadata.name": name} | dict(labels or {})
    return _object("v1", "Namespace", name, None, {"metadata": {"labels": all_labels}}, {})


def persistent_volume_claim(
    name: str = "data",
    *,
    namespace: str = "default",
    volume: str = "",
    storage_class: str | None = None,
    access_modes: Sequence[str] = ("ReadWriteOnce",),
    phase: str | None = None,
    **over: Json,
) -> Json:
    """Build a claim, bound when `volume` is given."""
    spec: Json = {"accessModes": list(access_modes)}
    spec |= {
        k: v for k, v in {"volumeName": volume or None, "storageClassName": storage_class}.items() if v is not None
    }
    metadata: Json = {"namespace": namespace}
    if volume:
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    body = {"metadata": metadata, "spec": spec, "status": {"phase": phase or ("Bound" if volume else "Pending")}}
    return _object("v1", "PersistentVolumeClaim", name, namespace, body, over)


def persistent_volume(
    name: str = "pv1",
    *,
    driver: str | None = "ebs.csi.aws.com",
    handle: str = "",
    affinity: Sequence[Json] | None = None,
    labels: Mapping[str, str] | None = None,
    source: Json | None = None,
    **over: Json,
) -> Json:
    """Build a volume of a CSI driver (or `source`); `affinity` are node selector terms."""
    spec: Json = dict(source or {})
    if driver and not source:
        spec["csi"] = {"driver": driver, "volumeHandle": handle or f"vol-{name}"}
    if affinity is not None:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": list(affinity)}}
    body = {"metadata": {"labels": dict(labels or {})}, "spec": spec, "status": {"phase": "Bound"}}
    return _object("v1", "PersistentVolume", name, None, body, over)


def storage_class(
    name: str = "standard",
    provisioner: str = "ebs.csi.aws.com",
    *,
    wait: bool = True,
    topologies: Sequence[Json] = (),
) -> Json:
    """Build a StorageClass; `wait` chooses WaitForFirstConsumer."""
    body: Json = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer" if wait else "Immediate"}
    if topologies:
        body["allowedTopologies"] = list(topologies)
    return _object("storage.k8s.io/v1", "StorageClass", name, None, body, {})


def csi_node(name: str = "n1", limits: Mapping[str, int | None] | None = None, *, migrated: Sequence[str] = ()) -> Json:
    """Build a CSINode with attach limits by driver, None = driver without a limit; `migrated` are in-tree plugins."""
    drivers = [
        {"name": d, "nodeID": name} | ({} if count is None else {"allocatable": {"count": count}})
        for d, count in (limits or {}).items()
    ]
    body: Json = {"spec": {"drivers": drivers}}
    if migrated:
        body["metadata"] = {"annotations": {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(migrated)}}
    return _object("storage.k8s.io/v1", "CSINode", name, None, body, {})


def volume_attachment(name: str, node: str, volume: str | None, attacher: str = "ebs.csi.aws.com") -> Json:
    """Build a VolumeAttachment; `volume` : name of the PersistentVolume, None = a volume written in a pod."""
    source = {"inlineVolumeSpec": {}} if volume is None else {"persistentVolumeName": volume}
    spec = {"attacher": attacher, "nodeName": node, "source": source}
    return _object("storage.k8s.io/v1", "VolumeAttachment", name, None, {"spec": spec}, {})


def csi_driver(name: str = "ebs.csi.aws.com", *, required: bool | None = True) -> Json:
    """Build a CSIDriver; `required` : no pod with its volumes is scheduled on a node without it."""
    spec = {} if required is None else {"preventPodSchedulingIfMissing": required}
    return _object("storage.k8s.io/v1", "CSIDriver", name, None, {"spec": spec}, {})


def node_group(
    name: str = "g1",
    min_size: int = 0,
    max_size: int = 10,
    *,
    target: int | None = None,
    nodes: Sequence[str] | None = None,
    selector: Mapping[str, str] | None = None,
    price: float | None = None,
    template: Json | None = None,
    zero_or_max: bool | None = None,
    status: Json | None = None,
) -> Json:
    """Build our NodeGroup; `template` is a node as `node(...)` builds it, `status` times such as lastScaleUpTime."""
    spec: Json = {"minSize": min_size, "maxSize": max_size}
    optional = {
        "targetSize": target,
        "nodes": list(nodes) if nodes is not None else None,
        "nodeSelector": dict(selector) if selector else None,
        "price": price,
        "zeroOrMax": zero_or_max,
    }
    spec |= {k: v for k, v in optional.items() if v is not None}
    if template is not None:
        spec["template"] = {
            "metadata": {"labels": template["metadata"]["labels"]},
            "spec": {"taints": template["spec"].get("taints", [])},
            "status": {k: template["status"][k] for k in ("allocatable", "capacity")},
        }
    return _object(
        "trimtab.dev/v1", "NodeGroup", name, None, {"spec": spec} | ({"status": status} if status else {}), {}
    )


def taint(text: str) -> Json:
    """Build a taint from "key=value:Effect" or "key:Effect"."""
    pair, effect = text.rsplit(":", 1)
    key, _, value = pair.partition("=")
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


def toleration(key: str = "", value: str | None = None, effect: str = "", operator: str | None = None) -> Json:
    """Build a toleration: Equal when a value is given, Exists otherwise."""
    built: Json = {"operator": operator or ("Exists" if value is None else "Equal")}
    return built | {k: v for k, v in {"key": key, "value": value, "effect": effect}.items() if v}


def labelled(*requirements: tuple[str, str, Sequence[str]] | tuple[str, str], **labels: str) -> Json:
    """Build a label selector from (key, operator, values) tuples and matchLabels."""
    built: Json = {}
    if labels:
        built["matchLabels"] = labels
    if requirements:
        built["matchExpressions"] = [_requirement(*r) for r in requirements]
    return built


def node_affinity(*terms: Iterable[tuple[str, str, Sequence[str]] | tuple[str, str]]) -> Json:
    """Build required node affinity from terms of (key, operator, values); key "metadata.name" is a field."""
    built = []
    for term in terms:
        parts: Json = {}
        for requirement in term:
            where = "matchFields" if requirement[0] == "metadata.name" else "matchExpressions"
            parts.setdefault(where, []).append(_requirement(*requirement))
        built.append(parts)
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": built}}}


def pod_affinity(*selectors: Json | None, topology_key: str = "kubernetes.io/hostname", **more: Any) -> Json:
    """Build required pod affinity with one term per selector; `more` goes into every term."""
    return {"podAffinity": _pod_terms(selectors, topology_key, more)}


def anti_affinity(*selectors: Json | None, topology_key: str = "kubernetes.io/hostname", **more: Any) -> Json:
    """Build required pod anti-affinity with one term per selector; `more` goes into every term."""
    return {"podAntiAffinity": _pod_terms(selectors, topology_key, more)}


def spread(
    selector: Json | None = None,
    max_skew: int = 1,
    topology_key: str = "topology.kubernetes.io/zone",
    when: str = "DoNotSchedule",
    **more: Any,
) -> Json:
    """Build a topology spread constraint."""
    built: Json = {"maxSkew": max_skew, "topologyKey": topology_key, "whenUnsatisfiable": when}
    return built | ({"labelSelector": selector} if selector is not None else {}) | more


def listed(*objects: Json) -> Json:
    """Build the `List` that `kubectl get -o json` prints."""
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def snapshot_of(*objects: Json | Sequence[Json], numbers: Sequence[str] = (), actuation: Any = None) -> Any:
    """Build the `ClusterSnapshot` of these objects (lists are flattened); annotations `numbers` hold numbers;
    actuation : an `ActuationStatus`, None = none.
    """
    from trimtab.common.objects import build_snapshot, decode_objects

    flat: list[Json] = []
    for obj in objects:
        flat.extend([obj] if isinstance(obj, dict) else obj)
    snapshot = build_snapshot(decode_objects(flat, numbers)).snapshot
    if actuation is not None:
        snapshot.actuation_status.CopyFrom(actuation)
    return snapshot


def _pod_terms(selectors: Sequence[Json | None], topology_key: str, more: Mapping[str, Any]) -> Json:
    terms = [
        {"topologyKey": topology_key} | ({} if s is None else {"labelSelector": s}) | dict(more) for s in selectors
    ]
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def _requirement(key: str, operator: str, values: Sequence[str] = ()) -> Json:
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def _replicated(
    api_version: str,
    kind: str,
    name: str,
    replicas: int | None,
    namespace: str,
    over: Mapping[str, Json],
    current: int | None = None,
) -> Json:
    spec: Json = {"selector": {"matchLabels": {"app": name}}}
    if replicas is not None:
        spec["replicas"] = replicas
    have = current if current is not None else replicas
    status = {} if have is None else {"replicas": have}
    body = {"metadata": {"namespace": namespace}, "spec": spec, "status": status}
    return _object(api_version, kind, name, namespace, body, over)


def _object(
    api_version: str, kind: str, name: str, namespace: str | None, body: Mapping[str, Any], over: Mapping[str, Json]
) -> Json:
    uid = f"{kind}-{namespace}-{name}".lower() if namespace else f"{kind}-{name}".lower()
    built: Json = {"apiVersion": api_version, "kind": kind} | dict(body)
    built["metadata"] = {"name": name, "uid": uid} | dict(body.get("metadata", {}))
    for part, values in over.items():
        built[part] = built.get(part, {}) | values
    return built
