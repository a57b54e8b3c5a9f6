"""ProvisioningRequests of the simulated cluster, as objects and as the actuator knows them. Never decides the content
of conditions. Source: kubernetes/autoscaler, cluster-autoscaler/apis, autoscaling.x-k8s.io.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from trimtab.actuator.kube.cluster import KnownCapacityRequest
from trimtab.common.kubernetes.object_files import Object

REQUEST: Final = "ProvisioningRequest"


def known_request(item: Object) -> KnownCapacityRequest:
    """Return a request as the actuator reads it."""
    metadata = item["metadata"]
    return KnownCapacityRequest(
        metadata.get("namespace") or "",
        metadata["name"],
        metadata.get("uid") or "",
        int(metadata.get("generation") or 0),
        metadata.get("resourceVersion") or "",
        tuple((item.get("status") or {}).get("conditions") or ()),
    )


def request_object(one: KnownCapacityRequest) -> Object:
    """Return the object of a request, without pods."""
    metadata = {
        "namespace": one.namespace,
        "name": one.name,
        "uid": one.uid,
        "generation": one.generation,
        "resourceVersion": one.resource_version,
    }
    status = {"conditions": [dict(each) for each in one.conditions]}
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": REQUEST,
        "metadata": metadata,
        "spec": {},
        "status": status,
    }


def with_conditions(item: Object, conditions: Sequence[Mapping[str, Any]]) -> Object:
    """Return a request with all its conditions replaced, in its next version."""
    version = str(int(item["metadata"].get("resourceVersion") or "0") + 1)
    status = {**(item.get("status") or {}), "conditions": [dict(one) for one in conditions]}
    return {**item, "metadata": {**item["metadata"], "resourceVersion": version}, "status": status}
