"""Nodes and pods as the API server writes them, to values of the actuator.

The structs are those of `trimtab.common.kubernetes.kinds`; what is added to them is needed for changes alone. Times
become Unix milliseconds.
"""

from datetime import datetime

import msgspec

from trimtab.actuator.kube.cluster import (
    POD_COST_TIME_ANNOTATION,
    POD_COST_UNFINISHED_ANNOTATION,
    POD_RANK_ANNOTATION,
    NodeView,
    PodCost,
    PodView,
    TaintView,
    daemon_eviction,
    deletion_delayed,
    instance_type,
    node_quantities,
)
from trimtab.common.kubernetes.kinds.metadata import OwnerReference, VersionedMeta
from trimtab.common.kubernetes.kinds.nodes import Node, NodeSpec, NodeStatus
from trimtab.common.kubernetes.kinds.pods import Pod, PodAnnotations, PodMeta, PodSpec

DEFAULT_GRACE_S = 30


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
