"""Messages damaged as by an attacker or a transmission error: bytes, columns of numbers, fields.

Pure except for the given generator: a seed reproduces every input.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

EXTREMES = (0, 1, 2, 3, 5, 2**31 - 1, -(2**31), -1, -2, 2**30, 2**31 - 2, 255, 256, 65536)
LONG_EXTREMES = (*EXTREMES, 2**63 - 1, -(2**63), 2**53, 2**53 + 1, 2**62)


def damaged(message: Message, random: Random) -> Message | None:
    """Return a damaged copy, or None if its bytes are no longer a message."""
    copy = type(message)()
    if random.random() < 0.3:
        try:
            copy.ParseFromString(flipped(message.SerializeToString(), random))
        except DecodeError:
            return None
        return copy
    copy.CopyFrom(message)
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        holder, field = place(copy, random)
        damage(holder, field, random)
    return copy


def with_extremes(message: Any, random: Random) -> Any:
    """Return a copy in which some numbers, also numbers that it lacks, are extreme or arbitrary."""
    copy = type(message)()
    copy.CopyFrom(message)
    for _ in range(random.choice((1, 1, 2, 4))):
        holder: Any
        holder, _ = place(copy, random)
        numbers = [field for field in holder.DESCRIPTOR.fields if field.type in NUMBERS]
        if numbers:
            damage(holder, random.choice(numbers), random)
    return copy


def flipped(data: bytes, random: Random) -> bytes:
    """Return bytes with some changed, missing or duplicated."""
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4, 16))):
        if not out:
            break
        at = random.randrange(len(out))
        how = random.random()
        if how < 0.6:
            out[at] = random.randrange(256)
        elif how < 0.8:
            del out[at : at + random.randrange(1, 9)]
        else:
            out[at:at] = out[at : at + random.randrange(1, 33)]
    return bytes(out)


def place(message: Message, random: Random) -> tuple[Message, FieldDescriptor]:
    """Return some field of a message or of the messages in it."""
    while True:
        inner = [
            (field, value)
            for field, value in message.ListFields()
            if field.type == FieldDescriptor.TYPE_MESSAGE and not is_map(field) and field.message_type.fields
        ]
        if not inner or random.random() < 0.4:
            return message, random.choice(list(message.DESCRIPTOR.fields))
        field, value = random.choice(inner)
        message = random.choice(value) if field.is_repeated else value


def is_map(field: FieldDescriptor) -> bool:
    """Return whether a field is a map."""
    return bool(field.message_type and field.message_type.GetOptions().map_entry)


def damage(holder: Any, field: FieldDescriptor, random: Random) -> None:
    """Change one field."""
    if is_map(field) or (field.type == FieldDescriptor.TYPE_MESSAGE and not field.is_repeated):
        holder.ClearField(field.name)
    elif field.is_repeated:
        damage_rows(getattr(holder, field.name), field, random)
    else:
        setattr(holder, field.name, value_of(field, getattr(holder, field.name), random))


def damage_rows(rows: Any, field: FieldDescriptor, random: Random) -> None:
    """Remove, duplicate or change a row."""
    how = random.random()
    if rows and how < 0.3:
        del rows[random.randrange(len(rows))]
    elif rows and how < 0.6:
        rows.append(random.choice(rows))
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        rows.add()
    elif rows:
        at = random.randrange(len(rows))
        rows[at] = value_of(field, rows[at], random)
    else:
        rows.append(value_of(field, None, random))


def value_of(field: FieldDescriptor, now: Any, random: Random) -> Any:
    """Return another value for a field."""
    make = VALUES.get(field.type)
    return make(now, random) if make else now


def column(now: bytes | None, random: Random) -> bytes:
    """Return a column with arbitrary indices."""
    data = bytearray(now or bytes(4 * random.randrange(6)))
    width = random.choice((1, 4, 4, 4, 8))
    if random.random() < 0.15:
        return bytes(data[: random.randrange(len(data) + 1)]) + random.randbytes(random.choice((0, 4, 8)))
    for _ in range(random.choice((1, 1, 2, 4))):
        if len(data) < width:
            break
        at = random.randrange(len(data) // width) * width
        number = random.choice(LONG_EXTREMES) if random.random() < 0.7 else random.randrange(-9, 40)
        data[at : at + width] = (number % 2 ** (8 * width)).to_bytes(width, "little")
    return bytes(data)


def _int32(now: Any, random: Random) -> int:
    return random.choice(EXTREMES) if random.random() < 0.5 else random.randrange(-3, 30)


def _int64(now: Any, random: Random) -> int:
    return random.choice(LONG_EXTREMES)


def _unsigned(now: Any, random: Random) -> int:
    return random.choice(EXTREMES) % 2**32


def _text(now: Any, random: Random) -> str:
    return random.choice(("", "x", "/", "a/b", "\x00", "é", "default", "a", (now or "y") * 2, "z" * 300))


def _real(now: Any, random: Random) -> float:
    return random.choice((0.0, -0.0, -1.0, float("nan"), float("inf"), 1e300))


VALUES: dict[int, Callable[[Any, Random], Any]] = {
    FieldDescriptor.TYPE_BYTES: column,
    FieldDescriptor.TYPE_STRING: _text,
    FieldDescriptor.TYPE_INT32: _int32,
    FieldDescriptor.TYPE_SINT32: _int32,
    FieldDescriptor.TYPE_SFIXED32: _int32,
    FieldDescriptor.TYPE_ENUM: _int32,
    FieldDescriptor.TYPE_INT64: _int64,
    FieldDescriptor.TYPE_SINT64: _int64,
    FieldDescriptor.TYPE_SFIXED64: _int64,
    FieldDescriptor.TYPE_UINT32: _unsigned,
    FieldDescriptor.TYPE_UINT64: _unsigned,
    FieldDescriptor.TYPE_FIXED32: _unsigned,
    FieldDescriptor.TYPE_BOOL: lambda now, random: not now,
    FieldDescriptor.TYPE_DOUBLE: _real,
    FieldDescriptor.TYPE_FLOAT: _real,
}
NUMBERS: frozenset[int] = frozenset(VALUES) - {
    FieldDescriptor.TYPE_BYTES,
    FieldDescriptor.TYPE_STRING,
    FieldDescriptor.TYPE_BOOL,
    FieldDescriptor.TYPE_ENUM,
}
