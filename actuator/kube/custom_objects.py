"""Objects of custom kinds in a live cluster: PodGroupCosts are read, applied and removed; of CapacityBuffers and
ProvisioningRequests the status is applied. Decides their form on the wire, and the API version: the newest of those
listed that the server serves. Never decides what is written.

Source: Kubernetes, server-side apply; Kubernetes enhancement proposal 1888, phase 2B; kubernetes/autoscaler,
cluster-autoscaler/apis, autoscaling.x-k8s.io.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from trimtab.actuator.kube.api import Call, KubeApi
from trimtab.actuator.kube.cluster import (
    GroupCost,
    GroupCostStatus,
    KnownBuffer,
    KnownCapacityRequest,
    KnownGroupCost,
    NotFoundError,
    NotServedError,
    conditions_in,
)
from trimtab.common.kubernetes.api import Json
from trimtab.common.kubernetes.kinds.metadata import ObjectMeta
from trimtab.common.kubernetes.kinds.policies import CapacityBufferRequest, CapacityBufferSpec, PodGroupCost
from trimtab.common.kubernetes.registry import BY_KIND, Resource
from trimtab.common.kubernetes.signals import well_known

T = TypeVar("T")

GROUP_COST: Final = BY_KIND["PodGroupCost"]
APPLY_PATCH: Final = "application/apply-patch+yaml"
FIELD_MANAGER: Final = "trimtab-pod-costs"
# Distinguishes ours from objects made by hand.
LABEL, VALUE = well_known.MANAGED_BY.key, "trimtab"
# Not forced: fields of a CapacityBuffer that another controller owns stay as they are.
BUFFER_APPLY: Final = {"fieldManager": "trimtab-capacity-buffers"}
# Forced: the conditions of the classes that are answered belong to their answerer, also those that another controller,
# since switched off, has left.
REQUEST_APPLY: Final = {"fieldManager": "trimtab-capacity-requests", "force": "true"}


class ServedKind(Generic[T]):
    """The objects of a kind that clusters may lack."""

    def __init__(self, api: KubeApi, kind: str, stored: type[T], timeout_s: float) -> None:
        """`stored` : what is read of each object; `timeout_s` : longest silence of a list."""
        self._api, self._stored, self._timeout_s = api, stored, timeout_s
        self._kind: Resource = BY_KIND[kind]
        self._served = self._kind

    def read_all(self) -> Sequence[T]:
        """Return all; remember the version. Raises `NotServedError` where the server serves none."""
        for version in self._kind.by_version:
            call = Call("GET", version.path, timeout_s=self._timeout_s)
            try:
                found = list(self._api.objects(call, self._stored))
            except NotServedError as error:
                unknown = error
                continue
            self._served = version
            return found
        raise unknown

    def apply_status(self, metadata: Mapping[str, str], status: Mapping[str, Any], query: Mapping[str, str]) -> None:
        """Apply the status of an object. metadata : `namespace`, `name`, and what must be as it was read; query : of
        server-side apply.
        """
        body = self._served.type_meta | {"metadata": dict(metadata), "status": dict(status)}
        path = self._served.path_in(metadata["namespace"], metadata["name"], "status")
        self._api.call(Call("PATCH", path, query, body=body, content_type=APPLY_PATCH))


class StoredBuffer(CapacityBufferRequest, kw_only=True):
    """A CapacityBuffer with its whole status, which is compared with the one to write."""

    metadata: ObjectMeta
    status: dict[str, Any] | None = None

    def known(self) -> KnownBuffer:
        """Return it as the actuator knows it."""
        meta, spec = self.metadata, self.spec or CapacityBufferSpec()
        template = (spec.pod_template_ref and spec.pod_template_ref.name) or ""
        generation, strategy = meta.generation or 0, spec.provisioning_strategy or ""
        return KnownBuffer(meta.namespace or "", meta.name or "", generation, template, strategy, self.status or {})


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

    def known(self) -> KnownCapacityRequest:
        """Return it as the actuator knows it."""
        meta, conditions = self.metadata, tuple(conditions_in(self.status or {}))
        return KnownCapacityRequest(
            meta.namespace, meta.name, meta.uid, meta.generation, meta.resource_version, conditions
        )


def _head(cost: GroupCost) -> Json:
    return GROUP_COST.type_meta | {"metadata": {"name": cost.name, "namespace": cost.namespace}}


def _patch(cost: GroupCost, body: Json, *sub: str) -> Call:
    # Forced: the costs must change together, even if another client writes these objects too.
    query = {"fieldManager": FIELD_MANAGER, "force": "true"}
    path = GROUP_COST.path_in(cost.namespace, cost.name, *sub)
    return Call("PATCH", path, query, body=body, content_type=APPLY_PATCH)


def _known_group_cost(item: PodGroupCost) -> KnownGroupCost:
    spec, status, generation = item.spec, item.status, item.metadata.generation or 0
    owner, namespace = spec.owner, item.metadata.namespace or ""
    cost = GroupCost(
        namespace, owner.kind, owner.name, spec.costs or {}, spec.max_removals, spec.waits_for, spec.ranked_at
    )
    if status.generation != generation:
        return KnownGroupCost(cost, generation, None)
    current = GroupCostStatus(
        status.observed_pods, status.ranked_pods, status.complete, status.message, status.ranked_at
    )
    return KnownGroupCost(cost, generation, current)


class CustomObjects:
    """The part of a `Cluster` (see `trimtab.actuator.kube.cluster`) that is about custom kinds."""

    def __init__(self, api: KubeApi, timeout_s: float) -> None:
        """`timeout_s` : longest silence of a list."""
        self._api, self._timeout_s = api, timeout_s
        self._buffers = ServedKind(api, "CapacityBuffer", StoredBuffer, timeout_s)
        self._capacity_requests = ServedKind(api, "ProvisioningRequest", StoredCapacityRequest, timeout_s)

    def group_costs(self) -> Sequence[KnownGroupCost]:
        """Return our PodGroupCost objects."""
        call = Call("GET", GROUP_COST.path, {"labelSelector": f"{LABEL}={VALUE}"}, timeout_s=self._timeout_s)
        found = map(_known_group_cost, self._api.objects(call, PodGroupCost))
        return sorted(found, key=lambda known: (known.cost.namespace, known.cost.name))

    def write_group_cost(self, cost: GroupCost) -> int:
        """Apply a PodGroupCost; return the generation that has the costs."""
        spec: Json = {
            "owner": {"kind": cost.owner_kind, "name": cost.owner_name},
            "costs": dict(cost.costs),
            "maxRemovals": cost.max_removals,
            "waitsFor": cost.waits_for,
            "rankedAt": cost.made,
        }
        body = _head(cost) | {"spec": spec}
        body["metadata"]["labels"] = {LABEL: VALUE}
        return self._api.read(_patch(cost, body), PodGroupCost).metadata.generation or 0

    def write_group_cost_status(self, cost: GroupCost, generation: int, status: GroupCostStatus) -> None:
        """Apply the status of one generation of a PodGroupCost."""
        fields: Json = {
            "generation": generation,
            "observedPods": status.observed_pods,
            "rankedPods": status.ranked_pods,
            "complete": status.complete,
            "message": status.message,
            "rankedAt": status.made,
        }
        self._api.call(_patch(cost, _head(cost) | {"status": fields}, "status"))

    def delete_group_cost(self, namespace: str, name: str) -> None:
        """Delete a PodGroupCost."""
        with suppress(NotFoundError):
            self._api.call(Call("DELETE", GROUP_COST.path_in(namespace, name)))

    def buffers(self) -> Sequence[KnownBuffer]:
        """Return all CapacityBuffers."""
        found = (stored.known() for stored in self._buffers.read_all())
        return sorted(found, key=lambda one: (one.namespace, one.name))

    def write_buffer_status(self, buffer: KnownBuffer, status: Mapping[str, Any]) -> None:
        """Apply the status of a CapacityBuffer."""
        self._buffers.apply_status({"name": buffer.name, "namespace": buffer.namespace}, status, BUFFER_APPLY)

    def capacity_requests(self) -> Sequence[KnownCapacityRequest]:
        """Return all ProvisioningRequests."""
        found = (stored.known() for stored in self._capacity_requests.read_all())
        return sorted(found, key=lambda one: (one.namespace, one.name))

    def write_capacity_conditions(self, request: KnownCapacityRequest, conditions: Sequence[Mapping[str, Any]]) -> None:
        """Apply the conditions of exactly this ProvisioningRequest, as it was read: uid and version are named."""
        metadata = {"name": request.name, "namespace": request.namespace, "uid": request.uid}
        metadata["resourceVersion"] = request.resource_version
        self._capacity_requests.apply_status(metadata, {"conditions": [dict(c) for c in conditions]}, REQUEST_APPLY)
