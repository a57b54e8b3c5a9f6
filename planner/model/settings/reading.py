"""Reads settings as the contract describes them: an absent field has the default of its option `setting`, and a value
outside of the option's range, of no known enumeration value, or empty where a list names something, is an error that
names the field (`trimtab.setting_options`).

A dataclass of settings names the field of the contract behind each of its fields (`setting`); `resolved` reads them.
Durations become integers in nanoseconds, lists tuples without repetition. Meaning, default and range are in the
contract alone.
"""

import math
from collections.abc import Callable, Hashable
from dataclasses import field as dataclass_field
from dataclasses import fields, replace
from functools import cache, reduce
from typing import Any, Final, NamedTuple, TypeVar, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from trimtab.planner.model.values import LabelRequirement, Selector
from trimtab.setting_options import option_of
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.snapshot_pb2 import LabelOperator

SECOND_NS: Final = 1_000_000_000
_MOST_NS: Final = 2**62
_BOUND: Final = "setting"
_OF_CONTRACT: Final = object()
_NUMBERS: Final = (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64)
T = TypeVar("T")


class SettingsError(ValueError):
    """A setting has an unusable value. `field` is its path in `PlanSettings`, `problem` states which
    values are usable.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class _FieldRule(NamedTuple):
    """What the contract says of a field. least, largest : of durations in nanoseconds."""

    field: FieldDescriptor
    default: Any
    least: float
    largest: float
    is_exclusive: bool
    element: str


class _BoundField(NamedTuple):
    """A field of a dataclass. parents : names of the messages from `PlanSettings` on; is_in_map : they include a map,
    so that `PlanSettings` has no single value of it."""

    path: str
    parents: tuple[str, ...]
    rule: _FieldRule
    is_in_map: bool
    convert: Callable[[Any], Any] | None


def setting(path: str, convert: Callable[[Any], Any] | None = None) -> Any:
    """Return the dataclass field for a setting, by its path in `PlanSettings`; its default is the contract's. convert :
    makes the value from that of the contract. Raises KeyError for an unknown path."""
    kind, is_in_map, names = pb.PlanSettings.DESCRIPTOR, False, path.split(".")
    for name in names[:-1]:
        inner = kind.fields_by_name[name].message_type
        assert inner is not None
        is_in_map |= inner.GetOptions().map_entry
        value_type = inner.fields_by_name["value"].message_type if inner.GetOptions().map_entry else inner
        assert value_type is not None
        kind = value_type
    rule = _rule(kind.fields_by_name[names[-1]])
    default = convert(rule.default) if convert else rule.default
    bound = _BoundField(path, tuple(names[:-1]), rule, is_in_map, convert)
    return dataclass_field(default=default, metadata={_BOUND: bound})


def resolved(kind: type[T], message: pb.PlanSettings, **more: Any) -> T:
    """Return settings read from `PlanSettings`. more : fields that are not, or not alone, in the contract. Raises
    SettingsError for an invalid value."""
    values, messages = more, dict[tuple[str, ...], Message]()
    for name, bound in _bindings(cast("Hashable", kind)):
        if name not in more and not bound.is_in_map:
            group = messages.get(bound.parents)
            if group is None:
                group = messages[bound.parents] = reduce(getattr, bound.parents, cast("Any", message))
            value = _read(group, bound.rule, bound.path, bound.rule.default)
            values[name] = bound.convert(value) if bound.convert else value
    return kind(**values)


def overridden(usual: T, overrides: Message, path: str) -> T:
    """Return settings in which what a message has takes the place of what is usual. Raises SettingsError."""
    own = {field.name: field for field, _ in overrides.ListFields()}
    values = {
        name: _read(overrides, _rule(own[bound.rule.field.name]), f"{path}.{bound.rule.field.name}", None)
        for name, bound in _bindings(cast("Hashable", type(usual)))
        if bound.rule.field.name in own
    }
    changed: T = replace(cast("Any", usual), **values)
    return changed


def value_of(message: Message, name: str, path: str, usual: Any = _OF_CONTRACT) -> Any:
    """Return the value of a field of a message of the contract. path : of the message; usual : if it is absent, instead
    of the contract's default, which is None if there is none. Raises SettingsError."""
    rule = _rule(message.DESCRIPTOR.fields_by_name[name])
    where = f"{path}.{name}" if path else name
    return _read(message, rule, where, rule.default if usual is _OF_CONTRACT else usual)


@cache
def _bindings(kind: Hashable) -> tuple[tuple[str, _BoundField], ...]:
    return tuple(
        (field_.name, field_.metadata[_BOUND]) for field_ in fields(cast("Any", kind)) if _BOUND in field_.metadata
    )


@cache
def _rule(field: FieldDescriptor) -> _FieldRule:
    option = option_of(field)
    unit = SECOND_NS if field.message_type is not None else 1
    least = option.least * unit if option.HasField("least") else 0.0 if unit > 1 else -math.inf
    largest = option.most * unit if option.HasField("most") else math.inf
    return _FieldRule(field, _default(field, option.default_value), least, largest, option.exclusive, option.element)


def _default(field: FieldDescriptor, text: str) -> Any:
    """Return the default that the contract gives a field, as a value of the planner."""
    if field.is_repeated:
        return ()
    if field.enum_type is not None:
        return field.enum_type.values_by_name[text].number if text else 0
    if not text:
        return None if field.has_presence else ""
    if field.message_type is not None:
        duration = Duration()
        duration.FromJsonString(text)
        return duration.ToNanoseconds()
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return text == "true"
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return text
    return float(text) if field.cpp_type == FieldDescriptor.CPPTYPE_DOUBLE else int(text)


def _read(message: Message, rule: _FieldRule, path: str, usual: Any) -> Any:
    field = rule.field
    if field.is_repeated:
        return _elements(getattr(message, field.name), rule, path)
    if field.has_presence and not message.HasField(field.name):
        return usual
    value = getattr(message, field.name)
    if field.enum_type is not None:
        return _known(value, rule, path) if value else usual
    if field.message_type is not None:
        return _nanoseconds(value, rule, path)
    if field.cpp_type in _NUMBERS:
        return _in_range(value, rule, path)
    return value if value or field.has_presence else usual


def _elements(elements: Any, rule: _FieldRule, path: str) -> tuple[Any, ...]:
    """Return the elements of a list, each once."""
    for i, element in enumerate(elements):
        if rule.field.enum_type is not None:
            _known(element, rule, f"{path}[{i}]")
        elif rule.element and not element:
            raise SettingsError(f"{path}[{i}]", f"empty; name a {rule.element}")
    return tuple(dict.fromkeys(elements))


def _known(value: int, rule: _FieldRule, path: str) -> int:
    """Return the value of an enumeration that is neither unknown nor UNSPECIFIED."""
    values = rule.field.enum_type.values_by_number if rule.field.enum_type else {}
    if value not in values or not value:
        names = ", ".join(value.name for number, value in sorted(values.items()) if number)
        raise SettingsError(path, f"{value} is not a value; use one of {names}")
    return value


def _in_range(value: Any, rule: _FieldRule, path: str) -> Any:
    if not math.isfinite(value):
        raise SettingsError(path, f"{value} is not a finite number")
    if value < rule.least or (rule.is_exclusive and value == rule.least):
        than = "not above" if rule.is_exclusive else "below the minimum"
        raise SettingsError(path, f"{value:g} is {than} {rule.least:g}")
    if value > rule.largest:
        raise SettingsError(path, f"{value:g} is above {rule.largest:g}")
    return value


def _nanoseconds(value: Duration, rule: _FieldRule, path: str) -> int:
    total_ns: int = value.seconds * SECOND_NS + value.nanos
    if total_ns > _MOST_NS:
        raise SettingsError(path, f"{value.seconds} s is too long; use at most 100 years")
    if total_ns < rule.least or (rule.is_exclusive and total_ns == rule.least):
        than = "more than" if rule.is_exclusive else "at least"
        raise SettingsError(path, f"{value.seconds} s is too short; use {than} {rule.least / SECOND_NS:g} s")
    return total_ns


_WITH_VALUES: Final = (LabelOperator.IN, LabelOperator.NOT_IN)
_OPERATORS: Final = (*_WITH_VALUES, LabelOperator.EXISTS, LabelOperator.DOES_NOT_EXIST)


def selector(message: pb.Selector, path: str) -> Selector:
    """Return a selector's requirements, sorted; () selects everything. Raises SettingsError."""
    for label in message.match_labels:
        if not label:
            raise SettingsError(f"{path}.match_labels", "a label's key is empty")
    labels = sorted(message.match_labels.items())
    rows = [LabelRequirement(key, LabelOperator.IN, (value,)) for key, value in labels]
    rows += [
        _requirement(match_expression, f"{path}.match_expressions[{i}]")
        for i, match_expression in enumerate(message.match_expressions)
    ]
    return tuple(rows)


def _requirement(message: pb.SelectorRequirement, path: str) -> LabelRequirement:
    if not message.key:
        raise SettingsError(f"{path}.key", "empty; name the label")
    operator = message.operator
    if operator not in _OPERATORS:
        raise SettingsError(f"{path}.operator", f"{operator} cannot be used; use IN, NOT_IN, EXISTS or DOES_NOT_EXIST")
    if (operator in _WITH_VALUES) != bool(message.values):
        raise SettingsError(f"{path}.values", "give values with IN and NOT_IN, and none with EXISTS and DOES_NOT_EXIST")
    return LabelRequirement(message.key, operator, tuple(message.values))
