"""Parts of protobuf messages as bytes, put together in Python.

Why by hand: where thousands of messages have most of their fields in common, these are encoded once, and what differs
is put behind them. Source: protobuf encoding, length-delimited fields and base 128 varints.
"""

from typing import Final

from google.protobuf.message import Message

LENGTH_DELIMITED: Final = 2
"""Wire type of texts, bytes and messages."""


def tag(message: type[Message], field: str) -> bytes:
    """Return what stands before an entry of a field that holds texts, bytes or messages."""
    return varint(message.DESCRIPTOR.fields_by_name[field].number << 3 | LENGTH_DELIMITED)


def entry(tagged: bytes, content: bytes) -> bytes:
    """Return one entry of such a field. tagged : what `tag` returns."""
    size = len(content)
    return tagged + (_SHORT[size] if size < len(_SHORT) else varint(size)) + content


def varint(value: int) -> bytes:
    """Return a number of at least 0 as protobuf writes lengths."""
    if value < 1 << 7:
        return bytes((value,))
    if value < 1 << 14:
        return bytes((value & 0x7F | 0x80, value >> 7))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SHORT: Final = tuple(varint(size) for size in range(1 << 10))
"""Lengths of most entries, written once."""
