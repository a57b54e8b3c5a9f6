"""All claims of a pod as one, a node as the allocator has it, and the devices in use on nodes."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple

from trimtab.planner.device_amounts.cluster_devices import allocated_devices
from trimtab.planner.device_amounts.node_pools import NodePools
from trimtab.planner.devices.allocator import DeviceAllocator
from trimtab.planner.devices.model import (
    AllocatedDevice,
    DeviceClaim,
    DeviceNode,
    PoolId,
)
from trimtab.planner.model.values import DEVICE_RESOURCE
from trimtab.planner.snapshot.columns import DeviceColumns

PodClaims = tuple[DeviceClaim, ...]
"""The claims of a pod by content, in their order."""


class LayoutNode(NamedTuple):
    """A node of a layout. allocator : of the cluster, or of the slices that a group declares; pools : the index of
    each of its pools in the layout."""

    allocator: DeviceAllocator
    node: DeviceNode
    pools: Mapping[PoolId, int]


def relative_use(used: Iterable[AllocatedDevice], pools: Mapping[PoolId, int]) -> frozenset[object]:
    """Return what is in use in terms that do not depend on the names of pools; the same twice is numbered."""
    seen: dict[object, int] = {}
    for one in used:
        pool = pools.get(PoolId(one.device.driver, one.device.pool), -1)
        key = pool, one.device.device, one.shared, one.admin_access, one.consumed
        seen[key] = seen.get(key, 0) + 1
    return frozenset(seen.items())


def takes_nothing(pod_claims: PodClaims) -> bool:
    """Return whether all devices of a pod's claims are for administration: others may have them at the same time."""
    requests = [one for claim in pod_claims for one in claim.requests]
    return bool(requests) and all(one.exactly is not None and bool(one.exactly.admin_access) for one in requests)


def pod_claims_resource(pod_claims: PodClaims) -> str:
    """Return the name of the resource that stands for a pod's claims."""
    return f"{DEVICE_RESOURCE}{blake2b(repr(pod_claims).encode(), digest_size=6).hexdigest()}"


def used_on(devices: DeviceColumns, pools: NodePools) -> dict[int, list[AllocatedDevice]]:
    """Return the devices in use of the own pools of nodes that have some. O(results)."""
    found: dict[int, list[AllocatedDevice]] = {}
    for _, one in allocated_devices(devices):
        node, _ = pools.place.by_pool.get(PoolId(one.device.driver, one.device.pool), (-1, -1))
        if node >= 0:
            found.setdefault(node, []).append(one)
    return found
