"""The taint of nodes that another autoscaler tainted and drained before it requested their deletion.

Keeps the taint in place while the deletion lasts. The Cluster Autoscaler removes it when it got no answer or restarts;
pods would then be scheduled on a machine that is being deleted. Times are milliseconds unless the name says otherwise.
"""

from typing import Final

import structlog

from actuator.drain.drain import Recorder
from actuator.drain.pods import pods_to_move
from actuator.kube.cluster import HARD_TAINT_KEY, Cluster, NotFoundError, hard_taint
from actuator.steady_time import SteadyTime

log = structlog.get_logger("deleter")

# Pause between two checks of a node whose instance is being deleted: one read of the API server each.
LOOK_MS: Final = 5_000


class CallerTaints:
    """Keeps the taints on the nodes of one node group."""

    def __init__(self, cluster: Cluster, recorder: Recorder, expendable_priority: int) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._expendable_priority = expendable_priority
        # Setting the wall clock forward must not make a pod overdue.
        self._time = SteadyTime(recorder.now_ms, recorder.steady_ms)
        self._looked_ms: dict[str, int] = {}

    def pods_since(self, node: str) -> tuple[str, ...]:
        """Restore the taint if it is missing; return the pods to move that have arrived meanwhile, "namespace/name".

        Raises `ClusterError`.
        """
        if not self._restore(node, recent=False):
            return ()
        pods = pods_to_move(self._cluster.list_pods(node), self._time.earliest_ms(), self._expendable_priority)
        return tuple(pod.key for pod in pods)

    def keep(self, node: str) -> None:
        """Restore the taint of a node whose instance is being deleted, from time to time. Raises `ClusterError`."""
        now_ms = self._recorder.steady_ms()
        if now_ms - self._looked_ms.get(node, -LOOK_MS) >= LOOK_MS:
            self._looked_ms[node] = now_ms
            self._restore(node, recent=True)

    def forget(self, node: str) -> None:
        """Stop checking a node."""
        self._looked_ms.pop(node, None)

    def _restore(self, node: str, recent: bool) -> bool:
        """Restore the taint; return whether it was missing."""
        try:
            if self._cluster.get_node(node, recent=recent).taint(HARD_TAINT_KEY) is not None:
                return False
            log.warning("the autoscaler that asked has removed its taint; it is restored", node=node)
            return self._cluster.add_taint(node, hard_taint(self._recorder.now_ms()))
        except NotFoundError:
            return False
