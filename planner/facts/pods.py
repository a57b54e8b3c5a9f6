"""Pods that stay with a node, and recently evicted pods that are still to come again.

DaemonSet pods and static pods, and the DaemonSet of each: the spec of a DaemonSet is its own pod template; where the
snapshot does not have it, that of its newest pod. A DaemonSet with neither is unknown.

An evicted pod that its controller has not recreated yet is on no node and in no list, but will need room soon. Not
counted: evictions older than the TTL; pods that are still in the snapshot and are not terminating; DaemonSet pods,
which go with their node. If the replica counts of a controller are known, at most as many of its pods count as it
still lacks; otherwise all. An eviction whose spec the caller does not know counts as a pod of the same owner, the first
by name; if there is none, it is not counted. Source: Cluster Autoscaler, core/scaledown/planner,
filterOutRecreatedPods; the bound by missing replicas is our own.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.model.values import RecentEviction, TemplatePod
from trimtab.planner.snapshot.columns import FLAG_DAEMON, FLAG_MIRROR, NO_OWNER, UNKNOWN_OWNER, Bool, Int64, Snapshot
from trimtab.planner.snapshot.references import NONE
from trimtab.planner.snapshot.texts import find_pods

SYSTEM_NODE_CRITICAL: Final = 2_000_001_000
"""Priority of pods that preempt others on any node, unless their policy forbids it."""
_COUNTED = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "Job"})


class DaemonPods(NamedTuple):
    """Pods that stay with a node.

    daemon_set : int64[P] number of the DaemonSet of a running DaemonSet pod, NONE for other pods; static : bool[P]
    running mirror pods; templates : the pod template of each DaemonSet, None = the snapshot does not have it; newest :
    its newest pod, NONE = it has no pod.
    """

    daemon_set: Int64
    static: Bool
    templates: tuple[TemplatePod | None, ...]
    newest: tuple[int, ...]


def daemon_pods(snapshot: Snapshot) -> DaemonPods:
    """Return the DaemonSet pods and static pods that have not ended and are not terminating, and all DaemonSets with a
    template or such a pod, in the order of owners.
    """
    pods = snapshot.pods
    runs = ~pods.is_terminal() & (pods.deletion_s == 0)
    static = runs & ((pods.flags & FLAG_MIRROR) != 0)
    rows = np.flatnonzero(runs & ~static & ((pods.flags & FLAG_DAEMON) != 0) & (pods.owner != NO_OWNER))
    # Controllers that the snapshot does not list can still be distinguished by their uids.
    owner = pods.owner.astype(np.int64)
    dangling = snapshot.dangling.owner
    owner[dangling.row] = len(snapshot.owners) + dangling.name
    with_owner = rows[owner[rows] != UNKNOWN_OWNER]
    newest = with_owner[np.lexsort((with_owner, -pods.created_s[with_owner]))]
    having, first = np.unique(owner[newest], return_index=True)
    templates = {
        at: owner_info.pod_template
        for at, owner_info in enumerate(snapshot.owners)
        if owner_info.pod_template is not None
    }
    owners = np.union1d(having, np.array(list(templates), np.int64))
    of = np.full(len(pods.spec), NONE, np.int64)
    of[with_owner] = np.searchsorted(owners, owner[with_owner])
    newest_of = np.full(len(owners), NONE, np.int64)
    newest_of[np.searchsorted(owners, having)] = newest[first]
    return DaemonPods(of, static, tuple(templates.get(at) for at in owners.tolist()), tuple(newest_of.tolist()))


def awaited(snapshot: Snapshot, now_ns: int, ttl_ns: int) -> tuple[RecentEviction, ...]:
    """Return the evicted pods that need room, by namespace and name. O(E log P)."""
    if not snapshot.recent_evictions:
        return ()
    owners = {owner.uid: owner for owner in snapshot.owners}
    lacking: dict[str, int] = {}
    chosen = []
    reported = sorted(snapshot.recent_evictions, key=lambda report: (report.namespace, report.name, report.uid))
    evictions = [report for report in described(snapshot, reported) if report.spec >= 0]
    for eviction, is_running in zip(evictions, _are_running(snapshot, evictions), strict=True):
        owner = owners.get(eviction.owner)
        expired = now_ns - eviction.evict_ns >= ttl_ns
        if expired or is_running or (owner is not None and owner.kind == "DaemonSet"):
            continue
        # No more than its controller still has to create.
        is_counted = owner is not None and owner.kind in _COUNTED and owner.desired_replicas >= 0
        if owner is not None and is_counted and owner.current_replicas >= 0:
            lacking[owner.uid] = lacking.get(owner.uid, owner.desired_replicas - owner.current_replicas) - 1
            if lacking[owner.uid] < 0:
                continue
        chosen.append(eviction)
    return tuple(chosen)


def described(snapshot: Snapshot, evictions: Sequence[RecentEviction]) -> list[RecentEviction]:
    """Return the evictions; those of unknown spec get the spec of a pod of the same owner, -1 if there is none. O(P) if
    a spec is unknown, otherwise O(E).
    """
    if all(eviction.spec >= 0 for eviction in evictions):
        return list(evictions)
    pods = snapshot.pods
    owners, first = np.unique(pods.owner, return_index=True)
    pairs = zip(owners.tolist(), first.tolist(), strict=True)
    sibling = {snapshot.owners[owner].uid: row for owner, row in pairs if owner >= 0}
    rows = []
    for eviction in evictions:
        row = sibling.get(eviction.owner, -1) if eviction.spec < 0 else -1
        rows.append(
            eviction if row < 0 else eviction._replace(spec=int(pods.spec[row]), label_set=int(pods.label_set[row]))
        )
    return rows


def _are_running(snapshot: Snapshot, evictions: Sequence[RecentEviction]) -> list[bool]:
    """Return for each eviction whether the pod is in the snapshot under the same uid and is not terminating."""
    if not evictions:
        return []
    pods = snapshot.pods
    rows, is_there = find_pods(snapshot, [f"{eviction.namespace}/{eviction.name}" for eviction in evictions])
    return [
        bool(is_found) and pods.uid.get(row) == eviction.uid and int(pods.deletion_s[row]) == 0
        for eviction, row, is_found in zip(evictions, rows.tolist(), is_there.tolist(), strict=True)
    ]
