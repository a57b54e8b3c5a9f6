"""Lists of items for each class in compressed rows, built from bulk additions.

Contract: within a class, items keep the order in which they were added. Never holds duplicates unless given.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.model.effort import UNLIMITED, Effort
from trimtab.planner.snapshot.columns import Int32, Int64


class Lists(NamedTuple):
    """Items of owner i are `items[offsets[i] : offsets[i + 1]]`. offsets : int32[owners+1]; items : int32[n, width]."""

    offsets: Int32
    items: Int32


class ListBuilder:
    """Collects rows of small integers for owners."""

    def __init__(self, owners: int, width: int, effort: Effort = UNLIMITED) -> None:
        self._effort = effort
        self._owners = owners
        self._width = width
        self._parts: list[tuple[Int64, tuple[int, ...]]] = []

    def add(self, owners: NDArray[np.int64], *row: int) -> None:
        """Add one row to each of the owners given : int64[k]."""
        if len(owners):
            self._effort.check()
            self._effort.take(len(owners) * (24 + 8 * self._width), "pod classes times their terms")
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
