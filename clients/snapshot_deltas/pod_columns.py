"""The pod table as columns that can be compared with those of another snapshot.

Decides the layout only. Texts are not copied again; references are interned numbers.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from trimtab.v1 import snapshot_pb2 as pb

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt64 = NDArray[np.uint64]
_WINDOW: Final = 8
_ODD: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
"""Multipliers without pattern; any odd numbers give correct answers."""


@dataclass(frozen=True)
class Texts:
    """Concatenated texts. data : UTF-8; lengths : int32[P] in bytes."""

    data: bytes
    lengths: Int32

    @cached_property
    def offsets(self) -> Int64:
        """Return the offset of each text : int64[P + 1]."""
        offsets = np.zeros(len(self.lengths) + 1, np.int64)
        np.cumsum(self.lengths, out=offsets[1:])
        return offsets

    def take(self, rows: Int64) -> list[bytes]:
        """Return the texts of some rows."""
        starts, ends = self.offsets[rows].tolist(), self.offsets[rows + 1].tolist()
        return [self.data[start:end] for start, end in zip(starts, ends, strict=True)]

    def windows(self, at: Int64) -> UInt64:
        """Return the eight bytes from each offset, or the last eight; 0 where the data are shorter."""
        last = len(self.data) - _WINDOW
        if last < 0:
            return np.zeros(len(at), np.uint64)
        every: UInt64 = np.ndarray((last + 1,), "<u8", self.data, strides=(1,))
        return every[np.clip(at, 0, last)]


@dataclass(frozen=True)
class PodColumns:
    """Pods in the order of the table.

    namespace : int32[P]; columns : all other columns of P values except names and uids, with references as interned
    numbers; mounts : int64, ascending: pod row times 2^32 plus interned volume; number_places : int64, ascending: pod
    row times 2^32 plus interned key of an annotation; number_bits : int64, the bits of the number in it.
    """

    namespace: Int32
    names: Texts
    uids: Texts
    columns: tuple[NDArray[Any], ...]
    mounts: Int64
    number_places: Int64
    number_bits: Int64

    def keys(self, rows: Int64) -> list[tuple[int, bytes]]:
        """Return (namespace, name) of some rows."""
        return list(zip(self.namespace[rows].tolist(), self.names.take(rows), strict=True))

    @cached_property
    def fingerprints(self) -> UInt64:
        """Return a hash of each pod, mostly distinct: of both ends of its uid and the end of its name."""
        uids, names = self.uids, self.names
        ends = (
            names.windows(names.offsets[1:] - _WINDOW),
            uids.windows(uids.offsets[:-1]),
            uids.windows(uids.offsets[1:] - _WINDOW),
        )
        found = np.zeros(len(self.namespace), np.uint64)
        for end, odd in zip(ends, _ODD, strict=True):
            found = (found ^ end) * np.uint64(odd)
            found ^= found >> np.uint64(32)
        return found


def pod_columns(table: pb.PodTable, strings: Int32, label_sets: Int32, specs: Int32, volumes: Int32) -> PodColumns:
    """Return the columns; the arrays give the interned number of each entry of the message's dictionaries.

    Raises ValueError, IndexError for a table that breaks its contract.
    """
    count = table.count

    def column(data: bytes, dtype: str) -> NDArray[Any]:
        found = np.frombuffer(data, dtype) if data else np.zeros(count, dtype)
        if len(found) != count:
            raise ValueError(f"a column has {len(found)} values for {count} pods")
        return found

    def indices(data: bytes) -> NDArray[Any]:
        found = column(data, "<i4")
        if data and found.min() < 0:
            raise IndexError(f"{found.min()} is not an index")
        return found

    def texts(data: bytes, lengths: bytes) -> Texts:
        found = Texts(data, column(lengths, "<i4"))
        if found.offsets[-1] != len(data) or (count and found.lengths.min() < 0):
            raise ValueError("lengths do not add up")
        return found

    number_places, number_bits = _numbers(table, strings)
    mounted = np.frombuffer(table.volume_pod, "<i4").astype(np.int64)
    mounts = (mounted << 32) | volumes[np.frombuffer(table.volume, "<i4")]
    return PodColumns(
        namespace=strings[indices(table.namespace)],
        names=texts(table.names, table.name_lengths),
        uids=texts(table.uids, table.uid_lengths),
        columns=(
            specs[indices(table.spec)],
            label_sets[indices(table.label_set)],
            strings[indices(table.node)],
            strings[indices(table.owner)],
            strings[indices(table.pinned_node)],
            column(table.created, "<i8"),
            column(table.deletion, "<i8"),
            column(table.phase, "u1"),
            column(table.flags, "u1"),
            column(table.deletion_cost, "<i4"),
        ),
        mounts=np.unique(mounts),
        number_places=number_places,
        number_bits=number_bits,
    )


def _numbers(table: pb.PodTable, strings: Int32) -> tuple[Int64, Int64]:
    """Return places and bits of the numbers in annotations, ascending by place."""
    having = np.frombuffer(table.number_pod, "<i4").astype(np.int64)
    key = np.frombuffer(table.number_key, "<i4")
    if len(key) and key.min() < 0:
        raise IndexError(f"{key.min()} is not an index")
    places = (having << 32) | strings[key]
    bits = np.frombuffer(table.number, "<i8").astype(np.int64)
    if len(places) != len(bits):
        raise ValueError(f"there are {len(bits)} numbers for {len(places)} annotations")
    order = np.argsort(places, kind="stable")
    return places[order], bits[order]
