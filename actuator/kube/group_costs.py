"""Reads, applies and removes PodGroupCost objects of a live cluster. Decides their form on the wire, never which groups
have one. Source: Kubernetes enhancement proposal 1888, phase 2B; Kubernetes, server-side apply.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec

from trimtab.actuator.kube.api import Api, Call
from trimtab.actuator.kube.cluster import ClusterError, GroupCost, GroupCostStatus, KnownGroupCost, NotFoundError
from trimtab.actuator.kube.objects import ListMetadata
from trimtab.clients.kubernetes.api import Json
from trimtab.clients.kubernetes.names import object_path

API_VERSION: Final = "trimtab.dev/v1alpha1"
COLLECTION: Final = f"/apis/{API_VERSION}/podgroupcosts"
NAMESPACES: Final = f"/apis/{API_VERSION}/namespaces"
APPLY_PATCH: Final = "application/apply-patch+yaml"
FIELD_MANAGER: Final = "trimtab-pod-costs"
# Distinguishes ours from objects made by hand.
LABEL, VALUE = "app.kubernetes.io/managed-by", "trimtab"


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    generation: int = 0


class _Owner(msgspec.Struct):
    kind: str = ""
    name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    owner: _Owner = msgspec.field(default_factory=_Owner)
    costs: dict[str, int] | None = None
    max_removals: int = 0
    waits_for: str = ""
    ranked_at: str = ""


class _Status(msgspec.Struct, rename="camel"):
    generation: int = 0
    observed_pods: int = 0
    ranked_pods: int = 0
    complete: bool = False
    message: str = ""
    ranked_at: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _List(msgspec.Struct):
    metadata: ListMetadata = msgspec.field(default_factory=ListMetadata)
    items: list[_Object] | None = None


_Kind = TypeVar("_Kind", _List, _Object)


def read_all(api: Api, timeout_s: float) -> Sequence[KnownGroupCost]:
    """Return our objects."""
    call = Call("GET", COLLECTION, {"labelSelector": f"{LABEL}={VALUE}"}, timeout_s=timeout_s)
    found = [_known(item) for page in api.pages(call, partial(_decode, _List)) for item in page.items or ()]
    return sorted(found, key=lambda one: (one.cost.namespace, one.cost.name))


def apply(api: Api, cost: GroupCost) -> int:
    """Apply the costs; return the generation that has them."""
    spec: Json = {
        "owner": {"kind": cost.owner_kind, "name": cost.owner_name},
        "costs": dict(cost.costs),
        "maxRemovals": cost.max_removals,
        "waitsFor": cost.waits_for,
        "rankedAt": cost.made,
    }
    body = _head(cost) | {"spec": spec}
    body["metadata"]["labels"] = {LABEL: VALUE}
    return _decode(_Object, _patch(api, cost, body)).metadata.generation


def apply_status(api: Api, cost: GroupCost, generation: int, status: GroupCostStatus) -> None:
    """Apply the status of one generation."""
    fields: Json = {
        "generation": generation,
        "observedPods": status.observed_pods,
        "rankedPods": status.ranked_pods,
        "complete": status.complete,
        "message": status.message,
        "rankedAt": status.made,
    }
    _patch(api, cost, _head(cost) | {"status": fields}, "status")


def delete(api: Api, namespace: str, name: str) -> None:
    """Delete one."""
    try:
        api.call(Call("DELETE", object_path(NAMESPACES, namespace, "podgroupcosts", name)))
    except NotFoundError:
        return


def _head(cost: GroupCost) -> Json:
    metadata = {"name": cost.name, "namespace": cost.namespace}
    return {"apiVersion": API_VERSION, "kind": "PodGroupCost", "metadata": metadata}


def _patch(api: Api, cost: GroupCost, body: Json, *sub: str) -> bytes:
    path = object_path(NAMESPACES, cost.namespace, "podgroupcosts", cost.name, *sub)
    # Forced: the costs must change together, even if another client writes these objects too.
    query = {"fieldManager": FIELD_MANAGER, "force": "true"}
    return api.call(Call("PATCH", path, query, body=body, content_type=APPLY_PATCH))


def _known(item: _Object) -> KnownGroupCost:
    spec, status = item.spec, item.status
    cost = GroupCost(
        item.metadata.namespace,
        spec.owner.kind,
        spec.owner.name,
        spec.costs or {},
        spec.max_removals,
        spec.waits_for,
        spec.ranked_at,
    )
    current = status.generation == item.metadata.generation
    found = GroupCostStatus(status.observed_pods, status.ranked_pods, status.complete, status.message, status.ranked_at)
    return KnownGroupCost(cost, item.metadata.generation, found if current else None)


def _decode(kind: type[_Kind], answer: bytes) -> _Kind:
    try:
        return msgspec.json.decode(answer, type=kind)
    except msgspec.MsgspecError as error:
        raise ClusterError(f"the API server's answer is not a PodGroupCost: {error}") from error
