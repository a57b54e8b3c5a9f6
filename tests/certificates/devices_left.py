"""What is left of a node's devices, and whether it is enough for claims: found by trying, whatever the order in which
the scheduler would look.

Exact numbers, all devices, alternatives; devices given away whole and shares of them, with the policies of capacities;
shared counters; taints and tolerations; constraints over the requests of a claim. Claims for administration take
nothing, but each of their devices once.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from tests.certificates.device_objects import amount
from trimtab.v1 import snapshot_pb2 as pb

Device = tuple[str, str]
"""Driver and name: of one node, since each pool is a node's own."""
Counters = dict[tuple[str, str, str], Fraction]
"""What there is of counters, by driver, set and name."""
DISTINCT_IN_A_REQUEST: Final = 37
"""The minor version of Kubernetes from which on `distinctAttribute` also holds for devices of one request."""


class Alternative(NamedTuple):
    """A way to serve a request. name : "request" or "request/alternative"; picks : for each device, which ones may be
    taken, with what is taken of each capacity."""

    name: str
    picks: Sequence[Mapping[Device, Mapping[str, Fraction]]]


class Wanted(NamedTuple):
    """A request. claim : of which; constraints : those of the claim."""

    claim: tuple[str, str]
    alternatives: Sequence[Alternative]
    is_admin: bool
    constraints: Sequence[pb.DeviceConstraint]


class Given(NamedTuple):
    """A device that a request has."""

    claim: tuple[str, str]
    name: str
    device: Device


class DevicesLeft:
    """What of a node's devices can still be given. taken : those that are given away whole."""

    def __init__(self, published: Mapping[Device, pb.DeviceContent], counters: Counters, minor: int) -> None:
        self.taken: set[Device] = set()
        self._published, self._counters, self._minor = published, counters, minor
        self._content = {name: content.SerializeToString() for name, content in published.items()}
        self._shares = dict[Device, int]()
        self._consumes = {name: counters_of(content.consumed_counters) for name, content in published.items()}
        self._whole = {
            name: {one.name: amount(one.value) for one in content.capacities}
            for name, content in published.items()
            if content.allow_multiple_allocations
        }
        self._free = {name: dict(of) for name, of in self._whole.items()}

    def take(self, device: Device, wanted: Mapping[str, Fraction], sign: int = 1) -> bool:
        """Take a device, or what is wanted of it; return whether there was enough. sign : -1 gives it back."""
        if device not in self._whole:
            self.taken ^= {device}
            return self._count(device, sign)
        free, is_enough = self._free[device], True
        for name, value in self._whole[device].items():
            free[name] -= sign * wanted.get(name, value)
            is_enough &= free[name] >= 0
        before = self._shares.get(device, 0)
        self._shares[device] = before + sign
        # The first share takes of the counters; the last one that goes gives it back.
        return self._count(device, sign) and is_enough if 0 in (before, before + sign) else is_enough

    def can_give(self, wanted: Sequence[Wanted], given: tuple[Given, ...] = ()) -> bool:
        """Return whether each request can have the devices of one of its alternatives: backtracking."""
        if not wanted:
            return True
        first, *rest = wanted
        return any(
            self._can_give(first, one.name, sorted(one.picks, key=len), rest, given) for one in first.alternatives
        )

    def _can_give(
        self, of: Wanted, name: str, picks: Sequence[Mapping[Device, Mapping[str, Fraction]]],
        others: Sequence[Wanted], given: tuple[Given, ...],
    ) -> bool:  # fmt: skip
        if not picks:
            return self.can_give(others, given)
        eligible, *rest = picks
        tried = set()
        for device in sorted(eligible):
            found = (*given, Given(of.claim, name, device))
            # Devices that cannot be told apart are tried once.
            kind = device[0], self._content[device], device in self.taken, self._state(device)
            if kind in tried or not self._may_have(of, found):
                continue
            tried.add(kind)
            if of.is_admin:
                if self._can_give(of, name, rest, others, found):
                    return True
                continue
            if self.take(device, eligible[device]) and self._can_give(of, name, rest, others, found):
                return True
            self.take(device, eligible[device], -1)
        return False

    def _state(self, device: Device) -> tuple[Any, ...]:
        return self._shares.get(device, 0), *sorted(self._free.get(device, {}).items())

    def _may_have(self, of: Wanted, given: Sequence[Given]) -> bool:
        """Return whether the last of the given devices may go to a request."""
        *before, last = given
        if not of.is_admin and last.device in self.taken:
            return False
        mine = [one for one in before if one.claim == of.claim]
        if any(one.device == last.device for one in mine if of.is_admin or one.name == last.name):
            return False
        return all(self._holds(one, [*mine, last]) for one in of.constraints)

    def _holds(self, constraint: pb.DeviceConstraint, given: Sequence[Given]) -> bool:
        names = constraint.requests
        concerned = [one for one in given if not names or {one.name, one.name.partition("/")[0]} & {*names}]
        of = constraint.match_attribute or constraint.distinct_attribute
        values = [attribute_of(self._published[one.device], one.device[0], of) for one in concerned]
        if None in values:
            return False
        if constraint.match_attribute:
            return len(set(values)) <= 1
        if self._minor < DISTINCT_IN_A_REQUEST and len({one.name for one in concerned}) < len(concerned):
            return True
        return len(set(values)) == len(values)

    def _count(self, device: Device, sign: int) -> bool:
        """Take of the counters of a device; return whether there was enough."""
        taken = self._consumes[device]
        for key, one in taken.items():
            self._counters[device[0], *key] -= sign * one
        return all(self._counters[device[0], *key] >= 0 for key in taken)


def counters_of(rows: Iterable[Any]) -> dict[tuple[str, str], Fraction]:
    """Return amounts of counters, by set and name."""
    return {(one.name, counter.name): amount(counter.value) for one in rows for counter in one.counters}


def attribute_of(content: pb.DeviceContent, driver: str, name: str) -> Any:
    """Return type and value of an attribute by its full name; None = the device has none."""
    domain, _, rest = name.partition("/")
    found = {one.name: one for one in content.attributes}
    row = found.get(name) or (found.get(rest) if domain == driver else None)
    kind = row.WhichOneof("value") if row is not None else None
    return (kind, getattr(row, kind)) if kind else None


def is_tolerated(content: pb.DeviceContent, request: pb.DeviceSubRequest) -> bool:
    """Return whether a request tolerates the taints that keep devices from claims."""

    def tolerates(one: pb.DeviceToleration, taint: pb.DeviceTaint) -> bool:
        if one.effect not in ("", taint.effect) or one.key not in ("", taint.key):
            return False
        return one.operator == "Exists" or one.value == taint.value

    return all(
        taint.effect not in ("NoSchedule", "NoExecute") or any(tolerates(one, taint) for one in request.tolerations)
        for taint in content.taints
    )


def amounts_taken(request: pb.DeviceSubRequest, content: pb.DeviceContent) -> dict[str, Fraction] | None:
    """Return what a request takes of each capacity of a device; None = the device is too small, or does not have what
    is asked for, or its policies do not allow it."""
    asked = {one.name: amount(one.value) for one in request.capacities}
    if asked.keys() - {one.name for one in content.capacities}:
        return None
    found = {one.name: _amount_taken(one, asked.get(one.name)) for one in content.capacities}
    fits = all(found[one.name] <= amount(one.value) and _is_allowed(one, found[one.name]) for one in content.capacities)
    return found if fits else None


def _amount_taken(one: pb.DeviceCapacity, asked: Fraction | None) -> Fraction:
    """Return what is taken of a capacity. asked : None = nothing is asked for."""
    if asked is None:
        return amount(one.default_request or one.value) if one.has_policy else amount(one.value)
    if one.has_policy and one.valid_range.min:
        least = amount(one.valid_range.min)
        if asked <= least or not one.valid_range.step:
            return max(asked, least)
        step = amount(one.valid_range.step)
        return least - (least - asked) // step * step
    return next((value for value in map(amount, one.valid_values) if asked <= value), asked)


def _is_allowed(one: pb.DeviceCapacity, taken: Fraction) -> bool:
    if not one.has_policy or (one.default_request and taken == amount(one.default_request)):
        return True
    of = one.valid_range
    if of.max and taken > amount(of.max):
        return False
    if of.step and (taken - amount(of.min or 0)) % amount(of.step):
        return False
    return not one.valid_values or taken in map(amount, one.valid_values)
