"""Which of the pods evicted lately will come back and are not back yet.

A safety buffer: such a pod runs nowhere and is in no list, but will ask for room in a moment. An eviction is forgotten
after a while; pods that no controller of its own accord creates again (DaemonSet pods go with their node) never count;
of a controller whose numbers are known, only as many as it still lacks; of an unknown one, all.
Source: Cluster Autoscaler, core/scaledown/planner, filterOutRecreatedPods; the design of parallel drain.
"""

from planner.model.values import Owner, RecentEviction
from planner.snapshot.columns import Snapshot, Text

_COUNTED = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "Job"})


def awaited(snapshot: Snapshot, now_ns: int, ttl_ns: int) -> tuple[RecentEviction, ...]:
    """Return the evicted pods to keep room for, by namespace and name. O(E log P)."""
    owners = {owner.uid: owner for owner in snapshot.owners}
    taken: dict[str, int] = {}
    chosen = []
    evictions = sorted(snapshot.recent_evictions, key=lambda one: (one.namespace, one.name, one.uid))
    for eviction in evictions:
        owner = owners.get(eviction.owner)
        forgotten = now_ns - eviction.evict_ns >= ttl_ns
        if forgotten or _is_daemon(owner) or _still_there(snapshot, eviction):
            continue
        if owner is not None and taken.get(owner.uid, 0) >= _lacking(owner, len(evictions)):
            continue
        taken[eviction.owner] = taken.get(eviction.owner, 0) + 1
        chosen.append(eviction)
    return tuple(chosen)


def _is_daemon(owner: Owner | None) -> bool:
    return owner is not None and owner.kind == "DaemonSet"


def _lacking(owner: Owner, unknown: int) -> int:
    """Return how many pods a controller has still to create; `unknown` where its numbers are not known."""
    if owner.kind not in _COUNTED or owner.desired_replicas < 0 or owner.current_replicas < 0:
        return unknown
    return max(owner.desired_replicas - owner.current_replicas, 0)


def _still_there(snapshot: Snapshot, eviction: RecentEviction) -> bool:
    """Say whether the pod itself is in the snapshot and not on its way out: then it has its room."""
    pod = find_pod(snapshot, eviction.namespace, eviction.name)
    return pod >= 0 and snapshot.pods.uid.get(pod) == eviction.uid and snapshot.pods.deletion_s[pod] == 0


def find_pod(snapshot: Snapshot, namespace: str, name: str) -> int:
    """Return the number of a pod, -1 if the snapshot lacks it. O(log P)."""
    pods = snapshot.pods
    wanted = (namespace.encode(), name.encode())
    low, high = 0, len(pods.spec)
    while low < high:
        middle = (low + high) // 2
        if _key(snapshot, pods.name, middle) < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < len(pods.spec) and _key(snapshot, pods.name, low) == wanted else -1


def _key(snapshot: Snapshot, names: Text, pod: int) -> tuple[bytes, bytes]:
    name = bytes(names.data[names.offsets[pod] : names.offsets[pod + 1]])
    return snapshot.strings[snapshot.pods.namespace[pod]].encode(), name
