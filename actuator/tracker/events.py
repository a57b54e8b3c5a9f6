"""Events: things that have happened or have been decided. The tracker's only input, and the content of the store. Each
is a frozen, tagged struct, which msgspec writes as JSON. The meaning of a tag never changes: old stores are replayed.
New fields get defaults. `encode` and `decode` are the only codec.
"""

import functools
import operator
from typing import Any, Protocol

import msgspec

from trimtab.actuator.tracker.replacement_states import DepartingNode, WantedNode
from trimtab.actuator.tracker.states import GroupGrowth, GrowthAnswer, NodeAnswer, PodRef, SeenType

_encoder = msgspec.json.Encoder()


class Event(msgspec.Struct, frozen=True, tag_field="event"):
    """Something that happened."""


class PlannedNode(msgspec.Struct, frozen=True):
    """A node accepted for deletion."""

    node: str
    node_group: str
    drain: bool
    planned_uids: tuple[str, ...] | None = None
    gpu: bool = False
    # Provider id of the machine, and uid of the Node object.
    provider_id: str = ""
    node_uid: str = ""
    # Whether the requesting autoscaler has tainted it.
    tainted: bool = False
    # Set for its node group; None = as in the request.
    drain_timeout_s: float | None = None
    # The gang that moves whole from this node and others of the request, "" = none.
    gang: str = ""


class SetAccepted(Event, frozen=True, tag="set_accepted"):
    """A `StartDeletion` was answered: `nodes` are accepted, `answers` has the reasons for the others."""

    request_id: str
    digest: str
    nodes: tuple[PlannedNode, ...]
    answers: tuple[NodeAnswer, ...]
    drain_timeout_s: float
    # Epoch of the caller's leadership; 0 = none.
    epoch: int = 0


class SetTainted(Event, frozen=True, tag="set_tainted"):
    """Every accepted node of a request carries the taint."""

    request_id: str


class SetFailed(Event, frozen=True, tag="set_failed"):
    """The taint could not be written to `node`, so the whole set fails."""

    request_id: str
    node: str
    detail: str


class InstancesAccepted(Event, frozen=True, tag="instances_accepted"):
    """Another autoscaler has drained these nodes, and its request to delete their instances was accepted."""

    request_id: str
    nodes: tuple[PlannedNode, ...]


class NodeEvent(Event, frozen=True):
    """Something that happened to one deletion."""

    node: str


class TaintRestored(NodeEvent, frozen=True, tag="taint_restored"):
    """Another client removed the taint, and it is about to be restored: until the scheduler has read it, pods may come,
    also after a restart.
    """


class NodeEmpty(NodeEvent, frozen=True, tag="node_empty"):
    """A node without drain has no pod to move."""


class DrainStarted(NodeEvent, frozen=True, tag="drain_started"):
    """Pods to evict: all of them when the drain begins, new ones when it finds more."""

    pods: tuple[PodRef, ...]


class PodsEvicted(NodeEvent, frozen=True, tag="pods_evicted"):
    """The eviction of these pods was granted."""

    pods: tuple[PodRef, ...]


class DrainProgressed(NodeEvent, frozen=True, tag="drain_progressed"):
    """This number of pods is gone."""

    gone_count: int


class Drained(NodeEvent, frozen=True, tag="drained"):
    """No pod is left to move."""


class DeleteBegun(NodeEvent, frozen=True, tag="delete_begun"):
    """The cloud is about to be called; from here on the deletion cannot be cancelled."""


class DeleteAccepted(NodeEvent, frozen=True, tag="delete_accepted"):
    """The cloud has accepted the request; the target size no longer counts the node."""


class InstanceLeft(NodeEvent, frozen=True, tag="instance_left"):
    """The instance is reported as leaving, or is missing, for the first time since the cloud accepted the request."""


class InstanceGone(NodeEvent, frozen=True, tag="instance_gone"):
    """Neither the instance nor the node exists any more; another machine may have the provider id."""


class NodeGone(NodeEvent, frozen=True, tag="node_gone"):
    """The node vanished before the cloud was called."""


class DeletionFailed(NodeEvent, frozen=True, tag="deletion_failed"):
    """A step failed. `reason` is a `DeletionReason.Code`."""

    reason: int
    detail: str
    pods_left: tuple[str, ...] = ()


class CancelRequested(NodeEvent, frozen=True, tag="cancel_requested"):
    """A caller requested to stop the deletion."""

    detail: str


class RolledBack(NodeEvent, frozen=True, tag="rolled_back"):
    """The taint was removed."""


class GrowthRequested(Event, frozen=True, tag="growth_requested"):
    """A `ScaleUp`, or a `LowerTargets`, was accepted."""

    request_id: str
    digest: str
    growths: tuple[GroupGrowth, ...]
    epoch: int = 0


class GrowthAnswered(Event, frozen=True, tag="growth_answered"):
    """The cloud has answered a `ScaleUp`, or a `LowerTargets`."""

    request_id: str
    answers: tuple[GrowthAnswer, ...]


class GroupFailed(Event, frozen=True, tag="group_failed"):
    """The cloud could not start an instance of a growing group; `activity` is unique."""

    node_group: str
    activity: str
    detail: str


class NodesAwaited(Event, frozen=True, tag="nodes_awaited"):
    """A group's target size is above the number of nodes that have joined."""

    node_group: str


class NodesJoined(Event, frozen=True, tag="nodes_joined"):
    """All nodes of a group's target size have joined."""

    node_group: str


class GroupBackedOff(Event, frozen=True, tag="group_backed_off"):
    """A group grew but got no node; it is backed off until one joins. `activity` is unique for each failure."""

    node_group: str
    activity: str
    detail: str


class GroupRecovered(Event, frozen=True, tag="group_recovered"):
    """The node that a backed-off group waited for has joined, or is no longer wanted."""

    node_group: str


class RegistrationNoted(Event, frozen=True, tag="registration_noted"):
    """Instances that run without a Node object (group and provider id of each), and earlier ones that no longer do."""

    unregistered: tuple[tuple[str, str], ...]
    settled: tuple[str, ...]


class NodeTypesSeen(Event, frozen=True, tag="node_types_seen"):
    """Resources that ready nodes of instance types have; replaces earlier knowledge of the same types."""

    types: tuple[SeenType, ...]


class ClockJumped(Event, frozen=True, tag="clock_jumped"):
    """The wall clock jumped: all stored times are shifted, so that ages stay the same."""

    by_ms: int


class NodesCounted(Event, frozen=True, tag="nodes_counted"):
    """The groups have this number of nodes: registered ones, and those deleted within the last hour."""

    count: int


class TimeNoted(Event, frozen=True, tag="time_noted"):
    """Time has passed. Written while deletions of the last hour are counted, so that a restart knows their age."""


class AbsenceEnded(Event, frozen=True, tag="absence_ended"):
    """No actuator has recorded anything for this time, by a clock that may have been set meanwhile. What counts for an
    hour keeps its age.
    """

    by_ms: int


class ReplacementEvent(Event, frozen=True):
    """Something that happened to one replacement."""

    request_id: str


class ReplacementAccepted(ReplacementEvent, frozen=True, tag="replacement_accepted"):
    """A `StartReplacement` was accepted. `prices` : of one node for one hour, by node group."""

    digest: str
    new_nodes: tuple[WantedNode, ...]
    leaving: tuple[DepartingNode, ...]
    planned_saving: float
    min_saving: float
    ready_timeout_s: float
    prices: tuple[tuple[str, float], ...]
    epoch: int = 0


class LeavingMarked(ReplacementEvent, frozen=True, tag="leaving_marked"):
    """The nodes that leave carry the soft taint."""


class NodesOrdered(ReplacementEvent, frozen=True, tag="nodes_ordered"):
    """New nodes, by their names in the plan, are about to be ordered by these growths. `members` : the instances that
    the groups have.
    """

    names: tuple[str, ...]
    growths: tuple[GroupGrowth, ...]
    members: tuple[tuple[str, tuple[str, ...]], ...]


class OrdersMissed(ReplacementEvent, frozen=True, tag="orders_missed"):
    """The groups from which these new nodes were, or were to be, ordered give none; or a node that came is gone."""

    names: tuple[str, ...]
    detail: str


class ReadyNode(msgspec.Struct, frozen=True):
    """A new node that has become ready."""

    node_group: str
    node: str
    provider_id: str


class NewNodesReady(ReplacementEvent, frozen=True, tag="new_nodes_ready"):
    """Ordered nodes have become ready."""

    nodes: tuple[ReadyNode, ...]


class StayReason(msgspec.Struct, frozen=True):
    """A node that stays, and why: a `DeletionReason.Code` and a text."""

    node: str
    reason: int
    detail: str


class DrainsAllowed(ReplacementEvent, frozen=True, tag="drains_allowed"):
    """The nodes that came save enough: the nodes that leave are deleted, except these."""

    stays: tuple[StayReason, ...]


class LeavingStays(ReplacementEvent, frozen=True, tag="leaving_stays"):
    """Nodes that should leave may not be deleted."""

    nodes: tuple[StayReason, ...]


class DrainsEnded(ReplacementEvent, frozen=True, tag="drains_ended"):
    """Each node that should leave is gone or stays."""


class ReplacementFailed(ReplacementEvent, frozen=True, tag="replacement_failed"):
    """It is not carried out. `reason` is a `ReplacementReason.Code`; `stays` : nodes that may not be deleted."""

    reason: int
    detail: str
    stays: tuple[StayReason, ...] = ()


class ReplacementCancelled(ReplacementEvent, frozen=True, tag="replacement_cancelled"):
    """A caller has cancelled it."""

    detail: str


class LeavingUnmarked(ReplacementEvent, frozen=True, tag="leaving_unmarked"):
    """No node carries the soft taint any longer for this replacement."""


class LoweringBegun(ReplacementEvent, frozen=True, tag="lowering_begun"):
    """The target size of a group is about to be lowered by nodes that were ordered and have not started."""

    node_group: str
    expected: int
    wanted: int


class LoweringEnded(ReplacementEvent, frozen=True, tag="lowering_ended"):
    """The cloud has lowered it, by this number of nodes, or refused to. The others may still start."""

    node_group: str
    given_up_count: int
    detail: str


class SurplusStays(ReplacementEvent, frozen=True, tag="surplus_stays"):
    """New nodes that serve nothing of the plan are kept, or are gone; `reason` NODE_NOT_FOUND = gone."""

    nodes: tuple[StayReason, ...]


class OrdersLeft(ReplacementEvent, frozen=True, tag="orders_left"):
    """Ordered nodes have not come in time to be given back; scale-down deletes them if they ever do."""

    detail: str


class ReplacementEnded(ReplacementEvent, frozen=True, tag="replacement_ended"):
    """Nothing is left to do."""


def _kinds(kind: type[Event]) -> list[type[Event]]:
    """Return the events of a kind that are written: those without kinds of their own."""
    kinds = [found for each in kind.__subclasses__() for found in _kinds(each)]
    return kinds or [kind]


AnyEvent: Any = functools.reduce(operator.or_, _kinds(Event))
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(AnyEvent)


def encode(event: Event) -> bytes:
    """Write an event as JSON."""
    return _encoder.encode(event)


def decode(payload: bytes) -> Event:
    """Read an event. Raises `msgspec.DecodeError` or `msgspec.ValidationError`, which names the place."""
    return _decoder.decode(payload)


class EventRecorder(Protocol):
    """Records events; durable when `submit` returns."""

    def submit(self, event: Event) -> None:
        """Record an event."""

    def now_ms(self) -> int:
        """Return the present time."""

    def steady_ms(self) -> int:
        """Return the steady time, for durations."""

    def awake_ms(self) -> int:
        """Return the steady time without that in which the process was suspended, for deadlines."""
