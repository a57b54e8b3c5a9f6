"""The hard taint of one node while it is drained or checked.

Keeps the taint on the node that the deletion is about: it is restored if another client removed it, and never written
to another node that has got the name. Decides when nothing may be concluded from the pods of the node, because the
scheduler may not have read the taint yet. Times are milliseconds of the steady clock, durations seconds.
"""

import structlog

from trimtab.actuator.kube.cluster import ClusterApi, hard_taint
from trimtab.actuator.tracker.events import EventRecorder, TaintRestored
from trimtab.common.kubernetes.names import HARD_TAINT_KEY

log = structlog.get_logger("drain")

ANOTHER_NODE = "the node was replaced by another one of its name"


class NodeReplacedError(Exception):
    """Another node has the name by now: neither it nor its pods belong to the deletion."""

    def __init__(self) -> None:
        super().__init__(ANOTHER_NODE)


class TaintGuard:
    """The taint of one node. `uid` "" = not known, then the name decides; `settle_s` : time in which the scheduler
    reads a taint; `was_restored` : an earlier run restored it, at a time that is not known.
    """

    def __init__(
        self,
        cluster: ClusterApi,
        recorder: EventRecorder,
        node: str,
        uid: str,
        settle_s: float,
        was_restored: bool = False,
    ) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._node, self._uid = node, uid
        self._settle_ms = int(settle_s * 1000)
        # Until when pods may come after the taint was restored; None = it was there.
        self._settled_ms = recorder.steady_ms() + self._settle_ms if was_restored else None

    @property
    def was_restored(self) -> bool:
        """Return whether the taint was missing at any time."""
        return self._settled_ms is not None

    def keep(self, from_cache: bool = False) -> None:
        """Restore the taint if it is missing. `from_cache` : read the server's cache, which may be older.

        Raises `NotFoundError` when the node is gone, `NodeReplacedError`, `ClusterError`, and as the recorder does.
        """
        node = self._cluster.get_node(self._node, from_cache=from_cache)
        if self._uid and node.uid != self._uid:
            raise NodeReplacedError
        if node.taint(HARD_TAINT_KEY) is not None:
            return
        log.warning("another client removed the taint; it is restored", node=self._node)
        if not self.was_restored:
            # First: a process that ended after the taint was written would not know that it was away.
            self._recorder.submit(TaintRestored(self._node))
        self._cluster.add_taint(self._node, hard_taint(self._recorder.now_ms()), self._uid)
        self._settled_ms = self._recorder.steady_ms() + self._settle_ms

    def settling_s(self) -> float:
        """Return for how long pods may still come after the taint was restored; 0 = no longer."""
        if self._settled_ms is None:
            return 0.0
        return max(0, self._settled_ms - self._recorder.steady_ms()) / 1000
