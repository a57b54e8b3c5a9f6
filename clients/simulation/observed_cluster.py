"""The simulated cluster as seen by the loop: snapshots and deltas, built as for a live one.

Decides which objects have changed: the cluster writes each transaction here, instead of to a database. `live_cluster`
decides the content of deltas. Writes can be watched, for measurements.

A round is skipped where utilization alone shows, from the settings and the last answer, that it would find a full
cluster: no pod waits, and every node has too high a utilization to be removed, except for nodes that wait for a timer.
Such a round orders nothing and has the same state; in doubt, it is made.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from trimtab.clients.loop.rounds import RoundResult
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.clients.simulation.cluster.controllers import write_owner_status
from trimtab.clients.simulation.cluster.database import JournalEntry
from trimtab.clients.simulation.cluster.disruption import BudgetStatus, write_status
from trimtab.clients.simulation.cluster.objects import condition_reason
from trimtab.clients.simulation.cluster.pods import SimulatedPod, parse_time_ms
from trimtab.clients.simulation.cluster.state import ClusterState
from trimtab.clients.verdicts import going, staying
from trimtab.common.kubernetes.kinds.nodes import NodeGroup
from trimtab.common.kubernetes.registry import CONTROLLERS, STRUCTS, WATCHED
from trimtab.common.objects.pod_rows import FLAG_READY, FLAG_UNSCHEDULABLE, PodRow, phase_code, pod_row
from trimtab.common.watched.actuation import read_status
from trimtab.common.watched.cloud_groups import cloud_groups, group_of_instance
from trimtab.common.watched.snapshot_maker import SnapshotMaker
from trimtab.common.watched.snapshot_update import Observation
from trimtab.common.watched.watched_objects import WatchedObjects
from trimtab.v1 import actuator_pb2, plan_pb2, reason_pb2

Watcher = Callable[[Mapping[str, Any], list[JournalEntry]], None]
_PER_POD = ("nodeName",)
_OF_PODS = frozenset({"Pod", "NameCount", *CONTROLLERS})
"""Kinds that change as pods come, go and start."""
KEPT_APART = ("PodDisruptionBudget",)
"""Kinds whose status is updated here before they are read."""
_encode = msgspec.json.Encoder().encode


class ObservedCluster:
    """An `ObjectStore` (see `trimtab.clients.simulation.cluster.database`) and a `Cluster` of the loop's rounds."""

    def __init__(self, watcher: Watcher) -> None:
        """`watcher` gets the writes of each transaction."""
        self._watcher = watcher
        self._store = WatchedObjects()
        self._maker = SnapshotMaker(self._store)
        self._changed: dict[str, None] = {}
        self._has_more_than_pods = False
        self._rows: dict[bytes, PodRow] = {}
        # Statuses of budgets as last written to the store.
        self._told: dict[tuple[str, str], BudgetStatus] = {}
        self._cluster: SimulatedCluster | None = None

    def observe(self, cluster: SimulatedCluster) -> None:
        """Take the objects from this cluster from now on."""
        self._cluster = cluster

    @property
    def has_changed(self) -> bool:
        """Whether anything was written since the last snapshot."""
        return bool(self._changed)

    @property
    def has_more_than_pods(self) -> bool:
        """Whether anything but pods and their controllers was written since the last snapshot."""
        return self._has_more_than_pods

    def has_only_started(self) -> bool:
        """Return whether pods on nodes have become ready since the last snapshot and nothing else has happened.

        Only pods without a disruption budget: of the others, budgets count those that are ready.
        """
        return not self._has_more_than_pods and all(self._has_started(key) for key in self._changed)

    def has_touched(self, nodes: Collection[str]) -> bool:
        """Return whether a pod on one of these nodes has come, gone or changed since the last snapshot."""
        return bool(nodes) and any(node in nodes for key in self._changed for node in self._nodes_of(key))

    def load(self) -> list[tuple[str, Any]]:
        """Return nothing: a simulation starts without stored objects."""
        return []

    def save(self, things: Mapping[str, Any], entries: list[JournalEntry]) -> None:
        """Record the changes, and pass them on."""
        self._changed.update(dict.fromkeys(things))
        if not self._has_more_than_pods:
            self._has_more_than_pods = any(key.partition("/")[0] not in _OF_PODS for key in things)
        self._watcher(things, entries)

    def journal(self) -> list[JournalEntry]:
        """Return nothing: the watcher has already received it."""
        return []

    def close(self) -> None:
        """There is no file."""

    def forget(self) -> None:
        """Make the next `next_update` return the whole cluster."""
        self._maker.forget()

    def requeue(self) -> None:
        """Make the next `next_update` return the changes of the last one again, together with those since."""
        self._maker.requeue()

    def next_update(self, groups: list[NodeGroup], status: actuator_pb2.ActuatorStatus | None = None) -> Observation:
        """Return the changes since the last call, or the whole cluster."""
        assert self._cluster is not None, "observe comes first"
        with self._cluster.transaction():
            pass
        self._read(self._cluster.state)
        read = read_status(status, self._store.history) if status is not None else None
        actuation = read.actuation if read else None
        update = self._maker.next_update(cloud_groups(groups, status), actuation, group_of_instance(status))
        return Observation(update, [*update.notes, *(read.notes if read else ())])

    def _read(self, state: ClusterState) -> None:
        """Write the changes to the store."""
        changed, self._changed, self._has_more_than_pods = self._changed, {}, False
        owners: dict[str, None] = {}
        for key in changed:
            kind, namespace, name = key.split("/", 2)
            if kind == "Pod":
                pod = state.pods.get((namespace, name))
                before = self._store.pods.get((namespace, name))
                if before is not None:
                    owners[before.owner] = None
                if pod is None:
                    self._store.forget(kind, (namespace, name))
                else:
                    owners[pod.owner_uid] = None
                    self._store.put_row(self._row(pod))
            elif kind == "Node":
                info = state.nodes.get(name)
                self._put("Node", ("", name), info.node if info else None)
            elif kind in CONTROLLERS:
                item = state.others.get(key)
                self._put(kind, (namespace, name), item)
                if item is not None:
                    owners[item["metadata"]["uid"]] = None
            elif kind in WATCHED and kind not in KEPT_APART:
                self._put(kind, (namespace, name), state.others.get(key))
        self._read_statuses(state, owners, changed)

    def _has_started(self, key: str) -> bool:
        assert self._cluster is not None, "observe comes first"
        kind, namespace, name = key.split("/", 2)
        state, of_pod = self._cluster.state, (namespace, name)
        pod, before = state.pods.get(of_pod), self._store.pods.get(of_pod)
        if kind != "Pod" or pod is None or before is None or state.budgets.of(pod):
            return False
        is_same = pod.uid == before.uid and pod.node == before.node != ""
        return is_same and not (before.deletion_s or pod.terminating or pod.terminal)

    def _nodes_of(self, key: str) -> tuple[str, ...]:
        """Return the nodes of the written pods: the current one, and that of the last snapshot."""
        assert self._cluster is not None, "observe comes first"
        kind, namespace, name = key.split("/", 2)
        of_pod = namespace, name
        found = (self._cluster.state.pods.get(of_pod), self._store.pods.get(of_pod)) if kind == "Pod" else ()
        return tuple(one.node for one in found if one is not None)

    def _read_statuses(self, state: ClusterState, owners: Mapping[str, None], changed: Mapping[str, None]) -> None:
        """Update the statuses maintained by controllers, and read them."""
        for uid in owners:
            owner = state.owners.get(uid)
            if owner is not None and owner["kind"] not in ("Deployment", "DaemonSet"):
                write_owner_status(owner, state.tallies.of(uid))
                metadata = owner["metadata"]
                self._put(owner["kind"], (metadata["namespace"], metadata["name"]), owner)
        for key, item in state.budgets.items.items():
            status = state.budgets.status(key)
            if self._told.get(key) != status or f"PodDisruptionBudget/{key[0]}/{key[1]}" in changed:
                self._told[key] = status
                write_status(item, status)
                self._put("PodDisruptionBudget", key, item)

    def _put(self, kind: str, key: tuple[str, str], item: Mapping[str, Any] | None) -> None:
        if item is None:
            self._store.forget(kind, key)
        else:
            self._store.put_struct(kind, msgspec.convert(item, STRUCTS[kind]))

    def _row(self, pod: SimulatedPod) -> PodRow:
        """Return the row of a pod; similar pods share all fields that are not specific to one pod."""
        metadata = pod.item["metadata"]
        spec = {name: value for name, value in pod.spec.items() if name not in _PER_POD}
        shared = {name: metadata.get(name) for name in ("labels", "annotations", "ownerReferences")}
        alike = _encode((pod.key[0], spec, shared))
        row = self._rows.get(alike)
        if row is None:
            item = {"metadata": {"name": "x", "namespace": pod.key[0], **shared}, "spec": spec}
            row = self._rows[alike] = pod_row(msgspec.convert(item, STRUCTS["Pod"]))
        flags = row.flags | (FLAG_READY if pod.ready else 0)
        if condition_reason(pod.item, "PodScheduled") == "Unschedulable":
            flags |= FLAG_UNSCHEDULABLE
        return row._replace(
            name=pod.key[1],
            uid=pod.uid,
            node=pod.node,
            created_s=parse_time_ms(metadata.get("creationTimestamp")) // 1000,
            deletion_s=parse_time_ms(metadata.get("deletionTimestamp")) // 1000,
            phase=phase_code(pod.phase),
            flags=flags,
            nominated_node="" if pod.node else pod.nominated_node,
        )


MARGIN: Final = 0.01
"""Margin above the threshold, because requests are rounded in more than one way."""
_THRESHOLD: Final = 0.5
_USED: Final = reason_pb2.UnremovableReason.NOT_UNDERUTILIZED
_FAILED: Final = reason_pb2.UnremovableReason.RECENTLY_UNREMOVABLE
_NOTHING_FOUND: Final = (
    reason_pb2.ScaleDownResult.SCALE_DOWN_NO_CANDIDATES,
    reason_pb2.ScaleDownResult.SCALE_DOWN_IN_COOLDOWN,
    reason_pb2.ScaleDownResult.SCALE_DOWN_NO_NODE_DELETED,
)
_Thresholds: TypeAlias = plan_pb2.ScaleDownSettings | plan_pb2.NodeGroupSettings
_DECISIONS: Final = {plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN}


class FullCluster:
    """Conclusions from the last round for the next one."""

    def __init__(self) -> None:
        self._least_use: float | None = None
        self._waiting: frozenset[str] = frozenset()

    @property
    def waiting(self) -> frozenset[str]:
        """Return the nodes that wait for a timer, by name; the others are in use."""
        return self._waiting

    def add(self, done: RoundResult) -> None:
        """Record a round."""
        is_full = _was_full(done)
        self._least_use = _threshold(done.request.settings) if is_full else None
        self._waiting = frozenset(_waiting(done.answer)) if is_full else frozenset()

    def lasts(self, least_use: float) -> bool:
        """Return whether a round would have the same result as the last one, judging by the existing nodes.

        least_use : share of the least utilized node, 0 = not known; waiting nodes do not count, and none of their pods
        may have changed
        """
        return self._least_use is not None and least_use > self._least_use + MARGIN


def _was_full(done: RoundResult) -> bool:
    """Return whether a round found every node in use or waiting, and its state contains only timers."""
    found = done.answer.scale_down
    return (
        {plan_pb2.Decision.SCALE_DOWN} <= set(done.request.decisions) <= _DECISIONS
        and found.result in _NOTHING_FOUND
        and not done.answer.state.scale_up.opaque
        and not found.places.pods
        and all(one.reason in (_USED, _FAILED) for one in staying(done.answer))
    )


def _waiting(answer: plan_pb2.PlanResponse) -> Iterator[str]:
    """Yield the empty nodes, and those not yet to be simulated again."""
    yield from (one.node for one in going(answer))
    yield from (one.node for one in staying(answer) if one.reason == _FAILED)


def _threshold(settings: plan_pb2.PlanSettings) -> float | None:
    """Return the largest threshold below which a node may go; None if pods on a node may not count for
    its utilization.
    """
    if settings.planner.expendable_pods_priority_cutoff > 0 or settings.scale_down.ignore_mirror_pods_utilization:
        return None
    every: list[_Thresholds] = [settings.scale_down, *settings.node_groups.values()]
    if any(one.ignore_daemonsets_utilization for one in every):
        return None
    return max((_THRESHOLD, *(value for one in every for value in _thresholds(one))))


def _thresholds(settings: _Thresholds) -> Iterator[float]:
    yield settings.utilization_threshold
    yield settings.gpu_utilization_threshold
