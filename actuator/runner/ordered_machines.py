"""Whether an instance that the cloud lists is the machine that a deletion was ordered for. Some clouds give a machine
the provider id of an earlier one, as for bare metal, so only the Node object tells them apart: it has another uid.
Keeps the taint of nodes that another autoscaler drained, or whose taint another client removed, while the deletion
lasts: pods would else be scheduled on a machine that is being deleted. Times are milliseconds unless named otherwise.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

from trimtab.actuator.drain.drain import NodeReplacedError, TaintGuard
from trimtab.actuator.drain.pods import pods_to_move
from trimtab.actuator.kube.cluster import ClusterApi, NodeView, NotFoundError
from trimtab.actuator.settings import WorkSettings
from trimtab.actuator.steady_time import SteadyTime
from trimtab.actuator.tracker.events import EventRecorder
from trimtab.actuator.tracker.instructions import DeleteInstance
from trimtab.actuator.tracker.transitions import ImpossibleEventError

# Least time between two lists of all nodes while deletions are only watched.
LIST_MS: Final = 5_000

# Pause between two checks of a node whose instance is being deleted: one read of the API server each.
LOOK_MS: Final = 5_000


class MachineIdentity(Enum):
    """What an instance is to the deletion that names its provider id."""

    # Its node is the one that was ordered away; or neither had a node.
    ORDERED = "ordered"
    # Another node has the provider id by now.
    ANOTHER = "another"
    # The node is gone, and no other one has registered: it may be the machine, or one that has just started.
    UNCLEAR = "unclear"


class Identified(NamedTuple):
    """The answer about one deletion. `uid` : of the other node, "" = none."""

    machine: MachineIdentity
    uid: str = ""


class OrderedMachines:
    """Compares deletions with the nodes of the cluster."""

    def __init__(self, cluster: ClusterApi, recorder: EventRecorder) -> None:
        self._cluster = cluster
        self._recorder = recorder
        # Nodes by provider id as last listed, and when that was.
        self._listed: Mapping[str, NodeView] = {}
        self._listed_ms = -LIST_MS

    def identify(self, wanted: DeleteInstance, from_cache: bool) -> Identified:
        """Return what the instance of a deletion is now. `from_cache` : as of some seconds ago. Raises
        `ClusterError`.
        """
        node = self._named(wanted, from_cache)
        if node is None:
            node = self._with_provider_id(wanted, from_cache)
        if node is None:
            return Identified(MachineIdentity.UNCLEAR if wanted.node_uid else MachineIdentity.ORDERED)
        if node.uid == wanted.node_uid:
            return Identified(MachineIdentity.ORDERED)
        return Identified(MachineIdentity.ANOTHER, node.uid)

    def _named(self, wanted: DeleteInstance, from_cache: bool) -> NodeView | None:
        """Return the node of the ordered name, if it can be that of the instance."""
        if not wanted.node_uid:
            return None
        try:
            node = self._cluster.get_node(wanted.node, from_cache=from_cache)
        except NotFoundError:
            return None
        return node if wanted.node_uid == node.uid or node.provider_id in ("", wanted.provider_id) else None

    def _with_provider_id(self, wanted: DeleteInstance, from_cache: bool) -> NodeView | None:
        now_ms = self._recorder.steady_ms()
        if not from_cache or now_ms - self._listed_ms >= LIST_MS:
            self._listed = nodes_by_provider_id(self._cluster)
            self._listed_ms = now_ms
        return self._listed.get(wanted.provider_id)


def nodes_by_provider_id(cluster: ClusterApi) -> dict[str, NodeView]:
    """Return the nodes that have a provider id, by it; of several with the same one, the latest. Raises
    `ClusterError`.
    """
    nodes: Iterator[NodeView] = (node for node in cluster.list_nodes() if node.provider_id)
    return {node.provider_id: node for node in sorted(nodes, key=lambda node: node.created_ms)}


class ExternalTaintGuard:
    """Keeps the taints on the nodes of one node group."""

    def __init__(self, cluster: ClusterApi, recorder: EventRecorder, settings: WorkSettings) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._settings = settings
        # Setting the wall clock forward must not make a pod overdue.
        self._time = SteadyTime(recorder.now_ms, recorder.steady_ms)
        # By node.
        self._taints: dict[str, TaintGuard] = {}
        self._looked_ms: dict[str, int] = {}

    def pods_since(self, wanted: DeleteInstance) -> tuple[str, ...] | None:
        """Restore the taint if it is missing; if it was missing at any time, return the pods to move that are there,
        "namespace/name"; None = more may come, as the scheduler may not have read the taint yet.

        Raises `ClusterError`.
        """
        taint = self._restored(wanted, from_cache=False)
        if not taint.was_restored:
            return ()
        if taint.settling_s():
            return None
        expendable_priority = self._settings.drain.expendable_priority
        pods = pods_to_move(self._cluster.list_pods(wanted.node), self._time.earliest_ms(), expendable_priority)
        return tuple(pod.key for pod in pods)

    def keep(self, wanted: DeleteInstance) -> None:
        """Restore the taint of a node whose instance is being deleted, from time to time. Raises `ClusterError`."""
        now_ms = self._recorder.steady_ms()
        if now_ms - self._looked_ms.get(wanted.node, -LOOK_MS) >= LOOK_MS:
            self._looked_ms[wanted.node] = now_ms
            self._restored(wanted, from_cache=True)

    def forget(self, node: str) -> None:
        """Stop checking a node."""
        self._looked_ms.pop(node, None)
        self._taints.pop(node, None)

    def _restored(self, wanted: DeleteInstance, from_cache: bool) -> TaintGuard:
        """Restore the taint, if the node still exists, and return it."""
        taint = self._taints.get(wanted.node)
        if taint is None:
            settle_s = self._settings.delay_after_taint_s
            taint = TaintGuard(
                self._cluster, self._recorder, wanted.node, wanted.node_uid, settle_s, wanted.taint_restored
            )
            self._taints[wanted.node] = taint
        try:
            taint.keep(from_cache)
        except (NotFoundError, NodeReplacedError, ImpossibleEventError):
            # Its machine may still be there; the pods of another node of its name, or after the end of the deletion,
            # are no concern.
            return TaintGuard(self._cluster, self._recorder, wanted.node, wanted.node_uid, 0.0)
        return taint
