"""Offsets: the bounds of sets within one column of entries.

Every offsets column of a message is checked here before it is used as an index. The check compares and never subtracts:
differences of int32 wrap. It returns the fault instead of raising: a bad snapshot is refused, a bad state is ignored.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.snapshot.columns import Int32, Int64


class OffsetsFault(NamedTuple):
    """The first wrong offset, by its row, and its problem."""

    row: int
    problem: str


def find_offsets_fault(offsets: Int32, entry_count: int) -> OffsetsFault | None:
    """Return why `offsets` : int32[sets + 1] do not partition `entry_count` entries, None if they do. O(sets).

    Valid offsets begin with 0, end with `entry_count`, stay in this range and never decrease. The range is checked
    first.
    """
    wide = offsets.astype(np.int64)
    if not len(wide):
        return OffsetsFault(0, "there is none; n sets have n + 1 offsets")
    if (outside := np.flatnonzero((wide < 0) | (wide > entry_count))).size:
        row = int(outside[0])
        return OffsetsFault(row, f"{int(wide[row])} is outside the {entry_count} entries")
    if wide[0] != 0:
        return OffsetsFault(0, f"the first is {int(wide[0])}; it must be 0")
    if (falls := np.flatnonzero(wide[1:] < wide[:-1])).size:
        return OffsetsFault(int(falls[0]), "the next offset is smaller; offsets must ascend")
    if wide[-1] != entry_count:
        return OffsetsFault(len(wide) - 1, f"they end at {int(wide[-1])}, but there are {entry_count} entries")
    return None


def entries_of(offsets: Int32 | Int64, rows: Int32 | Int64) -> Int64:
    """Return the entries of some sets, one set after the other. int64. offsets : valid ones; rows : the sets. O(sets +
    entries).
    """
    first = offsets[rows].astype(np.int64)
    sizes = offsets[rows + 1] - first
    entries: Int64 = np.arange(int(sizes.sum())) + np.repeat(first - np.cumsum(sizes) + sizes, sizes)
    return entries
