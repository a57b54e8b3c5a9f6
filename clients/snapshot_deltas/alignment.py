"""Which pods of two tables are the same, by (namespace, name).

Decides by comparing runs of rows at once: from one snapshot to the next most rows stay where they were among their
neighbours. Cost: O(bytes) compared in bulk, and some 20 us for each pod that came or went. Needs both tables in the
same order, that of the contract: (namespace, name), bytewise.
"""

from typing import NamedTuple

import numpy as np

from clients.snapshot_deltas.interning import Int64, PodColumns

_FIRST_WINDOW, _LARGEST_WINDOW = 256, 8192


class Alignment(NamedTuple):
    """before, after : int64 rows of the pods that both have; other_uid : rows of `after` among them whose uid differs;

    gone, new : rows of the pods that only one side has.
    """

    before: Int64
    after: Int64
    other_uid: list[int]
    gone: list[int]
    new: list[int]


def align(before: PodColumns, after: PodColumns, names: list[str], most: int) -> Alignment | None:
    """Return which rows are the same pods, or None when more than `most` came or went, or a table is not in order.

    names : string of each interned number.
    """
    sides = (len(before.namespace), len(after.namespace))
    i = j = 0
    runs: list[tuple[int, int, int]] = []
    other_uid: list[int] = []
    gone: list[int] = []
    new: list[int] = []
    while i < sides[0] and j < sides[1]:
        length = _run(before, i, after, j, min(sides[0] - i, sides[1] - j))
        if length:
            runs.append((i, j, length))
            i, j = i + length, j + length
            continue
        one, other = _key(before, i, names), _key(after, j, names)
        if one == other:
            runs.append((i, j, 1))
            other_uid.append(j)
        elif one < other:
            gone.append(i)
        else:
            new.append(j)
        i, j = i + (one <= other), j + (other <= one)
        if len(gone) + len(new) + len(other_uid) > most:
            return None
    gone.extend(range(i, sides[0]))
    new.extend(range(j, sides[1]))
    if len(gone) + len(new) > most or not _disjoint(before, gone, after, new):
        return None
    starts = np.array(runs, np.int64).reshape(-1, 3)
    inside = np.arange(starts[:, 2].sum()) - np.repeat(np.cumsum(starts[:, 2]) - starts[:, 2], starts[:, 2])
    first, second = (np.repeat(starts[:, side], starts[:, 2]) + inside for side in (0, 1))
    return Alignment(first, second, other_uid, gone, new)


def _disjoint(before: PodColumns, gone: list[int], after: PodColumns, new: list[int]) -> bool:
    """Whether no pod that went came again: it would, if the tables were not in the same order."""
    went = {(int(before.namespace[i]), _name(before, i)) for i in gone}
    return not any((int(after.namespace[j]), _name(after, j)) in went for j in new)


def _run(before: PodColumns, i: int, after: PodColumns, j: int, most: int) -> int:
    """Return how many rows from i and j on have equal keys and uids."""
    length, window = 0, _FIRST_WINDOW
    while length < most:
        size = min(window, most - length)
        same = _same(before, i + length, after, j + length, size)
        length += same
        if same < size:
            break
        window = min(2 * window, _LARGEST_WINDOW)
    return length


def _same(before: PodColumns, i: int, after: PodColumns, j: int, size: int) -> int:
    """Return how many of the next `size` rows are equal. Compares lengths first, then bytes."""
    differs = before.namespace[i : i + size] != after.namespace[j : j + size]
    differs |= before.name_lengths[i : i + size] != after.name_lengths[j : j + size]
    differs |= before.uid_lengths[i : i + size] != after.uid_lengths[j : j + size]
    first = int(differs.argmax())
    same = first if differs[first] else size
    for text, offsets in (("names", "name_offsets"), ("uids", "uid_offsets")):
        a, b = getattr(before, offsets), getattr(after, offsets)
        one, other = getattr(before, text), getattr(after, text)
        unequal = one[a[i] : a[i + same]] != other[b[j] : b[j + same]]
        if same and (at := int(unequal.argmax())) >= 0 and unequal[at]:
            same = int(np.searchsorted(a, a[i] + at, "right")) - 1 - i
    return same


def _name(pods: PodColumns, row: int) -> bytes:
    return pods.names[pods.name_offsets[row] : pods.name_offsets[row + 1]].tobytes()


def _key(pods: PodColumns, row: int, names: list[str]) -> tuple[str, bytes]:
    return names[pods.namespace[row]], _name(pods, row)
