"""Lengths and tags as protobuf writes them, for code that assembles messages from bytes or writes them one after the
other. Written by hand, beside the generated modules: planner, actuator and clients may all import it, and protobuf's own
encoder is private. Source: protobuf encoding, base 128 varints and length-delimited fields.
"""

from typing import Final

LENGTH_DELIMITED: Final = 2
"""Wire type of texts, bytes and messages."""


def varint(value: int) -> bytes:
    """Return a number of at least 0 as a base 128 varint, such as the length before a message."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int) -> bytes:
    """Return the tag before an entry of a field of texts, bytes or messages."""
    return varint(number << 3 | LENGTH_DELIMITED)
