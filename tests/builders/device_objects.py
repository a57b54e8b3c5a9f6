"""Objects of dynamic resource allocation in JSON: slices, classes, templates, claims, and pods that claim."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.builders import kubernetes as k8s

Json = dict[str, Any]
VERSION = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"


def device_class(name: str = "gpu", *expressions: str, extended: str = "", created: str = "") -> Json:
    """Return a class of devices."""
    spec: Json = {"selectors": [{"cel": {"expression": one}} for one in expressions]}
    spec |= {"extendedResourceName": extended} if extended else {}
    return _object("DeviceClass", name, spec=spec, created=created)


def device(name: str, **more: Any) -> Json:
    """Return a device; attributes are plain values, and capacities quantities."""
    attributes = {key: _attribute(value) for key, value in more.pop("attributes", {}).items()}
    capacity = {key: {"value": value} for key, value in more.pop("capacities", {}).items()}
    out: Json = {"name": name, **more}
    out |= {"attributes": attributes} if attributes else {}
    return out | ({"capacity": capacity} if capacity else {})


def resource_slice(
    name: str, devices: Sequence[Json] = (), *, node: str = "", pool: str = "", count: int = 1, **spec: Any
) -> Json:
    """Return a slice; its pool is that of the node if no other is given."""
    placed = {"nodeName": node} if node else {}
    pooled = {"name": pool or node, "generation": 1, "resourceSliceCount": count}
    return _object(
        "ResourceSlice", name, spec={"driver": DRIVER, "pool": pooled, **placed, "devices": list(devices), **spec}
    )


def gpus(node: str, count: int = 2) -> Json:
    """Return the slice of a node with equal devices, but for their uuid."""
    attributes = [{"model": "A100", "uuid": f"{node}-{at}"} for at in range(count)]
    devices = [device(f"gpu-{at}", attributes=own, capacities={"memory": "40Gi"}) for at, own in enumerate(attributes)]
    return resource_slice(f"{node}-{DRIVER}", devices, node=node)


def claim_spec(*requests: Json, constraints: Sequence[Json] = ()) -> Json:
    """Return what a claim asks for; one device of the class "gpu" without requests."""
    devices: Json = {"requests": list(requests or (request(),))}
    return {"devices": devices | ({"constraints": list(constraints)} if constraints else {})}


def request(name: str = "main", of_class: str = "gpu", **exactly: Any) -> Json:
    """Return a request of one kind of devices."""
    return {"name": name, "exactly": {"deviceClassName": of_class, **exactly}}


def claim_template(name: str = "one-gpu", spec: Json | None = None, namespace: str = "default") -> Json:
    """Return a template of claims."""
    return _object("ResourceClaimTemplate", name, namespace, spec={"spec": spec or claim_spec()})


def resource_claim(
    name: str,
    spec: Json | None = None,
    *,
    of: Json | None = None,
    entry: str = "",
    devices: Sequence[str] = (),
    node: str = "",
    users: Sequence[str] = (),
    **metadata: Any,
) -> Json:
    """Return a claim. of : the pod for which it was made; entry : its name there; devices : what it was given, as
    "pool/device"; users : names of pods for which it is reserved.
    """
    meta = dict(metadata)
    if of is not None:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": of["metadata"]["name"], "uid": of["metadata"]["uid"]}
        meta["ownerReferences"] = [{**owner, "controller": True}]
        if entry:
            meta["annotations"] = {"resource.kubernetes.io/pod-claim-name": entry}
    out = _object("ResourceClaim", name, "default", spec=spec or claim_spec())
    out["metadata"] |= meta
    status: Json = {"reservedFor": [{"resource": "pods", "name": user, "uid": f"uid-{user}"} for user in users]}
    if devices:
        results = [
            {"request": "main", "driver": DRIVER, "pool": one.partition("/")[0], "device": one.partition("/")[2]}
            for one in devices
        ]
        status["allocation"] = {"devices": {"results": results}}
        if node:
            field = {"key": "metadata.name", "operator": "In", "values": [node]}
            status["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return out | {"status": status}


def taint_rule(name: str, key: str = "broken", **selector: str) -> Json:
    """Return a rule that taints devices."""
    return _object(
        "DeviceTaintRule", name, spec={"deviceSelector": selector, "taint": {"key": key, "effect": "NoExecute"}}
    )


def claiming_pod(
    name: str,
    *,
    templates: Mapping[str, str] | None = None,
    claims: Mapping[str, str] | None = None,
    made: Mapping[str, str] | None = None,
    **more: Any,
) -> Json:
    """Return a pod. templates, claims : names of objects by name within the pod; made : names of the claims that were
    made from templates, likewise.
    """
    entries = [{"name": key, "resourceClaimTemplateName": value} for key, value in (templates or {}).items()]
    entries += [{"name": key, "resourceClaimName": value} for key, value in (claims or {}).items()]
    spec = {**more.pop("spec", {}), "resourceClaims": entries}
    out = k8s.pod(name, spec=spec, **more)
    if made:
        statuses = [{"name": key, "resourceClaimName": value} for key, value in made.items()]
        out["status"]["resourceClaimStatuses"] = statuses
    return out


def _attribute(value: Any) -> Json:
    if isinstance(value, dict):
        return value
    return {{bool: "bool", int: "int", str: "string"}[type(value)]: value}


def _object(kind: str, name: str, namespace: str = "", *, spec: Json, created: str = "") -> Json:
    meta: Json = {"name": name} | ({"namespace": namespace} if namespace else {})
    meta |= {"creationTimestamp": created} if created else {}
    return {"apiVersion": VERSION, "kind": kind, "metadata": meta, "spec": spec}
