"""Number equal rows equally, vectorised; all classes are built on this. Contract: exact (every hash is verified);
numbers follow first appearance or the key, never a hash. No knowledge of pods or nodes. Source: own.
"""

from collections.abc import Hashable
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.snapshot.columns import Int32, Int64

_LARGEST_KEY = 1 << 62
_TABLE_FLOOR = 1 << 20
"""Up to this range of keys (or four times the rows) a table is faster than sorting."""


class Grouping(NamedTuple):
    """`of` : int32[rows] group of each row; `first` : int64[groups] first row of each group, the representative."""

    of: Int32
    first: Int64

    @property
    def size(self) -> int:
        """The number of groups."""
        return len(self.first)


def group_keys(keys: Int64, size: int) -> Grouping:
    """Number distinct keys in ascending order. keys : int64[rows], 0 <= key < size. O(rows) or O(rows log rows)."""
    rows = len(keys)
    if size > max(_TABLE_FLOOR, 4 * rows):
        _, first, of = np.unique(keys, return_index=True, return_inverse=True)
        return Grouping(of.astype(np.int32).reshape(-1), first.astype(np.int64))
    seen = np.zeros(size, np.bool_)
    seen[keys] = True
    present = np.flatnonzero(seen)
    number = np.empty(size, np.int32)
    number[present] = np.arange(len(present), dtype=np.int32)
    group = number[keys]
    return Grouping(group, first_rows(group, len(present)))


def first_rows(group: Int32, count: int) -> Int64:
    """Return the first row of each group : int64[count]. group : int32[rows]."""
    first = np.empty(count, np.int64)
    # If an index repeats, numpy keeps the last value written: in reverse order, that is the first row.
    first[group[::-1]] = np.arange(len(group) - 1, -1, -1, dtype=np.int64)
    return first


def group_columns(columns: list[tuple[NDArray[np.int_] | Int32 | Int64, int]]) -> Grouping:
    """Number distinct rows of several columns. columns : (int[rows], size) with 0 <= value < size, at least one.

    Groups ascend by the columns, the first one leading.
    """
    key = columns[0][0].astype(np.int64)
    size = max(columns[0][1], 1)
    for values, range_size in columns[1:]:
        if size * max(range_size, 1) >= _LARGEST_KEY:
            groups = group_keys(key, size)
            key, size = groups.of.astype(np.int64), max(groups.size, 1)
        key = key * max(range_size, 1) + values
        size *= max(range_size, 1)
    return group_keys(key, size)


def group_rows(matrix: Int32) -> Grouping:
    """Number distinct rows of a matrix in order of first appearance. matrix : int32[rows, columns]."""
    rows, width = matrix.shape
    if width == 0 or rows == 0:
        return Grouping(np.zeros(rows, np.int32), np.zeros(min(rows, 1), np.int64))
    # Odd multipliers of a fixed sequence: a row's hash is its dot product, wrapping at 64 bits.
    steps = np.arange(1, width + 1, dtype=np.uint64)
    multipliers = (steps * np.uint64(0x9E3779B97F4A7C15)) ^ (steps << np.uint64(31)) | np.uint64(1)
    hashes = np.zeros(rows, np.uint64)
    for column in range(width):
        hashes += (matrix[:, column].astype(np.int64).view(np.uint64) + np.uint64(1)) * multipliers[column]
    _, first, of = np.unique(hashes, return_index=True, return_inverse=True)
    of = of.reshape(-1)
    if not np.array_equal(matrix[first[of]], matrix):  # hash collision: sort the rows
        _, first, of = np.unique(matrix, axis=0, return_index=True, return_inverse=True)
        of = of.reshape(-1)
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return Grouping(rank[of], first[order].astype(np.int64))


_Value = TypeVar("_Value", bound=Hashable)


def number_values(values: list[_Value]) -> tuple[Int32, list[_Value]]:
    """Number distinct values in order of first appearance: (int32[len(values)], distinct values)."""
    numbers: dict[_Value, int] = {}
    of = np.fromiter((numbers.setdefault(value, len(numbers)) for value in values), np.int32, len(values))
    return of, list(numbers)
