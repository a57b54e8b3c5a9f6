"""Consumable capacity: how much of each capacity a request takes from a device, and whether that much is left.

Every capacity of a device counts, not only those requested: without a request the policy's default is taken, or all of
it. The amounts are also compared on devices that are given away whole, where a request is a minimum size.
Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go, v0.36.3; v0.37.2 where
its version says so.
"""

from collections.abc import Mapping

from trimtab.planner.devices.model import CapacityPolicy, CapacityRange, DeviceCapacity, DeviceFeatures
from trimtab.planner.devices.quantities import NANO, whole_units

_LARGEST = 2**63 - 1
_MILLI = NANO // 1000


class CapacityError(Exception):
    """Raised for an amount that the scheduler treats as an error; the argument is for people."""


Requested = tuple[tuple[str, int], ...] | None


def consumed_capacity(
    requested: Requested, capacities: tuple[DeviceCapacity, ...], features: DeviceFeatures
) -> dict[str, int]:
    """Return what a request takes of each capacity, in nano-units, by name. Raises CapacityError."""
    wanted = dict(requested or ())
    consumed: dict[str, int] = {}
    for capacity in capacities:
        amount = _amount(wanted.get(capacity.name), capacity, features)
        if features.behavior.refuses_amounts and amount < 0:
            raise CapacityError(f"capacity {capacity.name!r}: capacity value is negative")
        consumed[capacity.name] = amount
    return consumed


def fits_capacity(
    requested: Requested,
    capacities: tuple[DeviceCapacity, ...],
    held: Mapping[str, int],
    features: DeviceFeatures,
) -> bool:
    """Return whether a device has what a request takes, beside what is `held` of it. A requested capacity that the
    device does not have does not fit. Raises CapacityError.
    """
    names = {capacity.name for capacity in capacities}
    if any(name not in names for name, _ in requested or ()):
        return False
    consumed = consumed_capacity(requested, capacities, features)
    return all(
        not _violates(consumed[capacity.name], capacity.policy, features)
        and held.get(capacity.name, 0) + consumed[capacity.name] <= capacity.value_nano
        for capacity in capacities
    )


def _amount(requested: int | None, capacity: DeviceCapacity, features: DeviceFeatures) -> int:
    policy = capacity.policy
    if requested is None:
        return capacity.value_nano if policy is None or policy.default_nano is None else policy.default_nano
    if policy is None:
        return requested
    if policy.valid_range is not None and policy.valid_range.min_nano is not None:
        return _rounded_up(requested, policy.valid_range.min_nano, policy.valid_range, features)
    if policy.valid_values_nano is not None:
        return next((value for value in policy.valid_values_nano if requested <= value), requested)
    return requested


def _rounded_up(requested: int, least: int, valid: CapacityRange, features: DeviceFeatures) -> int:
    if requested < least:
        return least
    if not valid.step_nano:
        return requested
    unit = _unit(valid, features)
    start, step = _units(least, unit), _units(valid.step_nano, unit)
    if features.behavior.refuses_amounts and (requested > _LARGEST * NANO or (unit == _MILLI and requested % _MILLI)):
        raise CapacityError(f"capacity request cannot be represented in the range arithmetic: {requested} nano")
    steps = -((start - _units(requested, unit)) // step)
    if features.behavior.refuses_amounts and start + step * steps > _LARGEST:
        raise CapacityError("capacity request rounded up to the next step cannot be represented")
    return (start + step * steps) * unit


def _violates(amount: int, policy: CapacityPolicy | None, features: DeviceFeatures) -> bool:
    if policy is None or amount == policy.default_nano:
        return False
    valid = policy.valid_range
    if valid is not None:
        if valid.max_nano is not None and amount > valid.max_nano:
            return True
        if not valid.step_nano:
            return False
        unit = _unit(valid, features)
        off = _units(amount, unit) - _units(valid.min_nano or 0, unit)
        return bool(off % _units(valid.step_nano, unit)) or (unit == _MILLI and bool(amount % _MILLI))
    return bool(policy.valid_values_nano) and amount not in (policy.valid_values_nano or ())


def _unit(valid: CapacityRange, features: DeviceFeatures) -> int:
    """Return the unit of the arithmetic: whole units, and from 1.37 on thousandths where all bounds have them."""
    bounds = [bound for bound in (valid.min_nano, valid.max_nano, valid.step_nano) if bound is not None]
    in_milli = features.behavior.counts_in_thousandths and features.fractional_capacity_range
    return _MILLI if in_milli and all(bound % _MILLI == 0 and bound // _MILLI <= _LARGEST for bound in bounds) else NANO


def _units(nano: int, unit: int) -> int:
    return whole_units(nano) if unit == NANO else nano // unit
