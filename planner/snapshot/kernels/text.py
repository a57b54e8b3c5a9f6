"""Rows with a key (namespace, name): check their order, sort, search and copy them.

Keys are compared by namespace rank, then bytewise by name. Twin: tests/reference/snapshot/text.py.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.compiled.decorators import inner_kernel, kernel
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, Text, UInt8


class Keys(NamedTuple):
    """P keys. namespace : int32[P] ranks; data : uint8[B]; offsets : int64[P+1] of the names in `data`."""

    namespace: Int32
    data: UInt8
    offsets: Int64


@inner_kernel
def compare(a: Keys, i: int, b: Keys, j: int) -> int:
    """Return -1, 0 or 1: key i of `a` is smaller than, equal to or greater than key j of `b`. O(bytes)."""
    if a.namespace[i] != b.namespace[j]:
        return -1 if a.namespace[i] < b.namespace[j] else 1
    start_a, start_b = a.offsets[i], b.offsets[j]
    size_a, size_b = a.offsets[i + 1] - start_a, b.offsets[j + 1] - start_b
    # Unsigned indices need no test for negative ones.
    first_a, first_b = np.uint64(start_a), np.uint64(start_b)
    for k in range(np.uint64(min(size_a, size_b))):
        x, y = a.data[first_a + k], b.data[first_b + k]
        if x != y:
            return -1 if x < y else 1
    if size_a == size_b:
        return 0
    return -1 if size_a < size_b else 1


@kernel
def first_not_ascending(keys: Keys) -> int:
    """Return the first row whose key is not greater than that of the row before, or -1. O(bytes)."""
    for i in range(1, len(keys.namespace)):
        if compare(keys, i - 1, keys, i) >= 0:
            return i
    return -1


@kernel
def sort(keys: Keys, order: Int64, scratch: Int64) -> int:
    """Fill `order` : int64[P] with the rows by ascending key; equal keys keep their order. O(P log P) comparisons.

    `scratch` : int64[P]. Merges runs of 1, 2, 4, … rows. Returns P.
    """
    count = len(keys.namespace)
    for i in range(count):
        order[i] = i
    width = 1
    while width < count:
        for start in range(0, count, 2 * width):
            middle = min(start + width, count)
            end = min(start + 2 * width, count)
            of_first, right = start, middle
            for k in range(start, end):
                if of_first < middle and (right >= end or compare(keys, order[of_first], keys, order[right]) <= 0):
                    scratch[k] = order[of_first]
                    of_first += 1
                else:
                    scratch[k] = order[right]
                    right += 1
        for k in range(count):
            order[k] = scratch[k]
        width *= 2
    return count


@kernel
def locate(keys: Keys, wanted: Keys, position: Int64, is_there: Bool) -> int:
    """Find for each of C wanted keys the first row of ascending `keys` that is not smaller, and whether it is equal.

    position : int64[C], is_there : bool[C] are filled. Returns how many were found. A search starts where the last one
    ended if the wanted keys ascend, with growing steps: O(C log(P / C)) comparisons, O(C log P) for any order.
    """
    count, total = 0, len(keys.namespace)
    for c in range(len(wanted.namespace)):
        low = position[c - 1] if c > 0 and compare(wanted, c - 1, wanted, c) <= 0 else 0
        high, step = low, 1
        while high < total and compare(keys, high, wanted, c) < 0:
            low = high + 1
            high += step
            step *= 2
        high = min(high, total)
        while low < high:
            middle = (low + high) // 2
            if compare(keys, middle, wanted, c) < 0:
                low = middle + 1
            else:
                high = middle
        position[c] = low
        is_there[c] = low < total and compare(keys, low, wanted, c) == 0
        count += is_there[c]
    return count


@inner_kernel
def _copy(source: UInt8, offset: int, target: UInt8, start: int, size: int) -> None:
    """Copy bytes. Unsigned indices need no test for negative ones, which would prevent vectorisation."""
    first, last = np.uint64(offset), np.uint64(start)
    for k in range(np.uint64(size)):
        target[last + k] = source[first + k]


@kernel
def gather(first: Text, second: Text, source: Int64, out: Text) -> int:
    """Copy texts: row i of `out` is row source[i] of `first`, or of `second` for those from len(first) on.

    source : int64[Q]; out.offsets : int64[Q+1] is filled in already, out.data has their bytes. Consecutive rows of a
    source are copied at once. Returns Q. O(bytes).
    """
    size = len(first.offsets) - 1
    count = len(source)
    i = 0
    while i < count:
        row = source[i]
        end = i + 1
        limit = size if row < size else size + len(second.offsets) - 1
        while end < count and source[end] == row + (end - i) and source[end] < limit:
            end += 1
        start, stop = out.offsets[i], out.offsets[end]
        if row < size:
            _copy(first.data, first.offsets[row], out.data, start, stop - start)
        else:
            _copy(second.data, second.offsets[row - size], out.data, start, stop - start)
        i = end
    return count
