"""Bundles: all claims of a pod, counted as one where only pods with the same claims compete for the devices.

What the allocator gives to a bundle depends on constraints, alternatives, counters and shares; but as long as no other
claim may get the same devices, a node is described by how many more such bundles it can have. That is found by asking
the allocator until it refuses. O(bundles of a node) searches, for each distinct use of each kind of node.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from trimtab.planner.device_amounts.asks import Ask
from trimtab.planner.device_amounts.cluster_devices import allocated_devices
from trimtab.planner.device_amounts.node_pools import NodePools, Profile
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

Bundle = tuple[DeviceClaim, ...]
"""The claims of a pod by content, in their order."""
_MOST: Final = 512
"""More bundles than pods fit on any node."""


class NodeOfKind(NamedTuple):
    """A node of a profile. allocator : of the cluster, or of the slices that a group declares; pools : the index of
    each of its pools in the profile."""

    allocator: DeviceAllocator
    node: DeviceNode
    pools: Mapping[PoolId, int]


class BundleCounter:
    """Counts bundles, each distinct case once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Bundle, Profile, frozenset[object]], int] = {}

    def count(self, bundle: Bundle, profile: Profile, at: NodeOfKind, used: Sequence[AllocatedDevice]) -> int:
        """Return how many more bundles a node can have. used : devices of its own pools."""
        key = bundle, profile, relative_use(used, at.pools)
        if key not in self._known:
            self._known[key] = self._counted(bundle, at, used)
        return self._known[key]

    def _counted(self, bundle: Bundle, at: NodeOfKind, used: Sequence[AllocatedDevice]) -> int:
        prepared, state = at.allocator.prepare(bundle), AllocatedState()
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


def takes_nothing(bundle: Bundle) -> bool:
    """Return whether all devices of a bundle are for administration: others may have them at the same time."""
    requests = [one for claim in bundle for one in claim.requests]
    return bool(requests) and all(one.exactly is not None and bool(one.exactly.admin_access) for one in requests)


def bundle_resource(bundle: Bundle) -> str:
    """Return the name of the resource that stands for a bundle."""
    return f"{DEVICE_RESOURCE}{blake2b(repr(bundle).encode(), digest_size=6).hexdigest()}"


class BundleUsers:
    """Which pods compete for the devices of each group of asks."""

    def __init__(self, group_of: Mapping[Ask, int]) -> None:
        self._group_of = group_of
        self._users: dict[int, set[object]] = {}

    def add(self, user: object, asks: Iterable[Ask]) -> None:
        """Note pods with the same claims, as `user`, and what they ask for."""
        for ask in asks:
            self._users.setdefault(self._group_of[ask], set()).add(user)

    def is_alone(self, user: object, asks: Iterable[Ask]) -> bool:
        """Return whether no other pods ask for these devices."""
        return all(self._users[self._group_of[ask]] == {user} for ask in asks)


def used_on(devices: DeviceColumns, pools: NodePools) -> dict[int, list[AllocatedDevice]]:
    """Return the devices in use of the own pools of nodes that have some. O(results)."""
    found: dict[int, list[AllocatedDevice]] = {}
    for _, one in allocated_devices(devices):
        node, _ = pools.place.by_pool.get(PoolId(one.device.driver, one.device.pool), (-1, -1))
        if node >= 0:
            found.setdefault(node, []).append(one)
    return found
