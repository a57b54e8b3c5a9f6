"""Values of expressions at run time, their equality and order, the bound on the work of an evaluation, and types: known
before anything is evaluated, they select the overload of a function.

bool, int, float, str, bytes, None, tuple (a list) and dict (a map) stand for themselves; the rest is defined here. The
type `dyn` stands for any. Types in signatures are text: "list(A)", with parameters A and B.
Source: cel-go v0.26, common/types, checker; semver of blang/semver v4; quantities of apiserver v0.36, pkg/cel.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Any, Final, NamedTuple

from trimtab.planner.model.execution import check_limits, reserve_memory


class EvaluationError(Exception):
    """Raised when an expression has no value for a device; the argument is for people."""


class EvaluationCostError(EvaluationError):
    """Raised when an evaluation takes more than it may; nothing absorbs it."""


class Unsigned(int):
    """An unsigned integer."""


class Quantity(NamedTuple):
    """A quantity in nano-units."""

    nano: int


class Cidr(NamedTuple):
    """A network, with the address that it was written with, as Go's Prefix keeps it."""

    address: IPv4Address | IPv6Address
    prefix: int

    def __str__(self) -> str:
        return f"{self.address}/{self.prefix}"

    @property
    def network(self) -> IPv4Network | IPv6Network:
        """Its addresses."""
        return ip_network((self.address, self.prefix), strict=False)


class CelType(NamedTuple):
    """A type; as a value, what `type(x)` returns."""

    name: str
    parameters: tuple["CelType", ...] = ()
    """Of lists, maps and optional values."""

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.parameters))})" if self.parameters else self.name


@dataclass(frozen=True, slots=True)
class OptionalValue:
    """An optional value; empty if not `has_value`."""

    has_value: bool
    value: Any = None


NO_VALUE = OptionalValue(False)

_NUMBER = r"(?:0|[1-9][0-9]{0,19})"
_PART = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_BUILD = r"[0-9A-Za-z-]+"
_SEMVER = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_PART}(?:\.{_PART})*))?(?:\+{_BUILD}(?:\.{_BUILD})*)?", re.ASCII
)
_LARGEST_PART = 2**64


class Semver(NamedTuple):
    """A semantic version; ordered, builds left out. parts : of the prerelease, numbers earlier than words."""

    release: tuple[int, ...]
    is_release: bool
    """Later than any prerelease of it."""
    parts: tuple[tuple[int, int, str], ...]


def parse_semver(text: str) -> Semver | None:
    """Return the version that a text spells exactly, or None."""
    match = _SEMVER.fullmatch(text)
    if match is None:
        return None
    release = tuple(map(int, match.groups()[:3]))
    if max(release) >= _LARGEST_PART:
        return None
    parts = match[4].split(".") if match[4] else []
    return Semver(release, not parts, tuple([(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]))


def read_semver(text: str, normalize: bool = False) -> Semver | None:
    """Return the version of a text, or None. normalize : it may begin with "v", lack parts and have leading zeros."""
    if not normalize:
        return parse_semver(text)
    parts = text.removeprefix("v").split(".", 2)
    for at, part in enumerate(parts):
        stripped = part.lstrip("0")
        if len(part) > 1:
            parts[at] = stripped if stripped[:1] in set("0123456789") and stripped else "0" + stripped
    if len(parts) < 3:
        if set("+-") & set(parts[-1]):
            return None
        parts += ["0"] * (3 - len(parts))
    return parse_semver(".".join(parts))


_KINDS: dict[type, str] = {
    bool: "bool", int: "int", Unsigned: "uint", float: "double", str: "string", bytes: "bytes",
    type(None): "null_type", tuple: "list", dict: "map", Quantity: "quantity", Semver: "semver",
    OptionalValue: "optional", CelType: "type", IPv4Address: "ip", IPv6Address: "ip", Cidr: "cidr",
}  # fmt: skip


def kind_of(value: Any) -> str:
    """Return the name of a value's type."""
    kind = _KINDS.get(type(value))
    return kind or next(name for base, name in _KINDS.items() if isinstance(value, base))


NUMBERS = frozenset({"int", "uint", "double"})
_NO_KEYS = frozenset({"list", "map", "optional"})
MOST_WORK: Final = 1 << 20
"""What one evaluation may do: steps and elements of values that are read or written; 8 MiB of references, a second or
so. The API server's bound on the cost of an evaluation is 1,000,000 (`CELSelectorExpressionMaxCost`)."""
_CHARACTERS: Final = 4
"""Characters that count as an element."""
_WORK_STEP: Final = 1 << 12
"""Work for which memory is taken at a time, before it is done, and the limits of the request are asked: some
milliseconds."""


class EvaluationWork:
    """The work that is left to an evaluation, and for how much of it memory has been taken."""

    __slots__ = ("left", "taken_to")

    def __init__(self) -> None:
        self.left = self.taken_to = MOST_WORK


_WORK: Final[ContextVar[EvaluationWork | None]] = ContextVar("evaluation_work", default=None)


@contextmanager
def bounded_work() -> Iterator[None]:
    """Bound the work of the block: of one evaluation."""
    token = _WORK.set(EvaluationWork())
    try:
        yield
    finally:
        _WORK.reset(token)


def spend(work: int) -> None:
    """Count work before it is done. Raises EvaluationCostError if the evaluation has none left, and the error of the
    request's limits.
    """
    meter = _WORK.get()
    if meter is None:
        return
    meter.left -= work
    if meter.left < 0:
        raise EvaluationCostError("operation cancelled: actual cost limit exceeded")
    if meter.left < meter.taken_to - _WORK_STEP:
        reserve_memory(8 * (meter.taken_to - meter.left), "values of device selectors")
        meter.taken_to = meter.left
        check_limits()


def extent(value: Any) -> int:
    """Return how many elements reading or copying a value touches, those of its elements left out."""
    if isinstance(value, (str, bytes)):
        return len(value) // _CHARACTERS
    return len(value) if isinstance(value, (tuple, dict)) else 1


def is_key(value: Any) -> bool:
    """Return whether a value may be the key of a map; hashing any other takes as long as reading all of it."""
    return kind_of(value) not in _NO_KEYS


def are_equal(value: Any, other: Any) -> bool:
    """Return `one == other` as the language has it: numbers of all types compare, other types differ."""
    spend(1)
    kind, other_kind = kind_of(value), kind_of(other)
    if kind != other_kind and not {kind, other_kind} <= NUMBERS:
        if kind in {"quantity", "semver"}:
            raise EvaluationError("no such overload")
        return False
    if kind == "list":
        return len(value) == len(other) and all(map(are_equal, value, other))
    if kind == "map":
        return len(value) == len(other) and all(key in other and are_equal(value[key], other[key]) for key in value)
    if kind in {"string", "bytes"}:
        spend(min(extent(value), extent(other)))
    if kind == "optional":
        return value.has_value == other.has_value and (not value.has_value or are_equal(value.value, other.value))
    return bool(value == other)


def compare(value: Any, other: Any) -> int:
    """Return -1, 0 or 1 for values that have an order: numbers, bool, string, bytes. Raises EvaluationError."""
    spend(1)
    kind, other_kind = kind_of(value), kind_of(other)
    comparable = kind == other_kind and kind in {"bool", "string", "bytes"}
    if not comparable and not {kind, other_kind} <= NUMBERS:
        raise EvaluationError(f"no such overload: {kind} and {other_kind} have no order")
    if kind in {"string", "bytes"}:
        spend(extent(value) + extent(other))
    if kind == "string":
        value, other = value.encode(errors="surrogatepass"), other.encode(errors="surrogatepass")
    if "double" in (kind, other_kind) and (math.isnan(value) or math.isnan(other)):
        raise EvaluationError("NaN has no order")
    return int(value > other) - int(value < other)


class ExpressionTypeError(Exception):
    """Raised for an expression that the compiler refuses; the argument is for people."""


DYN, BOOL, INT, STRING, NULL = (CelType(name) for name in ("dyn", "bool", "int", "string", "null_type"))
FREE = CelType("free")
"""The type of the elements of an empty list, until a function needs one."""
OPEN = frozenset({"dyn", "any", "free"})
_PARAMETERS = frozenset({"A", "B"})
_NAMESPACES = frozenset({"optional", "sets", "strings", "lists"})


def type_of(text: str) -> CelType:
    """Return the type that a text such as "map(string, list(A))" spells."""
    name, opening, rest = text.strip().partition("(")
    if not opening:
        return CelType(name)
    return CelType(name, tuple(map(type_of, split(rest.rstrip()[:-1]))))


def split(text: str) -> list[str]:
    """Return the parts of a text between commas that are in no parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part.strip()]


@dataclass(frozen=True, slots=True)
class Overload:
    """One meaning of a function."""

    name: str
    member: bool
    arguments: tuple[CelType, ...]
    """Of a member, that of the target first."""
    result: CelType
    call: Callable[..., Any]

    def takes(self, values: Sequence[Any]) -> bool:
        """Return whether it takes these values, by their types at run time."""
        return all(
            wanted.name in OPEN or wanted.name in _PARAMETERS or wanted.name == kind_of(value)
            for wanted, value in zip(self.arguments, values, strict=True)
        )


def overload(signature: str, result: str, call: Callable[..., Any]) -> Overload:
    """Return the overload of a signature: "size(string)", or "string.contains(string)" for a member."""
    opening = signature.index("(", signature.index(").") + 1) if ")." in signature else signature.index("(")
    head, arguments = signature[:opening], split(signature[opening + 1 : -1])
    target, _, name = head.rpartition(".")
    is_member = bool(target) and target not in _NAMESPACES and head != "ip.isCanonical"
    if not is_member:
        name = head
    types = tuple(map(type_of, ([target] if is_member else []) + arguments))
    return Overload(name, is_member, types, type_of(result), call)


def reading(kind: str, check: str, what: str, read: Callable[..., Any], extra: str = "") -> list[Overload]:
    """Return the overloads that read a value of a kind from a text, and that say whether there is one. read : returns
    None where there is none; what : to people; extra : types of further arguments."""

    def value(text: str, *more: Any) -> Any:
        parsed = read(text, *more)
        if parsed is None:
            raise EvaluationError(f"{text!r} is no {what}")
        return parsed

    return [
        overload(f"{kind}(string{extra})", kind, value),
        overload(f"{check}(string{extra})", "bool", lambda *arguments: read(*arguments) is not None),
    ]


def unify(wanted: CelType, actual: CelType, bound: dict[str, CelType]) -> bool:
    """Return whether a value of type `actual` may stand where `wanted` is; parameters of `wanted` are bound."""
    if wanted.name in _PARAMETERS:
        binding = bound.get(wanted.name)
        if binding is None or binding.name in OPEN:
            bound[wanted.name] = actual
            return True
        return fits(binding, actual)
    if wanted.name in OPEN or actual.name in OPEN:
        return True
    if wanted.name != actual.name or len(wanted.parameters) != len(actual.parameters):
        return False
    return all(
        unify(parameter, other, bound) for parameter, other in zip(wanted.parameters, actual.parameters, strict=True)
    )


def fits(cel_type: CelType, other: CelType) -> bool:
    """Return whether values of both types may stand in one place."""
    return unify(cel_type, other, {})


def substituted(result: CelType, bound: dict[str, CelType]) -> CelType:
    """Return a type with its parameters replaced by what they are bound to; `dyn` for others."""
    if result.name in _PARAMETERS:
        return bound.get(result.name, DYN)
    return CelType(result.name, tuple(substituted(parameter, bound) for parameter in result.parameters))


def joined(types: Sequence[CelType], is_literal: bool = False) -> CelType:
    """Return the type of one of several values, all of one type. Raises ExpressionTypeError if they differ; in a
    literal list or map, attributes differ from everything else.
    """
    common = DYN
    for at, cel_type in enumerate(types):
        mixed = is_literal and at > 0 and common.name != cel_type.name and bool(OPEN & {common.name, cel_type.name})
        if mixed or not fits(common, cel_type):
            raise ExpressionTypeError(f"expected type {common}, not {cel_type}")
        common = cel_type if common.name in OPEN else common
    if not is_literal and any(cel_type.name == "any" for cel_type in types):
        return CelType("any")
    return common if len(set(types)) == 1 or all(cel_type.name not in OPEN for cel_type in types) else DYN


def select(
    overloads: Sequence[Overload], name: str, arguments: Sequence[CelType]
) -> tuple[tuple[Overload, ...], CelType]:
    """Return the overloads that may take arguments of these types, and the type of what they return. Raises
    ExpressionTypeError.
    """
    chosen: list[Overload] = []
    results: set[CelType] = set()
    for candidate in overloads:
        bound: dict[str, CelType] = {}
        if len(candidate.arguments) == len(arguments) and all(
            unify(wanted, actual, bound) for wanted, actual in zip(candidate.arguments, arguments, strict=True)
        ):
            chosen.append(candidate)
            results.add(substituted(candidate.result, bound))
            if any(FREE in argument.parameters for argument in arguments):
                break  # which decides what is free
    if not chosen:
        raise ExpressionTypeError(
            f"found no matching overload for '{name}' applied to ({', '.join(map(str, arguments))})"
        )
    return tuple(chosen), results.pop() if len(results) == 1 else DYN
