"""Which devices of a table a request may get whatever is in use: selectors, taints, sizes. Bits by position.

Kept by (table, request), so that pools with the same devices are looked at once.
"""

from dataclasses import dataclass
from typing import NamedTuple

from trimtab.planner.devices.capacity import CapacityError, Requested, fits_capacity
from trimtab.planner.devices.model import (
    DeviceClass,
    DeviceContent,
    DeviceError,
    DeviceFeatures,
    DeviceInputError,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    TaintEffect,
)
from trimtab.planner.devices.pools import DeviceTable
from trimtab.planner.devices.selectors import DeviceSelectors, SelectorError
from trimtab.planner.model.execution import asking, reserve_memory

_EFFECTS = frozenset(TaintEffect)
_KNOWN_BYTES = 500


class DeviceProblem(NamedTuple):
    """Why some device makes a request an error: a selector that has no value for it, or an amount. of_class : of the
    class, not of the request; field : of which."""

    of_class: bool
    field: str
    text: str


@dataclass(frozen=True, slots=True)
class EligibleDevices:
    """Bits of the devices of a table, for one request. matching : by selectors; tolerated : by taints; large_enough :
    by capacity, with nothing in use; problems : (bits, problem) of devices that make the request an error, none of
    them in `matching`; problem_bits : of all of these. usable : those that may be taken, apart from what is in use.
    """

    matching: int
    tolerated: int
    large_enough: int
    usable: int
    problem_bits: int
    problems: tuple[tuple[int, DeviceProblem], ...]

    def problem_at(self, bit: int) -> DeviceProblem:
        """Return the problem of one device, which has one."""
        return next(problem for bits, problem in self.problems if bits & bit)


class Eligibility:
    """Answers for all tables and requests of a cluster."""

    def __init__(self, features: DeviceFeatures) -> None:
        self._features = features
        self._selectors = DeviceSelectors(features)
        self._known: dict[tuple[int, str, DeviceClass, DeviceSubRequest], EligibleDevices] = {}
        self._tables: list[DeviceTable] = []

    def of(
        self, table: DeviceTable, driver: str, device_class: DeviceClass, request: DeviceSubRequest
    ) -> EligibleDevices:
        """Return the devices of a table of a driver that a request may get."""
        key = (id(table), driver, device_class, request)
        answer = self._known.get(key)
        if answer is None:
            reserve_memory(_KNOWN_BYTES + len(table.names) // 2, "devices that claims may get")
            self._tables.append(table)  # so that no other table gets its identity
            answer = self._known[key] = self._evaluated(table, driver, device_class, request)
        return answer

    def _evaluated(
        self, table: DeviceTable, driver: str, device_class: DeviceClass, request: DeviceSubRequest
    ) -> EligibleDevices:
        matching = tolerated = large_enough = problem_bits = 0
        problems: list[tuple[int, DeviceProblem]] = []
        for content, bits in asking(table.groups):
            answer = self._selected(content, driver, device_class, request)
            size: bool | DeviceProblem = True
            if answer is True and self._features.consumable_capacity:
                size = self._is_large_enough(content, request.capacity)
            problem = next((problem_of for problem_of in (answer, size) if isinstance(problem_of, DeviceProblem)), None)
            if problem is not None:
                problems.append((bits, problem))
                problem_bits |= bits
                continue
            matching |= bits if answer else 0
            large_enough |= bits if size else 0
            tolerated |= bits if self._is_tolerated(content.taints, request.tolerations) else 0
        usable = matching & tolerated & large_enough
        if not self._features.partitionable_devices:
            usable &= ~sum(bits for content, bits in table.groups if content.consumes_counters)
        return EligibleDevices(matching, tolerated, large_enough, usable, problem_bits, tuple(problems))

    def _selected(
        self, content: DeviceContent, driver: str, device_class: DeviceClass, request: DeviceSubRequest
    ) -> bool | DeviceProblem:
        if content.has_binding_conditions and not self._features.binding_conditions:
            return False
        for of_class, selectors in ((True, device_class.selectors), (False, request.selectors)):
            for at, expression in enumerate(selectors):
                try:
                    if expression is None or not self._selectors.matches(expression, driver, content):
                        return False
                except SelectorError as error:
                    return DeviceProblem(of_class, f"selectors[{at}].cel.expression", str(error))
        return True

    def _is_large_enough(self, content: DeviceContent, capacity: Requested) -> bool | DeviceProblem:
        try:
            return fits_capacity(capacity, content.capacities, {}, self._features)
        except CapacityError as error:
            return DeviceProblem(False, "capacity.requests", str(error))

    def _is_tolerated(self, taints: tuple[DeviceTaint, ...], tolerations: tuple[DeviceToleration, ...]) -> bool:
        if not self._features.device_taints:
            return True
        keeping = (taint for taint in asking(taints) if taint.effect in _EFFECTS)
        return all(any(tolerates(toleration, taint) for toleration in tolerations) for taint in keeping)


def tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Return whether a toleration tolerates a taint."""
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def input_error(problem: DeviceProblem, claim: str, request: str, device_class: str) -> DeviceInputError:
    """Return the error of a request that meets a device with a problem."""
    if problem.of_class:
        return DeviceInputError(DeviceError(f"DeviceClass {device_class}", f"spec.{problem.field}", problem.text))
    field = f"spec.devices.requests[{request}].{problem.field}"
    return DeviceInputError(DeviceError(f"ResourceClaim {claim}", field, problem.text))
