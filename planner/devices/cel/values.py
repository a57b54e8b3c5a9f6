"""Values of expressions at run time, their types, equality and order.

bool, int, float, str, bytes, None, tuple (a list) and dict (a map) stand for themselves; the rest is defined here.
Source: cel-go v0.26, common/types; semver of blang/semver v4; quantities, addresses and networks of apiserver v0.36,
pkg/cel.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import total_ordering
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, NamedTuple


class EvaluationError(Exception):
    """Raised when an expression has no value for a device; the argument is for people."""


class Unsigned(int):
    """An unsigned integer."""

    def __neg__(self) -> "Unsigned":
        raise EvaluationError("no such overload: -uint")


class Quantity(NamedTuple):
    """A quantity in nano-units."""

    nano: int


class CelType(NamedTuple):
    """A type; `parameters` of lists, maps and optional values. As a value: what `type(x)` returns."""

    name: str
    parameters: tuple["CelType", ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.parameters))})" if self.parameters else self.name


@dataclass(frozen=True, slots=True)
class OptionalValue:
    """The content of an optional value; empty if not `has_value`."""

    has_value: bool
    value: Any = None


NO_VALUE = OptionalValue(False)

_NUMBER = r"(0|[1-9][0-9]*)"
_SEMVER = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?", re.ASCII)
_LARGEST_PART = 2**64


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A semantic version. release : major, minor, patch; prerelease : its parts, numbers as int; () is later than
    any.
    """

    release: tuple[int, int, int]
    prerelease: tuple[int | str, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._key() == other._key()

    def __lt__(self, other: "Semver") -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        parts = tuple((0, one, "") if isinstance(one, int) else (1, 0, one) for one in self.prerelease)
        return (self.release, not self.prerelease, parts)


def parse_semver(text: str) -> Semver | None:
    """Return the version that a text spells exactly, or None."""
    match = _SEMVER.fullmatch(text)
    if match is None:
        return None
    release = (int(match.group(1)), int(match.group(2)), int(match.group(3)))
    parts = match.group(4).split(".") if match.group(4) else []
    build = match.group(5).split(".") if match.group(5) else []
    badly_spelled = any(not one for one in (*parts, *build)) or any(
        one.isdigit() and len(one) > 1 and one[0] == "0" for one in parts
    )
    if badly_spelled or max(release) >= _LARGEST_PART:
        return None
    return Semver(release, tuple(int(one) if one.isdigit() else one for one in parts))


def normalized_semver(text: str) -> Semver | None:
    """Return the version of a text that may begin with "v", lack parts and have leading zeros, or None."""
    parts = text.removeprefix("v").split(".", 2)
    for at, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[at] = stripped if stripped[:1] in set("0123456789") and stripped else "0" + stripped
    if len(parts) < 3:
        if set("+-") & set(parts[-1]):
            return None
        parts += ["0"] * (3 - len(parts))
    return parse_semver(".".join(parts))


_KINDS: dict[type, str] = {
    bool: "bool",
    int: "int",
    Unsigned: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    tuple: "list",
    dict: "map",
    Quantity: "quantity",
    Semver: "semver",
    OptionalValue: "optional",
    CelType: "type",
    IPv4Address: "ip",
    IPv6Address: "ip",
    IPv4Network: "cidr",
    IPv6Network: "cidr",
}


def kind_of(value: Any) -> str:
    """Return the name of a value's type."""
    kind = _KINDS.get(type(value))
    if kind is None:
        kind = (
            "map"
            if isinstance(value, Mapping)
            else next(name for base, name in _KINDS.items() if isinstance(value, base))
        )
    return kind


NUMBERS = frozenset({"int", "uint", "double"})


def are_equal(one: Any, other: Any) -> bool:
    """Return `one == other` as the language has it: numbers of all types compare, other types differ."""
    kind, other_kind = kind_of(one), kind_of(other)
    if kind in NUMBERS and other_kind in NUMBERS:
        return bool(one == other)
    if kind != other_kind:
        if kind in {"quantity", "semver"}:
            raise EvaluationError("no such overload")
        return False
    if kind == "list":
        return len(one) == len(other) and all(map(are_equal, one, other))
    if kind == "map":
        return len(one) == len(other) and all(key in other and are_equal(one[key], other[key]) for key in one)
    if kind == "optional":
        return one.has_value == other.has_value and (not one.has_value or are_equal(one.value, other.value))
    return bool(one == other)


def compare(one: Any, other: Any) -> int:
    """Return -1, 0 or 1 for values that have an order: numbers, bool, string, bytes. Raises EvaluationError."""
    kind, other_kind = kind_of(one), kind_of(other)
    comparable = kind == other_kind and kind in {"bool", "string", "bytes", *NUMBERS}
    if not comparable and not (kind in NUMBERS and other_kind in NUMBERS):
        raise EvaluationError(f"no such overload: {kind} and {other_kind} have no order")
    if kind == "string":
        one, other = one.encode(errors="surrogatepass"), other.encode(errors="surrogatepass")
    if "double" in (kind, other_kind) and (math.isnan(one) or math.isnan(other)):
        raise EvaluationError("NaN has no order")
    return int(one > other) - int(one < other)
