"""Lists of items for each class in compressed rows, built from bulk additions.

Contract: within a class, items keep the order in which they were added. Never holds duplicates unless given.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.snapshot.columns import Int32, Int64


class Lists(NamedTuple):
    """Items of owner i are `items[offsets[i] : offsets[i + 1]]`. offsets : int32[owners+1]; items : int32[n, width]."""

    offsets: Int32
    items: Int32


def items_of(lists: Lists, owners: Int64) -> tuple[Int64, Int32]:
    """Return the items of some owners, int32[n, …]; and for each its first number, times the number of these owners,
    plus the position of its owner. int64[n]. owners : int64[C].
    """
    lengths = np.diff(lists.offsets)[owners].astype(np.int64)
    starts = lists.offsets[owners] - np.cumsum(lengths) + lengths
    items = lists.items[np.arange(int(lengths.sum())) + np.repeat(starts, lengths)]
    return items[:, 0].astype(np.int64) * len(owners) + np.repeat(np.arange(len(owners)), lengths), items


def rows_by_number(number: Int64, row: Int64) -> list[tuple[int, ...]]:
    """Return the rows of each number. number, row : int64[n], sorted by number."""
    if not len(number):
        return []
    return [tuple(some.tolist()) for some in np.split(row, np.flatnonzero(np.diff(number)) + 1)]


class ListBuilder:
    """Collects rows of small integers for owners."""

    def __init__(self, owners: int, width: int, limits: RequestLimits = UNLIMITED) -> None:
        self._limits = limits
        self._owners = owners
        self._width = width
        self._parts: list[tuple[Int64, tuple[int, ...]]] = []

    def add(self, owners: NDArray[np.int64], *row: int) -> None:
        """Add one row to each of the owners given : int64[k]."""
        if len(owners):
            self._limits.check()
            self._limits.reserve(len(owners) * (24 + 8 * self._width), "pod classes times their terms")
            self._parts.append((owners.astype(np.int64), row))

    def build(self) -> Lists:
        """Return the lists, sorted by owner."""
        if not self._parts:
            return Lists(np.zeros(self._owners + 1, np.int32), np.zeros((0, self._width), np.int32))
        owners = np.concatenate([owners for owners, _ in self._parts])
        lengths = [len(owners) for owners, _ in self._parts]
        rows = np.repeat(np.array([row for _, row in self._parts], np.int32), lengths, axis=0)
        order = np.argsort(owners, kind="stable")
        offsets = np.zeros(self._owners + 1, np.int32)
        np.cumsum(np.bincount(owners, minlength=self._owners), out=offsets[1:])
        return Lists(offsets, np.ascontiguousarray(rows[order]))
