"""A live Kubernetes cluster behind the interface of `trimtab.actuator.kube.cluster`.

Decides how taints are patched (only if they are still as they were read), how an eviction is requested, and what is
retried at once. Never decides which node or pod. Durations in seconds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime

import msgspec

from trimtab.actuator.kube.api import METADATA, METADATA_LIST, Call, KubeApi
from trimtab.actuator.kube.cluster import (
    POD_COST_TIME_ANNOTATION,
    POD_COST_UNFINISHED_ANNOTATION,
    POD_RANK_ANNOTATION,
    ConflictError,
    CostWrite,
    FieldConflictError,
    ForeignCostError,
    InvalidError,
    NodeView,
    NotFoundError,
    PodCost,
    PodView,
    TaintView,
    daemon_eviction,
    deletion_delayed,
    instance_type,
    node_quantities,
)
from trimtab.actuator.kube.custom_objects import APPLY_PATCH, FIELD_MANAGER, CustomObjects
from trimtab.actuator.settings import KubeSettings
from trimtab.common.kubernetes.api import JSON_PATCH, Json
from trimtab.common.kubernetes.json_envelope import ObjectList
from trimtab.common.kubernetes.kinds.metadata import OwnerReference, VersionedMeta
from trimtab.common.kubernetes.kinds.nodes import Node, NodeSpec, NodeStatus, Taint
from trimtab.common.kubernetes.kinds.pods import Pod, PodAnnotations, PodMeta, PodSpec
from trimtab.common.kubernetes.names import HARD_TAINT_KEY, RULE, is_subdomain
from trimtab.common.kubernetes.registry import BY_KIND
from trimtab.common.kubernetes.signals import ours
from trimtab.common.rpc.retries import attempts, with_retries

DEFAULT_GRACE_S = 30

NODES, PODS = BY_KIND["Node"], BY_KIND["Pod"]
# Reads from the server's cache, where pods are indexed by node; without it, older servers read every pod from etcd.
# Source: Kubernetes API concepts, "Semantics for get and list".
IN_MEMORY = {"resourceVersion": "0"}
# From this many pods of a namespace on, one list is cheaper than single reads.
LIST_FROM = 20
# On a node that the actuator has cordoned. A node that was cordoned before stays cordoned when its taint is removed.
CORDON_ANNOTATION = ours.CORDONED.key
CORDON_PATH = "/metadata/annotations/trimtab.dev~1cordoned"
UNCORDON: list[Json] = [{"op": "add", "path": "/spec/unschedulable", "value": False}]
UNMARK: Json = {"op": "remove", "path": CORDON_PATH}
# Other clients write nodes too (kubelet, controllers): a patch is tried this often.
PATCHES = attempts(8, 0.02, 0.5)


class StoredNode(Node, kw_only=True):
    """A Node with its version; an answer without metadata is none."""

    metadata: VersionedMeta


class StoredPod(Pod, kw_only=True):
    """A Pod; an answer without metadata is none."""

    metadata: PodMeta


class CostAnnotations(PodAnnotations):
    """With the annotations of pod deletion costs."""

    rank: str | None = msgspec.field(default=None, name=POD_RANK_ANNOTATION)
    made: str | None = msgspec.field(default=None, name=POD_COST_TIME_ANNOTATION)
    unfinished: str | None = msgspec.field(default=None, name=POD_COST_UNFINISHED_ANNOTATION)


class CostMeta(PodMeta):
    """`metadata` of a pod with its deletion cost."""

    annotations: CostAnnotations | None = None


class CostedPod(msgspec.Struct):
    """A pod of which the API server was asked for the metadata alone."""

    metadata: CostMeta


def node_view(node: StoredNode) -> NodeView:
    """Return a node as the actuator knows it."""
    meta, spec, status = node.metadata, node.spec or NodeSpec(), node.status or NodeStatus()
    allocatable = status.allocatable or {}
    return NodeView(
        name=meta.name or "",
        uid=meta.uid or "",
        provider_id=spec.provider_id or "",
        taints=tuple(TaintView(taint.key or "", taint.value or "", taint.effect or "") for taint in spec.taints or ()),
        gpu=any(name.endswith("/gpu") and str(amount) not in ("", "0") for name, amount in allocatable.items()),
        deletion_delayed=deletion_delayed(meta.annotations),
        ready=any(condition.type == "Ready" and condition.status == "True" for condition in status.conditions or ()),
        created_ms=_millis(meta.creation_timestamp),
        instance_type=instance_type(meta.labels),
        capacity=node_quantities(status.capacity),
        allocatable=node_quantities(allocatable),
    )


def pod_view(pod: StoredPod) -> PodView:
    """Return a pod as the actuator knows it."""
    meta, spec = pod.metadata, pod.spec or PodSpec()
    owner, annotations = _controller(meta) or OwnerReference(), meta.annotations or PodAnnotations()
    grace_s = spec.termination_grace_period_seconds
    return PodView(
        namespace=meta.namespace or "",
        name=meta.name or "",
        uid=meta.uid or "",
        node=spec.node_name or "",
        phase=(pod.status and pod.status.phase) or "",
        priority=spec.priority or 0,
        owner_kind=owner.kind or "",
        owner_name=owner.name or "",
        owner_uid=owner.uid or "",
        mirror=annotations.mirror is not None,
        deletion_ms=_millis(meta.deletion_timestamp),
        grace_s=DEFAULT_GRACE_S if grace_s is None else grace_s,
        daemon=annotations.daemonset_pod == "true",
        daemon_eviction=daemon_eviction(annotations.enable_ds_eviction),
    )


def pod_cost(pod: CostedPod) -> PodCost:
    """Return a pod's deletion cost."""
    meta, annotations, owner = pod.metadata, pod.metadata.annotations or CostAnnotations(), _controller(pod.metadata)
    return PodCost(
        meta.namespace or "",
        meta.name or "",
        meta.uid or "",
        annotations.deletion_cost,
        annotations.rank,
        annotations.made,
        f"{owner.kind}/{meta.namespace}/{owner.name}" if owner else "",
        annotations.unfinished is not None,
    )


def _controller(meta: PodMeta) -> OwnerReference | None:
    return next((reference for reference in meta.owner_references or () if reference.controller), None)


def _millis(moment: datetime | None) -> int:
    return 0 if moment is None else int(moment.timestamp() * 1000)


class KubeCluster(CustomObjects):
    """A `Cluster` (see `trimtab.actuator.kube.cluster`)."""

    def __init__(self, api: KubeApi, settings: KubeSettings | None = None) -> None:
        self._settings = settings or KubeSettings()
        super().__init__(api, self._settings.list_timeout_s)

    def get_node(self, name: str, from_cache: bool = False) -> NodeView:
        """Return one node; with `from_cache`, as the server's cache has it."""
        return node_view(self._get(name, IN_MEMORY if from_cache else {}))

    def list_nodes(self) -> Sequence[NodeView]:
        """Return all nodes, sorted by name."""
        call = Call("GET", NODES.path, timeout_s=self._settings.list_timeout_s)
        return sorted(map(node_view, self._api.objects(call, StoredNode)), key=lambda node: node.name)

    def add_taint(self, node: str, taint: TaintView, uid: str = "") -> bool:
        """Add a taint; with the hard one, cordon the node if the settings require it."""

        def change(stored: StoredNode) -> list[Json] | None:
            taints = _taints(stored)
            if any(other.key == taint.key for other in taints):
                return None
            patch = _patch(stored, [*taints, Taint(taint.key, taint.value or None, taint.effect)])
            if self._settings.cordon and taint.key == HARD_TAINT_KEY and not _is_cordoned(stored):
                patch += _cordon(stored)
            return patch

        return self._change(node, uid, change)

    def remove_taint(self, node: str, key: str, uncordon: bool = False, uid: str = "") -> bool:
        """Remove a taint, and undo what came with it."""

        def change(stored: StoredNode) -> list[Json] | None:
            taints = _taints(stored)
            others = [taint for taint in taints if taint.key != key]
            if len(others) == len(taints):
                return None
            patch = _patch(stored, others)
            if key == HARD_TAINT_KEY and CORDON_ANNOTATION in (stored.metadata.annotations or {}):
                patch += [*UNCORDON, UNMARK]
            elif uncordon and _is_cordoned(stored):
                patch += UNCORDON
            return patch

        return self._change(node, uid, change)

    def list_pods(self, node: str, from_cache: bool = False) -> Sequence[PodView]:
        """Return the pods bound to a node, sorted by namespace and name; `from_cache` as for `get_node`."""
        if not is_subdomain(node):
            return []
        query = {"fieldSelector": f"spec.nodeName={node}"} | (IN_MEMORY if from_cache else {})
        pods = self._api.read(Call("GET", PODS.path, query), ObjectList[StoredPod])
        return sorted(map(pod_view, pods.items or ()), key=lambda pod: (pod.namespace, pod.name))

    def evict(self, pod: PodView, grace_s: int | None) -> None:
        """Request the eviction of exactly this pod, once: the drain decides about retries."""
        options: Json = {"preconditions": {"uid": pod.uid}}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        eviction = BY_KIND["Eviction"].type_meta | {
            "metadata": {"namespace": pod.namespace, "name": pod.name},
            "deleteOptions": options,
        }
        path = PODS.path_in(pod.namespace, pod.name, "eviction")
        try:
            self._api.call(Call("POST", path, body=eviction, repeat=False))
        except ConflictError as error:
            # Another pod has the name by now, or there was a concurrent write; the drain retries. No code of the answer
            # tells them apart.
            if all(other.uid != pod.uid for other in self.list_pods(pod.node)):
                raise NotFoundError(str(error)) from error
            raise

    def delete_node(self, name: str, uid: str) -> None:
        """Delete exactly this Node object; another one with its name belongs to another machine."""
        if not is_subdomain(name):
            return
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        try:
            self._api.call(Call("DELETE", NODES.path_of(name), body=options))
        except NotFoundError:
            return
        except ConflictError:
            if self._has_node(name, uid):
                raise

    def pod_costs(self, keys: Sequence[str]) -> Mapping[str, PodCost]:
        """Return those of the pods that exist: one by one if they are few, otherwise by namespace."""
        names: dict[str, set[str]] = {}
        for key in keys:
            namespace, _, name = key.partition("/")
            names.setdefault(namespace, set()).add(name)
        costs: dict[str, PodCost] = {}
        for namespace, wanted in sorted(names.items()):
            read_pods = self._pods_named if len(wanted) < LIST_FROM else self._pods_of_namespace
            costs.update((pod.key, pod) for pod in read_pods(namespace, wanted))
        return costs

    def own_pod_costs(self) -> Sequence[PodCost]:
        """Return all pods with a cost of ours."""
        pods = self._pods_at(PODS.path)
        return sorted((pod for pod in pods if pod.made is not None), key=lambda pod: (pod.namespace, pod.name))

    def write_pod_cost(self, pod: PodCost, cost: CostWrite | None) -> None:
        """Apply the deletion cost of exactly this pod; None = apply without a cost, which removes ours."""
        texts = {} if cost is None else cost.annotations()
        metadata = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "annotations": texts}
        body, path = PODS.type_meta | {"metadata": metadata}, PODS.path_in(pod.namespace, pod.name)
        query = {"fieldManager": FIELD_MANAGER}
        try:
            self._api.call(Call("PATCH", path, query, body=body, content_type=APPLY_PATCH, accept=METADATA))
        except FieldConflictError as error:
            raise ForeignCostError(str(error)) from error
        except (ConflictError, InvalidError) as error:
            now = next(self._pods_named(pod.namespace, {pod.name}, {}), None)
            if now is None or now.uid != pod.uid:
                raise NotFoundError(str(error)) from error
            raise

    def _pods_named(
        self, namespace: str, names: AbstractSet[str], query: Mapping[str, str] = IN_MEMORY
    ) -> Iterator[PodCost]:
        for name in sorted(names):
            path = PODS.path_in(namespace, name)
            try:
                pod = self._api.read(Call("GET", path, query, accept=METADATA), CostedPod)
            except NotFoundError:
                continue
            yield pod_cost(pod)

    def _pods_of_namespace(self, namespace: str, names: AbstractSet[str]) -> Iterator[PodCost]:
        return (pod for pod in self._pods_at(PODS.path_in(namespace)) if pod.name in names)

    def _pods_at(self, path: str) -> Iterator[PodCost]:
        """Yield the pods of a collection, page by page."""
        call = Call("GET", path, timeout_s=self._settings.list_timeout_s, accept=METADATA_LIST)
        return map(pod_cost, self._api.objects(call, CostedPod))

    def _get(self, name: str, query: Mapping[str, str] = {}) -> StoredNode:
        # The Cluster Autoscaler names an instance without Node by its provider id. As part of a path, such a name leads
        # nowhere: the answer is a 404 about an unknown path, which does not prove that no Node has the name.
        if not is_subdomain(name):
            raise NotFoundError(f"{name} is not the name of a Node: a name has {RULE}")
        return self._api.read(Call("GET", NODES.path_of(name), query), StoredNode)

    def _has_node(self, name: str, uid: str) -> bool:
        """Return whether exactly this node exists."""
        try:
            return self._get(name).metadata.uid == uid
        except NotFoundError:
            return False

    def _change(self, name: str, uid: str, change: Callable[[StoredNode], list[Json] | None]) -> bool:
        """Read, decide, patch; start again if the node has changed in between. False = nothing to do."""

        def attempt() -> bool:
            stored = self._get(name)
            if uid and stored.metadata.uid != uid:
                raise NotFoundError(f"node {name} was replaced by another one of its name")
            patch = change(stored)
            if patch is None:
                return False
            try:
                self._api.call(Call("PATCH", NODES.path_of(name), body=patch, content_type=JSON_PATCH))
            except InvalidError as error:
                # The answer does not name the failed precondition: only the node shows it.
                if _precondition(self._get(name)) == _precondition(stored):
                    raise
                raise ConflictError(str(error)) from error
            return True

        return with_retries(attempt, lambda error: PATCHES if isinstance(error, ConflictError) else None)


def _taints(stored: StoredNode) -> list[Taint]:
    return (stored.spec and stored.spec.taints) or []


def _is_cordoned(stored: StoredNode) -> bool:
    return bool(stored.spec and stored.spec.unschedulable)


def _precondition(stored: StoredNode) -> list[Json]:
    """Return the tests of a patch: the same node, with the taints that were read."""
    same_node = {"op": "test", "path": "/metadata/uid", "value": stored.metadata.uid}
    taints = _taints(stored)
    if taints:
        return [same_node, {"op": "test", "path": "/spec/taints", "value": taints}]
    # A patch cannot test a field that is absent.
    return [
        same_node,
        {"op": "test", "path": "/metadata/resourceVersion", "value": stored.metadata.resource_version},
    ]


def _patch(stored: StoredNode, taints: list[Taint]) -> list[Json]:
    """Return a JSON patch that applies only to the same node with the taints that were read."""
    return [*_precondition(stored), {"op": "add", "path": "/spec/taints", "value": taints}]


def _cordon(stored: StoredNode) -> list[Json]:
    """Return the part of a patch that cordons a node and marks it: only a marked node is uncordoned later."""
    annotate: Json = {"op": "add", "path": CORDON_PATH, "value": "true"}
    if stored.metadata.annotations is None:
        annotate = {"op": "add", "path": "/metadata/annotations", "value": {CORDON_ANNOTATION: "true"}}
    return [{"op": "add", "path": "/spec/unschedulable", "value": True}, annotate]
