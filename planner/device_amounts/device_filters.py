"""What claims ask for, reduced to counts: so many devices of which certain ones are eligible.

A claim counts if it asks for exact numbers, without constraints, alternatives or admin access; for others `is_counting`
is false. A claim that the allocator refuses on every node has a problem, for people.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from trimtab.planner.devices.demands import PreparedClaims, prepared
from trimtab.planner.devices.model import (
    RESULTS_PER_CLAIM,
    AllocationMode,
    DeviceClaim,
    DeviceClass,
    DeviceError,
    DeviceFeatures,
    DeviceSubRequest,
    DeviceToleration,
)


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
