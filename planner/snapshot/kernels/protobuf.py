"""Parts of protobuf messages as bytes: numbers and texts.

Written by hand because building thousands of messages and maps of 100,000 entries one by one costs many times more than
parsing them. Source: protobuf encoding, base 128 varints.
"""

import numpy as np

from trimtab.planner.compiled.decorators import inner_kernel
from trimtab.planner.snapshot.columns import UInt8
from trimtab.planner.snapshot.kernels.words import read_word, write_word


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
    """Write a number of at least 0 at a position of out : uint8[bytes]; return the position behind it."""
    while value >= 128:
        out[at] = (value & 127) | 128
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


@inner_kernel
def write_text(out: UInt8, at: int, data: UInt8, first: int, last: int) -> int:
    """Copy data[first:last] to a position of `out`; return the position behind it. Up to seven bytes behind it may be
    overwritten: write from the beginning to the end. out, data : uint8[bytes].
    """
    size = last - first
    if at + size + 7 <= len(out) and last + 7 <= len(data):
        # In whole words, without a loop over the rest: most texts are names of some twenty bytes.
        target, source = np.uint64(at), np.uint64(first)
        for _ in range((size + 7) >> 3):
            write_word(out, target, read_word(data, source))
            target += np.uint64(8)
            source += np.uint64(8)
    else:
        for place in range(size):
            out[at + place] = data[first + place]
    return int(at + size)
