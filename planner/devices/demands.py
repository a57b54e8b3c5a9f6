"""Claims as a search takes them: classes looked up, what makes no sense refused.

Everything here is independent of the node and of what is in use, so it is done once for a pod.
Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating, Allocate and validateDeviceRequest, v0.36.3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimtab.planner.devices.model import (
    AllocationMode,
    ClaimRequest,
    DeviceClaim,
    DeviceClass,
    DeviceError,
    DeviceFeatures,
    DeviceInputError,
    DeviceSubRequest,
)


@dataclass(frozen=True, slots=True)
class DeviceDemand:
    """A request without alternatives, or one alternative. request, alternative : names, the latter "" without; error :
    why the request makes no sense; what comes before it in the claim is checked before it is raised.
    """

    request: str
    alternative: str
    spec: DeviceSubRequest
    device_class: DeviceClass | None
    error: DeviceError | None

    @property
    def name(self) -> str:
        """The name in results."""
        return f"{self.request}/{self.alternative}" if self.alternative else self.request

    @property
    def takes_all(self) -> bool:
        """Whether all devices are asked for."""
        return self.spec.mode == AllocationMode.ALL

    @property
    def has_admin_access(self) -> bool:
        """Whether devices in use are wanted too."""
        return bool(self.spec.admin_access)


@dataclass(frozen=True, slots=True)
class DemandGroup:
    """One request: its only demand, or its alternatives in order. error : of the request as a whole."""

    demands: tuple[DeviceDemand, ...]
    has_alternatives: bool
    error: DeviceError | None


@dataclass(frozen=True, slots=True, eq=False)
class PreparedClaims:
    """The claims of a pod. groups[claim] : its requests in order; constraint_errors[claim] : of its constraints, or
    None.
    """

    claims: tuple[DeviceClaim, ...]
    groups: tuple[tuple[DemandGroup, ...], ...]
    constraint_errors: tuple[DeviceError | None, ...]


def prepared(
    claims: Sequence[DeviceClaim], classes: Mapping[str, DeviceClass], features: DeviceFeatures
) -> PreparedClaims:
    """Look up what the claims name. Errors are kept, since an error on a node comes before them."""
    groups = tuple(tuple(_group(claim, request, classes, features) for request in claim.requests) for claim in claims)
    return PreparedClaims(tuple(claims), groups, tuple(map(_constraint_error, claims)))


def _group(
    claim: DeviceClaim, request: ClaimRequest, classes: Mapping[str, DeviceClass], features: DeviceFeatures
) -> DemandGroup:
    alternatives = request.first_available
    error = None
    if alternatives and not features.prioritized_list:
        error = _error(claim, request.name, "firstAvailable", "the DRAPrioritizedList feature is disabled")
    specs = alternatives or ((request.exactly,) if request.exactly is not None else ())
    if error is None and not specs:
        error = _error(claim, request.name, "exactly", "neither exactly nor firstAvailable (unsupported request type?)")
    if error is None and not features.consumable_capacity and any(spec.capacity is not None for spec in specs):
        error = _error(claim, request.name, "capacity", "the DRAConsumableCapacity feature is disabled")
    demands = tuple(_demand(claim, request.name, spec, classes, features) for spec in specs)
    return DemandGroup(demands, bool(alternatives), error)


def _demand(
    claim: DeviceClaim,
    request: str,
    spec: DeviceSubRequest,
    classes: Mapping[str, DeviceClass],
    features: DeviceFeatures,
) -> DeviceDemand:
    name = f"{request}/{spec.name}" if spec.name else request
    device_class = classes.get(spec.device_class)
    error = None
    unknown = next((at for at, selector in enumerate(spec.selectors) if selector is None), None)
    if unknown is not None:
        error = _error(claim, name, f"selectors[{unknown}]", "CEL expression empty (unsupported selector type?)")
    elif spec.admin_access is not None and not features.admin_access:
        error = _error(claim, name, "adminAccess", "admin access is requested, but the feature is disabled")
    elif not spec.device_class:
        error = _error(claim, name, "deviceClassName", "missing device class name (unsupported request type?)")
    elif device_class is None:
        error = _error(claim, name, "deviceClassName", f"device class {spec.device_class} does not exist")
    elif spec.mode not in tuple(AllocationMode):
        error = _error(claim, name, "allocationMode", f"unsupported count mode {spec.mode}")
    return DeviceDemand(request, spec.name, spec, device_class, error)


def _constraint_error(claim: DeviceClaim) -> DeviceError | None:
    for at, constraint in enumerate(claim.constraints):
        if not (constraint.match_attribute or constraint.distinct_attribute):
            text = "empty constraint (unsupported constraint type?)"
            return DeviceError(f"ResourceClaim {claim.name}", f"spec.devices.constraints[{at}]", text)
    return None


def _error(claim: DeviceClaim, request: str, field: str, text: str) -> DeviceError:
    return DeviceError(f"ResourceClaim {claim.name}", f"spec.devices.requests[{request}].{field}", text)


def raise_if(error: DeviceError | None) -> None:
    """Raise an error, if there is one."""
    if error is not None:
        raise DeviceInputError(error)
