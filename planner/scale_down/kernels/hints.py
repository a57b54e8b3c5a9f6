"""Hints of the last loop found again: short digests of uids, matched within each source node.

A digest is 32 bits of a multiply-and-rotate hash over 8-byte words; it only has to tell apart the pods of one node,
and a false match merely tries a destination that need not fit. Source: own.
"""

import numpy as np

from planner.model.jit import kernel
from planner.snapshot.columns import Int32, Int64, UInt8


@kernel
def word_at(data: UInt8, at: int, last: int) -> np.uint64:
    """Return the 8 bytes at a position, the first lowest, as if zeros followed the byte before `last`."""
    word = np.uint64(0)
    if at + 8 <= last:
        # A loop of known length, so that the compiler makes one load of it.
        for place in range(8):
            word |= np.uint64(data[at + place]) << np.uint64(8 * place)
        return word
    for place in range(last - at):
        word |= np.uint64(data[at + place]) << np.uint64(8 * place)
    return word


@kernel
def digest_texts(data: UInt8, offsets: Int64, digests: Int32) -> None:
    """Fill digests : int32[P] from the texts data[offsets[i] : offsets[i+1]]. O(bytes)."""
    for row in range(len(digests)):
        state = np.uint64(0x9E3779B97F4A7C15)
        at, last = offsets[row], offsets[row + 1]
        while at <= last:
            state = (state ^ word_at(data, at, last)) * np.uint64(0xBF58476D1CE4E5B9)
            if at + 8 <= last:
                state = (state << np.uint64(29)) | (state >> np.uint64(35))
            at += 8
        state ^= np.uint64(last - offsets[row])
        state = (state ^ (state >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
        digests[row] = np.int32(np.int64(state >> np.uint64(32)) - np.int64(0x80000000))


@kernel
def match_hints(
    source: Int32, bounds: Int32, pod: Int32, destination: Int32, offsets: Int64, members: Int32, digests: Int32,
    hint: Int32,
) -> int:  # fmt: skip
    """Write the remembered destination of each pod that is still on its source node; return how many.

    source : int32[H] group of pods (node, or N for none), -1 = gone; bounds : int32[H+1] into pod (digests) and
    destination (nodes, -1 = gone); offsets, members : pods by group; digests : int32[P]; hint : int32[P], left alone
    where nothing is remembered. Both sides are in pod order, so the search goes on where it stopped. O(pods of the
    sources), worst case O(pods²) of one source when its pods have changed places.
    """
    found = 0
    for row in range(len(source)):
        group = source[row]
        if group < 0:
            continue
        first, last = bounds[row], bounds[row + 1]
        at = first
        for member in range(offsets[group], offsets[group + 1]):
            one = members[member]
            for _ in range(last - first):
                matches = pod[at] == digests[one]
                target = destination[at]
                at += 1
                if at == last:
                    at = first
                if matches:
                    hint[one] = target
                    found += 1
                    break
    return found
