"""Match hints from the last loop to pods, by short digests of uids within each source node.

A digest is 32 bits of a multiply-and-rotate hash over 8-byte words; it only has to distinguish the pods of one node,
and a false match only costs one attempt at a destination. Source: own.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.compiled.decorators import inner_kernel, kernel, widened
from trimtab.planner.snapshot.columns import Int32, Int64, UInt8
from trimtab.planner.snapshot.kernels.words import read_word


@inner_kernel
def word_at(data: UInt8, at: int, last: int) -> np.uint64:
    """Return the 8 bytes at a position, little-endian, with zeros from `last` on."""
    if at + 8 <= last:
        return read_word(data, np.uint64(at))
    word = np.uint64(0)
    if at < last and last >= 8:
        # Faster than the bytes one by one: the last 8, without those before the position.
        return read_word(data, np.uint64(last - 8)) >> np.uint64(8 * (at + 8 - last))
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


class Remembered(NamedTuple):
    """Destinations of the last loop. source : int32[H] group of pods (node, or N for none), -1 = gone; bounds :
    int32[H+1] into pod : int32 digests and destination : int32 nodes, -1 = gone."""

    source: Int32
    bounds: Int32
    pod: Int32
    destination: Int32


@kernel
def match_hints(
    remembered: Remembered, offsets: Int64, members: Int32, digests: Int32, order: Int32, hint: Int32
) -> int:
    """Write the remembered destination of each pod that is still on its source node; return how many.

    offsets, members : pods by group; digests : int32[P]; order : int32[len(pod)] scratch; hint : int32[P], unchanged if
    nothing is remembered. Both sides are in pod order: the entry after the last match is compared first. If it belongs
    to another pod, the first entry with the digest is searched for, after sorting the entries of the node once.
    O(pods), and O(pods · log pods) for nodes whose pods have changed.
    """
    source, bounds, pod, destination = remembered
    matched = 0
    for row in range(len(source)):
        group = source[row]
        first, last = widened(bounds[row]), widened(bounds[row + 1])
        if group < 0 or first == last:
            continue
        at, is_sorted = first, False
        for member in range(offsets[group], offsets[group + 1]):
            candidate = members[member]
            if at == last or pod[at] != digests[candidate]:
                if not is_sorted:
                    sort_by_digest(pod, order, first, last)
                    is_sorted = True
                place = first_with(pod, order, first, last, widened(digests[candidate]))
                if place < 0:
                    continue
                at = place
            hint[candidate] = destination[at]
            matched += 1
            at += 1
    return matched


@inner_kernel
def sort_by_digest(pod: Int32, order: Int32, first: int, last: int) -> None:
    """Fill order[first:last] with the entries first to last - 1 by (digest, entry). Heapsort: O(n log n) always."""
    count = last - first
    for entry in range(count):
        order[first + entry] = first + entry
    for root in range(count // 2 - 1, -1, -1):
        sift_down(pod, order, first, root, count)
    for end in range(count - 1, 0, -1):
        order[first], order[first + end] = order[first + end], order[first]
        sift_down(pod, order, first, widened(0), end)


@inner_kernel
def sift_down(pod: Int32, order: Int32, first: int, root: int, count: int) -> None:
    """Sift the entry at `root` of the heap order[first : first + count] down below all larger ones."""
    while 2 * root + 1 < count:
        child = 2 * root + 1
        if child + 1 < count and comes_before(pod, order[first + child], order[first + child + 1]):
            child += 1
        if not comes_before(pod, order[first + root], order[first + child]):
            return
        order[first + root], order[first + child] = order[first + child], order[first + root]
        root = child


@inner_kernel
def comes_before(pod: Int32, first: int, other: int) -> bool:
    """Return whether an entry comes before another: smaller digest, or the same and earlier."""
    return bool(pod[first] < pod[other] or (pod[first] == pod[other] and first < other))


@inner_kernel
def first_with(pod: Int32, order: Int32, first: int, last: int, digest: int) -> int:
    """Return the first entry with a digest among the sorted order[first:last], -1 if there is none."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if pod[order[middle]] < digest:
            low = middle + 1
        else:
            high = middle
    return int(order[low]) if low < last and pod[order[low]] == digest else -1
