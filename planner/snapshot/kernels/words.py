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
