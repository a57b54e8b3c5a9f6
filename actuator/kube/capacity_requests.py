"""ProvisioningRequests of a live cluster: read, and their conditions applied. Never decides the content of conditions.

A write names the object's uid and version: it fails if the object was changed, or replaced, since it was read. It is
forced: the conditions of the classes that are answered belong to their answerer, also those that another controller,
since switched off, has left. Source: kubernetes/autoscaler, cluster-autoscaler/apis, autoscaling.x-k8s.io.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from trimtab.actuator.kube.api import KubeApi
from trimtab.actuator.kube.cluster import KnownCapacityRequest, conditions_in
from trimtab.actuator.kube.served_kind import ServedKind
from trimtab.common.kubernetes.registry import BY_KIND

_APPLIED: Final = {"fieldManager": "trimtab-capacity-requests", "force": "true"}


class StoredRequestMeta(Struct, rename="camel", kw_only=True):
    """`metadata` of a ProvisioningRequest."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""


class StoredCapacityRequest(Struct, kw_only=True):
    """A ProvisioningRequest with its whole status, which is compared with the one to write."""

    metadata: StoredRequestMeta
    status: dict[str, Any] | None = None


class ProvisioningRequests:
    """The ProvisioningRequests behind an API server."""

    def __init__(self, api: KubeApi, timeout_s: float) -> None:
        self._objects = ServedKind(api, BY_KIND["ProvisioningRequest"], StoredCapacityRequest, timeout_s)

    def read_all(self) -> Sequence[KnownCapacityRequest]:
        """Return all, sorted. Raises `NotServedError` where the server serves none."""
        return sorted(map(_known, self._objects.read_all()), key=lambda one: (one.namespace, one.name))

    def write_conditions(self, one: KnownCapacityRequest, conditions: Sequence[Mapping[str, Any]]) -> None:
        """Apply all conditions of a request."""
        metadata = {
            "name": one.name,
            "namespace": one.namespace,
            "uid": one.uid,
            "resourceVersion": one.resource_version,
        }
        self._objects.apply_status(metadata, {"conditions": [dict(c) for c in conditions]}, _APPLIED)


def _known(stored: StoredCapacityRequest) -> KnownCapacityRequest:
    meta = stored.metadata
    return KnownCapacityRequest(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.generation,
        meta.resource_version,
        tuple(conditions_in(stored.status or {})),
    )
