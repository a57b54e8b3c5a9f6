"""CapacityBuffers of a live cluster: read, and their status applied.

Decides the API version: the newest of those listed that the server serves. Never decides the content of the status.
Source: kubernetes/autoscaler, cluster-autoscaler/apis, autoscaling.x-k8s.io; Kubernetes, server-side apply.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from trimtab.actuator.kube.api import Call, KubeApi
from trimtab.actuator.kube.cluster import KnownBuffer, NotServedError
from trimtab.actuator.kube.group_costs import APPLY_PATCH
from trimtab.clients.kubernetes.kinds.metadata import ObjectMeta
from trimtab.clients.kubernetes.kinds.policies import CapacityBufferRequest, CapacityBufferSpec
from trimtab.clients.kubernetes.registry import BY_KIND

BUFFER: Final = BY_KIND["CapacityBuffer"]
FIELD_MANAGER: Final = "trimtab-capacity-buffers"


class StoredBuffer(CapacityBufferRequest, kw_only=True):
    """A CapacityBuffer with its whole status, which is compared with the one to write."""

    metadata: ObjectMeta
    status: dict[str, Any] | None = None


class Buffers:
    """The CapacityBuffers behind an API server."""

    def __init__(self, api: KubeApi, timeout_s: float) -> None:
        self._api, self._timeout_s = api, timeout_s
        self._served = BUFFER

    def read_all(self) -> Sequence[KnownBuffer]:
        """Return all, sorted; remember the version. Raises `NotServedError` where the server serves none."""
        for version in BUFFER.by_version:
            call = Call("GET", version.path, timeout_s=self._timeout_s)
            try:
                buffers = list(map(_known, self._api.objects(call, StoredBuffer)))
            except NotServedError as error:
                unknown = error
                continue
            self._served = version
            return sorted(buffers, key=lambda buffer: (buffer.namespace, buffer.name))
        raise unknown

    def write_status(self, buffer: KnownBuffer, status: Mapping[str, Any]) -> None:
        """Apply the status. Not forced: fields that another controller owns stay as they are."""
        metadata = {"name": buffer.name, "namespace": buffer.namespace}
        body = self._served.type_meta | {"metadata": metadata, "status": dict(status)}
        path = self._served.path_in(buffer.namespace, buffer.name, "status")
        self._api.call(Call("PATCH", path, {"fieldManager": FIELD_MANAGER}, body=body, content_type=APPLY_PATCH))


def _known(stored: StoredBuffer) -> KnownBuffer:
    meta, spec = stored.metadata, stored.spec or CapacityBufferSpec()
    template = (spec.pod_template_ref and spec.pod_template_ref.name) or ""
    generation, strategy = meta.generation or 0, spec.provisioning_strategy or ""
    return KnownBuffer(meta.namespace or "", meta.name or "", generation, template, strategy, stored.status or {})
