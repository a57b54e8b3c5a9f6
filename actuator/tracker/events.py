"""Events: what has happened, or has been decided. The tracker's only input, and what the store keeps.

Each is a frozen, tagged struct that msgspec writes as JSON; a tag, once used, keeps its meaning for ever, because old
stores are replayed. New fields get defaults. `encode` and `decode` are the one codec.
"""

import msgspec

from actuator.tracker.states import Growth, GrowthAnswer, NodeAnswer, PodRef


class Event(msgspec.Struct, frozen=True, tag_field="event"):
    """Something that happened."""


class PlannedNode(msgspec.Struct, frozen=True):
    """A node accepted for deletion."""

    node: str
    node_group: str
    drain: bool
    planned_uids: tuple[str, ...] | None = None
    gpu: bool = False


class SetAccepted(Event, frozen=True, tag="set_accepted"):
    """A `StartDeletion` was answered: these nodes go, for the others `answers` says why not."""

    request_id: str
    digest: str
    nodes: tuple[PlannedNode, ...]
    answers: tuple[NodeAnswer, ...]
    drain_timeout_s: float


class SetTainted(Event, frozen=True, tag="set_tainted"):
    """Every accepted node of a request carries the taint."""

    request_id: str


class SetFailed(Event, frozen=True, tag="set_failed"):
    """The taint could not be written to `node`; the whole set is given up."""

    request_id: str
    node: str
    detail: str


class NodeEvent(Event, frozen=True):
    """Something that happened to one deletion."""

    node: str


class NodeEmpty(NodeEvent, frozen=True, tag="node_empty"):
    """A node that was to go without drain has no pod to move."""


class DrainStarted(NodeEvent, frozen=True, tag="drain_started"):
    """Pods that are to go: all of them when the drain begins, new ones when it finds more."""

    pods: tuple[PodRef, ...]


class PodsEvicted(NodeEvent, frozen=True, tag="pods_evicted"):
    """The eviction of these pods was granted."""

    pods: tuple[PodRef, ...]


class DrainProgressed(NodeEvent, frozen=True, tag="drain_progressed"):
    """So many of the pods have gone."""

    gone_count: int


class Drained(NodeEvent, frozen=True, tag="drained"):
    """No pod to move is left."""


class DeleteBegun(NodeEvent, frozen=True, tag="delete_begun"):
    """The cloud is about to be asked; from here on there is no way back by cancelling."""


class DeleteAccepted(NodeEvent, frozen=True, tag="delete_accepted"):
    """The cloud has taken the request; its target size counts the node out."""


class InstanceGone(NodeEvent, frozen=True, tag="instance_gone"):
    """Neither the instance nor the node exists any more."""


class NodeGone(NodeEvent, frozen=True, tag="node_gone"):
    """The node vanished before the cloud was asked."""


class DeletionFailed(NodeEvent, frozen=True, tag="deletion_failed"):
    """A step was given up. `reason` is a `DeletionReason.Code`."""

    reason: int
    detail: str
    pods_left: tuple[str, ...] = ()


class CancelRequested(NodeEvent, frozen=True, tag="cancel_requested"):
    """A caller wants the deletion stopped."""

    detail: str


class RolledBack(NodeEvent, frozen=True, tag="rolled_back"):
    """The taint has been taken back."""


class GrowthRequested(Event, frozen=True, tag="growth_requested"):
    """A `ScaleUp` is to be carried out."""

    request_id: str
    digest: str
    growths: tuple[Growth, ...]


class GrowthAnswered(Event, frozen=True, tag="growth_answered"):
    """The cloud has answered a `ScaleUp`."""

    request_id: str
    answers: tuple[GrowthAnswer, ...]


AnyEvent = (
    SetAccepted
    | SetTainted
    | SetFailed
    | NodeEmpty
    | DrainStarted
    | PodsEvicted
    | DrainProgressed
    | Drained
    | DeleteBegun
    | DeleteAccepted
    | InstanceGone
    | NodeGone
    | DeletionFailed
    | CancelRequested
    | RolledBack
    | GrowthRequested
    | GrowthAnswered
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def encode(event: Event) -> bytes:
    """Write an event as JSON."""
    return _encoder.encode(event)


def decode(payload: bytes) -> AnyEvent:
    """Read an event. Raises `msgspec.DecodeError` or `msgspec.ValidationError`, saying where it is broken."""
    return _decoder.decode(payload)
