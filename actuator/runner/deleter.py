"""Deletes the instances of one node group.

Decides when the cloud is called: requests within the batch time are sent together, and an annotation can delay the
request for its node. One that was accepted is requested again if its instance still runs, but never if another machine
may have its provider id: another Node object has it, the instance is listed again after it had left, or its group has
grown since. In the first two cases the deletion has ended. A deletion that the cloud refuses, or does not finish in
time, or whose instance it does not know, is rolled back. Its time is that in which the process was awake, calls of the
cloud included; once it is over, nothing more is requested. A restart begins it anew. A Node object is deleted only when
the cloud reports that its instance is gone: the machine of an unknown one may still run. Calls are not repeated here,
but in the next step. An error about one node does not hold up the others. Durations in seconds.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import structlog

from trimtab.actuator.cloud.provider import (
    CloudError,
    CloudFailedError,
    CloudProvider,
    CloudRefusedError,
    InstanceState,
)
from trimtab.actuator.kube.cluster import ClusterApi, ClusterError, NoAnswerError, NotFoundError
from trimtab.actuator.runner.ordered_machines import ExternalTaintGuard, MachineIdentity, OrderedMachines
from trimtab.actuator.settings import WorkSettings
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.events import EventRecorder
from trimtab.actuator.tracker.instructions import DeleteInstance
from trimtab.actuator.tracker.states import Reason
from trimtab.actuator.tracker.transitions import ImpossibleEventError

log = structlog.get_logger("deleter")

DELETABLE = frozenset({InstanceState.RUNNING, InstanceState.CREATING})


class InstanceDeletion(NamedTuple):
    """An instance to delete. Times are milliseconds in which the process was awake.

    wanted : the order; patience_ms : end of its delay; deadline_ms : when it fails; asked_ms : the last request, or
    when the instance was last seen to leave; has_left : whether it was; may_repeat : until the group grows
    """

    wanted: DeleteInstance
    patience_ms: int
    deadline_ms: int
    asked_ms: int = 0
    has_left: bool = False
    may_repeat: bool = True


class GroupDeleter:
    """A `ScheduledTask` for one node group; it ends when nothing is left."""

    def __init__(
        self, group: str, cluster: ClusterApi, cloud: CloudProvider, recorder: EventRecorder, settings: WorkSettings
    ) -> None:
        self.name = f"delete in {group}"
        self._group = group
        self._cluster = cluster
        self._cloud = cloud
        self._recorder = recorder
        self._settings = settings
        self._taints = ExternalTaintGuard(cluster, recorder, settings)
        self._machines = OrderedMachines(cluster, recorder)
        # Guards the fields below: `want` is called while a step runs.
        self._lock = threading.Lock()
        self._running = False
        # By node: deletions to request, and deletions requested.
        self._wanted: dict[str, InstanceDeletion] = {}
        self._asked: dict[str, InstanceDeletion] = {}

    def want(self, instruction: DeleteInstance) -> bool:
        """Add a node. True = the task is not running and has to be scheduled."""
        with self._lock:
            now_ms, settings = self._recorder.awake_ms(), self._settings.delete
            patience_ms, deadline_ms = now_ms + int(settings.delay_s * 1000), now_ms + int(settings.timeout_s * 1000)
            order = InstanceDeletion(
                instruction,
                patience_ms,
                deadline_ms,
                now_ms,
                instruction.has_left,
                not instruction.group_grew,
            )
            (self._asked if instruction.accepted else self._wanted)[instruction.node] = order
            started, self._running = not self._running, True
            return started

    def end_repeats(self) -> None:
        """Request no present deletion again once it is accepted: the group is about to grow."""
        with self._lock:
            for orders in (self._wanted, self._asked):
                orders.update({node: order._replace(may_repeat=False) for node, order in orders.items()})

    def step(self) -> float | None:
        """Request new deletions, and check the requested ones."""
        try:
            self._ask()
            self._look()
        except (CloudError, ClusterError) as error:
            log.warning("deletion waits", group=self._group, detail=str(error))
            self._expire(self._orders(self._wanted) | self._orders(self._asked), str(error))
            return self._settings.delete.retry_s
        with self._lock:
            if not self._wanted and not self._asked:
                self._running = False
                return None
        return self._settings.delete.poll_s

    def _orders(self, orders: dict[str, InstanceDeletion]) -> dict[str, InstanceDeletion]:
        """Return a copy, sorted by node, which `want` does not change."""
        with self._lock:
            return dict(sorted(orders.items()))

    def _ask(self) -> None:
        batch = self._without_delayed(self._orders(self._wanted))
        if not batch:
            return
        # A deletion begun by an earlier run, or by a call whose answer was lost, is not requested again.
        states = self._states(batch)
        unknown = {node: order for node, order in batch.items() if states[node] is InstanceState.UNKNOWN}
        self._expire(unknown, "the cloud does not know its instance", Reason.INSTANCE_UNKNOWN)
        deletable = {node: order for node, order in batch.items() if states[node] in DELETABLE}
        kept = deletable.keys() - self._of_ordered_machines(deletable).keys()
        kept |= self._keep_occupied(_without(deletable, kept))
        # The caller has given such a node up, or soon will: nothing is requested for it any more.
        kept |= self._expire(_without(deletable, kept), "the cloud did not answer in time to request its deletion")
        failed = self._delete(_without(deletable, kept))
        for node in sorted(batch.keys() - unknown.keys() - kept):
            error = failed.get(batch[node].wanted.provider_id)
            if error is None:
                self._report(e.DeleteAccepted(node))
                with self._lock:
                    self._asked[node] = self._wanted.pop(node)._replace(asked_ms=self._recorder.awake_ms())
            elif isinstance(error, CloudRefusedError | CloudFailedError):
                self._fail(batch[node].wanted, str(error))
            else:
                log.warning("deletion waits", node=node, detail=str(error))
                self._expire({node: batch[node]}, str(error))

    def _without_delayed(self, orders: dict[str, InstanceDeletion]) -> dict[str, InstanceDeletion]:
        """Return the orders that no annotation delays any longer. Move the deadline of the others."""
        now_ms = self._recorder.awake_ms()
        ready = {}
        for node, order in orders.items():
            # An instance without Node object has no annotation.
            may_wait = bool(order.wanted.node_uid) and not order.wanted.drained_by_caller
            with self._apart(node, order):
                if may_wait and now_ms < order.patience_ms and self._is_delayed(node):
                    with self._lock:
                        deadline_ms = now_ms + int(self._settings.delete.timeout_s * 1000)
                        self._wanted[node] = order._replace(deadline_ms=deadline_ms)
                else:
                    ready[node] = order
        return ready

    @contextmanager
    def _apart(self, node: str, order: InstanceDeletion) -> Iterator[None]:
        """Have an error about one node delay its deletion alone. Raises `NoAnswerError`, which is about all of them."""
        try:
            yield
        except NoAnswerError:
            raise
        except ClusterError as error:
            log.warning("deletion waits", group=self._group, node=node, detail=str(error))
            self._expire({node: order}, str(error))

    def _is_delayed(self, node: str) -> bool:
        try:
            return self._cluster.get_node(node, from_cache=True).deletion_delayed
        except NotFoundError:
            return False

    def _of_ordered_machines(
        self, orders: Mapping[str, InstanceDeletion], is_accepted: bool = False
    ) -> dict[str, InstanceDeletion]:
        """Return the deletions whose instance certainly is the machine that was ordered away, so that it may be
        requested. End those of another machine.
        """
        certain = {}
        for node, order in orders.items():
            with self._apart(node, order):
                found = self._machines.identify(order.wanted, from_cache=False)
                if found.machine is MachineIdentity.ORDERED:
                    certain[node] = order
                elif found.machine is MachineIdentity.ANOTHER:
                    self._end_replaced(order.wanted, found.uid, is_accepted)
                else:
                    self._expire(
                        {node: order}, "its Node object is gone, so the instance may by now be another machine"
                    )
        return certain

    def _end_replaced(self, wanted: DeleteInstance, uid: str, is_accepted: bool) -> None:
        """End the deletion of a machine whose provider id another one has. `uid` : of the other one's node, "" = none
        yet; `is_accepted` : whether the cloud has accepted the deletion.
        """
        log.warning(
            "deletion_ended_by_another_machine",
            node=wanted.node,
            node_group=self._group,
            provider_id=wanted.provider_id,
            ordered_uid=wanted.node_uid,
            present_uid=uid,
            detail="another machine has this provider id now; it is left alone",
        )
        if is_accepted:
            self._forget(wanted)
            self._report(e.InstanceGone(wanted.node))
        else:
            self._fail(wanted, f"another node, with uid {uid}, has its provider id", Reason.NODE_CHANGED)

    def _keep_occupied(self, orders: Mapping[str, InstanceDeletion]) -> set[str]:
        """Fail deletions of nodes that got new pods because their autoscaler gave up, or another client removed the
        taint; return those nodes, and those that may still get some.
        """
        kept = set(orders)
        for node, order in orders.items():
            is_checked = order.wanted.drained_by_caller or order.wanted.taint_restored
            with self._apart(node, order):
                pods = self._taints.pods_since(order.wanted) if is_checked else ()
                if pods is None:
                    self._expire({node: order}, "something else keeps removing its taint", Reason.NODE_CHANGED)
                elif pods:
                    detail = f"{len(pods)} pods appeared after its taint was removed, such as {pods[0]}"
                    self._fail(order.wanted, detail, Reason.NODE_CHANGED, pods)
                else:
                    kept.remove(node)
        return kept

    def _delete(self, orders: Mapping[str, InstanceDeletion]) -> Mapping[str, CloudError]:
        """Request deletions from the cloud; return the failed ones by provider id."""
        if not orders:
            return {}
        instances = [order.wanted.provider_id for order in orders.values()]
        return self._cloud.delete_instances(self._group, instances)

    def _look(self) -> None:
        asked = self._orders(self._asked)
        if not asked:
            return
        states = self._states(asked)
        for node, order in asked.items():
            if states[node] is InstanceState.GONE:
                with self._apart(node, order):
                    self._delete_node(order.wanted)
                    self._forget(order.wanted)
                    self._report(e.InstanceGone(node))
        self._note_leaving(states)
        self._end_replaced_ones(states)
        left = self._orders(self._asked)
        for node, order in left.items():
            if order.wanted.drained_by_caller:
                with self._apart(node, order):
                    self._taints.keep(order.wanted)
        unknown = {node: order for node, order in left.items() if states.get(node) is InstanceState.UNKNOWN}
        self._expire(unknown, "the cloud no longer knows its instance", Reason.INSTANCE_UNKNOWN)
        expired = self._expire(_without(left, unknown.keys()), "the instance is still there")
        running = {node: order for node, order in left.items() if states.get(node) in DELETABLE}
        self._ask_again(_without(running, expired))

    def _note_leaving(self, states: Mapping[str, InstanceState]) -> None:
        """Record which accepted deletions have instances that leave or are missing: after a restart, too, one that is
        listed again may be another machine.
        """
        now_ms = self._recorder.awake_ms()
        for node, order in self._orders(self._asked).items():
            if node not in states or states[node] in DELETABLE:
                continue
            if not order.has_left:
                self._report(e.InstanceLeft(node))
            with self._lock:
                if node in self._asked:
                    self._asked[node] = self._asked[node]._replace(asked_ms=now_ms, has_left=True)

    def _end_replaced_ones(self, states: Mapping[str, InstanceState]) -> None:
        """End the accepted deletions whose listed instance has another node by now."""
        for node, order in self._orders(self._asked).items():
            if states.get(node) in DELETABLE:
                with self._apart(node, order):
                    found = self._machines.identify(order.wanted, from_cache=True)
                    if found.machine is MachineIdentity.ANOTHER:
                        self._end_replaced(order.wanted, found.uid, is_accepted=True)

    def _end_returned(self, order: InstanceDeletion) -> None:
        """End a deletion whose instance has been listed as running for some time after it had left."""
        with self._apart(order.wanted.node, order):
            found = self._machines.identify(order.wanted, from_cache=False)
            if found.machine is MachineIdentity.ORDERED and order.wanted.node_uid:
                self._fail(order.wanted, "its instance is listed again after it had left; the node stays")
            else:
                self._end_replaced(order.wanted, found.uid, is_accepted=True)

    def _ask_again(self, running: Mapping[str, InstanceDeletion]) -> None:
        """Request accepted deletions again whose instances still run: what was accepted may have been read from an
        outdated list. A refusal may only mean that the first request counts already; the deadline decides. Those whose
        instance had left meanwhile end.
        """
        now_ms, pause_ms = self._recorder.awake_ms(), int(self._settings.delete.repeat_s * 1000)
        due = {node: order for node, order in running.items() if now_ms - order.asked_ms >= pause_ms}
        with self._lock:
            self._asked |= {node: order._replace(asked_ms=now_ms) for node, order in due.items()}
        for order in due.values():
            if order.has_left:
                self._end_returned(order)
        staying = {node: order for node, order in due.items() if not order.has_left and order.may_repeat}
        for instance, error in self._delete(self._of_ordered_machines(staying, is_accepted=True)).items():
            log.warning("deletion requested again", instance=instance, detail=str(error))

    def _states(self, orders: Mapping[str, InstanceDeletion]) -> dict[str, InstanceState]:
        """Return the state of each instance, by node; UNKNOWN where the cloud gives no answer."""
        instances = [order.wanted.provider_id for order in orders.values()]
        states = self._cloud.instance_states(self._group, instances)
        return {
            node: states.get(order.wanted.provider_id, InstanceState.UNKNOWN)
            if order.wanted.provider_id
            else InstanceState.UNKNOWN
            for node, order in orders.items()
        }

    def _delete_node(self, wanted: DeleteInstance) -> None:
        """Delete the Node object if there was one and the cloud did not delete it."""
        if not wanted.node_uid:
            return
        self._cluster.delete_node(wanted.node, wanted.node_uid)

    def _expire(
        self, orders: Mapping[str, InstanceDeletion], detail: str, reason: int = Reason.FAILED_TO_DELETE
    ) -> set[str]:
        """Fail the deletions whose deadline has passed; return their nodes."""
        now_ms = self._recorder.awake_ms()
        expired = {node for node, order in orders.items() if order.deadline_ms < now_ms}
        for node in sorted(expired):
            self._fail(
                orders[node].wanted, f"not deleted within {self._settings.delete.timeout_s:g} s: {detail}", reason
            )
        return expired

    def _fail(
        self, wanted: DeleteInstance, detail: str, reason: int = Reason.FAILED_TO_DELETE, pods: tuple[str, ...] = ()
    ) -> None:
        self._forget(wanted)
        self._report(e.DeletionFailed(wanted.node, reason, detail, pods))

    def _report(self, event: e.Event) -> None:
        """Record an event; one for a deletion that has already ended must not stop the others."""
        try:
            self._recorder.submit(event)
        except ImpossibleEventError as error:
            log.warning("report dropped", group=self._group, detail=str(error))

    def _forget(self, wanted: DeleteInstance) -> None:
        """Forget a deletion. Call before its end is recorded: from then on, a new one of the same node may come."""
        with self._lock:
            self._wanted.pop(wanted.node, None)
            self._asked.pop(wanted.node, None)
        self._taints.forget(wanted.node)
        self._cloud.forget(self._group, [wanted.provider_id])


def _without(orders: Mapping[str, InstanceDeletion], nodes: Iterable[str]) -> dict[str, InstanceDeletion]:
    """Return the orders of other nodes than these."""
    left_out = set(nodes)
    return {node: order for node, order in orders.items() if node not in left_out}
