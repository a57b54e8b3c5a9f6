"""Deletions and scale-ups that the Cluster Autoscaler requests, recorded in the journal. An order is durable before the
cloud is called, and a repeated order joins the one in progress: the caller waits five seconds for an answer, and asks
again in a later loop. The caller has tainted and drained its nodes;
a deletion begins with the call to the cloud. Times are seconds, unless named.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import grpc

from actuator.cloud.provider import CloudProvider, InstanceState, NodeGroupView
from actuator.kube.cluster import HARD_TAINT_KEY, ClusterApi, NodeView
from actuator.runner.event_processor import EventProcessor
from actuator.service.growth import growth_record
from actuator.service.observe import nodes_named
from actuator.service.settings import DEFAULT_LIMITS
from actuator.tracker.admission import GroupFacts, HourlyLimit, Limits, hourly_limit, pending_nodes
from actuator.tracker.events import Event, GrowthRequested, InstancesAccepted, PlannedNode
from actuator.tracker.groups import EXTERNAL
from actuator.tracker.states import Deletion, Growth, GrowthReason, State
from actuator.tracker.tracker import Tracker
from clients.transport.errors import Reason, ServiceError, invalid_request

# The Cluster Autoscaler waits 5 s by default (`grpc_timeout`).
ANSWER_S: Final = 4.0


class Sizes(NamedTuple):
    """A group, the nodes in progress that its size (still) counted when read, and the instances that it counts."""

    group: NodeGroupView
    pending: frozenset[str]
    counted: frozenset[str]


class NodeOrder(NamedTuple):
    """A node to delete: its name, and the provider id of its instance."""

    name: str
    provider_id: str


class ExternalOrders:
    """Orders of one caller."""

    def __init__(
        self,
        processor: EventProcessor,
        cluster: ClusterApi,
        cloud: CloudProvider,
        answer_s: float = ANSWER_S,
        limits: Callable[[], Limits] = lambda: DEFAULT_LIMITS,
    ) -> None:
        """Set up; `limits` returns the limits per hour that the access policy currently sets."""
        self._limits = limits
        self._processor = processor
        self._cluster = cluster
        self._cloud = cloud
        self._answer_s = answer_s

    def delete(self, group: str, orders: Sequence[NodeOrder]) -> None:
        """Delete instances; returns once the target size no longer counts them. Raises `ServiceError`."""
        self.begin_delete(group, orders)
        ids = {order.provider_id for order in orders}
        self._wait(lambda tracker: _deletions_left(tracker, ids), f"the deletion of {len(ids)} nodes")

    def begin_delete(self, group: str, orders: Sequence[NodeOrder]) -> None:
        """Record the deletions that are neither in progress nor over. Raises `ServiceError`, and then records none."""
        new = self._processor.read(lambda tracker, _: _new_orders(tracker, orders))
        if not new:
            return
        # Read before the sizes: a node that a size no longer counts is then never subtracted again.
        pending = self._processor.read(lambda tracker, _: pending_nodes(tracker.data))
        view = self._view(group)
        states = self._cloud.instance_states(group, [order.provider_id for order in new])
        members = self._cloud.groups_of([order.provider_id for order in new])
        new = [order for order in new if states[order.provider_id] is not InstanceState.GONE]
        for order in new:
            if members.get(order.provider_id) != group:
                raise invalid_request(f"node group {group} has no instance {order.provider_id}", field="nodes")
        deleting = {instance for instance, state in states.items() if state is InstanceState.DELETING}
        sizes = Sizes(view, pending, frozenset(states.keys() - deleting))
        groups = {one.id: GroupFacts(one.min_size, one.target_size) for one in self._cloud.node_groups()}
        limits = self._limits()
        known = nodes_named(self._cluster, sorted({order.name for order in new}))
        _check_names(new, {node.name: node.provider_id for node in known})
        nodes = {node.provider_id: node for node in known}
        planned = [_planned(group, order, nodes.get(order.provider_id)) for order in new]

        def proposal(tracker: Tracker, now_ms: int) -> Event | None:
            wanted = {order.provider_id for order in _new_orders(tracker, new)}
            accepted = tuple(one for one in planned if one.provider_id in wanted)
            _check_minimum(tracker, sizes, accepted)
            _check_hour(hourly_limit(tracker.data, groups, limits, now_ms), accepted)
            if not accepted:
                return None
            return InstancesAccepted(f"{EXTERNAL}{tracker.data.revision}", accepted)

        self._processor.propose(proposal)

    def increase(self, group: str, delta: int) -> None:
        """Raise the target size; returns once the cloud has done so. Raises `ServiceError`."""
        until_s = time.monotonic() + self._answer_s
        while True:
            request_id = self.begin_increase(group, delta)
            self._wait(partial(_growth_left, request_id=request_id), f"the increase of {group} by {delta}")
            # A size that changed in between, for example by a deletion, is read again: the request is a difference.
            if not self._processor.read(partial(_size_changed, request_id=request_id)):
                return
            if time.monotonic() > until_s:
                raise _later(f"the size of node group {group} changes constantly; try again later")

    def begin_increase(self, group: str, delta: int) -> str:
        """Record a growth, or join an equal one that has no answer yet; return its request id."""
        if delta < 1:
            raise invalid_request(f"delta is {delta}; give 1 or more", field="delta")
        view = self._view(group)
        found: list[str] = []

        def proposal(tracker: Tracker, _now_ms: int) -> Event | None:
            found.clear()
            for record in tracker.data.growths.values():
                for growth in record.growths if record.answers is None else ():
                    if growth.node_group != group:
                        continue
                    if growth.wanted - growth.expected != delta or len(record.growths) > 1:
                        raise _later(f"node group {group} is growing to {growth.wanted}; try again later")
                    found.append(record.request_id)
                    return None
            found.append(f"{EXTERNAL}{tracker.data.revision}")
            growth = Growth(group, view.target_size, view.target_size + delta)
            return GrowthRequested(found[0], f"{group}+{delta}", (growth,))

        self._processor.propose(proposal)
        return found[0]

    def decrease(self, group: str, delta: int) -> None:
        """Lower the target size by instances that have not started; `delta` is negative. Raises `CloudError`."""
        if delta > -1:
            raise invalid_request(f"delta is {delta}; give -1 or less", field="delta")
        self._processor.check_leading()
        view = self._view(group)
        self._cloud.decrease_target(group, view.target_size, view.target_size + delta)

    def _view(self, group: str) -> NodeGroupView:
        view = next((one for one in self._cloud.node_groups() if one.id == group), None)
        if view is None:
            raise ServiceError(grpc.StatusCode.NOT_FOUND, Reason.NOT_FOUND, f"node group {group} does not exist")
        return view

    def _wait(self, left: Callable[[Tracker], bool], what: str) -> None:
        """Wait until `left` returns false. Raises what `left` raises, and UNAVAILABLE when it takes longer."""
        until, revision = time.monotonic() + self._answer_s, -1
        while True:
            left_s = until - time.monotonic()
            revision = self._processor.wait_for_change(revision, max(0.0, left_s))
            if not self._processor.read(lambda tracker, _: left(tracker)):
                return
            if left_s <= 0:
                raise _later(f"{what} is in progress, the cloud has not answered after {self._answer_s:g} s; try again")


def _later(message: str) -> ServiceError:
    return ServiceError(grpc.StatusCode.UNAVAILABLE, Reason.BACKEND_UNAVAILABLE, message)


def _planned(group: str, order: NodeOrder, node: NodeView | None) -> PlannedNode:
    """Return the node of an order; it has no Node object if its instance never registered."""
    return PlannedNode(
        node=order.name,
        node_group=group,
        drain=False,
        gpu=node is not None and node.gpu,
        provider_id=order.provider_id,
        node_uid="" if node is None else node.uid,
        tainted=node is not None and node.taint(HARD_TAINT_KEY) is not None,
    )


def _check_names(orders: Sequence[NodeOrder], known: Mapping[str, str]) -> None:
    """Raise if two orders name the same node, or a node is known to have another provider id. A name that no node has
    was made up by the caller, as for instances that never registered; a node without provider id matches any.
    """
    ordered: dict[str, str] = {}
    for name, provider_id in orders:
        there = known.get(name) or provider_id
        if there != provider_id:
            raise invalid_request(
                f"node {name} has provider id {there}, not {provider_id}; give the name and providerID of one node",
                field="nodes",
            )
        if name in ordered:
            raise invalid_request(
                f"node {name} is given with provider ids {ordered[name]} and {provider_id}; give each name once",
                field="nodes",
            )
        ordered[name] = provider_id


def _last(tracker: Tracker, provider_id: str) -> Deletion | None:
    """Return the deletion of an instance: the one in progress, or the last one on record."""
    for deletion in tracker.data.deletions.values():
        if deletion.provider_id == provider_id:
            return deletion
    return next((one for one in reversed(tracker.data.finished) if one.provider_id == provider_id), None)


def _new_orders(tracker: Tracker, orders: Sequence[NodeOrder]) -> list[NodeOrder]:
    """Return the orders neither carried out nor in progress. Raises if a node is being drained or rolled back."""
    found = []
    for order in orders:
        last = _last(tracker, order.provider_id)
        if last is None or last.state in (State.FAILED, State.CANCELLED):
            busy = tracker.data.deletions.get(order.name)
            if busy is not None:
                raise _later(f"{order.name}: a deletion of {busy.provider_id or 'that node'} is {busy.state.name}")
            found.append(order)
        elif last.state not in (State.DELETING, State.DELETED):
            raise _later(f"{order.name}: its deletion by request {last.request_id} is {last.state.name}; ask again")
    return found


def _check_minimum(tracker: Tracker, sizes: Sizes, accepted: Sequence[PlannedNode]) -> None:
    """Raise unless the group stays at its minimum or above."""
    group, still = sizes.group, sizes.pending | pending_nodes(tracker.data)
    deletions = tracker.data.deletions.values()
    leaving_count = sum(one.node_group == group.id and one.node in still for one in deletions)
    count = sum(one.provider_id in sizes.counted for one in accepted)
    if count and group.target_size - leaving_count - count < group.min_size:
        raise invalid_request(
            f"node group {group.id}: size {group.target_size}, {leaving_count} leaving, {count} to delete, minimum"
            f" {group.min_size}",
            field="nodes",
        )


def _check_hour(limit: HourlyLimit, accepted: Sequence[PlannedNode]) -> None:
    """Raise unless that many more nodes may be deleted within the hour."""
    if accepted and limit.most is not None and limit.counted + len(accepted) > limit.most:
        raise ServiceError(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            Reason.LIMIT_EXCEEDED,
            f"{len(accepted)} nodes to delete: {limit.description}",
        )


def _deletions_left(tracker: Tracker, provider_ids: set[str]) -> bool:
    """Return whether the cloud has yet to accept some of the deletions. Raises if one has failed."""
    left = False
    for provider_id in sorted(provider_ids):
        last = _last(tracker, provider_id)
        if last is None or last.target_reduced or last.state is State.DELETED:
            continue
        if last.state is not State.DELETING:
            raise _later(f"{last.node} was not deleted: {last.detail}")
        left = True
    return left


def _growth_left(tracker: Tracker, request_id: str) -> bool:
    """Return whether a growth has no answer yet. Raises when it was refused, or not carried out."""
    answers = growth_record(tracker, request_id).answers
    for answer in answers or ():
        if answer.reason == GrowthReason.REFUSED:
            raise ServiceError(grpc.StatusCode.RESOURCE_EXHAUSTED, Reason.LIMIT_EXCEEDED, answer.detail)
        if answer.reason == GrowthReason.NOT_CARRIED_OUT:
            raise _later(answer.detail)
    return answers is None


def _size_changed(tracker: Tracker, _now_ms: int, *, request_id: str) -> bool:
    answers = growth_record(tracker, request_id).answers or ()
    return any(answer.reason == GrowthReason.SIZE_CHANGED for answer in answers)
