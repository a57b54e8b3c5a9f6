"""Nodes and pods as the API server writes them, reduced to the fields that the actuator reads.

Decides which fields are read; all others are skipped while parsing. Times become Unix milliseconds.
"""

from datetime import UTC, datetime
from typing import Any

import msgspec

from trimtab.actuator.kube.cluster import (
    DAEMON_ANNOTATION,
    MIRROR_ANNOTATION,
    POD_COST_ANNOTATION,
    POD_COST_TIME_ANNOTATION,
    POD_COST_UNFINISHED_ANNOTATION,
    POD_RANK_ANNOTATION,
    ClusterError,
    NodeView,
    PodCost,
    PodView,
    Taint,
    daemon_eviction,
    deletion_delayed,
    instance_type,
    node_quantities,
)

DEFAULT_GRACE_S = 30


class OwnerReference(msgspec.Struct, rename="camel"):
    """A reference to an owner."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(msgspec.Struct, rename="camel"):
    """Names and versions."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    owner_references: list[OwnerReference] | None = None


class NodeTaint(msgspec.Struct, omit_defaults=True):
    """A taint; `time_added` is kept as it was read."""

    key: str
    effect: str
    value: str = ""
    time_added: str = msgspec.field(default="", name="timeAdded")


class NodeSpec(msgspec.Struct, rename="camel"):
    """`spec` of a node."""

    provider_id: str = msgspec.field(default="", name="providerID")
    taints: list[NodeTaint] | None = None
    unschedulable: bool = False


class Condition(msgspec.Struct):
    """A condition."""

    type: str = ""
    status: str = ""


class NodeStatus(msgspec.Struct):
    """`status` of a node."""

    capacity: dict[str, Any] | None = None
    allocatable: dict[str, Any] | None = None
    conditions: list[Condition] | None = None


class Node(msgspec.Struct):
    """A node."""

    metadata: Metadata
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class PodSpec(msgspec.Struct, rename="camel"):
    """`spec` of a pod."""

    node_name: str = ""
    priority: int | None = None
    termination_grace_period_seconds: int | None = None


class PodStatus(msgspec.Struct):
    """`status` of a pod."""

    phase: str = ""


class Pod(msgspec.Struct):
    """A pod."""

    metadata: Metadata
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class ListMetadata(msgspec.Struct, rename="camel"):
    """Version of a list, and the token of its next page."""

    resource_version: str = ""
    next_page: str = msgspec.field(default="", name="continue")


class NodeList(msgspec.Struct):
    """A page of nodes."""

    metadata: ListMetadata
    items: list[Node] | None = None


class PodMetadata(msgspec.Struct):
    """A pod with its metadata only."""

    metadata: Metadata


class PodMetadataList(msgspec.Struct):
    """A page of such pods."""

    metadata: ListMetadata
    items: list[PodMetadata] | None = None


class PodList(msgspec.Struct):
    """A page of pods."""

    metadata: ListMetadata
    items: list[Pod] | None = None


_decoders: dict[type, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in (Node, NodeList, PodList, PodMetadata, PodMetadataList)
}


def read(kind: type, answer: bytes) -> Any:
    """Decode an answer as one of the structs above. Raises `ClusterError`."""
    try:
        return _decoders[kind].decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ClusterError(f"the API server's answer is no {kind.__name__}: {error}") from error


def node_view(node: Node) -> NodeView:
    """Return a node as the actuator knows it."""
    taints = tuple(Taint(taint.key, taint.value, taint.effect) for taint in node.spec.taints or ())
    allocatable = node.status.allocatable or {}
    gpu = any(name.endswith("/gpu") and str(amount) not in ("", "0") for name, amount in allocatable.items())
    delayed = deletion_delayed(node.metadata.annotations)
    ready = any(one.type == "Ready" and one.status == "True" for one in node.status.conditions or ())
    created = node.metadata.creation_timestamp
    created_ms = 0 if created is None else int(created.timestamp() * 1000)
    return NodeView(
        name=node.metadata.name,
        uid=node.metadata.uid,
        provider_id=node.spec.provider_id,
        taints=taints,
        gpu=gpu,
        deletion_delayed=delayed,
        ready=ready,
        created_ms=created_ms,
        instance_type=instance_type(node.metadata.labels),
        capacity=node_quantities(node.status.capacity),
        allocatable=node_quantities(allocatable),
    )


def pod_view(pod: Pod) -> PodView:
    """Return a pod as the actuator knows it."""
    meta, spec = pod.metadata, pod.spec
    owner = next((ref for ref in meta.owner_references or () if ref.controller), OwnerReference())
    grace_s = spec.termination_grace_period_seconds
    return PodView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        node=spec.node_name,
        phase=pod.status.phase,
        priority=spec.priority or 0,
        owner_kind=owner.kind,
        owner_name=owner.name,
        owner_uid=owner.uid,
        mirror=MIRROR_ANNOTATION in (meta.annotations or {}),
        deletion_ms=_millis(meta.deletion_timestamp),
        grace_s=DEFAULT_GRACE_S if grace_s is None else grace_s,
        daemon=(meta.annotations or {}).get(DAEMON_ANNOTATION) == "true",
        daemon_eviction=daemon_eviction(meta.annotations),
    )


def pod_cost(pod: PodMetadata) -> PodCost:
    """Return a pod's deletion cost."""
    meta = pod.metadata
    texts = meta.annotations or {}
    owner = next((ref for ref in meta.owner_references or () if ref.controller), None)
    return PodCost(
        meta.namespace,
        meta.name,
        meta.uid,
        texts.get(POD_COST_ANNOTATION),
        texts.get(POD_RANK_ANNOTATION),
        texts.get(POD_COST_TIME_ANNOTATION),
        f"{owner.kind}/{meta.namespace}/{owner.name}" if owner else "",
        POD_COST_UNFINISHED_ANNOTATION in texts,
    )


def _millis(moment: datetime | None) -> int:
    return 0 if moment is None else int(moment.astimezone(UTC).timestamp() * 1000)
