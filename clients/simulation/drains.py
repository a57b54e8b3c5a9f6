"""How nodes were removed in a simulation: taint, evictions, end of the machine.

Decides which times are recorded, for the first removed nodes. A node whose taint is removed again stayed. Times are
Unix seconds; a pod that is evicted again after a refusal waited for its disruption budget.

Pods that lost their places otherwise, with reclaimed machines or preempted: victims by cause, and how long the pods
created in their place waited for a node, those that still wait up to now; a pod without a controller has no successor.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
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


_RECLAIM: Final = "reclaim"
_PREEMPTION: Final = "preemption"


class Displacements:
    """The displaced pods of one simulation."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        # Cause by "namespace/name" of a pod that its controller creates again under its name.
        self._cause_of: dict[str, str] = {}
        # Successors that wait, by uid: the cause, and since when.
        self._waiting: dict[str, tuple[str, float]] = {}
        self._waited_s: defaultdict[str, float] = defaultdict(float)

    def add(
        self, entries: Iterable[JournalEntry], uid_of: Mapping[str, str], on_node: Collection[str], now_s: float
    ) -> None:
        """Record the journal of one transaction, after its writes. uid_of : by "Pod/namespace/name"; on_node : uids of
        pods that have a node now.
        """
        cause = ""
        for entry in entries:
            if entry.what in ("reclaimed", "preempted"):
                cause = _RECLAIM if entry.what == "reclaimed" else _PREEMPTION
                self.counts[entry.what] += 1
                if cause == _PREEMPTION:
                    self._cause_of[entry.subject] = cause
            elif entry.what in ("reclaim_ended", "evicted", "daemon_evicted"):
                cause = ""
            elif entry.what == "pod_lost" and cause == _RECLAIM:
                self.counts["pods_reclaimed"] += 1
            elif entry.what == "recreated":
                of_pod = cause or self._cause_of.pop(entry.subject, "")
                uid = uid_of.get(f"Pod/{entry.subject}")
                if of_pod and uid is not None and uid not in on_node:
                    self._waiting[uid] = of_pod, now_s

    def ended(self, uid: str, now_s: float) -> None:
        """Record that a pod has a node now, or is gone."""
        if uid in self._waiting:
            cause, since_s = self._waiting.pop(uid)
            self._waited_s[cause] += now_s - since_s

    def summary(self, now_s: float) -> dict[str, Any]:
        """Return the figures so far."""
        waited = self._waited_s.copy()
        for cause, since_s in self._waiting.values():
            waited[cause] += now_s - since_s
        return {
            "reclaims": self.counts["reclaimed"],
            "podsReclaimed": self.counts["pods_reclaimed"],
            "reclaimPendingS": round(waited[_RECLAIM], 3),
            "preemptions": self.counts["preempted"],
            "preemptionPendingS": round(waited[_PREEMPTION], 3),
        }
