"""Parts of protobuf messages as bytes: numbers and texts.

Written by hand because building thousands of messages and maps of 100,000 entries one by one costs many times more than
parsing them. Source: protobuf encoding, base 128 varints.
"""

from planner.model.jit import inner_kernel
from planner.snapshot.columns import UInt8


@inner_kernel
def varint_length(value: int) -> int:
    """Return the encoded length of a number of at least 0, in bytes."""
    length = 1
    while value >= 128:
        value >>= 7
        length += 1
    return length


@inner_kernel
def write_varint(out: UInt8, at: int, value: int) -> int:
    """Write a number of at least 0 at a position; return the position behind it."""
    while value >= 128:
        out[at] = (value & 127) | 128
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


@inner_kernel
def write_text(out: UInt8, at: int, data: UInt8, first: int, last: int) -> int:
    """Copy data[first:last] to a position; return the position behind it."""
    # Slicing before the loop avoids checks for negative indices in it, so it can copy whole words.
    target, source = out[at : at + last - first], data[first:last]
    for place in range(len(source)):
        target[place] = source[place]
    return int(at + last - first)
