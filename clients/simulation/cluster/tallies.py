"""How many pods each controller and each PodDisruptionBudget has, kept up to date pod by pod.

A pod counts in the state of its last `put`, until it is dropped. Without these sums, all pods of a
controller would be counted again for each query.
"""

from collections import Counter
from typing import NamedTuple

from trimtab.clients.simulation.cluster.pods import PodKey, SimulatedPod


class OwnerTally(NamedTuple):
    """Pods of a controller: those that count as its replicas, and those of them that are ready. `active` : pods neither
    ended nor being deleted.
    """

    active: int = 0
    ready: int = 0


class OwnerTallies:
    """The pods of all controllers, by the controller's uid."""

    def __init__(self) -> None:
        self._of_pod: dict[PodKey, tuple[str, OwnerTally]] = {}
        self._of_owner: dict[str, OwnerTally] = {}

    def of(self, owner_uid: str) -> OwnerTally:
        """Return the pods of a controller."""
        return self._of_owner.get(owner_uid, _NONE)

    def put(self, pod: SimulatedPod) -> None:
        """Count a pod that is new or has changed."""
        active = pod.active
        new = pod.owner_uid, OwnerTally(active, active and pod.ready)
        old = self._of_pod.get(pod.key)
        if new != old:
            self._take_out(old)
            self._of_pod[pod.key] = new
            self._add(*new)

    def drop(self, key: PodKey) -> None:
        """Stop counting a pod."""
        self._take_out(self._of_pod.pop(key, None))

    def _take_out(self, known: tuple[str, OwnerTally] | None) -> None:
        if known is not None:
            self._add(known[0], known[1], -1)

    def _add(self, owner_uid: str, tally: OwnerTally, sign: int = 1) -> None:
        before = self.of(owner_uid)
        after = OwnerTally(before.active + sign * tally.active, before.ready + sign * tally.ready)
        if after == _NONE:
            self._of_owner.pop(owner_uid, None)
        else:
            self._of_owner[owner_uid] = after


class BudgetTally:
    """The pods that a PodDisruptionBudget covers; those that have ended do not count."""

    def __init__(self) -> None:
        self._of_pod: dict[PodKey, tuple[str, bool]] = {}
        self.healthy = 0
        # Pods by uid of their controller; one without controller by its own.
        self.by_owner: Counter[str] = Counter()

    @property
    def selected(self) -> int:
        """Return how many pods there are."""
        return len(self._of_pod)

    def put(self, pod: SimulatedPod) -> None:
        """Count a pod that is new or has changed."""
        self.drop(pod.key)
        if not pod.terminal:
            owner, healthy = str(pod.owner.get("uid") or pod.uid), pod.ready and not pod.terminating
            self._of_pod[pod.key] = owner, healthy
            self.healthy += healthy
            self.by_owner[owner] += 1

    def drop(self, key: PodKey) -> None:
        """Stop counting a pod."""
        known = self._of_pod.pop(key, None)
        if known is not None:
            owner, healthy = known
            self.healthy -= healthy
            self.by_owner[owner] -= 1
            if not self.by_owner[owner]:
                del self.by_owner[owner]


_NONE = OwnerTally()
