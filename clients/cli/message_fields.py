"""Checks a hand-written document against its message type, and converts it to proto3 JSON. Decides which fields exist
and what kind of value each takes. Errors use the document's terms: the path of the field, the problem, and the nearest
name, or what upstream's name for a setting is here. Durations may be written as `10m` or `1h30m` as well as proto3's
`600s`. Amounts of resources are quantities as Kubernetes writes them: `cpu` 20 is 20 cores.
"""

import difflib
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from trimtab.clients.cli.failures import UsageError
from trimtab.common.kubernetes.object_errors import FieldError
from trimtab.common.kubernetes.quantities import counted_amount
from trimtab.common.objects.times import go_duration_ns
from trimtab.setting_options import fields_below, plain_name, settings_by_name
from trimtab.v1 import plan_pb2

_INTEGERS: Final = (
    FieldDescriptor.CPPTYPE_INT32,
    FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT32,
    FieldDescriptor.CPPTYPE_UINT64,
)
_FLOATS: Final = (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT)
_AMOUNTS: Final = {
    "trimtab.v1.ResourceLimit": ("minimum", "maximum", "maximum_added"),
    "trimtab.v1.SlackAmount": ("floor", "ceiling"),
}
"""Fields that are amounts of a resource: the one that the message names, or the key of the map that it is in."""
_OF_SETTINGS: Final = frozenset(
    one.containing_type.full_name for one in fields_below(plan_pb2.PlanSettings.DESCRIPTOR) if one.containing_type
)


def checked(document: Any, descriptor: Descriptor, path: str = "", map_key: str = "") -> Any:
    """Return the proto3 JSON form of a document for one message. map_key : of the map that it is in. Errors: UsageError
    that names the field.
    """
    if descriptor.full_name == "google.protobuf.Duration":
        return _duration(document, path)
    if descriptor.file.package == "google.protobuf":
        return document
    if not isinstance(document, Mapping):
        raise _wrong(path, "a mapping", document)
    known = {name: field for field in descriptor.fields for name in (field.name, field.json_name)}
    built: dict[str, Any] = {}
    for key, value in document.items():
        below = f"{path}.{key}" if path else str(key)
        if key not in known:
            names = [one.json_name for one in known.values()]
            raise UsageError(
                f"{below}: there is no such field{_meant(str(key), descriptor) or _nearest(str(key), names)}"
            )
        field = known[key]
        if field.json_name in built:
            raise UsageError(f"{below}: the field is given twice, as {field.name} and as {field.json_name}")
        if value is not None and field.name in _AMOUNTS.get(descriptor.full_name, ()):
            built[field.json_name] = _amount(str(document.get("resource") or map_key), value, below)
        else:
            built[field.json_name] = _value(value, field, below)
    return built


def _amount(resource: str, value: Any, path: str) -> int:
    """Return a quantity in the unit of the contract."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _wrong(path, "a quantity", value)
    try:
        return counted_amount(resource, value)
    except FieldError as error:
        raise UsageError(f"{path}: {error}") from None


def _value(value: Any, field: FieldDescriptor, path: str) -> Any:
    """Check a field, which may be a list or a map; null is an absent field."""
    if value is None:
        return None
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        if not isinstance(value, Mapping):
            raise _wrong(path, "a mapping", value)
        entry = kind.fields_by_name["value"]
        return {key: _single(one, entry, f"{path}.{key}", str(key)) for key, one in value.items()}
    if field.is_repeated:
        if not isinstance(value, list):
            raise _wrong(path, "a list", value)
        return [_single(one, field, f"{path}[{i}]") for i, one in enumerate(value)]
    return _single(value, field, path)


def _single(value: Any, field: FieldDescriptor, path: str, map_key: str = "") -> Any:
    """Check one value of a field."""
    if field.message_type is not None:
        return checked(value, field.message_type, path, map_key)
    if field.enum_type is not None:
        _check_enum(value, field.enum_type, path)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_BOOL and not isinstance(value, bool):
        raise _wrong(path, "true or false", value)
    elif field.cpp_type in _INTEGERS and not _is_integer(value):
        raise _wrong(path, "a whole number", value)
    elif field.cpp_type in _FLOATS and not _is_number(value):
        raise _wrong(path, "a number", value)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_STRING and not isinstance(value, str):
        raise _wrong(path, "a text", value)
    return value


def _check_enum(value: Any, enum: EnumDescriptor, path: str) -> None:
    names = [one.name for one in enum.values]
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _wrong(path, f"one of {', '.join(names)}", value)
    if isinstance(value, str) and value not in names:
        raise UsageError(f"{path}: {value!r} is unknown{_nearest(value, names)}; there are {', '.join(names)}")


def _duration(value: Any, path: str) -> str:
    """Return a duration in seconds, as proto3 JSON writes it."""
    try:
        duration_ns = go_duration_ns(value if isinstance(value, str) else "")
    except FieldError:
        problem = f"{value!r} is not a duration; write a number with a unit"
        raise UsageError(f'{path}: {problem}, such as "600s" or "10m"') from None
    return f"{Decimal(duration_ns).scaleb(-9):f}s"


def _is_integer(value: Any) -> bool:
    """Return whether proto3 JSON accepts a value as an integer; large ones are written as strings."""
    if isinstance(value, str):
        return re.fullmatch(r"-?\d+", value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return (
            value in ("NaN", "Infinity", "-Infinity")
            or re.fullmatch(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", value) is not None
        )
    return isinstance(value, int | float) and not isinstance(value, bool)


def _wrong(path: str, expected: str, value: Any) -> UsageError:
    given = "a mapping" if isinstance(value, Mapping) else "a list" if isinstance(value, list) else repr(value)
    return UsageError(f"{path + ': ' if path else ''}{expected} is expected, not {given}")


def _meant(name: str, descriptor: Descriptor) -> str:
    """Return which setting a name means that other autoscalers use, or that belongs elsewhere, "" = none."""
    path = settings_by_name().get(plain_name(name)) if descriptor.full_name in _OF_SETTINGS else None
    return f"; that is {path} here" if path else ""


def _nearest(name: str, names: list[str]) -> str:
    """Return a suggestion of the intended name, "" if none is near."""
    lowered = {one.lower(): one for one in names}
    near = difflib.get_close_matches(name.lower(), list(lowered), 1)
    return f"; did you mean {lowered[near[0]]}?" if near else ""
