"""Parts of protobuf messages as bytes, assembled in Python.

Written by hand because thousands of messages have most of their fields in common: these are encoded once, and the
differing ones are appended. Source: protobuf encoding, length-delimited fields and base 128 varints.
"""

from typing import Final

from google.protobuf.message import Message

from trimtab import wire
from trimtab.wire import varint


def tag(message: type[Message], field: str) -> bytes:
    """Return the tag before an entry of a field of texts, bytes or messages."""
    return wire.tag(message.DESCRIPTOR.fields_by_name[field].number)


def entry(tagged: bytes, content: bytes) -> bytes:
    """Return one entry of such a field. tagged : the result of `tag`."""
    size = len(content)
    return tagged + (_SHORT[size] if size < len(_SHORT) else varint(size)) + content


_SHORT: Final = tuple(varint(size) for size in range(1 << 10))
"""Encoded lengths of most entries, computed once."""
