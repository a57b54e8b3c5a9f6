"""Types of expressions, known before anything is evaluated, and which overload of a function they select.

`dyn` stands for any type. Types in signatures are text: "list(A)", with parameters A and B.
Source: cel-go v0.26, checker.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trimtab.planner.devices.cel.values import CelType, kind_of


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


def unify(wanted: CelType, found: CelType, bound: dict[str, CelType]) -> bool:
    """Return whether a value of type `found` may stand where `wanted` is; parameters of `wanted` are bound."""
    if wanted.name in _PARAMETERS:
        known = bound.get(wanted.name)
        if known is None or known.name in OPEN:
            bound[wanted.name] = found
            return True
        return fits(known, found)
    if wanted.name in OPEN or found.name in OPEN:
        return True
    if wanted.name != found.name or len(wanted.parameters) != len(found.parameters):
        return False
    return all(unify(one, other, bound) for one, other in zip(wanted.parameters, found.parameters, strict=True))


def fits(one: CelType, other: CelType) -> bool:
    """Return whether values of both types may stand in one place."""
    return unify(one, other, {})


def substituted(result: CelType, bound: dict[str, CelType]) -> CelType:
    """Return a type with its parameters replaced by what they are bound to; `dyn` for others."""
    if result.name in _PARAMETERS:
        return bound.get(result.name, DYN)
    return CelType(result.name, tuple(substituted(one, bound) for one in result.parameters))


def joined(types: Sequence[CelType], is_literal: bool = False) -> CelType:
    """Return the type of one of several values, all of one type. Raises ExpressionTypeError if they differ; in a
    literal list or map, attributes differ from everything else.
    """
    found = DYN
    for at, one in enumerate(types):
        mixed = is_literal and at > 0 and found.name != one.name and bool(OPEN & {found.name, one.name})
        if mixed or not fits(found, one):
            raise ExpressionTypeError(f"expected type {found}, not {one}")
        found = one if found.name in OPEN else found
    if not is_literal and any(one.name == "any" for one in types):
        return CelType("any")
    return found if len(set(types)) == 1 or all(one.name not in OPEN for one in types) else DYN


def select(
    overloads: Sequence[Overload], name: str, arguments: Sequence[CelType]
) -> tuple[tuple[Overload, ...], CelType]:
    """Return the overloads that may take arguments of these types, and the type of what they return. Raises
    ExpressionTypeError.
    """
    chosen: list[Overload] = []
    results: set[CelType] = set()
    for one in overloads:
        bound: dict[str, CelType] = {}
        if len(one.arguments) == len(arguments) and all(
            unify(wanted, found, bound) for wanted, found in zip(one.arguments, arguments, strict=True)
        ):
            chosen.append(one)
            results.add(substituted(one.result, bound))
            if any(FREE in argument.parameters for argument in arguments):
                break  # which decides what is free
    if not chosen:
        raise ExpressionTypeError(
            f"found no matching overload for '{name}' applied to ({', '.join(map(str, arguments))})"
        )
    return tuple(chosen), results.pop() if len(results) == 1 else DYN
