"""Deletions and scale-ups that the Cluster Autoscaler requests, recorded in the journal. An order is durable before the
cloud is called, and a repeated order joins the one in progress: the caller waits five seconds for an answer, and asks
again in a later loop. The caller has tainted and drained its nodes;
a deletion begins with the call to the cloud. An order that cannot be carried out does not hold up the others of its
call; the answer is then an error that names it. A machine that has the provider id of an earlier one is another
machine: an order for it waits until the deletion of the earlier one has ended, and is a deletion of its own. Times are
seconds, unless named.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import grpc

from trimtab.actuator.cloud.provider import CloudProvider, InstanceState, NodeGroupView
from trimtab.actuator.kube.cluster import ClusterApi, NodeView
from trimtab.actuator.runner.event_processor import EventProcessor
from trimtab.actuator.runner.observe import nodes_named
from trimtab.actuator.service.growth import growth_record
from trimtab.actuator.service.settings import DEFAULT_LIMITS
from trimtab.actuator.tracker.admission import DeletionLimits, GroupSizeFacts, HourlyLimit, hourly_limit, pending_nodes
from trimtab.actuator.tracker.events import Event, GrowthRequested, InstancesAccepted, PlannedNode
from trimtab.actuator.tracker.groups import EXTERNAL
from trimtab.actuator.tracker.states import FINAL_STATES, Deletion, GroupGrowth, GrowthReason, State
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.common.kubernetes.names import HARD_TAINT_KEY
from trimtab.common.rpc.errors import Reason, ServiceError, invalid_request

# The Cluster Autoscaler waits 5 s by default (`grpc_timeout`).
ANSWER_S: Final = 4.0
# Refused orders that an error quotes.
MOST_NAMED: Final = 5


class CountedGroup(NamedTuple):
    """A group, the nodes in progress that its size (still) counted when read, and the instances that it counts.
    `pending` : names of nodes being deleted; `counted` : provider ids.
    """

    group: NodeGroupView
    pending: frozenset[str]
    counted: frozenset[str]


class NodeToDelete(NamedTuple):
    """A node to delete: its name, and the provider id of its instance. `provider_id` : as the cloud names it."""

    name: str
    provider_id: str


class Sorted(NamedTuple):
    """Orders of a call by what is on record about their instances.

    new : neither in progress nor over. over : deleted before, with the record of it; a machine may return under the
    same provider id. left : in progress, and the instance had left or was missing. refused : by provider id, with the
    reason.
    """

    new: list[NodeToDelete]
    over: dict[NodeToDelete, Deletion]
    left: list[NodeToDelete]
    refused: dict[str, ServiceError]


class Observed(NamedTuple):
    """What is known about the instances of a call's orders.

    states, members : state and node group by provider id; nodes : Node objects by name.
    """

    states: Mapping[str, InstanceState]
    members: Mapping[str, str]
    nodes: Mapping[str, NodeView]


class ExternalOrders:
    """Orders of one caller."""

    def __init__(
        self,
        processor: EventProcessor,
        cluster: ClusterApi,
        cloud: CloudProvider,
        answer_s: float = ANSWER_S,
        limits: Callable[[], DeletionLimits] = lambda: DEFAULT_LIMITS,
    ) -> None:
        """Set up; `limits` returns the limits per hour that the access policy currently sets."""
        self._limits = limits
        self._processor = processor
        self._cluster = cluster
        self._cloud = cloud
        self._answer_s = answer_s

    def delete(self, group: str, orders: Sequence[NodeToDelete]) -> None:
        """Delete instances; returns once the target size no longer counts them. Raises `ServiceError`, also for some of
        them, once the others are carried out.
        """
        until_s = time.monotonic() + self._answer_s
        asked = {order.provider_id for order in orders}
        if self._processor.read(lambda tracker, _: any(one.provider_id in asked for one in _in_progress(tracker))):
            nodes = self._nodes(orders)
            what = "the deletion of an earlier machine under the same provider id"
            self._wait(lambda tracker: _earlier_left(tracker, orders, nodes), what, until_s)
        refused = self.begin_delete(group, orders)
        ids = asked - refused.keys()
        self._wait(lambda tracker: _deletions_left(tracker, ids), f"the deletion of {len(ids)} nodes", until_s)
        if refused:
            raise _joined(list(refused.values()), len(orders))

    def begin_delete(self, group: str, orders: Sequence[NodeToDelete]) -> Mapping[str, ServiceError]:
        """Record the deletions that are neither in progress nor over; return the refused ones by provider id. Raises
        `ServiceError` where it is not about single orders, and then records none.
        """
        nodes = self._nodes(orders)
        sorted_orders = self._processor.read(lambda tracker, _: _sort(tracker, orders, nodes))
        open_orders = [*sorted_orders.new, *sorted_orders.over]
        refused = {**sorted_orders.refused, **self._returned(group, sorted_orders.left)}
        if not open_orders:
            return refused
        # Read before the sizes: a node that a size no longer counts is then never subtracted again.
        pending = self._processor.read(lambda tracker, _: pending_nodes(tracker.data))
        view = self._view(group)
        seen = self._observe(group, open_orders, nodes)
        refused |= _name_conflicts(orders, {name: node.provider_id for name, node in seen.nodes.items()})
        chosen = []
        for order in open_orders:
            if order.provider_id in refused or _is_ended(order, sorted_orders.over.get(order), seen):
                continue
            if seen.members.get(order.provider_id) == group:
                chosen.append(order)
            else:
                message = f"node group {group} has no instance {order.provider_id}"
                refused[order.provider_id] = invalid_request(message, field="nodes")
        deleting = {instance for instance, state in seen.states.items() if state is InstanceState.DELETING}
        sizes = CountedGroup(view, pending, frozenset(seen.states.keys() - deleting))
        groups = {view.id: GroupSizeFacts(view.min_size, view.target_size) for view in self._cloud.node_groups()}
        limits = self._limits()
        planned = [_planned(group, order, seen.nodes.get(order.name)) for order in chosen]

        def proposal(tracker: Tracker, now_ms: int) -> Event | None:
            wanted = _still_open(tracker, chosen, sorted_orders.over, nodes)
            accepted = tuple(one for one in planned if one.provider_id in wanted)
            _check_minimum(tracker, sizes, accepted)
            _check_hour(hourly_limit(tracker.data, groups, limits, now_ms), accepted)
            if not accepted:
                return None
            return InstancesAccepted(f"{EXTERNAL}{tracker.data.revision}", accepted)

        self._processor.propose(proposal)
        return refused

    def _nodes(self, orders: Sequence[NodeToDelete]) -> Mapping[str, NodeView]:
        """Return the Node objects of orders, by name. Raises `ClusterError`."""
        return {node.name: node for node in nodes_named(self._cluster, sorted({order.name for order in orders}))}

    def _observe(self, group: str, orders: Sequence[NodeToDelete], nodes: Mapping[str, NodeView]) -> Observed:
        """Read the cloud. Raises `CloudError`."""
        ids = [order.provider_id for order in orders]
        return Observed(self._cloud.instance_states(group, ids), self._cloud.groups_of(ids), nodes)

    def _returned(self, group: str, orders: Sequence[NodeToDelete]) -> Mapping[str, ServiceError]:
        """Return the orders whose instances are listed as running again while an earlier deletion is in progress, by
        provider id. Raises `CloudError`.
        """
        if not orders:
            return {}
        states = self._cloud.instance_states(group, [order.provider_id for order in orders])
        present = (InstanceState.RUNNING, InstanceState.CREATING)
        return {
            order.provider_id: _later(
                f"{order.name}: its instance is listed again while its earlier deletion is ending; ask again"
            )
            for order in orders
            if states.get(order.provider_id) in present
        }

    def increase(self, group: str, delta: int) -> None:
        """Raise the target size; returns once the cloud has done so. Raises `ServiceError`."""
        until_s = time.monotonic() + self._answer_s
        while True:
            request_id = self.begin_increase(group, delta)
            self._wait(partial(_growth_left, request_id=request_id), f"the increase of {group} by {delta}", until_s)
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
            growth = GroupGrowth(group, view.target_size, view.target_size + delta)
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
        view = next((view for view in self._cloud.node_groups() if view.id == group), None)
        if view is None:
            raise ServiceError(grpc.StatusCode.NOT_FOUND, Reason.NOT_FOUND, f"node group {group} does not exist")
        return view

    def _wait(self, left: Callable[[Tracker], bool], what: str, until_s: float) -> None:
        """Wait until `left` returns false. Raises what `left` raises, and UNAVAILABLE when it takes longer."""
        if not self._processor.wait_until(lambda tracker, _: not left(tracker), until_s - time.monotonic()):
            raise _later(f"{what} is in progress, the cloud has not answered after {self._answer_s:g} s; try again")


def _later(message: str) -> ServiceError:
    return ServiceError(grpc.StatusCode.UNAVAILABLE, Reason.BACKEND_UNAVAILABLE, message)


def _planned(group: str, order: NodeToDelete, node: NodeView | None) -> PlannedNode:
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


def _name_conflicts(orders: Sequence[NodeToDelete], known: Mapping[str, str]) -> dict[str, ServiceError]:
    """Return the orders that name the same node as another one, or a node that is known to have another provider id,
    by provider id. A name that no node has was made up by the caller, as for instances that never registered; a node
    without provider id matches any.
    """
    errors: dict[str, ServiceError] = {}
    ordered: dict[str, str] = {}
    for name, provider_id in orders:
        there = known.get(name) or provider_id
        if there != provider_id:
            message = (
                f"node {name} has provider id {there}, not {provider_id}; give the name and providerID of one node"
            )
            errors[provider_id] = invalid_request(message, field="nodes")
        if name in ordered:
            both = f"{ordered[name]} and {provider_id}"
            message = f"node {name} is given with provider ids {both}; give each name once"
            errors |= dict.fromkeys((ordered[name], provider_id), invalid_request(message, field="nodes"))
        ordered.setdefault(name, provider_id)
    return errors


def _is_ended(order: NodeToDelete, last: Deletion | None, seen: Observed) -> bool:
    """Return whether there is nothing left to delete. last : the record of the instance's last deletion.

    An instance that was given up before it started counts as gone at once: it may be in no group while it is deleted.
    After a recorded deletion, the machine is back if the cloud lists it again, or if another Node object has its name.
    """
    state = seen.states[order.provider_id]
    if last is not None and _is_earlier(last, seen.nodes.get(order.name)):
        return False
    if state is InstanceState.GONE:
        return True
    if last is not None:
        return state not in (InstanceState.RUNNING, InstanceState.CREATING)
    return state is InstanceState.DELETING and order.provider_id not in seen.members


def _last(tracker: Tracker, provider_id: str) -> Deletion | None:
    """Return the deletion of an instance: the one in progress, or the last one on record."""
    for deletion in tracker.data.deletions.values():
        if deletion.provider_id == provider_id:
            return deletion
    return next((deletion for deletion in reversed(tracker.data.finished) if deletion.provider_id == provider_id), None)


def _in_progress(tracker: Tracker) -> Iterable[Deletion]:
    return tracker.data.deletions.values()


def _is_earlier(deletion: Deletion, node: NodeView | None) -> bool:
    """Return whether a deletion is that of an earlier machine under the provider id of this node."""
    return node is not None and node.provider_id in ("", deletion.provider_id) and node.uid != deletion.node_uid


def _earlier_left(tracker: Tracker, orders: Sequence[NodeToDelete], nodes: Mapping[str, NodeView]) -> bool:
    """Return whether deletions of earlier machines under the provider ids of orders are still in progress."""
    ordered = {order.provider_id: nodes.get(order.name) for order in orders}
    return any(
        one.provider_id in ordered and one.state is State.DELETING and _is_earlier(one, ordered[one.provider_id])
        for one in _in_progress(tracker)
    )


def _sort(tracker: Tracker, orders: Sequence[NodeToDelete], nodes: Mapping[str, NodeView]) -> Sorted:
    """Return the orders by what is on record; those in progress are left out."""
    found = Sorted([], {}, [], {})
    for order in orders:
        last = _last(tracker, order.provider_id)
        if last is not None and last.state not in FINAL_STATES:
            if last.state is not State.DELETING:
                message = f"{order.name}: its deletion by request {last.request_id} is {last.state.name}; ask again"
                found.refused[order.provider_id] = _later(message)
            elif _is_earlier(last, nodes.get(order.name)):
                message = f"{order.name}: the deletion of an earlier machine with its provider id is ending; ask again"
                found.refused[order.provider_id] = _later(message)
            elif last.has_left:
                found.left.append(order)
            continue
        busy = tracker.data.deletions.get(order.name)
        if busy is not None and (last is None or last.state is not State.DELETED):
            message = f"{order.name}: a deletion of {busy.provider_id or 'that node'} is {busy.state.name}"
            found.refused[order.provider_id] = _later(message)
        elif last is not None and last.state is State.DELETED:
            found.over[order] = last
        else:
            found.new.append(order)
    return found


def _still_open(
    tracker: Tracker,
    orders: Sequence[NodeToDelete],
    over: Mapping[NodeToDelete, Deletion],
    nodes: Mapping[str, NodeView],
) -> set[str]:
    """Return the provider ids of the orders that nobody has begun to carry out meanwhile."""
    now = _sort(tracker, orders, nodes)
    return {order.provider_id for order in now.new} | {
        order.provider_id
        for order, last in now.over.items()
        if order in over and last.request_id == over[order].request_id and order.name not in tracker.data.deletions
    }


def _joined(errors: Sequence[ServiceError], order_count: int) -> ServiceError:
    """Return one error for several refused orders of a call."""
    if order_count == 1:
        return errors[0]
    texts = list(dict.fromkeys(error.message for error in errors))
    more = f"; and {len(texts) - MOST_NAMED} more" if len(texts) > MOST_NAMED else ""
    message = f"{len(errors)} of {order_count} nodes were refused, the others are deleted: "
    message += "; ".join(texts[:MOST_NAMED]) + more
    can_pass = all(error.reason == Reason.BACKEND_UNAVAILABLE for error in errors)
    return _later(message) if can_pass else invalid_request(message, field="nodes")


def _check_minimum(tracker: Tracker, sizes: CountedGroup, accepted: Sequence[PlannedNode]) -> None:
    """Raise unless the group stays at its minimum or above."""
    group, still = sizes.group, sizes.pending | pending_nodes(tracker.data)
    deletions = tracker.data.deletions.values()
    leaving_count = sum(deletion.node_group == group.id and deletion.node in still for deletion in deletions)
    count = sum(planned.provider_id in sizes.counted for planned in accepted)
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
