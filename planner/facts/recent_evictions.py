"""Recently evicted pods that their controller will recreate but has not recreated yet.

Such a pod is on no node and in no list, but will need room soon. Not counted: evictions older than the TTL; pods that
are still in the snapshot and are not terminating; DaemonSet pods, which go with their node. If the replica counts of a
controller are known, at most as many of its pods count as it still lacks; otherwise all. An eviction whose spec the
caller does not know counts as a pod of the same owner, the first by name; if there is none, it is not counted.
Source: Cluster Autoscaler, core/scaledown/planner, filterOutRecreatedPods; the bound by missing replicas is our own.
"""

from collections.abc import Sequence

import numpy as np

from trimtab.planner.model.values import Owner, RecentEviction
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.lookup import find_pods

_COUNTED = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "Job"})


def awaited(snapshot: Snapshot, now_ns: int, ttl_ns: int) -> tuple[RecentEviction, ...]:
    """Return the evicted pods that need room, by namespace and name. O(E log P)."""
    if not snapshot.recent_evictions:
        return ()
    owners = {owner.uid: owner for owner in snapshot.owners}
    taken: dict[str, int] = {}
    chosen = []
    reported = sorted(snapshot.recent_evictions, key=lambda one: (one.namespace, one.name, one.uid))
    evictions = [one for one in described(snapshot, reported) if one.spec >= 0]
    for eviction, is_running in zip(evictions, _are_running(snapshot, evictions), strict=True):
        owner = owners.get(eviction.owner)
        expired = now_ns - eviction.evict_ns >= ttl_ns
        if expired or is_running or _is_daemon(owner):
            continue
        if owner is not None and taken.get(owner.uid, 0) >= _lacking(owner, len(evictions)):
            continue
        taken[eviction.owner] = taken.get(eviction.owner, 0) + 1
        chosen.append(eviction)
    return tuple(chosen)


def described(snapshot: Snapshot, evictions: Sequence[RecentEviction]) -> list[RecentEviction]:
    """Return the evictions; those of unknown spec get the spec of a pod of the same owner, -1 if there is none. O(P) if
    a spec is unknown, otherwise O(E).
    """
    if all(one.spec >= 0 for one in evictions):
        return list(evictions)
    pods = snapshot.pods
    owners, first = np.unique(pods.owner, return_index=True)
    pairs = zip(owners.tolist(), first.tolist(), strict=True)
    sibling = {snapshot.owners[owner].uid: row for owner, row in pairs if owner >= 0}
    found = []
    for one in evictions:
        row = sibling.get(one.owner, -1) if one.spec < 0 else -1
        found.append(one if row < 0 else one._replace(spec=int(pods.spec[row]), label_set=int(pods.label_set[row])))
    return found


def _is_daemon(owner: Owner | None) -> bool:
    return owner is not None and owner.kind == "DaemonSet"


def _lacking(owner: Owner, unknown: int) -> int:
    """Return how many pods a controller still has to create; `unknown` if its replica counts are unknown."""
    if owner.kind not in _COUNTED or owner.desired_replicas < 0 or owner.current_replicas < 0:
        return unknown
    return max(owner.desired_replicas - owner.current_replicas, 0)


def _are_running(snapshot: Snapshot, evictions: Sequence[RecentEviction]) -> list[bool]:
    """Return for each eviction whether the pod is in the snapshot under the same uid and is not terminating."""
    if not evictions:
        return []
    pods = snapshot.pods
    rows, found = find_pods(snapshot, [f"{one.namespace}/{one.name}" for one in evictions])
    return [
        bool(is_found) and pods.uid.get(row) == one.uid and int(pods.deletion_s[row]) == 0
        for one, row, is_found in zip(evictions, rows.tolist(), found.tolist(), strict=True)
    ]
