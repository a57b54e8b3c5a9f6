"""Constraints of a claim: devices with the same value of an attribute, or with different ones.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating, matchAttributeConstraint and constraint.go,
v0.36.3 and v0.37.2.
"""

from trimtab.planner.devices.model import (
    SCALAR_KINDS,
    AttributeKind,
    DeviceConstraint,
    DeviceContent,
    VersionBehavior,
)

Value = tuple[AttributeKind, object]


class AttributeRule:
    """A constraint in a search; `take` and `give_back` are called in the order of a stack."""

    def __init__(self, constraint: DeviceConstraint, behavior: VersionBehavior) -> None:
        self._is_match = bool(constraint.match_attribute)
        self._attribute = constraint.match_attribute or constraint.distinct_attribute
        self._requests = frozenset(constraint.requests)
        # A device more of one request makes it forget the one before, and so does taking a device back.
        self._forgets = not (self._is_match or behavior.remembers_all_values)
        self._values: dict[object, Value] = {}
        """Those taken, by request where only the last one of each counts, else by number."""

    def take(self, request: str, alternative: str, driver: str, content: DeviceContent) -> bool:
        """Add a device if the constraint allows; return whether it does."""
        if not self._concerns(request, alternative):
            return True
        value = attribute_value(content, driver, self._attribute)
        if value is None or not self._allows(value):
            return False
        self._values[request if self._forgets else len(self._values)] = value
        return True

    def give_back(self, request: str, alternative: str) -> None:
        """Undo the last `take` of the request that was allowed."""
        if self._concerns(request, alternative):
            self._values.pop(request if self._forgets else len(self._values) - 1, None)

    def _concerns(self, request: str, alternative: str) -> bool:
        names = self._requests
        return not names or request in names or (bool(alternative) and f"{request}/{alternative}" in names)

    def _allows(self, value: Value) -> bool:
        if not self._values:
            return True
        return value[0] in SCALAR_KINDS and (value in self._values.values()) == self._is_match


def attribute_value(content: DeviceContent, driver: str, name: str) -> Value | None:
    """Return the value of an attribute by its full name; without a domain on the device it is the driver's."""
    domain, slash, rest = name.partition("/")
    short = rest if slash and domain == driver else None
    value: Value | None = None
    for attribute in content.attributes:
        if attribute.name == name:
            return attribute.kind, attribute.value
        if attribute.name == short and slash:
            value = attribute.kind, attribute.value
    return value
