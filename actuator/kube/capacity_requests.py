"""ProvisioningRequests of a live cluster: read, and their conditions applied.

Decides the API version: the newest of those listed that the server serves. Never decides the content of conditions.
A write names the object's uid and version: it fails if the object was changed, or replaced, since it was read. It is
forced: the conditions of the classes that are answered belong to their answerer, also those that another controller,
since switched off, has left. Source: kubernetes/autoscaler, cluster-autoscaler/apis, autoscaling.x-k8s.io; Kubernetes,
server-side apply.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from trimtab.actuator.kube.api import Call, KubeApi
from trimtab.actuator.kube.cluster import KnownCapacityRequest, NotServedError
from trimtab.actuator.kube.group_costs import APPLY_PATCH
from trimtab.clients.kubernetes.registry import BY_KIND

REQUEST: Final = BY_KIND["ProvisioningRequest"]
FIELD_MANAGER: Final = "trimtab-capacity-requests"


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
        self._api, self._timeout_s = api, timeout_s
        self._served = REQUEST

    def read_all(self) -> Sequence[KnownCapacityRequest]:
        """Return all, sorted; remember the version. Raises `NotServedError` where the server serves none."""
        for version in REQUEST.by_version:
            call = Call("GET", version.path, timeout_s=self._timeout_s)
            try:
                found = list(map(_known, self._api.objects(call, StoredCapacityRequest)))
            except NotServedError as error:
                unknown = error
                continue
            self._served = version
            return sorted(found, key=lambda one: (one.namespace, one.name))
        raise unknown

    def write_conditions(self, one: KnownCapacityRequest, conditions: Sequence[Mapping[str, Any]]) -> None:
        """Apply all conditions of a request."""
        metadata = {
            "name": one.name,
            "namespace": one.namespace,
            "uid": one.uid,
            "resourceVersion": one.resource_version,
        }
        body = self._served.type_meta | {"metadata": metadata, "status": {"conditions": [dict(c) for c in conditions]}}
        path = self._served.path_in(one.namespace, one.name, "status")
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        self._api.call(Call("PATCH", path, query, body=body, content_type=APPLY_PATCH))


def _known(stored: StoredCapacityRequest) -> KnownCapacityRequest:
    meta, status = stored.metadata, stored.status or {}
    conditions = status.get("conditions")
    return KnownCapacityRequest(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.generation,
        meta.resource_version,
        tuple(one for one in conditions if isinstance(one, dict)) if isinstance(conditions, list) else (),
    )
