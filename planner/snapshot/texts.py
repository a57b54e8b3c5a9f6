"""Texts of a snapshot: columns of them, checked and ordered, and rows found by name: strings and nodes in sorted
tuples, pods by "namespace/name".

Reading columns raises SnapshotError with the row of the message. Looking up never raises: a missing name has index -1,
or `found` False. Loops over rows only in kernels.
"""

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from trimtab.planner.snapshot.checks import WHOLE_TABLE, SnapshotError, check_range, read_column, read_optional
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, Snapshot, Text
from trimtab.planner.snapshot.dictionaries import offsets_of
from trimtab.planner.snapshot.kernels import text as kernels

LONGEST_NAME = 253


def string_index(strings: Sequence[str], text: str) -> int:
    """Return the index of a string in a sorted sequence, -1 if it is missing. O(log n)."""
    at = bisect_left(strings, text)
    return at if at < len(strings) and strings[at] == text else -1


def find_pods(snapshot: Snapshot, keys: Sequence[str]) -> tuple[Int64, Bool]:
    """Return (row : int64[C], found : bool[C]) of pods "namespace/name"; a row is valid only if it was found.

    O(C log P) comparisons, in a kernel.
    """
    split = [key.partition("/") for key in keys]
    names = [name.encode() for _, _, name in split]
    rank = {namespace: string_index(snapshot.strings, namespace) for namespace in {parts[0] for parts in split}}
    namespace = np.fromiter((rank[parts[0]] for parts in split), np.int32, len(keys))
    sizes = np.fromiter(map(len, names), np.int32, len(keys))
    wanted = kernels.Keys(namespace, np.frombuffer(b"".join(names), np.uint8).copy(), offsets_of(sizes))
    return locate(keys_of(snapshot, snapshot.pods.namespace), wanted)


def keys_of(snapshot: Snapshot, namespace: Int32) -> kernels.Keys:
    """Return the keys of a snapshot's pods. namespace : int32[P], as numbered by the caller."""
    return kernels.Keys(namespace, snapshot.pods.name.data, snapshot.pods.name.offsets)


def locate(keys: kernels.Keys, wanted: kernels.Keys) -> tuple[Int64, Bool]:
    """Return (first row not smaller than each wanted key : int64[C], whether it is equal : bool[C])."""
    count = len(wanted.namespace)
    position, is_there = np.empty(count, np.int64), np.empty(count, np.bool_)
    kernels.locate(keys, wanted, position, is_there)
    return position, is_there


class TextColumn:
    """A column of `count` texts of a table, in the fields `field` and `lengths_field`."""

    def __init__(self, table: str, field: str, lengths_field: str, count: int) -> None:
        self._table, self._field, self._lengths_field, self._count = table, field, lengths_field, count

    def read(self, data: bytes, sizes: bytes, longest: int = LONGEST_NAME, *, may_be_empty: bool = False) -> Text:
        """Return checked texts: sizes in range, their sum the number of bytes, valid UTF-8 in each.

        may_be_empty : each text, and the column of lengths.
        """
        table, lengths_field = self._table, self._lengths_field
        read = read_optional if may_be_empty else read_column
        lengths = read(sizes, np.int32, self._count, table, lengths_field)
        check_range(lengths, 0 if may_be_empty else 1, longest, table, lengths_field, "length in bytes")
        offsets = offsets_of(lengths)
        if offsets[-1] != len(data):
            problem = f"there are {len(data)} bytes; the lengths add up to {offsets[-1]}"
            raise SnapshotError(table, WHOLE_TABLE, self._field, problem)
        text = Text(np.frombuffer(data, np.uint8).copy(), offsets)
        if not data.isascii():
            self._check_utf8(text, data)
        return text

    def _check_utf8(self, text: Text, data: bytes) -> None:
        """Refuse the first text that is not valid UTF-8 on its own."""
        try:
            data.decode()
            starts = text.offsets[:-1][np.diff(text.offsets) > 0]
            bad = np.flatnonzero((text.data[starts] & 0xC0) == 0x80)
            at = int(starts[bad[0]]) if bad.size else WHOLE_TABLE
        except UnicodeDecodeError as error:
            at = error.start
        if at != WHOLE_TABLE:
            row = int(np.searchsorted(text.offsets, at, "right")) - 1
            raise SnapshotError(self._table, row, self._field, "this is not UTF-8; check the lengths")

    def order(self, rank: Int32, names: Text, unique: str) -> Int64 | None:
        """Return the rows in the order of (rank, name), or None where they already are. Refuses duplicates. unique :
        ends the sentence about them, such as "of the same namespace; give each pod once"."""
        keys = kernels.Keys(rank, names.data, names.offsets)
        if kernels.first_not_ascending(keys) < 0:
            return None
        order = np.empty(len(rank), np.int64)
        kernels.sort(keys, order, np.empty(len(rank), np.int64))
        ordered = take_text(names, order)
        twice = kernels.first_not_ascending(kernels.Keys(rank[order], ordered.data, ordered.offsets))
        if twice >= 0:
            first, second = int(order[twice - 1]), int(order[twice])
            problem = f"{names.get(second)!r} is also row {first} {unique}"
            raise SnapshotError(self._table, second, self._field, problem)
        return order


def take_text(text: Text, order: Int64) -> Text:
    """Return the strings in another order. order : int64[Q]."""
    return gather_text(text, Text(text.data[:0], text.offsets[:1]), order)


def gather_text(first: Text, second: Text, source: Int64) -> Text:
    """Return string source[i] of `first`, or of `second` for those from len(first) on. source : int64[Q]."""
    sizes = np.concatenate((np.diff(first.offsets), np.diff(second.offsets)))[source]
    offsets = offsets_of(sizes)
    out = Text(np.empty(offsets[-1], np.uint8), offsets)
    kernels.gather(first, second, source, out)
    return out
