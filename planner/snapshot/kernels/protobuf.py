"""Parts of protobuf messages as bytes: numbers and texts.

Why by hand: thousands of messages and maps of 100,000 entries built one by one cost many times what it costs to parse
them. Source: protobuf encoding, base 128 varints.
"""

from planner.model.jit import inner_kernel
from planner.snapshot.columns import UInt8


@inner_kernel
def varint_length(value: int) -> int:
    """Return how many bytes a number of at least 0 takes."""
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
    # Cut out before the loop, both need no check for "from the end" in it, and it becomes one of whole words.
    target, source = out[at : at + last - first], data[first:last]
    for place in range(len(source)):
        target[place] = source[place]
    return int(at + last - first)
