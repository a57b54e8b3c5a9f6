"""Reads, applies and removes PodGroupCost objects of a live cluster. Decides their form on the wire, never which groups
have one. Source: Kubernetes enhancement proposal 1888, phase 2B; Kubernetes, server-side apply.
"""

from collections.abc import Sequence
from typing import Final

from trimtab.actuator.kube.api import Call, KubeApi
from trimtab.actuator.kube.cluster import GroupCost, GroupCostStatus, KnownGroupCost, NotFoundError
from trimtab.common.kubernetes.api import Json
from trimtab.common.kubernetes.kinds.policies import PodGroupCost
from trimtab.common.kubernetes.registry import BY_KIND
from trimtab.common.kubernetes.signals import well_known

GROUP_COST: Final = BY_KIND["PodGroupCost"]
APPLY_PATCH: Final = "application/apply-patch+yaml"
FIELD_MANAGER: Final = "trimtab-pod-costs"
# Distinguishes ours from objects made by hand.
LABEL, VALUE = well_known.MANAGED_BY.key, "trimtab"


def read_all(api: KubeApi, timeout_s: float) -> Sequence[KnownGroupCost]:
    """Return our objects."""
    call = Call("GET", GROUP_COST.path, {"labelSelector": f"{LABEL}={VALUE}"}, timeout_s=timeout_s)
    return sorted(
        map(_known, api.objects(call, PodGroupCost)), key=lambda known: (known.cost.namespace, known.cost.name)
    )


def apply(api: KubeApi, cost: GroupCost) -> int:
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
    return api.read(_patch(cost, body), PodGroupCost).metadata.generation or 0


def apply_status(api: KubeApi, cost: GroupCost, generation: int, status: GroupCostStatus) -> None:
    """Apply the status of one generation."""
    fields: Json = {
        "generation": generation,
        "observedPods": status.observed_pods,
        "rankedPods": status.ranked_pods,
        "complete": status.complete,
        "message": status.message,
        "rankedAt": status.made,
    }
    api.call(_patch(cost, _head(cost) | {"status": fields}, "status"))


def delete(api: KubeApi, namespace: str, name: str) -> None:
    """Delete one."""
    try:
        api.call(Call("DELETE", GROUP_COST.path_in(namespace, name)))
    except NotFoundError:
        return


def _head(cost: GroupCost) -> Json:
    return GROUP_COST.type_meta | {"metadata": {"name": cost.name, "namespace": cost.namespace}}


def _patch(cost: GroupCost, body: Json, *sub: str) -> Call:
    # Forced: the costs must change together, even if another client writes these objects too.
    query = {"fieldManager": FIELD_MANAGER, "force": "true"}
    path = GROUP_COST.path_in(cost.namespace, cost.name, *sub)
    return Call("PATCH", path, query, body=body, content_type=APPLY_PATCH)


def _known(item: PodGroupCost) -> KnownGroupCost:
    spec, status, generation = item.spec, item.status, item.metadata.generation or 0
    cost = GroupCost(
        item.metadata.namespace or "",
        spec.owner.kind,
        spec.owner.name,
        spec.costs or {},
        spec.max_removals,
        spec.waits_for,
        spec.ranked_at,
    )
    if status.generation != generation:
        return KnownGroupCost(cost, generation, None)
    current = GroupCostStatus(
        status.observed_pods, status.ranked_pods, status.complete, status.message, status.ranked_at
    )
    return KnownGroupCost(cost, generation, current)
