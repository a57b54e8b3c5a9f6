"""ReadWriteOncePod claims and attach limits over volume counters. O(volumes of the pod) each."""

from trimtab.planner.model.jit import inlined_kernel
from trimtab.planner.predicates.pod_volumes import VolumeCounters


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
