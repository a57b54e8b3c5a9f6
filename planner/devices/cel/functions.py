"""Functions of expressions: operators, strings, lists, sets, optional values, quantities, versions, addresses.

Cost of a call: 1, and 0.1 for each character or element that is read, as the API server counts it.
Source: cel-go v0.26 (standard library, ext strings 2, lists 3, sets), apiserver v0.36 pkg/cel/library. Not here: `url`,
`format`, durations and timestamps, which selectors of devices have no use for.
"""

import math
from collections.abc import Callable, Iterable
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

from trimtab.planner.devices.cel import texts
from trimtab.planner.devices.cel.networks import NETWORK_FUNCTIONS
from trimtab.planner.devices.cel.types import Overload, overload
from trimtab.planner.devices.cel.values import (
    NO_VALUE,
    CelType,
    EvaluationError,
    OptionalValue,
    Quantity,
    Semver,
    Unsigned,
    are_equal,
    compare,
    is_key,
    kind_of,
    normalized_semver,
    parse_semver,
    spend,
)
from trimtab.planner.devices.quantities import NANO, parse_quantity

_LONGEST_RANGE = 10**6


def tenth(size: int) -> int:
    """Return the cost of reading so many characters."""
    return -(-size // 10)


def size_of(value: Any) -> int:
    """Return the elements or characters of a value, 1 if it has none."""
    return len(value) if isinstance(value, (str, bytes, tuple, dict)) else 1


def _read_first(*values: Any) -> int:
    return tenth(size_of(values[0]))


def _read_shorter(one: Any, other: Any) -> int:
    return tenth(min(size_of(one), size_of(other)))


def _read_both(one: Any, other: Any) -> int:
    return tenth(size_of(one) + size_of(other))


def _read_product(one: Any, other: Any) -> int:
    return tenth(size_of(one)) * tenth(size_of(other))


def _match_cost(text: str, pattern: str, *_: Any) -> int:
    return tenth(1 + len(text)) * -(-len(pattern) // 4)


def _elements(values: tuple[Any, ...], *_: Any) -> int:
    return len(values)


def _in_range(value: int) -> int:
    unsigned = isinstance(value, Unsigned)
    if not (0 <= value < 2**64 if unsigned else -(2**63) <= value < 2**63):
        raise EvaluationError("integer overflow")
    return value


def _divided(one: int, other: int) -> int:
    if other == 0:
        raise EvaluationError("division by zero")
    return _in_range(abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1))


def _remainder(one: int, other: int) -> int:
    if other == 0:
        raise EvaluationError("modulus by zero")
    return int(math.fmod(one, other)) if abs(one) < 2**52 else one - other * _divided(one, other)


def _text_length(text: str, *_: Any) -> int:
    return tenth(len(text))


def _float_divided(one: float, other: float) -> float:
    if other:
        return one / other
    return math.nan if one == 0 or math.isnan(one) else math.copysign(math.inf, one) * math.copysign(1, other)


def _unsigned(call: Callable[[int, int], int]) -> Callable[[int, int], Unsigned]:
    def checked(one: int, other: int) -> Unsigned:
        value = call(int(one), int(other))
        _in_range(Unsigned(value))
        return Unsigned(value)

    return checked


def _plus(one: int, other: int) -> int:
    return _in_range(one + other)


def _minus(one: int, other: int) -> int:
    return _in_range(one - other)


def _times(one: int, other: int) -> int:
    return _in_range(one * other)


def _to_int(value: Any) -> int:
    try:
        if isinstance(value, float) and not -(2.0**63) < value < 2.0**63:
            raise EvaluationError("integer overflow")
        if isinstance(value, str) and not value.lstrip("+-").isdigit():
            raise EvaluationError("type conversion error from string to int")
        return _in_range(int(value))
    except ValueError:
        raise EvaluationError("type conversion error to int") from None


def _to_uint(value: Any) -> Unsigned:
    if isinstance(value, str) and not value.isdigit():
        raise EvaluationError("type conversion error from string to uint")
    converted = Unsigned(value)
    _in_range(converted)
    return converted


def _to_double(value: Any) -> float:
    try:
        return float(value)
    except ValueError:
        raise EvaluationError("type conversion error to double") from None


def _to_bool(text: str) -> bool:
    if text in {"1", "t", "T", "true", "TRUE", "True"}:
        return True
    if text in {"0", "f", "F", "false", "FALSE", "False"}:
        return False
    raise EvaluationError("type conversion error from string to bool")


def _double_text(value: float) -> str:
    text = format(value, ".17g")
    for digits in range(1, 17):
        shorter = format(value, f".{digits}g")
        if float(shorter) == value:
            text = shorter
            break
    if "e" in text or not math.isfinite(value):
        return text.replace("inf", "+Inf" if value > 0 else "Inf").replace("nan", "NaN")
    return text


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes") from None


def _quantity(text: str) -> Quantity:
    nano = parse_quantity(text)
    if nano is None:
        raise EvaluationError(f"{text!r} is no quantity")
    return Quantity(nano)


def _quantity_integer(value: Quantity) -> int:
    if value.nano % NANO or not -(2**63) <= value.nano // NANO < 2**63:
        raise EvaluationError("cannot convert value to integer")
    return value.nano // NANO


def _is_integer(value: Quantity) -> bool:
    return not value.nano % NANO and -(2**63) <= value.nano // NANO < 2**63


def _semver(text: str, normalize: bool = False) -> Semver:
    version = normalized_semver(text) if normalize else parse_semver(text)
    if version is None:
        raise EvaluationError(f"{text!r} is no semantic version")
    return version


def _is_semver(text: str, normalize: bool = False) -> bool:
    return (normalized_semver(text) if normalize else parse_semver(text)) is not None


def _contains_element(values: Iterable[Any], wanted: Any) -> bool:
    return any(are_equal(one, wanted) for one in values)


def _index_of(values: tuple[Any, ...], wanted: Any) -> int:
    return next((at for at, one in enumerate(values) if are_equal(one, wanted)), -1)


def _last_index_of(values: tuple[Any, ...], wanted: Any) -> int:
    return next((at for at in range(len(values) - 1, -1, -1) if are_equal(values[at], wanted)), -1)


def _extreme(sign: int, name: str) -> Callable[[tuple[Any, ...]], Any]:
    def extreme(values: tuple[Any, ...]) -> Any:
        if not values:
            raise EvaluationError(f"{name} called on empty list")
        best = values[0]
        for one in values[1:]:
            best = one if compare(one, best) == sign else best
        return best

    return extreme


def _sum(values: tuple[Any, ...]) -> Any:
    total: Any = 0
    for at, one in enumerate(values):
        total = one if at == 0 else total + one
    return _in_range(total) if isinstance(total, int) else total


def _flattened(values: tuple[Any, ...], depth: int = 1) -> tuple[Any, ...]:
    spend(len(values))
    out: list[Any] = []
    for one in values:
        out += _flattened(one, depth - 1) if isinstance(one, tuple) and depth > 0 else [one]
    return tuple(out)


def _sliced(values: tuple[Any, ...], start: int, end: int) -> tuple[Any, ...]:
    if not 0 <= start <= end <= len(values):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    out: list[Any] = []
    for one in values:
        if not _contains_element(out, one):
            out.append(one)
    return tuple(out)


def _sorted(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted(values, key=cmp_to_key(compare)))


def _is_sorted(values: tuple[Any, ...]) -> bool:
    return all(compare(one, following) <= 0 for one, following in pairwise(values))


def _all_in(values: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    return all(_contains_element(values, one) for one in others)


def _optional_content(value: OptionalValue) -> Any:
    if not value.has_value:
        raise EvaluationError("optional.none() dereference")
    return value.value


def _is_zero(value: Any) -> bool:
    return value is None or (isinstance(value, (bool, int, float, str, bytes, tuple, dict)) and not value)


def _comparisons() -> list[Overload]:
    tests: dict[str, Callable[[int], bool]] = {
        "<": lambda order: order < 0,
        "<=": lambda order: order <= 0,
        ">": lambda order: order > 0,
        ">=": lambda order: order >= 0,
    }
    numbers = ("int", "uint", "double")
    pairs = [(one, one) for one in ("bool", "string", "bytes")] + [(one, other) for one in numbers for other in numbers]
    out: list[Overload] = []
    for name, test in tests.items():
        for one, other in pairs:
            cost = _read_shorter if one in {"string", "bytes"} else None
            out.append(overload(f"{name}({one}, {other})", "bool", lambda a, b, t=test: t(compare(a, b)), cost))
    return out


def _arithmetic() -> list[Overload]:
    out: list[Overload] = []
    integers: dict[str, Callable[[int, int], int]] = {
        "+": _plus, "-": _minus, "*": _times, "/": _divided, "%": _remainder,
    }  # fmt: skip
    doubles: dict[str, Callable[[float, float], float]] = {
        "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": _float_divided,
    }  # fmt: skip
    for name, call in integers.items():
        out.append(overload(f"{name}(int, int)", "int", call))
        plain = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}.get(name, call)
        out.append(overload(f"{name}(uint, uint)", "uint", _unsigned(plain)))
    out += [overload(f"{name}(double, double)", "double", call) for name, call in doubles.items()]
    out += [
        overload("+(string, string)", "string", lambda a, b: a + b, _read_both),
        overload("+(bytes, bytes)", "bytes", lambda a, b: a + b, _read_both),
        overload("+(list(A), list(A))", "list(A)", lambda a, b: a + b),
        overload("neg(int)", "int", lambda a: _in_range(-a)),
        overload("neg(double)", "double", lambda a: -a),
        overload("!(bool)", "bool", lambda a: not a),
        overload("==(A, A)", "bool", are_equal, _equality_cost),
        overload("!=(A, A)", "bool", _are_different, _read_shorter),
        overload("in(A, list(A))", "bool", lambda a, b: _contains_element(b, a), lambda _a, b: len(b)),
        overload("in(A, map(A, B))", "bool", lambda a, b: is_key(a) and a in b),
    ]
    return out


def _are_different(one: Any, other: Any) -> bool:
    try:
        return not are_equal(one, other)
    except EvaluationError:
        return True


def _equality_cost(one: Any, other: Any) -> int:
    return 1 if kind_of(one) in {"quantity", "semver", "ip", "cidr"} else _read_shorter(one, other)


def _conversions() -> list[Overload]:
    out = [overload(f"int({one})", "int", _to_int) for one in ("int", "uint", "double", "string")]
    out += [overload(f"uint({one})", "uint", _to_uint) for one in ("int", "uint", "double", "string")]
    out += [overload(f"double({one})", "double", _to_double) for one in ("int", "uint", "double", "string")]
    out += [overload(f"string({one})", "string", str) for one in ("int", "uint", "string", "ip", "cidr")]
    return [
        *out,
        overload("string(double)", "string", _double_text),
        overload("string(bool)", "string", lambda a: "true" if a else "false"),
        overload("string(bytes)", "string", _decoded, _read_first),
        overload("bytes(string)", "bytes", str.encode, _read_first),
        overload("bytes(bytes)", "bytes", lambda a: a),
        overload("bool(bool)", "bool", lambda a: a),
        overload("bool(string)", "bool", _to_bool),
        overload("dyn(A)", "dyn", lambda a: a),
        overload("A.includes(B)", "bool", _includes, lambda a, _b: size_of(a) if isinstance(a, tuple) else 1),
        overload("type(A)", "type", lambda a: CelType(kind_of(a))),
    ]


def _sizes() -> list[Overload]:
    out: list[Overload] = []
    for one in ("string", "bytes", "list(A)", "map(A, B)"):
        out += [overload(f"size({one})", "int", len), overload(f"{one}.size()", "int", len)]
    return out


def _strings() -> list[Overload]:
    def parts_cost(text: str, *_: Any) -> int:
        return tenth(2 * len(text))

    starts = overload("string.startsWith(string)", "bool", str.startswith, _read_first)
    out = [
        overload("string.contains(string)", "bool", lambda a, b: b in a, _read_product),
        starts,
        overload("string.endsWith(string)", "bool", str.endswith, _read_first),
        overload("string.matches(string)", "bool", texts.matches, _match_cost),
        overload("matches(string, string)", "bool", texts.matches, _match_cost),
        overload("string.find(string)", "string", texts.find, _match_cost),
        overload("string.findAll(string)", "list(string)", texts.find_all, _match_cost),
        overload("string.findAll(string, int)", "list(string)", texts.find_all, _match_cost),
        overload("string.charAt(int)", "string", texts.char_at),
        overload("string.lowerAscii()", "string", texts.lower, _read_first),
        overload("string.upperAscii()", "string", texts.upper, _read_first),
        overload("string.trim()", "string", texts.trim, _read_first),
        overload("strings.quote(string)", "string", texts.quote, _read_first),
        overload("list(string).join()", "string", texts.join),
        overload("list(string).join(string)", "string", texts.join),
    ]
    for extra in ("", ", int"):
        out += [
            overload(f"string.indexOf(string{extra})", "int", texts.index_of, _text_length),
            overload(f"string.lastIndexOf(string{extra})", "int", texts.last_index_of, _text_length),
            overload(f"string.replace(string, string{extra})", "string", texts.replace, parts_cost),
            overload(f"string.split(string{extra})", "list(string)", texts.split, parts_cost),
            overload(f"string.substring(int{extra})", "string", texts.substring, _read_first),
        ]
    return out


def _lists() -> list[Overload]:
    comparable = ("int", "uint", "double", "bool", "string", "bytes")
    out = [
        overload("list(A).indexOf(A)", "int", _index_of, _elements),
        overload("list(A).lastIndexOf(A)", "int", _last_index_of, _elements),
        overload("list(A).slice(int, int)", "list(A)", _sliced),
        overload("list(A).flatten()", "list(dyn)", _flattened),
        overload("list(A).flatten(int)", "list(dyn)", _flattened),
        overload("list(A).distinct()", "list(A)", _distinct, _elements),
        overload("list(A).reverse()", "list(A)", lambda a: a[::-1]),
        overload("lists.range(int)", "list(int)", _range),
        overload("sets.contains(list(A), list(A))", "bool", _all_in, lambda a, b: len(a) * len(b)),
        overload("sets.intersects(list(A), list(A))", "bool", _intersects, lambda a, b: len(a) * len(b)),
        overload("sets.equivalent(list(A), list(A))", "bool", _are_equivalent, lambda a, b: len(a) * len(b)),
    ]
    for one in comparable:
        out += [
            overload(f"list({one}).min()", one, _extreme(-1, "min"), _elements),
            overload(f"list({one}).max()", one, _extreme(1, "max"), _elements),
            overload(f"list({one}).isSorted()", "bool", _is_sorted, _elements),
            overload(f"list({one}).sort()", f"list({one})", _sorted, _elements),
        ]
    return out + [overload(f"list({one}).sum()", one, _sum, _elements) for one in ("int", "uint", "double")]


def _range(count: int) -> tuple[int, ...]:
    spend(max(min(count, _LONGEST_RANGE), 0))
    return tuple(range(min(count, _LONGEST_RANGE)))


def _includes(one: Any, other: Any) -> bool:
    return _contains_element(one, other) if isinstance(one, tuple) else are_equal(one, other)


def _intersects(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return any(_contains_element(one, value) for value in other)


def _are_equivalent(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return _all_in(one, other) and _all_in(other, one)


def _optionals() -> list[Overload]:
    return [
        overload("optional.none()", "optional(A)", lambda: NO_VALUE),
        overload("optional.of(A)", "optional(A)", lambda a: OptionalValue(True, a)),
        overload(
            "optional.ofNonZeroValue(A)", "optional(A)", lambda a: NO_VALUE if _is_zero(a) else OptionalValue(True, a)
        ),
        overload("optional(A).hasValue()", "bool", lambda a: a.has_value),
        overload("optional(A).value()", "A", _optional_content),
        overload("optional(A).orValue(A)", "A", lambda a, b: a.value if a.has_value else b),
        overload("optional(A).or(optional(A))", "optional(A)", lambda a, b: a if a.has_value else b),
    ]


def _quantities() -> list[Overload]:
    out = [
        overload("quantity(string)", "quantity", _quantity, _read_first),
        overload("isQuantity(string)", "bool", lambda a: parse_quantity(a) is not None, _read_first),
        overload("sign(quantity)", "int", lambda a: (a.nano > 0) - (a.nano < 0)),
        overload("quantity.asInteger()", "int", _quantity_integer),
        overload("quantity.isInteger()", "bool", _is_integer),
        overload("quantity.asApproximateFloat()", "double", lambda a: a.nano / NANO),
        overload("quantity.isGreaterThan(quantity)", "bool", lambda a, b: a.nano > b.nano),
        overload("quantity.isLessThan(quantity)", "bool", lambda a, b: a.nano < b.nano),
        overload("quantity.compareTo(quantity)", "int", lambda a, b: (a.nano > b.nano) - (a.nano < b.nano)),
    ]
    for name, sign in (("add", 1), ("sub", -1)):
        out += [
            overload(f"quantity.{name}(quantity)", "quantity", lambda a, b, s=sign: Quantity(a.nano + s * b.nano)),
            overload(f"quantity.{name}(int)", "quantity", lambda a, b, s=sign: Quantity(a.nano + s * b * NANO)),
        ]
    return out


def _versions() -> list[Overload]:
    out: list[Overload] = []
    for extra in ("", ", bool"):
        out += [
            overload(f"semver(string{extra})", "semver", _semver, _read_first),
            overload(f"isSemver(string{extra})", "bool", _is_semver, _read_first),
        ]
    for at, name in enumerate(("major", "minor", "patch")):
        out.append(overload(f"semver.{name}()", "int", lambda a, i=at: a.release[i]))
    return [
        *out,
        overload("semver.isGreaterThan(semver)", "bool", lambda a, b: a > b),
        overload("semver.isLessThan(semver)", "bool", lambda a, b: a < b),
        overload("semver.compareTo(semver)", "int", lambda a, b: (a > b) - (a < b)),
    ]


def _table() -> dict[tuple[str, bool], tuple[Overload, ...]]:
    table: dict[tuple[str, bool], tuple[Overload, ...]] = {}
    groups = (
        _comparisons(), _arithmetic(), _conversions(), _sizes(), _strings(), _lists(), _optionals(), _quantities(),
        _versions(), NETWORK_FUNCTIONS,
    )  # fmt: skip
    for one in (one for group in groups for one in group):
        table[one.name, one.member] = (*table.get((one.name, one.member), ()), one)
    return table


FUNCTIONS = _table()
"""(name, is a member) to its overloads."""
