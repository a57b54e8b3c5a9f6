"""Passes the strings of a frame through a function, in place. Which stay or are left out instead, the contract says
(option `redaction` of its fields).
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from trimtab.v1 import options_pb2
from trimtab.v1 import snapshot_pb2 as pb
from trimtab.v1.options_pb2 import Redaction

Replace = Callable[[str], str]

REDACTED = "redacted"
_AMOUNT = re.compile(r"[0-9]+%?")
"""Readable values of amounts; unreadable ones may contain anything."""


@cache
def redaction(field: FieldDescriptor) -> int:
    """Return what the contract says of a field: a `Redaction.Code`."""
    return int(field.GetOptions().Extensions[options_pb2.redaction])


def walk(message: Message, replace: Replace) -> None:
    """Pass every string through `replace`, in place, and clear the fields that are left out."""
    for lengths in _columns_of_lengths(message.DESCRIPTOR):
        _walk_texts(message, f"{lengths.removesuffix('_lengths')}s", lengths, replace)
    for field, value in message.ListFields():
        treatment = redaction(field)
        if treatment == Redaction.LEFT_OUT:
            message.ClearField(field.name)
        elif treatment == Redaction.PRESENCE or (treatment == Redaction.AMOUNT and not _AMOUNT.fullmatch(value)):
            setattr(message, field.name, REDACTED)
        elif treatment == Redaction.UNSPECIFIED:
            _walk_field(message, field, value, replace)


@cache
def _columns_of_lengths(kind: Descriptor) -> tuple[str, ...]:
    """Return the columns with the lengths of texts: those of "name_lengths" are in "names"."""
    return tuple(field.name for field in kind.fields if field.name.endswith("_lengths"))


def _walk_field(message: Message, field: FieldDescriptor, value: Any, replace: Replace) -> None:
    """Pass the strings of one field through `replace`."""
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        _walk_map(field, value, replace, inner.fields_by_name["value"].message_type is not None)
    elif inner is not None:
        for one in value if field.is_repeated else (value,):
            walk(one, replace)
    elif field.type != FieldDescriptor.TYPE_STRING:
        return
    elif field.is_repeated:
        value[:] = [replace(text) for text in value]
    else:
        setattr(message, field.name, replace(value))


def _walk_map(field: FieldDescriptor, value: Any, replace: Replace, is_message: bool) -> None:
    """Replace the keys of a map, and its values if they are names."""
    entries = dict(value.items())
    value.clear()
    for key, item in entries.items():
        if is_message:
            value[replace(key)].CopyFrom(item)
        elif field.name in ("match_labels",):
            value[replace(key)] = replace(item)
        else:
            value[replace(key)] = item


def _walk_texts(table: Message, data: str, lengths: str, replace: Replace) -> None:
    """Replace the texts of a column. data, lengths : the fields of both."""
    texts = [replace(text).encode() for text in texts_of(getattr(table, data), getattr(table, lengths))]
    setattr(table, data, b"".join(texts))
    setattr(table, lengths, np.array([len(text) for text in texts], dtype="<i4").tobytes())


class DeviceNames(NamedTuple):
    """Names in the devices of a recording. kept : of drivers and capacities, and quantities, which stay as they are;
    pools : of pools.
    """

    kept: set[str]
    pools: set[str]

    def see(self, devices: pb.Devices) -> None:
        """Take the names of a message."""
        slices, claims = devices.slices, devices.claims
        columns = (slices.driver, claims.result_driver, claims.capacity_name, claims.capacity_amount)
        for column, names in (*((one, self.kept) for one in columns), (slices.pool, self.pools)):
            names.update(devices.strings[index] for index in np.unique(np.frombuffer(column, "<i4")).tolist())
        self.kept.update(one.driver for one in devices.taint_rules)
        self.kept.update(one.driver for template in devices.templates for one in template.slices)


def texts_of(data: bytes, lengths: bytes) -> list[str]:
    """Return the texts of a column of texts."""
    ends = np.cumsum(np.frombuffer(lengths, dtype="<i4"), dtype=np.int64).tolist()
    return [data[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)]
