"""What pods claim: filters of devices, claims reduced to counts of them, all claims of a pod as one, what is in use.

A claim counts if it asks for exact numbers, without constraints, alternatives or admin access; for others `is_counting`
is false. A claim that the allocator refuses on every node has a problem, for people.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from trimtab.planner.device_amounts.cluster_devices import allocated_devices
from trimtab.planner.device_amounts.node_pools import NodePools
from trimtab.planner.devices.allocator import DeviceAllocator
from trimtab.planner.devices.demands import PreparedClaims, prepared
from trimtab.planner.devices.model import (
    RESULTS_PER_CLAIM,
    AllocatedDevice,
    AllocationMode,
    DeviceClaim,
    DeviceClass,
    DeviceError,
    DeviceFeatures,
    DeviceNode,
    DeviceSubRequest,
    DeviceToleration,
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


class DeviceFilter(NamedTuple):
    """Which devices are eligible. Fields as in `DeviceSubRequest`."""

    device_class: str
    selectors: tuple[str | None, ...] = ()
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: tuple[tuple[str, int], ...] | None = None
    beside_plugins: str = ""
    """The extended resource for which they are, where other nodes have it from a device plugin."""

    @property
    def request(self) -> DeviceSubRequest:
        """A request for one such device."""
        return DeviceSubRequest(
            self.device_class, selectors=self.selectors, tolerations=self.tolerations, capacity=self.capacity
        )


def filter_of(request: DeviceSubRequest) -> DeviceFilter:
    """Return which devices are eligible for a request."""
    return DeviceFilter(request.device_class, request.selectors, request.tolerations, request.capacity)


@dataclass(frozen=True)
class ClaimDemand:
    """What one claim asks for. counts : devices by filter, of a claim that counts; filters : all that it names;
    problem : why no node has it, "" = some may."""

    counts: tuple[tuple[DeviceFilter, int], ...]
    filters: tuple[DeviceFilter, ...]
    is_counting: bool
    problem: str = ""


class CountedClaims:
    """Reads claims of a cluster, each distinct one once."""

    def __init__(self, classes: Mapping[str, DeviceClass], features: DeviceFeatures) -> None:
        self._classes, self._features = classes, features
        self._known: dict[DeviceClaim, ClaimDemand] = {}

    def read(self, claim: DeviceClaim) -> ClaimDemand:
        """Return what a claim asks for."""
        found = self._known.get(claim)
        if found is None:
            found = self._known[claim] = self._read(claim)
        return found

    def _read(self, claim: DeviceClaim) -> ClaimDemand:
        specs = [one for request in claim.requests for one in (request.exactly, *request.first_available) if one]
        filters = tuple(dict.fromkeys(map(filter_of, specs)))
        error = _first_error(prepared([claim], self._classes, self._features))
        if error is not None:
            return ClaimDemand((), (), False, error.in_words)
        exact = [one.exactly for one in claim.requests if one.exactly is not None]
        is_counting = not claim.constraints and len(exact) == len(claim.requests)
        is_counting = is_counting and all(
            one.mode == AllocationMode.EXACT_COUNT and not one.admin_access for one in exact
        )
        if not is_counting:
            return ClaimDemand((), filters, False)
        counts: dict[DeviceFilter, int] = {}
        for one in exact:
            counts[filter_of(one)] = counts.get(filter_of(one), 0) + one.count
        if sum(counts.values()) > RESULTS_PER_CLAIM:
            problem = f"it asks for {sum(counts.values())} devices; a claim may have {RESULTS_PER_CLAIM}"
            return ClaimDemand((), filters, False, problem)
        return ClaimDemand(tuple(counts.items()), filters, True)


def _first_error(claims: PreparedClaims) -> DeviceError | None:
    for groups, error in zip(claims.groups, claims.constraint_errors, strict=True):
        for group in groups:
            for found in (group.error, *(demand.error for demand in group.demands)):
                if found is not None:
                    return found
        if error is not None:
            return error
    return None
