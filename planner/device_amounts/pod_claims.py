"""All claims of a pod, counted as one where only pods with the same claims compete for the devices.

What the allocator gives to a pod's claims depends on constraints, alternatives, counters and shares; but as long as no
other claim may get the same devices, a node is described by how many more such claims it can have. That is found by
asking the allocator until it refuses. O(such claims of a node) searches, for each distinct use of each layout.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from trimtab.planner.device_amounts.cluster_devices import allocated_devices
from trimtab.planner.device_amounts.device_filters import DeviceFilter
from trimtab.planner.device_amounts.node_pools import NodeDeviceLayout, NodePools
from trimtab.planner.devices.allocator import DeviceAllocator
from trimtab.planner.devices.model import (
    AllocatedDevice,
    AllocatedState,
    DeviceClaim,
    DeviceNode,
    DevicesAllocated,
    PoolId,
)
from trimtab.planner.model.values import DEVICE_RESOURCE
from trimtab.planner.snapshot.columns import DeviceColumns

PodClaims = tuple[DeviceClaim, ...]
"""The claims of a pod by content, in their order."""
_MOST: Final = 512
"""More claims than pods fit on any node."""


class LayoutNode(NamedTuple):
    """A node of a layout. allocator : of the cluster, or of the slices that a group declares; pools : the index of
    each of its pools in the layout."""

    allocator: DeviceAllocator
    node: DeviceNode
    pools: Mapping[PoolId, int]


class PodClaimsCounter:
    """Counts the claims of pods, each distinct case once."""

    def __init__(self) -> None:
        self._known: dict[tuple[PodClaims, NodeDeviceLayout, frozenset[object]], int] = {}

    def count(
        self, pod_claims: PodClaims, layout: NodeDeviceLayout, at: LayoutNode, used: Sequence[AllocatedDevice]
    ) -> int:
        """Return how many more such claims a node can have. used : devices of its own pools."""
        key = pod_claims, layout, relative_use(used, at.pools)
        if key not in self._known:
            self._known[key] = self._counted(pod_claims, at, used)
        return self._known[key]

    def _counted(self, pod_claims: PodClaims, at: LayoutNode, used: Sequence[AllocatedDevice]) -> int:
        prepared, state = at.allocator.prepare(pod_claims), AllocatedState()
        state.add(tuple(used))
        for count in range(_MOST):
            outcome = at.allocator.allocate(at.node, prepared, state)
            if not isinstance(outcome, DevicesAllocated):
                return count
            state.add_all(outcome.claims)
            if not any(not device.admin_access for claim in outcome.claims for device in claim.devices):
                return _MOST
        return _MOST


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


class PodClaimsUsers:
    """Which pods compete for the devices of each group of filters."""

    def __init__(self, group_of: Mapping[DeviceFilter, int]) -> None:
        self._group_of = group_of
        self._users: dict[int, set[object]] = {}

    def add(self, user: object, filters: Iterable[DeviceFilter]) -> None:
        """Note pods with the same claims, as `user`, and what they ask for."""
        for device_filter in filters:
            self._users.setdefault(self._group_of[device_filter], set()).add(user)

    def is_alone(self, user: object, filters: Iterable[DeviceFilter]) -> bool:
        """Return whether no other pods ask for these devices."""
        return all(self._users[self._group_of[device_filter]] == {user} for device_filter in filters)


def used_on(devices: DeviceColumns, pools: NodePools) -> dict[int, list[AllocatedDevice]]:
    """Return the devices in use of the own pools of nodes that have some. O(results)."""
    found: dict[int, list[AllocatedDevice]] = {}
    for _, one in allocated_devices(devices):
        node, _ = pools.place.by_pool.get(PoolId(one.device.driver, one.device.pool), (-1, -1))
        if node >= 0:
            found.setdefault(node, []).append(one)
    return found
