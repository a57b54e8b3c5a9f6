"""Functions of expressions: operators, conversions, lists, sets, optional values, quantities, versions; those of texts
and addresses are listed in `texts` and `networks`.

Source: cel-go v0.26 (standard library, ext lists 3, sets), apiserver v0.36 pkg/cel/library. Not here: `url`, `format`,
durations and timestamps, which selectors of devices have no use for.
"""

import math
import operator
from collections.abc import Callable, Iterable
from functools import cmp_to_key
from itertools import pairwise
from typing import Any, Final

from trimtab.planner.devices.cel.texts import NETWORK_FUNCTIONS, TEXT_FUNCTIONS
from trimtab.planner.devices.cel.values import (
    NO_VALUE,
    CelType,
    EvaluationError,
    OptionalValue,
    Overload,
    Quantity,
    Unsigned,
    are_equal,
    compare,
    is_key,
    kind_of,
    overload,
    read_semver,
    reading,
    spend,
)
from trimtab.planner.devices.quantities import NANO, parse_quantity

_LONGEST_RANGE: Final = 10**6
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_NUMBERS: Final = ("int", "uint", "double")
_ORDERS: Final[dict[str, Callable[[int, int], bool]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _in_range(value: int) -> int:
    low, high = (0, 2**64) if isinstance(value, Unsigned) else (-(2**63), 2**63)
    if not low <= value < high:
        raise EvaluationError("integer overflow")
    return value


def _divided(dividend: int, other: int) -> int:
    if other == 0:
        raise EvaluationError("division by zero")
    return abs(dividend) // abs(other) * (1 if (dividend < 0) == (other < 0) else -1)


def _remainder(dividend: int, other: int) -> int:
    if other == 0:
        raise EvaluationError("modulus by zero")
    return dividend - other * _divided(dividend, other)


def _float_divided(dividend: float, other: float) -> float:
    if other:
        return dividend / other
    return (
        math.nan
        if dividend == 0 or math.isnan(dividend)
        else math.copysign(math.inf, dividend) * math.copysign(1, other)
    )


def _to_int(value: Any) -> int:
    if isinstance(value, float) and not -(2.0**63) < value < 2.0**63:
        raise EvaluationError("integer overflow")
    if isinstance(value, str) and not value.lstrip("+-").isdigit():
        raise EvaluationError("type conversion error from string to int")
    return _in_range(_converted(int, value))


def _to_uint(value: Any) -> int:
    if isinstance(value, str) and not value.isdigit():
        raise EvaluationError("type conversion error from string to uint")
    return _in_range(_converted(Unsigned, value))


def _to_bool(text: str) -> bool:
    if text not in _TRUE | _FALSE:
        raise EvaluationError("type conversion error from string to bool")
    return text in _TRUE


def _converted(kind: Callable[[Any], Any], value: Any) -> Any:
    try:
        return kind(value)
    except (ValueError, OverflowError):
        raise EvaluationError(f"type conversion error from {kind_of(value)}") from None


def _double_text(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return next(text for digits in range(1, 18) if float(text := format(value, f".{digits}g")) == value)


def _read_quantity(text: str) -> Quantity | None:
    nano = parse_quantity(text)
    return None if nano is None else Quantity(nano)


def _is_integer(value: Quantity) -> bool:
    return not value.nano % NANO and -(2**63) <= value.nano // NANO < 2**63


def _quantity_integer(value: Quantity) -> int:
    if not _is_integer(value):
        raise EvaluationError("cannot convert value to integer")
    return value.nano // NANO


def _order(value: Any, other: Any) -> int:
    return int(value > other) - int(value < other)


def _are_equal(value: Any, other: Any) -> bool:
    """Return whether values are equal; those that cannot be compared are not."""
    try:
        return are_equal(value, other)
    except EvaluationError as error:
        if type(error) is not EvaluationError:
            raise
        return False


def _has_element(values: Iterable[Any], wanted: Any) -> bool:
    return any(_are_equal(value, wanted) for value in values)


def _all_in(values: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    return all(_has_element(values, value) for value in others)


def _index_of(values: Iterable[Any], wanted: Any) -> int:
    return next((at for at, value in enumerate(values) if are_equal(value, wanted)), -1)


def _last_index_of(values: tuple[Any, ...], wanted: Any) -> int:
    at = _index_of(values[::-1], wanted)
    return len(values) - 1 - at if at >= 0 else -1


def _extreme(sign: int, name: str) -> Callable[[tuple[Any, ...]], Any]:
    def extreme(values: tuple[Any, ...]) -> Any:
        if not values:
            raise EvaluationError(f"{name} called on empty list")
        best = values[0]
        for value in values[1:]:
            best = value if compare(value, best) == sign else best
        return best

    return extreme


def _sum(zero: Any) -> Callable[[tuple[Any, ...]], Any]:
    def total(values: tuple[Any, ...]) -> Any:
        kinds = set(map(kind_of, values)) or {kind_of(zero)}
        if len(kinds) > 1 or kinds - set(_NUMBERS):
            raise EvaluationError(f"no such overload: the sum of {', '.join(sorted(kinds))}")
        if "double" in kinds:
            return sum(values, 0.0)
        return _in_range((Unsigned if "uint" in kinds else int)(sum(values)))

    return total


def _flattened(values: tuple[Any, ...], depth: int = 1) -> tuple[Any, ...]:
    spend(len(values))
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    out: list[Any] = []
    for value in values:
        out += _flattened(value, depth - 1) if type(value) is tuple and depth > 0 else [value]
    return tuple(out)


def _sliced(values: tuple[Any, ...], start: int, end: int) -> tuple[Any, ...]:
    if not 0 <= start <= end <= len(values):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    out: list[Any] = []
    for value in values:
        if not _has_element(out, value):
            out.append(value)
    return tuple(out)


def _sorted(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted(values, key=cmp_to_key(compare)))


def _range(count: int) -> tuple[int, ...]:
    count = max(min(count, _LONGEST_RANGE), 0)
    spend(count)
    return tuple(range(count))


def _includes(value: Any, other: Any) -> bool:
    return _has_element(value, other) if type(value) is tuple else _are_equal(value, other)


def _content(value: OptionalValue) -> Any:
    if not value.has_value:
        raise EvaluationError("optional.none() dereference")
    return value.value


def _non_zero(value: Any) -> OptionalValue:
    has_zero = value is None or isinstance(value, (bool, int, float, str, bytes)) or type(value) in {tuple, dict}
    return NO_VALUE if has_zero and not value else OptionalValue(True, value)


def _operators() -> list[Overload]:
    comparable = [(cel_type, cel_type) for cel_type in ("bool", "string", "bytes")]
    comparable += [(cel_type, other) for cel_type in _NUMBERS for other in _NUMBERS]
    out = [
        overload(f"{name}({cel_type}, {other})", "bool", lambda a, b, order=order: order(compare(a, b), 0))
        for name, order in _ORDERS.items()
        for cel_type, other in comparable
    ]
    integers = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": _divided, "%": _remainder}
    for name, call in integers.items():
        out += [
            overload(f"{name}(int, int)", "int", lambda a, b, call=call: _in_range(call(a, b))),
            overload(f"{name}(uint, uint)", "uint", lambda a, b, call=call: _in_range(Unsigned(call(int(a), int(b))))),
        ]
    doubles = {**integers, "/": _float_divided}
    return [
        *out,
        *(overload(f"{name}(double, double)", "double", doubles[name]) for name in "+-*/"),
        *(
            overload(f"+({cel_type}, {cel_type})", cel_type, operator.add)
            for cel_type in ("string", "bytes", "list(A)")
        ),
        overload("neg(int)", "int", lambda a: _in_range(-a)),
        overload("neg(double)", "double", operator.neg),
        overload("!(bool)", "bool", operator.not_),
        overload("==(A, A)", "bool", are_equal),
        overload("!=(A, A)", "bool", lambda a, b: not _are_equal(a, b)),
        overload("in(A, list(A))", "bool", lambda a, b: _has_element(b, a)),
        overload("in(A, map(A, B))", "bool", lambda a, b: is_key(a) and a in b),
        overload("A.includes(B)", "bool", _includes),
    ]


def _conversions() -> list[Overload]:
    out = [
        overload(f"{to}({of})", to, call)
        for to, call in (("int", _to_int), ("uint", _to_uint), ("double", lambda a: _converted(float, a)))
        for of in (*_NUMBERS, "string")
    ]
    out += [overload(f"string({cel_type})", "string", str) for cel_type in ("int", "uint", "string", "ip", "cidr")]
    for cel_type in ("string", "bytes", "list(A)", "map(A, B)"):
        out += [overload(f"size({cel_type})", "int", len), overload(f"{cel_type}.size()", "int", len)]
    return [
        *out,
        overload("string(double)", "string", _double_text),
        overload("string(bool)", "string", lambda a: "true" if a else "false"),
        overload("string(bytes)", "string", lambda a: _converted(bytes.decode, a)),
        overload("bytes(string)", "bytes", str.encode),
        overload("bytes(bytes)", "bytes", lambda a: a),
        overload("bool(bool)", "bool", lambda a: a),
        overload("bool(string)", "bool", _to_bool),
        overload("dyn(A)", "dyn", lambda a: a),
        overload("type(A)", "type", lambda a: CelType(kind_of(a))),
    ]


def _lists() -> list[Overload]:
    out = [
        overload("list(A).indexOf(A)", "int", _index_of),
        overload("list(A).lastIndexOf(A)", "int", _last_index_of),
        overload("list(A).slice(int, int)", "list(A)", _sliced),
        overload("list(list(A)).flatten()", "list(A)", _flattened),
        overload("list(dyn).flatten(int)", "list(dyn)", _flattened),
        overload("list(A).distinct()", "list(A)", _distinct),
        overload("list(A).reverse()", "list(A)", lambda a: a[::-1]),
        overload("lists.range(int)", "list(int)", _range),
        overload("sets.contains(list(A), list(A))", "bool", _all_in),
        overload("sets.intersects(list(A), list(A))", "bool", lambda a, b: any(_has_element(a, value) for value in b)),
        overload("sets.equivalent(list(A), list(A))", "bool", lambda a, b: _all_in(a, b) and _all_in(b, a)),
    ]
    for cel_type in (*_NUMBERS, "bool", "string", "bytes"):
        out += [
            overload(f"list({cel_type}).min()", cel_type, _extreme(-1, "min")),
            overload(f"list({cel_type}).max()", cel_type, _extreme(1, "max")),
            overload(f"list({cel_type}).isSorted()", "bool", lambda a: all(compare(*two) <= 0 for two in pairwise(a))),
            overload(f"list({cel_type}).sort()", f"list({cel_type})", _sorted),
        ]
    return out + [overload(f"list({kind_of(zero)}).sum()", kind_of(zero), _sum(zero)) for zero in (0, Unsigned(0), 0.0)]


def _optionals() -> list[Overload]:
    return [
        overload("optional.none()", "optional(A)", lambda: NO_VALUE),
        overload("optional.of(A)", "optional(A)", lambda a: OptionalValue(True, a)),
        overload("optional.ofNonZeroValue(A)", "optional(A)", _non_zero),
        overload("optional(A).hasValue()", "bool", lambda a: a.has_value),
        overload("optional(A).value()", "A", _content),
        overload("optional(A).orValue(A)", "A", lambda a, b: a.value if a.has_value else b),
        overload("optional(A).or(optional(A))", "optional(A)", lambda a, b: a if a.has_value else b),
    ]


def _ordered(kind: str) -> list[Overload]:
    return [
        overload(f"{kind}.isGreaterThan({kind})", "bool", operator.gt),
        overload(f"{kind}.isLessThan({kind})", "bool", operator.lt),
        overload(f"{kind}.compareTo({kind})", "int", _order),
    ]


def _quantities() -> list[Overload]:
    out = [
        *reading("quantity", "isQuantity", "quantity", _read_quantity),
        overload("sign(quantity)", "int", lambda a: _order(a.nano, 0)),
        overload("quantity.asInteger()", "int", _quantity_integer),
        overload("quantity.isInteger()", "bool", _is_integer),
        overload("quantity.asApproximateFloat()", "double", lambda a: a.nano / NANO),
    ]
    for name, sign in (("add", 1), ("sub", -1)):
        out += [
            overload(f"quantity.{name}(quantity)", "quantity", lambda a, b, s=sign: Quantity(a.nano + s * b.nano)),
            overload(f"quantity.{name}(int)", "quantity", lambda a, b, s=sign: Quantity(a.nano + s * b * NANO)),
        ]
    return out + _ordered("quantity")


def _versions() -> list[Overload]:
    out = _ordered("semver")
    for extra in ("", ", bool"):
        out += reading("semver", "isSemver", "semantic version", read_semver, extra)
    for at, name in enumerate(("major", "minor", "patch")):
        out.append(overload(f"semver.{name}()", "int", lambda a, at=at: a.release[at]))
    return out


def _table() -> dict[tuple[str, bool], tuple[Overload, ...]]:
    table: dict[tuple[str, bool], tuple[Overload, ...]] = {}
    groups = (
        _operators(), _conversions(), TEXT_FUNCTIONS, _lists(), _optionals(), _quantities(), _versions(),
        NETWORK_FUNCTIONS,
    )  # fmt: skip
    for function in (function for group in groups for function in group):
        table[function.name, function.member] = (*table.get((function.name, function.member), ()), function)
    return table


FUNCTIONS: Final = _table()
"""(name, is a member) to its overloads."""
