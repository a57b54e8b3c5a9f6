"""Constraints of a claim: devices with the same value of an attribute, or with different ones.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating, matchAttributeConstraint and constraint.go,
v0.36.3 and v0.37.2.
"""

from abc import ABC, abstractmethod

from trimtab.planner.devices.model import (
    SCALAR_KINDS,
    AttributeKind,
    DeviceConstraint,
    DeviceContent,
    behavior_of,
)

Value = tuple[AttributeKind, object]


class AttributeRule(ABC):
    """A constraint in a search; `take` and `give_back` are called in the order of a stack."""

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        self._attribute = attribute
        self._requests = frozenset(requests)

    def take(self, request: str, alternative: str, driver: str, content: DeviceContent) -> bool:
        """Add a device if the constraint allows; return whether it does."""
        if not self._concerns(request, alternative):
            return True
        value = attribute_value(content, driver, self._attribute)
        return value is not None and self._add(request, value)

    def give_back(self, request: str, alternative: str) -> None:
        """Undo the last `take` of the request that was allowed."""
        if self._concerns(request, alternative):
            self._remove(request)

    def _concerns(self, request: str, alternative: str) -> bool:
        names = self._requests
        return not names or request in names or (bool(alternative) and f"{request}/{alternative}" in names)

    @abstractmethod
    def _add(self, _request: str, value: Value) -> bool:
        """Add a value if that is allowed."""

    @abstractmethod
    def _remove(self, _request: str) -> None:
        """Remove the value that was added last."""


class _Match(AttributeRule):
    """All values are equal."""

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        super().__init__(attribute, requests)
        self._value: Value | None = None
        self._count = 0

    def _add(self, _request: str, value: Value) -> bool:
        if self._count and (value != self._value or value[0] not in SCALAR_KINDS):
            return False
        if not self._count:
            self._value = value
        self._count += 1
        return True

    def _remove(self, _request: str) -> None:
        self._count -= 1


class _DistinctByRequest(AttributeRule):
    """Values differ from the one that each request has last: a device more of one request makes it forget the one
    before, and so does taking a device back.
    """

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        super().__init__(attribute, requests)
        self._values: dict[str, Value] = {}
        self._count = 0

    def _add(self, _request: str, value: Value) -> bool:
        if self._count and self._values and (value in self._values.values() or value[0] not in SCALAR_KINDS):
            return False
        self._values[_request] = value
        self._count += 1
        return True

    def _remove(self, _request: str) -> None:
        self._values.pop(_request, None)
        self._count -= 1


class _Distinct(AttributeRule):
    """All values differ."""

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        super().__init__(attribute, requests)
        self._values: list[Value] = []

    def _add(self, _request: str, value: Value) -> bool:
        if self._values and (value in self._values or value[0] not in SCALAR_KINDS):
            return False
        self._values.append(value)
        return True

    def _remove(self, _request: str) -> None:
        self._values.pop()


def rules_of(constraints: tuple[DeviceConstraint, ...], version: int) -> tuple[AttributeRule, ...]:
    """Return the constraints of a claim for a new search; each has one of its two attributes."""
    distinct = _Distinct if behavior_of(version).remembers_all_values else _DistinctByRequest
    return tuple(
        _Match(one.match_attribute, one.requests)
        if one.match_attribute
        else distinct(one.distinct_attribute, one.requests)
        for one in constraints
    )


def attribute_value(content: DeviceContent, driver: str, name: str) -> Value | None:
    """Return the value of an attribute by its full name; without a domain on the device it is the driver's."""
    domain, slash, rest = name.partition("/")
    short = rest if slash and domain == driver else None
    found: Value | None = None
    for one in content.attributes:
        if one.name == name:
            return one.kind, one.value
        if one.name == short and slash:
            found = one.kind, one.value
    return found
