"""Kubernetes objects in JSON to the API server's protobuf encoding, for tests that replay what a server sends."""

import json
import struct
from datetime import datetime
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from trimtab.common.kubernetes.envelope import MAGIC
from trimtab.common.watched.protobuf_objects import INLINED, message_type
from trimtab.k8s.v1 import core_pb2, meta_pb2

M = TypeVar("M", bound=Message)


def wrap(kind: str, api_version: str, message: bytes) -> bytes:
    """Return a body that `unwrap` reads."""
    kind_of = meta_pb2.TypeMeta(api_version=api_version, kind=kind)
    return MAGIC + meta_pb2.Unknown(type_meta=kind_of, raw=message).SerializeToString()


def frame_bytes(event_type: str, kind: str, api_version: str, message: bytes) -> bytes:
    """Return one event in the framing of a watch."""
    inside = meta_pb2.RawExtension(raw=wrap(kind, api_version, message))
    event = meta_pb2.WatchEvent(type=event_type, object=inside).SerializeToString()
    return struct.pack(">I", len(event)) + event


def encoded(obj: dict[str, Any]) -> Any:
    """Return an object as an API server sends it: a pod as its message, all others as JSON."""
    return as_message(obj, core_pb2.Pod) if obj["kind"] == "Pod" else obj


def wrapped(obj: dict[str, Any]) -> bytes:
    """Return an object as an API server sends it to who asks for protobuf: all kinds with a message in it."""
    message = message_type(obj["kind"])
    if message is None:
        return json.dumps(obj).encode()
    return wrap(obj["kind"], obj["apiVersion"], as_message(obj, message).SerializeToString())


def as_message(obj: dict[str, Any], kind: type[M]) -> M:
    """Return an object as its message; fields that the message lacks are omitted, as they are not read."""
    message = kind()
    fill(message, obj)
    return message


def fill(message: Message, value: dict[str, Any]) -> None:
    """Set the fields of a message from the API's JSON."""
    fields = {field.json_name: field for field in message.DESCRIPTOR.fields}
    for name, item in value.items():
        if name in fields and item is not None:
            _set(message, fields[name], item)
    for name in INLINED:
        if name in message.DESCRIPTOR.fields_by_name:
            getattr(message, name).SetInParent()
            fill(getattr(message, name), value)


def _set(message: Message, field: FieldDescriptor, item: Any) -> None:
    if field.is_repeated:
        _extend(getattr(message, field.name), field, item)
    elif field.message_type is None:
        setattr(message, field.name, item)
    else:
        inner = getattr(message, field.name)
        inner.SetInParent()
        _fill_value(inner, item)


def _extend(items: Any, field: FieldDescriptor, value: Any) -> None:
    if isinstance(value, dict):  # a map: entries sorted by key, as the API server sends them
        for key in sorted(value):
            entry = items.add(key=key)
            if field.message_type.fields_by_name["value"].message_type is None:
                entry.value = value[key]
            elif value[key] is not None:
                _fill_value(entry.value, value[key])
    elif field.message_type is None:
        items.extend(value)
    else:
        for one in value:
            _fill_value(items.add(), one)


def _fill_value(message: Any, item: Any) -> None:
    kind = message.DESCRIPTOR.name
    if kind == "Quantity":
        message.string = str(item)
    elif kind == "IntOrString":
        message.type, message.intVal, message.strVal = (0, item, "") if isinstance(item, int) else (1, 0, item)
    elif kind == "Time":
        message.seconds = int(datetime.fromisoformat(item).timestamp())
    else:
        fill(message, item)
