"""The pods of a cluster as last seen, and what those were that are gone: evictions name them for some minutes.

Decides by which row an evicted pod is described: the pod as it was last seen, else a sibling of the same owner, which
asks for the same. Not for several threads at a time.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Iterable

from trimtab.v1 import actuator_pb2

from clients.kubernetes_objects.pod_rows import PodRow

Key = tuple[str, str]
"""(namespace, name)."""
MOST_DEPARTED = 50_000
"""Pods that are gone, kept for what they were; and owners of such."""


class PodMemory:
    """Pods present and gone. Whoever changes `pods` keeps `pods_of` (keys by owner) in step, and calls `remember`."""

    def __init__(self) -> None:
        self.pods: dict[Key, PodRow] = {}
        self.pods_of: dict[str, set[Key]] = defaultdict(set)
        # Pods that are gone, by uid, and the last one gone of each owner, by the owner's uid.
        self._departed: OrderedDict[str, PodRow] = OrderedDict()
        self._last_of: OrderedDict[str, PodRow] = OrderedDict()

    def see(self, rows: Iterable[PodRow]) -> None:
        """Take all pods of a new list; those that it lacks are gone."""
        before = dict(self.pods)
        self.pods.clear()
        self.pods_of.clear()
        for row in rows:
            self.pods[row.namespace, row.name] = row
            if row.owner:
                self.pods_of[row.owner].add((row.namespace, row.name))
        for key, row in before.items():
            now = self.pods.get(key)
            if now is None or now.uid != row.uid:
                self.remember(row)

    def remember(self, row: PodRow) -> None:
        """Keep what a pod was that is gone."""
        for kept, uid in ((self._departed, row.uid), (self._last_of, row.owner)):
            kept[uid] = row
            kept.move_to_end(uid)
            while len(kept) > MOST_DEPARTED:
                kept.popitem(last=False)

    def describe(self, evictions: Iterable[actuator_pb2.Eviction]) -> list[PodRow | None]:
        """Return the row of each evicted pod, or of a sibling under its name; None if neither was ever seen."""
        siblings: dict[str, PodRow | None] = {}
        return [self._describe(one, siblings) for one in evictions]

    def _describe(self, eviction: actuator_pb2.Eviction, siblings: dict[str, PodRow | None]) -> PodRow | None:
        """Describe one; `siblings` keeps what was found for owners."""
        present = self.pods.get((eviction.namespace, eviction.name))
        if present is not None and present.uid == eviction.uid:
            return present
        known = self._departed.get(eviction.uid)
        if known is not None:
            return known
        if eviction.owner_uid not in siblings:
            siblings[eviction.owner_uid] = self._sibling(eviction.owner_uid)
        sibling = siblings[eviction.owner_uid]
        if sibling is None:
            return None
        return sibling._replace(
            namespace=eviction.namespace, name=eviction.name, uid=eviction.uid, owner=eviction.owner_uid
        )

    def _sibling(self, owner: str) -> PodRow | None:
        """Return a pod of an owner (a uid), present or gone."""
        if not owner:
            return None
        keys = self.pods_of.get(owner)
        return self.pods[min(keys)] if keys else self._last_of.get(owner)
