"""Parts of protobuf messages as bytes, assembled in Python.

Written by hand because thousands of messages have most of their fields in common: these are encoded once, and the
differing ones are appended. Source: protobuf encoding, length-delimited fields and base 128 varints.
"""

from typing import Final

from google.protobuf.message import Message

LENGTH_DELIMITED: Final = 2
"""Wire type of texts, bytes and messages."""


def tag(message: type[Message], field: str) -> bytes:
    """Return the tag before an entry of a field of texts, bytes or messages."""
    return varint(message.DESCRIPTOR.fields_by_name[field].number << 3 | LENGTH_DELIMITED)


def entry(tagged: bytes, content: bytes) -> bytes:
    """Return one entry of such a field. tagged : the result of `tag`."""
    size = len(content)
    return tagged + (_SHORT[size] if size < len(_SHORT) else varint(size)) + content


def varint(value: int) -> bytes:
    """Return a number of at least 0 in protobuf's encoding of lengths."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SHORT: Final = tuple(varint(size) for size in range(1 << 10))
"""Encoded lengths of most entries, computed once."""
