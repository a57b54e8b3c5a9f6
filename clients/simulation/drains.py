"""How nodes were removed in a simulation: taint, evictions, end of the machine.

Decides which times are recorded, for the first removed nodes. A node whose taint is removed again stayed. Times are
Unix seconds; a pod that is evicted again after a refusal waited for its disruption budget.
"""

from collections.abc import Callable
from typing import Any, Final

from trimtab.actuator.kube.cluster import PodView, TooManyRequestsError
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.clients.simulation.cluster.database import JournalEntry
from trimtab.common.kubernetes.names import HARD_TAINT_KEY

MOST_DRAINS: Final = 2000


class SimulatedRemovals:
    """The removals of one simulation, and how long pods waited for their budgets."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, Any]] = {}
        self.entries: list[dict[str, Any]] = []
        self.waited_s = 0.0
        self.wait_count = 0
        self._refused_since: dict[str, float] = {}

    def entry(self, entry: JournalEntry, now_s: float, node_of: dict[str, str]) -> None:
        """Record a line of the cluster's journal. node_of : node by uid of each pod."""
        if entry.what in ("tainted", "untainted"):
            node, _, key = entry.subject.partition(" ")
            if key == HARD_TAINT_KEY:
                self._tainted(node, now_s, is_gone=entry.what == "untainted")
        elif entry.what == "evicted":
            since_s = self._refused_since.pop(entry.subject, None)
            if since_s is not None:
                self.waited_s += now_s - since_s
                self.wait_count += 1
            one = self._of.get(node_of.get(entry.subject, ""))
            if one is not None:
                one["evicted"].append(now_s)

    def refused(self, uid: str, now_s: float) -> None:
        """Record that a pod's budget has refused its eviction."""
        self._refused_since.setdefault(uid, now_s)

    def machine_gone(self, node: str, now_s: float) -> None:
        """Record that a machine is gone."""
        one = self._of.pop(node, None)
        if one is not None:
            one["gone"] = now_s

    def _tainted(self, node: str, now_s: float, *, is_gone: bool) -> None:
        if is_gone:
            stayed = self._of.pop(node, None)
            if stayed is not None:
                stayed["kept"] = now_s
        elif len(self.entries) < MOST_DRAINS:
            self._of[node] = {"node": node, "tainted": now_s, "evicted": []}
            self.entries.append(self._of[node])


class WatchedCluster(SimulatedCluster):
    """A simulated cluster that reports evictions refused by budgets: `on_refusal` gets the pod's uid."""

    on_refusal: Callable[[str], None] = staticmethod(lambda _uid: None)

    def evict(self, pod: PodView, grace_s: int | None) -> None:
        """Evict a pod, if its budget allows."""
        try:
            super().evict(pod, grace_s)
        except TooManyRequestsError:
            self.on_refusal(pod.uid)
            raise
