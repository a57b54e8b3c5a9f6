"""CapacityBuffers of a live cluster: read, and their status applied. Never decides the content of the status.

A write is not forced: fields that another controller owns stay as they are.
Source: kubernetes/autoscaler, cluster-autoscaler/apis, autoscaling.x-k8s.io.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from trimtab.actuator.kube.api import KubeApi
from trimtab.actuator.kube.cluster import KnownBuffer
from trimtab.actuator.kube.served_kind import ServedKind
from trimtab.common.kubernetes.kinds.metadata import ObjectMeta
from trimtab.common.kubernetes.kinds.policies import CapacityBufferRequest, CapacityBufferSpec
from trimtab.common.kubernetes.registry import BY_KIND

_APPLIED: Final = {"fieldManager": "trimtab-capacity-buffers"}


class StoredBuffer(CapacityBufferRequest, kw_only=True):
    """A CapacityBuffer with its whole status, which is compared with the one to write."""

    metadata: ObjectMeta
    status: dict[str, Any] | None = None


class Buffers:
    """The CapacityBuffers behind an API server."""

    def __init__(self, api: KubeApi, timeout_s: float) -> None:
        self._objects = ServedKind(api, BY_KIND["CapacityBuffer"], StoredBuffer, timeout_s)

    def read_all(self) -> Sequence[KnownBuffer]:
        """Return all, sorted. Raises `NotServedError` where the server serves none."""
        return sorted(map(_known, self._objects.read_all()), key=lambda one: (one.namespace, one.name))

    def write_status(self, buffer: KnownBuffer, status: Mapping[str, Any]) -> None:
        """Apply the status."""
        self._objects.apply_status({"name": buffer.name, "namespace": buffer.namespace}, status, _APPLIED)


def _known(stored: StoredBuffer) -> KnownBuffer:
    meta, spec = stored.metadata, stored.spec or CapacityBufferSpec()
    template = (spec.pod_template_ref and spec.pod_template_ref.name) or ""
    generation, strategy = meta.generation or 0, spec.provisioning_strategy or ""
    return KnownBuffer(meta.namespace or "", meta.name or "", generation, template, strategy, stored.status or {})
