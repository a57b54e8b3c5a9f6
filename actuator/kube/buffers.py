"""CapacityBuffers of a live cluster: read, and their status applied.

Decides the API version: the newest of those listed that the server serves. Never decides the content of the status.
Source: kubernetes/autoscaler, cluster-autoscaler/apis, autoscaling.x-k8s.io; Kubernetes, server-side apply.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from trimtab.actuator.kube.api import Api, Call
from trimtab.actuator.kube.cluster import ClusterError, KnownBuffer, NotServedError
from trimtab.actuator.kube.group_costs import APPLY_PATCH
from trimtab.actuator.kube.objects import ListMetadata
from trimtab.clients.kubernetes.names import object_path

GROUP: Final = "autoscaling.x-k8s.io"
VERSIONS: Final = ("v1beta1", "v1", "v1alpha1")
FIELD_MANAGER: Final = "trimtab-capacity-buffers"


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    generation: int = 0


class _Reference(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    pod_template_ref: _Reference | None = None
    provisioning_strategy: str | None = None


class _Object(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: dict[str, Any] = {}


class _List(msgspec.Struct):
    metadata: ListMetadata = msgspec.field(default_factory=ListMetadata)
    items: list[_Object] | None = None


class Buffers:
    """The CapacityBuffers behind an API server."""

    def __init__(self, api: Api, timeout_s: float) -> None:
        self._api, self._timeout_s = api, timeout_s
        self._version = VERSIONS[0]

    def read_all(self) -> Sequence[KnownBuffer]:
        """Return all, sorted; remember the version. Raises `NotServedError` where the server serves none."""
        for version in VERSIONS:
            try:
                found = self._listed(version)
            except NotServedError as error:
                unknown = error
                continue
            self._version = version
            return sorted(found, key=lambda one: (one.namespace, one.name))
        raise unknown

    def write_status(self, buffer: KnownBuffer, status: Mapping[str, Any]) -> None:
        """Apply the status. Not forced: fields that another controller owns stay as they are."""
        api_version = f"{GROUP}/{self._version}"
        metadata = {"name": buffer.name, "namespace": buffer.namespace}
        body = {"apiVersion": api_version, "kind": "CapacityBuffer", "metadata": metadata, "status": dict(status)}
        namespaces = f"/apis/{api_version}/namespaces"
        path = object_path(namespaces, buffer.namespace, "capacitybuffers", buffer.name, "status")
        self._api.call(Call("PATCH", path, {"fieldManager": FIELD_MANAGER}, body=body, content_type=APPLY_PATCH))

    def _listed(self, version: str) -> list[KnownBuffer]:
        call = Call("GET", f"/apis/{GROUP}/{version}/capacitybuffers", timeout_s=self._timeout_s)
        return [_known(item) for page in self._api.pages(call, _decoded) for item in page.items or ()]


def _known(item: _Object) -> KnownBuffer:
    meta, spec = item.metadata, item.spec
    template = spec.pod_template_ref.name if spec.pod_template_ref else ""
    strategy = spec.provisioning_strategy or ""
    return KnownBuffer(meta.namespace, meta.name, meta.generation, template, strategy, item.status)


def _decoded(answer: bytes) -> _List:
    try:
        return msgspec.json.decode(answer, type=_List)
    except msgspec.MsgspecError as error:
        raise ClusterError(f"the API server's answer is not a list of CapacityBuffers: {error}") from error
