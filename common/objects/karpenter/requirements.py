"""Requirements of a NodePool on the labels of its nodes: which labels a machine must have, and which they add to
a node.

Decides whether a value is allowed; requirements on one key must all hold. Source: Karpenter, pkg/scheduling
(Requirement.Has); Gte and Lte since 1.9.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from trimtab.common.kubernetes.kinds.karpenter import PoolRequirement
from trimtab.common.kubernetes.object_errors import FieldError

_COMPARED: Final = ("Gt", "Lt", "Gte", "Lte")
OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", *_COMPARED)


class LabelRule(NamedTuple):
    """A requirement that was checked. values : of In and NotIn; bound : of the comparing operators; min_values : 0 =
    any number; place : its index in the object.
    """

    key: str
    operator: str
    values: frozenset[str]
    bound: int = 0
    min_values: int = 0
    place: int = 0

    def allows(self, value: str | None) -> bool:
        """Return whether a label may have a value; None = the machine does not have the label."""
        if value is None:
            return self.operator in ("NotIn", "DoesNotExist")
        if self.operator in ("In", "NotIn"):
            return (value in self.values) == (self.operator == "In")
        if self.operator in _COMPARED:
            return self._compares(value)
        return self.operator == "Exists"

    def _compares(self, value: str) -> bool:
        try:
            number = int(value)
        except ValueError:
            return False
        if self.operator in ("Gt", "Gte"):
            return number > self.bound or (self.operator == "Gte" and number == self.bound)
        return number < self.bound or (self.operator == "Lte" and number == self.bound)


class PoolRules(NamedTuple):
    """All requirements of a pool, by key."""

    by_key: Mapping[str, Sequence[LabelRule]]

    @property
    def keys(self) -> list[str]:
        """The keys, sorted."""
        return sorted(self.by_key)

    def allows(self, key: str, value: str | None) -> bool:
        """Return whether a label may have a value."""
        return all(rule.allows(value) for rule in self.by_key.get(key, ()))

    def values_of(self, key: str) -> list[str]:
        """Return the values that requirements with In leave for a label, sorted; none without In."""
        chosen = [rule.values for rule in self.by_key.get(key, ()) if rule.operator == "In"]
        return sorted(value for value in frozenset.intersection(*chosen) if self.allows(key, value)) if chosen else []

    @property
    def diverse(self) -> list[LabelRule]:
        """The requirements that ask for several values, in order."""
        return [rule for rules in self.by_key.values() for rule in rules if rule.min_values > 0]


def rules_of(requirements: Iterable[PoolRequirement]) -> PoolRules:
    """Check requirements. Errors: FieldError with the path below `requirements`."""
    found: dict[str, list[LabelRule]] = {}
    for place, requirement in enumerate(requirements):
        rule = _rule(requirement, place)
        found.setdefault(rule.key, []).append(rule)
    return PoolRules(found)


def _rule(one: PoolRequirement, place: int) -> LabelRule:
    at, values = f"[{place}]", one.values or []
    if not one.key:
        raise FieldError(f"{at}.key", "it is missing", "name a label")
    if one.operator not in OPERATORS:
        raise FieldError(f"{at}.operator", f"{one.operator!r} is not an operator", f"use one of {', '.join(OPERATORS)}")
    if one.operator == "In" and not values:
        raise FieldError(f"{at}.values", "In has no value", "give at least one")
    if one.operator in ("Exists", "DoesNotExist") and values:
        raise FieldError(f"{at}.values", f"{one.operator} takes no value", "leave them out")
    bound = 0
    if one.operator in _COMPARED:
        if len(values) != 1 or not values[0].isascii() or not values[0].isdecimal():
            raise FieldError(f"{at}.values", f"{one.operator} takes one number", "give an integer of at least 0")
        bound = int(values[0])
    least = one.min_values or 0
    if not 0 <= least <= 50:
        raise FieldError(f"{at}.minValues", f"{least} is not possible", "give 1 to 50")
    return LabelRule(one.key, one.operator, frozenset(values), bound, least, place)
