"""Pods that lost their places other than by an eviction: those of reclaimed machines, and those preempted.

Decides what counts: victims by cause, and how long the pods created in their place waited for a node, from their
creation to their binding; those that still wait count up to now. A pod without a controller has no successor. Units:
seconds, Unix time.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from trimtab.clients.simulation.cluster.database import JournalEntry

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
