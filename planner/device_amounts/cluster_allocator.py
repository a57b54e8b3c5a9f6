"""What the allocator says of pods of a snapshot, one by one: for answers about a few pods, and for explanations.

Every claim is decided here, counted or not. The claims of a pod are those that it owns, as it has them now, and those
that it shares; devices that its own claims hold are free for it. Nothing is changed.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from trimtab.planner.device_amounts.cluster_devices import (
    allocated_devices,
    classes_of,
    extended_resources,
    features_of,
    named_claims,
    node_of,
    slices_of,
)
from trimtab.planner.devices.allocator import DeviceAllocator
from trimtab.planner.devices.demands import PreparedClaims
from trimtab.planner.devices.model import (
    AllocatedDevice,
    AllocatedState,
    AllocationOutcome,
    ClaimRequest,
    DeviceClaim,
    DeviceError,
    DeviceRefusal,
    DevicesAllocated,
    DevicesRefused,
    DeviceSubRequest,
)
from trimtab.planner.model.values import PodClaim, PodRequirements
from trimtab.planner.snapshot.columns import ALLOCATED, NO_NODE, Snapshot

EXTENDED: str = ""
"""The name within a pod of the claim that stands for its extended resources."""


class ClaimsToServe(NamedTuple):
    """The claims of a pod. wanted : by name within the pod, those without devices; own : rows of the claims whose
    devices are free for it."""

    wanted: tuple[DeviceClaim, ...]
    own: tuple[int, ...]


class ClusterAllocator:
    """The allocator for a snapshot as it was sent."""

    def __init__(self, sent: Snapshot) -> None:
        self._sent, self._devices = sent, sent.devices
        self._extended = extended_resources(sent)
        place = {name: at for at, name in enumerate(sent.resources)}
        self._by_plugin = {
            resource: sent.nodes.allocatable[:, place[resource]] > 0 for resource in self._extended.beside_plugins
        }
        self._allocator = DeviceAllocator(
            slices_of(sent.devices), classes_of(sent.devices).values(), features_of(sent.devices)
        )

    def concerns(self, pod: int) -> bool:
        """Return whether a pod claims devices."""
        spec = self._spec(pod)
        class_of = self._extended.class_of
        return bool(spec.claims) or any(request.resource in class_of for request in spec.extended_device_requests)

    def outcomes(self, pod: int, nodes: Iterable[int]) -> dict[int, AllocationOutcome]:
        """Return what the claims of a pod get on nodes, which are rows of the snapshot."""
        own, outcome_of = self.claims_of(pod).own, {}
        prepared: dict[tuple[DeviceClaim, ...], PreparedClaims] = {}
        state, held = self._state, [self._results[row] for row in own if row in self._results]
        for devices in held:
            state.remove(devices)
        for node in nodes:
            wanted = self.claims_of(pod, node).wanted
            if wanted not in prepared:
                prepared[wanted] = self._allocator.prepare(wanted)
            outcome_of[node] = self._allocator.allocate(node_of(self._sent, node), prepared[wanted], state)
        for devices in held:
            state.add(devices)
        return outcome_of

    def is_settled(self, node: int) -> bool:
        """Return whether all claims of the pods of a node have devices, so that no others will be in use."""
        return node not in self._unsettled

    def claims_of(self, pod: int, node: int = NO_NODE) -> ClaimsToServe:
        """Return the claims of a pod. node : on which, as extended resources that it has from a device plugin need no
        devices."""
        sent, spec = self._sent, self._spec(pod)
        namespace = sent.strings[sent.pods.namespace[pod]]
        own = self._owned.get((namespace, sent.pods.name.get(pod)), ())
        wanted = []
        for claim in spec.claims:
            if claim.shared:
                shared = self._shared(claim, namespace)
                wanted += [] if shared is None else [_named(claim.name, shared)]
            elif isinstance(claim.spec, DeviceClaim):
                wanted.append(_named(claim.name, claim.spec))
        requests = []
        for request in spec.extended_device_requests:
            by_plugin = self._by_plugin.get(request.resource)
            name = self._extended.class_of.get(request.resource)
            if name is not None and (by_plugin is None or node == NO_NODE or not by_plugin[node]):
                requests.append(ClaimRequest(request.name, DeviceSubRequest(name, count=request.devices)))
        if requests:
            wanted.append(DeviceClaim(EXTENDED, tuple(requests)))
        return ClaimsToServe(tuple(wanted), own)

    def _shared(self, claim: PodClaim, namespace: str) -> DeviceClaim | None:
        """Return what a shared claim asks for, None = nothing, as it has devices or cannot be used."""
        row = self._named.get((namespace, claim.shared), -1)
        if row < 0:
            # That of a PodGroup, which will be made.
            return claim.spec if isinstance(claim.spec, DeviceClaim) else None
        if self._devices.claims.flags[row] & ALLOCATED:
            return None
        claim_spec: DeviceClaim = self._devices.claim_specs[self._devices.claims.spec[row]]
        return claim_spec

    def _spec(self, pod: int) -> PodRequirements:
        spec: PodRequirements = self._sent.specs[self._sent.pods.spec[pod]]
        return spec

    @cached_property
    def _unsettled(self) -> frozenset[int]:
        """The nodes with pods whose claims have no devices yet. O(P), and microseconds for each pod with claims."""
        pods = self._sent.pods
        claiming = np.array([bool(spec.claims or spec.extended_device_requests) for spec in self._sent.specs], np.bool_)
        rows = np.flatnonzero((pods.node >= 0) & ~pods.is_terminal())
        rows = rows[claiming[pods.spec[rows]]]
        return frozenset([int(pods.node[row]) for row in rows.tolist() if not self._has_devices(row)])

    def _has_devices(self, pod: int) -> bool:
        claims, flags = self.claims_of(pod, int(self._sent.pods.node[pod])), self._devices.claims.flags
        return sum(int(flags[row]) & ALLOCATED == ALLOCATED for row in claims.own) >= len(claims.wanted)

    @cached_property
    def _owned(self) -> dict[tuple[str, str], tuple[int, ...]]:
        claims, rows_of = self._devices.claims, dict[tuple[str, str], tuple[int, ...]]()
        for row in np.flatnonzero(np.diff(claims.pod.offsets)).tolist():
            key = self._devices.strings[claims.namespace[row]], claims.pod.get(row)
            rows_of[key] = (*rows_of.get(key, ()), row)
        return rows_of

    @cached_property
    def _named(self) -> dict[tuple[str, str], int]:
        return named_claims(self._devices)

    @cached_property
    def _results(self) -> dict[int, tuple[AllocatedDevice, ...]]:
        """The devices of each allocated claim, by its row."""
        devices_of: dict[int, list[AllocatedDevice]] = {}
        for row, device in allocated_devices(self._devices):
            devices_of.setdefault(row, []).append(device)
        return {row: tuple(devices) for row, devices in devices_of.items()}

    @cached_property
    def _state(self) -> AllocatedState:
        state = AllocatedState()
        for devices in self._results.values():
            state.add(devices)
        return state


def _named(name: str, claim: DeviceClaim) -> DeviceClaim:
    return DeviceClaim(name, claim.requests, claim.constraints)


def refusals_of(outcome: AllocationOutcome) -> tuple[DeviceRefusal, ...] | DeviceError:
    """Return why claims get nothing, () = they do."""
    if isinstance(outcome, DevicesAllocated):
        return ()
    return outcome.refusals if isinstance(outcome, DevicesRefused) else outcome
