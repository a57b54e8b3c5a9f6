"""What pods claim: filters of devices, claims reduced to counts of them, all claims of a pod as one, what is in use.

A claim counts if it asks for exact numbers, without constraints, alternatives or admin access; for others `is_counting`
is false. A claim that the allocator refuses on every node has a problem, for people.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from trimtab.planner.device_amounts.cluster_devices import results_in_use, shares_in_use
from trimtab.planner.device_amounts.node_pools import NodePools
from trimtab.planner.devices.allocator import DeviceAllocator
from trimtab.planner.devices.demands import PreparedClaims, prepared
from trimtab.planner.devices.model import (
    RESULTS_PER_CLAIM,
    AllocatedDevice,
    AllocatedState,
    AllocationMode,
    DeviceClaim,
    DeviceClass,
    DeviceError,
    DeviceFeatures,
    DeviceId,
    DeviceNode,
    DevicesAllocated,
    DeviceSubRequest,
    DeviceToleration,
    PoolId,
)
from trimtab.planner.model.values import DEVICE_RESOURCE
from trimtab.planner.snapshot.columns import Bool, DeviceColumns, Int64


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


def claim_demand(claim: DeviceClaim, classes: Mapping[str, DeviceClass], features: DeviceFeatures) -> ClaimDemand:
    """Return what a claim asks for."""
    specs = [spec for request in claim.requests for spec in (request.exactly, *request.first_available) if spec]
    filters = tuple(dict.fromkeys(map(filter_of, specs)))
    error = _first_error(prepared([claim], classes, features))
    if error is not None:
        return ClaimDemand((), (), False, error.in_words)
    exact = [request.exactly for request in claim.requests if request.exactly is not None]
    is_counting = not claim.constraints and len(exact) == len(claim.requests)
    is_counting = is_counting and all(
        spec.mode == AllocationMode.EXACT_COUNT and not spec.admin_access for spec in exact
    )
    if not is_counting:
        return ClaimDemand((), filters, False)
    counts: dict[DeviceFilter, int] = {}
    for spec in exact:
        counts[filter_of(spec)] = counts.get(filter_of(spec), 0) + spec.count
    if sum(counts.values()) > RESULTS_PER_CLAIM:
        problem = f"it asks for {sum(counts.values())} devices; a claim may have {RESULTS_PER_CLAIM}"
        return ClaimDemand((), filters, False, problem)
    return ClaimDemand(tuple(counts.items()), filters, True)


def _first_error(claims: PreparedClaims) -> DeviceError | None:
    for groups, error in zip(claims.groups, claims.constraint_errors, strict=True):
        for group in groups:
            for input_error in (group.error, *(demand.error for demand in group.demands)):
                if input_error is not None:
                    return input_error
        if error is not None:
            return error
    return None


PodClaims = tuple[DeviceClaim, ...]
"""The claims of a pod by content, in their order."""


class DeviceInUse(NamedTuple):
    """A device, or a share of it, that a claim has, in terms that do not depend on the names of pools."""

    pool: int
    """The index of its pool in the layout of its node."""
    device: str
    shared: bool = False
    consumed: tuple[tuple[str, int], ...] = ()


NodeUse = tuple[DeviceInUse, ...]
"""What is in use of the own pools of a node, in order."""


class LayoutNode(NamedTuple):
    """A node of a layout. allocator : of the cluster, or of the slices that a group declares; pools : in the order of
    the layout."""

    allocator: DeviceAllocator
    node: DeviceNode
    pools: tuple[PoolId, ...]

    def allocated(self, claims: PodClaims, use: NodeUse) -> NodeUse | None:
        """Return what claims take beside what is in use, None = they are refused."""
        state = AllocatedState()
        in_use = [
            AllocatedDevice("", DeviceId(*self.pools[pool], name), False, shared, consumed)
            for pool, name, shared, consumed in use
        ]
        state.add(tuple(in_use))
        outcome = self.allocator.allocate(self.node, self.allocator.prepare(claims), state)
        if not isinstance(outcome, DevicesAllocated):
            return None
        results = [device for claim in outcome.claims for device in claim.devices if not device.admin_access]
        place = {pool: at for at, pool in enumerate(self.pools)}
        return tuple([
            DeviceInUse(place[PoolId(*result.device[:2])], result.device.device, result.shared, result.consumed)
            for result in results
        ])  # fmt: skip


def takes_nothing(pod_claims: PodClaims) -> bool:
    """Return whether all devices of a pod's claims are for administration: others may have them at the same time."""
    requests = [request for claim in pod_claims for request in claim.requests]
    return bool(requests) and all(
        request.exactly is not None and bool(request.exactly.admin_access) for request in requests
    )


def pod_claims_resource(pod_claims: PodClaims) -> str:
    """Return the name of the resource that stands for a pod's claims."""
    return f"{DEVICE_RESOURCE}{blake2b(repr(pod_claims).encode(), digest_size=6).hexdigest()}"


def uses_of_nodes(devices: DeviceColumns, pools: NodePools, freed: Bool | None = None) -> list[tuple[NodeUse, Int64]]:
    """Return each distinct use of own pools, with the nodes of one layout that have it, ascending. O(results). freed :
    bool[C] claims that have no devices any more."""
    claims, text = devices.claims, devices.strings
    rows = results_in_use(devices)
    if freed is not None:
        rows = rows[~freed[claims.result_claim[rows]]]
    pair = claims.result_driver[rows].astype(np.int64) * len(text) + claims.result_pool[rows]
    distinct, of = np.unique(pair, return_inverse=True)
    ids = [(text[number // len(text)], text[number % len(text)]) for number in distinct.tolist()]
    place = [pools.place.get(id, (-1, -1)) for id in ids]
    node, index = np.array(place, np.int64).reshape(-1, 2).T
    is_own = node[of] >= 0
    rows, node, index = rows[is_own], node[of][is_own], index[of][is_own]
    shares = shares_in_use(devices, rows)
    kinds = list(dict.fromkeys([(False, ()), *shares.values()]))
    kind = np.zeros(len(rows), np.int64)
    kind[list(shares)] = [kinds.index(share) for share in shares.values()]
    content, code = np.unique((index * len(text) + claims.result_device[rows]) * len(kinds) + kind, return_inverse=True)
    in_use = []
    for number in content.tolist():
        of_pool, at = divmod(number, len(kinds))
        pool, device = divmod(of_pool, len(text))
        in_use.append(DeviceInUse(pool, text[device], *kinds[at]))
    order = np.lexsort((code, node))
    starts = np.flatnonzero(np.diff(node[order], prepend=-1))
    of_nodes, ends = code[order].astype("<i8").tobytes(), [*starts[1:].tolist(), len(order)]
    nodes_of: dict[tuple[int, bytes], list[int]] = {}
    for first, last, at in zip(starts.tolist(), ends, node[order][starts].tolist(), strict=False):
        nodes_of.setdefault((int(pools.layout[at]), of_nodes[8 * first : 8 * last]), []).append(at)
    return [
        (tuple(sorted([in_use[at] for at in np.frombuffer(key, "<i8").tolist()])), np.array(nodes))
        for (_, key), nodes in nodes_of.items()
    ]
