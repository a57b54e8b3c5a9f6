"""ReadWriteOncePod claims and attach limits over volume counters. O(volumes of the pod) each."""

from trimtab.planner.compiled.decorators import copied_kernel, inlined_kernel, prefetch
from trimtab.planner.predicates.counter_kind import CounterHooks
from trimtab.planner.predicates.pod_volumes import VolumeCounters
from trimtab.v1.reason_pb2 import PredicateReason

_CLAIM_USED = int(PredicateReason.VOLUME_RESTRICTED)
_OVER_LIMIT = int(PredicateReason.VOLUME_LIMIT_EXCEEDED)


@inlined_kernel
def is_claim_used(volumes: VolumeCounters, row: int) -> bool:
    """Return whether a placed pod mounts a ReadWriteOncePod claim of this pod."""
    for at in range(volumes.claim_offsets[row], volumes.claim_offsets[row + 1]):
        if volumes.claim_used[volumes.claim[at]] > 0:
            return True
    return False


@inlined_kernel
def is_over_limit(volumes: VolumeCounters, row: int, node: int) -> bool:
    """Return whether the node cannot attach the pod's unattached volumes. Volumes are sorted by driver."""
    driver, new = -1, 0
    for at in range(volumes.attach_offsets[row], volumes.attach_offsets[row + 1]):
        if volumes.attach[at, 0] != driver:
            driver, new = volumes.attach[at, 0], 0
        shared = volumes.attach[at, 1]
        if shared < 0 or volumes.mounted[shared, node] == 0:
            new += 1
            if volumes.attached[driver, node] + new > volumes.limit[driver, node]:
                return True
    return False


@inlined_kernel
def mount(volumes: VolumeCounters, row: int, node: int, sign: int) -> None:
    """Mount the pod's volumes on the node (sign 1), or unmount them (sign -1)."""
    for at in range(volumes.claim_offsets[row], volumes.claim_offsets[row + 1]):
        volumes.claim_used[volumes.claim[at]] += sign
    for at in range(volumes.attach_offsets[row], volumes.attach_offsets[row + 1]):
        driver, shared = volumes.attach[at, 0], volumes.attach[at, 1]
        if shared < 0:
            volumes.attached[driver, node] += sign
        else:
            before = volumes.mounted[shared, node]
            volumes.mounted[shared, node] = before + sign
            if before == 0 or before + sign == 0:
                volumes.attached[driver, node] += sign


@inlined_kernel
def because(volumes: VolumeCounters, row: int, node: int) -> int:
    """Return the mask `1 << reason` of the predicates that refuse the pod on the node."""
    mask = 1 << _CLAIM_USED if is_claim_used(volumes, row) else 0
    if is_over_limit(volumes, row, node):
        mask |= 1 << _OVER_LIMIT
    return mask


@copied_kernel
def count_own(volumes: VolumeCounters, pod: int, node: int, sign: int) -> None:
    """Mount the volumes of a pod on the node (sign 1), or unmount them (sign -1)."""
    row = volumes.row[pod]
    if row >= 0:
        mount(volumes, row, node, sign)


@inlined_kernel
def has_own(volumes: VolumeCounters, pod: int) -> bool:
    """Return whether a pod has volumes that count. O(1)."""
    return bool(volumes.row[pod] >= 0)


@copied_kernel
def prefetch_own(volumes: VolumeCounters, pod: int) -> None:
    """Load what tells whether a pod has volumes that count into the processor's cache."""
    prefetch(volumes.row, pod)


@inlined_kernel
def refuses_pod(volumes: VolumeCounters, pod: int, node: int) -> bool:
    """Return whether the node refuses the pod for its volumes."""
    row = volumes.row[pod]
    return bool(row >= 0 and because(volumes, row, node) != 0)


@inlined_kernel
def because_own(volumes: VolumeCounters, pod: int, node: int) -> int:
    """Return the mask `1 << reason` of the predicates that refuse the pod on the node for its volumes."""
    row = volumes.row[pod]
    return because(volumes, row, node) if row >= 0 else 0


@copied_kernel
def look_like(volumes: VolumeCounters, node: int, like: int) -> None:
    """Copy the attach limits of a node to another one. O(drivers)."""
    for driver in range(len(volumes.limit)):
        volumes.limit[driver, node] = volumes.limit[driver, like]


HOOKS = CounterHooks(
    count_own=count_own,
    has_own=has_own,
    prefetch_own=prefetch_own,
    refuses_pod=refuses_pod,
    because_own=because_own,
    look_like=look_like,
)
