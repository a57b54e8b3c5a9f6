"""Convert the protobuf messages of pods, and the JSON of all other kinds, to the structs that snapshots are built from.

Both name their fields as the API's JSON does, so one rule covers all kinds. `trimtab.common.objects` alone
decides what a field means, for files and live clusters alike. Fields that the struct does not declare are ignored.

An absent field is None, and so is a zero that the API's JSON omits.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from trimtab.common.kubernetes.errors import MalformedAnswerError
from trimtab.common.kubernetes.json_envelope import decoder
from trimtab.common.kubernetes.kinds.metadata import ObjectMeta
from trimtab.common.kubernetes.registry import BY_KIND, STRUCTS
from trimtab.common.objects.times import usable_s

Read = Callable[[Message], Any]
"""From a message to the value of one field of a struct."""
S = TypeVar("S", bound=msgspec.Struct)

_WITHOUT_STATUS = ("CapacityBuffer",)
_YEAR_0 = b'"0000-'
"""The year 0 in a time: Python has none, which Kubernetes accepts."""
INLINED = ("volume_source",)
"""Messages whose fields JSON places beside those of the enclosing message."""


def to_struct(message: Message, struct: type[S]) -> S:
    """Return a message as a declared struct."""
    converted: S = _converter(message.DESCRIPTOR, struct)(message)
    return converted


class _WatchedMetadata(msgspec.Struct):
    metadata: ObjectMeta


def json_object(kind: str, raw: bytes) -> Any:
    """Return an object from JSON; a CapacityBuffer without its status, which its controller writes. An object of a kind
    that a CustomResourceDefinition defines, with a field of the wrong type, is returned without content.

    Errors: MalformedAnswerError for bytes that are not an object.
    """
    try:
        try:
            found = _decoded(kind, raw)
        except msgspec.ValidationError:
            if not BY_KIND[kind].is_custom:
                raise
            found = STRUCTS[kind](metadata=decoder(_WatchedMetadata).decode(raw).metadata)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedAnswerError(f"{len(raw)} bytes are no {kind}: {error}") from error
    if found.metadata is None:
        raise MalformedAnswerError(f"{len(raw)} bytes are no {kind}: they have no metadata")
    if kind in _WITHOUT_STATUS:
        found.status = None
    return found


def _decoded(kind: str, raw: bytes) -> Any:
    decode = decoder(STRUCTS[kind]).decode
    try:
        return decode(raw)
    except msgspec.ValidationError:
        if _YEAR_0 not in raw:
            raise
        return decode(raw.replace(_YEAR_0, b'"0001-'))


def json_names(struct: type[msgspec.Struct]) -> list[str]:
    """Return the names that the fields of a struct have in JSON."""
    return [info.encode_name for info in msgspec.structs.fields(struct)]


@lru_cache(maxsize=1024)
def _converter(descriptor: Descriptor, struct: type[msgspec.Struct]) -> Read:
    """Return the function that makes `struct` of messages of one type."""
    readers = []
    for info in msgspec.structs.fields(struct):
        read = _field_reader(descriptor, info.encode_name, info.type)
        if read is not None:
            readers.append((info.name, read))

    def convert(message: Message) -> msgspec.Struct:
        return struct(**{name: read(message) for name, read in readers})

    return convert


def _field_reader(descriptor: Descriptor, json_name: str, hint: Any) -> Read | None:
    """Return the reader of the field with this JSON name; None when no message has it (`apiVersion`)."""
    for field in descriptor.fields:
        if field.json_name == json_name:
            return _reader(field, _without_none(hint))
    for name in INLINED:
        inner = descriptor.fields_by_name.get(name)
        if inner is not None and inner.message_type is not None:
            read = _field_reader(inner.message_type, json_name, hint)
            if read is not None:
                return _through(name, read)
    return None


def _through(name: str, read: Read) -> Read:
    return lambda message: read(getattr(message, name))


def _reader(field: FieldDescriptor, hint: Any) -> Read:
    """Return the reader of one field."""
    name = field.name
    if field.is_repeated:
        return _repeated_reader(field, hint)
    if field.message_type is None:
        if field.has_presence:
            return lambda message: getattr(message, name) if message.HasField(name) else None
        return lambda message: getattr(message, name) or None
    convert = _message_reader(field.message_type, hint)
    return lambda message: convert(getattr(message, name)) if message.HasField(name) else None


def _repeated_reader(field: FieldDescriptor, hint: Any) -> Read:
    """Return the reader of a list, or of a map, which comes as a list of entries."""
    name = field.name
    if field.message_type is None:
        return lambda message: list(getattr(message, name)) or None
    if get_origin(hint) is list:
        convert = _message_reader(field.message_type, get_args(hint)[0])
        return lambda message: [convert(item) for item in getattr(message, name)] or None
    read_value = _entry_value(field.message_type)
    if get_origin(hint) is dict:
        return lambda message: {entry.key: read_value(entry) for entry in getattr(message, name)} or None
    names = {info.encode_name: info.name for info in msgspec.structs.fields(hint)}

    def known_entries(message: Message) -> msgspec.Struct | None:
        known = {names[entry.key]: entry.value for entry in getattr(message, name) if entry.key in names}
        return hint(**known) if known else None

    return known_entries


def _entry_value(entry: Descriptor) -> Read:
    """Return the reader of a map entry's value."""
    value = entry.fields_by_name["value"]
    if value.message_type is None:
        return lambda one: getattr(one, "value")  # noqa: B009 - a Message declares no field
    convert = _message_reader(value.message_type, None)
    return lambda one: convert(getattr(one, "value"))  # noqa: B009


def _message_reader(descriptor: Descriptor, hint: Any) -> Read:
    """Return the reader of a message that stands for a plain value or a struct."""
    plain = _PLAIN.get(descriptor.name)
    return plain if plain is not None else _converter(descriptor, hint)


def _without_none(hint: Any) -> Any:
    """Return a type hint without None and annotations."""
    if get_origin(hint) is Annotated:
        return _without_none(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        rest = [one for one in get_args(hint) if one is not NoneType]
        return _without_none(rest[0]) if len(rest) == 1 else hint
    return hint


def _time(message: Any) -> datetime | None:
    # Python has no year 0, which Kubernetes accepts.
    return datetime.fromtimestamp(usable_s(message.seconds), UTC) if message.seconds or message.nanos else None


def _quantity(message: Any) -> str:
    text: str = message.string
    return text


_PLAIN: Mapping[str, Read] = {"Time": _time, "Quantity": _quantity}
