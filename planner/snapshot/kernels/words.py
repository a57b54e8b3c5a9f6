"""Eight bytes at a time, little-endian. Constant length and unsigned indices let the compiler make one load, or one
store, of them."""

import numpy as np

from trimtab.planner.compiled.decorators import inner_kernel
from trimtab.planner.snapshot.columns import UInt8


@inner_kernel
def read_word(data: UInt8, first: np.uint64) -> np.uint64:
    """Return the 8 bytes from a position of data : uint8[bytes] on."""
    word = np.uint64(0)
    for place in range(np.uint64(8)):
        word |= np.uint64(data[first + place]) << (np.uint64(8) * place)
    return word


@inner_kernel
def write_word(out: UInt8, first: np.uint64, word: np.uint64) -> None:
    """Write 8 bytes from a position of out : uint8[bytes] on."""
    for place in range(np.uint64(8)):
        out[first + place] = np.uint8((word >> (np.uint64(8) * place)) & np.uint64(255))


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
