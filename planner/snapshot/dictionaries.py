"""Strings and label sets in canonical form: sorted, without duplicates, renumbered; bounds of sets in one column.

Decides the numbering; returns the new dictionary and the new number of each old entry. Cost: O(entries), and a sort of
the distinct ones. Raises SnapshotError. Every offsets column of a message is checked here before it is used as an
index. That check compares and never subtracts, as differences of int32 wrap, and returns the fault instead of raising:
a bad snapshot is refused, a bad state is ignored.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from trimtab.planner.model.values import MountedVolume, PodRequirements
from trimtab.planner.snapshot.checks import SnapshotError, check_index, read_column
from trimtab.planner.snapshot.columns import Int32, Int64, LabelSets
from trimtab.v1 import snapshot_pb2 as pb


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


_encode = msgspec.msgpack.Encoder().encode


def encoded(value: object) -> bytes:
    """Return the bytes of a value."""
    try:
        return _encode(value)
    except OverflowError:
        return repr(value).encode()


_Value = TypeVar("_Value", PodRequirements, MountedVolume)
_Key = TypeVar("_Key")
FIRST_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")
CPU, MEMORY = 0, 1
"""Positions in `Snapshot.resources`, which begins with `FIRST_RESOURCES`."""


def read_strings(message: pb.ClusterSnapshot) -> list[str]:
    """Return the string table; an empty one becomes [""]."""
    strings = list(message.strings)
    if strings and strings[0]:
        raise SnapshotError("strings", 0, "", f'element 0 is {strings[0]!r}; it must be ""')
    return strings or [""]


def read_label_sets(message: pb.LabelSets, strings: Sequence[str]) -> LabelSets:
    """Return the label sets as numbered in the message, checked except for duplicate keys."""
    table = "label_sets"
    if len(message.offsets) <= 4 and not message.keys and not message.values:
        return LabelSets(np.zeros(2, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int32))
    offsets = read_column(message.offsets, np.int32, len(message.offsets) // 4, table, "offsets")
    keys = read_column(message.keys, np.int32, len(message.keys) // 4, table, "keys")
    values = read_column(message.values, np.int32, len(keys), table, "values")
    if fault := find_offsets_fault(offsets, len(keys)):
        raise SnapshotError(table, fault.row, "offsets", fault.problem)
    if len(offsets) < 2 or offsets[1] != 0:
        raise SnapshotError(table, 0, "offsets", "label set 0 must be empty: the offsets must begin with 0, 0")
    check_index(keys, len(strings), table, "keys", "strings")
    check_index(values, len(strings), table, "values", "strings")
    used = np.zeros(len(strings), np.bool_)
    used[keys] = True
    for empty in (i for i in np.flatnonzero(used).tolist() if not strings[i]):
        entry = int(np.flatnonzero(keys == empty)[0])
        row = int(np.searchsorted(offsets, entry, "right")) - 1
        raise SnapshotError(table, row, "keys", "a key is empty; give the label's key")
    return LabelSets(offsets, keys, values)


def canonical_strings(strings: Sequence[str], used: Sequence[Int32]) -> tuple[tuple[str, ...], Int32]:
    """Return (the strings that the index columns `used` refer to, sorted; the new index of each old one or -1)."""
    mask = np.zeros(len(strings), np.bool_)
    for column in used:
        mask[column] = True
    rows = np.flatnonzero(mask)
    moved = np.full(len(strings), -1, np.int32)
    distinct, moved[rows] = numbered([strings[i] for i in rows.tolist()])
    return tuple(distinct), moved


def canonical_label_sets(sets: LabelSets, moved: Int32) -> tuple[LabelSets, Int32]:
    """Return (label sets over the new strings, sorted, each once; the new index of each old set : int32[L]).

    moved : int32[strings], the new index of each string, which orders the entries of a set by key.
    """
    count = len(sets.offsets) - 1
    keys, values = moved[sets.keys], moved[sets.values]
    owner = np.repeat(np.arange(count, dtype=np.int64), np.diff(sets.offsets))
    place = (owner << 32) | keys
    if (np.diff(place) <= 0).any():
        order = np.argsort(place, kind="stable")
        place, keys, values = place[order], keys[order], values[order]
        if (twice := np.flatnonzero(np.diff(place) == 0)).size:
            raise SnapshotError("label_sets", int(owner[twice[0]]), "keys", "a key is given twice; give each key once")
    distinct, moved_sets = numbered(encoded_sets(LabelSets(sets.offsets, keys, values)), [b""])
    return decoded_sets(distinct), moved_sets


def encoded_sets(sets: LabelSets) -> list[bytes]:
    """Return each set as bytes, which compare as the sets do: big-endian numbers. A dictionary finds duplicates."""
    entries = np.empty((len(sets.keys), 2), ">i4")
    entries[:, 0], entries[:, 1] = sets.keys, sets.values
    blob, bounds = entries.tobytes(), (sets.offsets.astype(np.int64) * 8).tolist()
    return [blob[start:end] for start, end in pairwise(bounds)]


def decoded_sets(rows: Sequence[bytes]) -> LabelSets:
    """Undo `encoded_sets`."""
    entries = np.frombuffer(b"".join(rows), ">i4").reshape(-1, 2)
    sizes = np.fromiter((len(row) // 8 for row in rows), np.int32, len(rows))
    keys, values = (np.ascontiguousarray(entries[:, i], dtype=np.int32) for i in (0, 1))
    return LabelSets(offsets_of(sizes).astype(np.int32), keys, values)


def canonical_values(values: Sequence[_Value]) -> tuple[tuple[_Value, ...], Int32]:
    """Return (the distinct values in the order of their encodings; the new index of each old one)."""
    codes = [encoded(value) for value in values]
    by_code = dict(zip(codes, values, strict=True))
    distinct, moved = numbered(codes)
    return tuple(by_code[code] for code in distinct), moved


def check_volumes(volumes: Sequence[MountedVolume]) -> Sequence[MountedVolume]:
    """Return the same volumes. Refuses two that have one id but differ."""
    volume_of_id: dict[str, MountedVolume] = {}
    for row, volume in enumerate(volumes):
        if volume_of_id.setdefault(volume.id, volume) != volume:
            raise SnapshotError(
                "volumes", row, "id", f"{volume.id!r} is given before with different content; give each volume once"
            )
    return volumes


def read_resources(message: pb.ClusterSnapshot) -> list[str]:
    """Return the names of resources as numbered in the message."""
    names = list(message.resources)
    first_index: dict[str, int] = {}
    for row, name in enumerate(names):
        if not name:
            raise SnapshotError("resources", row, "", "the name is empty; name the resource")
        if first_index.setdefault(name, row) != row:
            raise SnapshotError(
                "resources", row, "", f"{name!r} is also row {first_index[name]}; give each resource once"
            )
    return names


def canonical_resources(names: Sequence[str]) -> tuple[str, ...]:
    """Return `FIRST_RESOURCES`, then the others sorted."""
    return FIRST_RESOURCES + tuple(sorted(set(names) - set(FIRST_RESOURCES)))


def numbered(values: Sequence[Any], always: Iterable[Any] = ()) -> tuple[list[Any], Int32]:
    """Return (the distinct values sorted, with those that are there always; the number of each value)."""
    distinct = sorted({*always, *values})
    number = dict(zip(distinct, range(len(distinct)), strict=True))
    return distinct, np.fromiter(map(number.__getitem__, values), np.int32, len(values))


def row_of_key(keys: Iterable[_Key]) -> dict[_Key, int]:
    """Return the row of each key."""
    return {key: row for row, key in enumerate(keys)}


def places_in(order: Int64) -> Int32:
    """Return the place of each row in an order of all rows."""
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return place


def offsets_of(sizes: Int32) -> Int64:
    """Return int64[n + 1] offsets of texts or sets of the given sizes : int32[n]."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets
