"""The pods of a cluster, and the last state of pods that are gone: the actuator reports evictions for several minutes.

Decides which row describes an evicted pod: its own last state, otherwise that of another pod of the same owner, which
has the same requests. Not thread-safe.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Iterable

from trimtab.common.objects.pod_rows import PodRow
from trimtab.v1 import actuator_pb2

Key = tuple[str, str]
"""(namespace, name)."""
MOST_DEPARTED = 50_000
"""Most gone pods, and most owners of them, whose last state is kept."""


class PodHistory:
    """Pods present and gone. Who changes `pods` must update `pods_of` (keys by owner) and call `remember`."""

    def __init__(self, most_departed: int = MOST_DEPARTED) -> None:
        """`most_departed` : gone pods whose last state is kept."""
        self._most = most_departed
        self.pods: dict[Key, PodRow] = {}
        self.pods_of: dict[str, set[Key]] = defaultdict(set)
        # Pods that are gone, by uid, and the last one gone of each owner, by the owner's uid.
        self._departed: OrderedDict[str, PodRow] = OrderedDict()
        self._last_of: OrderedDict[str, PodRow] = OrderedDict()

    def see(self, rows: Iterable[PodRow]) -> None:
        """Replace all pods by those of a new list."""
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
        """Keep the last state of a pod that is gone."""
        for kept, uid in ((self._departed, row.uid), (self._last_of, row.owner)):
            kept[uid] = row
            kept.move_to_end(uid)
            while len(kept) > self._most:
                kept.popitem(last=False)

    def describe(self, evictions: Iterable[actuator_pb2.Eviction]) -> list[PodRow | None]:
        """Return the row of each evicted pod, or that of another pod of its owner; None when unknown."""
        siblings: dict[str, PodRow | None] = {}
        return [self._describe(eviction, siblings) for eviction in evictions]

    def _describe(self, eviction: actuator_pb2.Eviction, siblings: dict[str, PodRow | None]) -> PodRow | None:
        """Return the row of one evicted pod; `siblings` caches a row for each owner."""
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
