"""The taint of nodes that another autoscaler tainted and drained before it requested their deletion, or whose taint
another client removed after their drain.

Keeps the taint in place while the deletion lasts. The Cluster Autoscaler removes it when it got no answer or restarts;
pods would then be scheduled on a machine that is being deleted. Times are milliseconds unless the name says otherwise.
"""

from typing import Final

from trimtab.actuator.drain.drain import NodeReplacedError, TaintGuard
from trimtab.actuator.drain.pods import pods_to_move
from trimtab.actuator.kube.cluster import ClusterApi, NotFoundError
from trimtab.actuator.settings import WorkSettings
from trimtab.actuator.steady_time import SteadyTime
from trimtab.actuator.tracker.events import EventRecorder
from trimtab.actuator.tracker.instructions import DeleteInstance
from trimtab.actuator.tracker.transitions import ImpossibleEventError

# Pause between two checks of a node whose instance is being deleted: one read of the API server each.
LOOK_MS: Final = 5_000


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
