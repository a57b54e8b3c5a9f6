"""The pod table as columns that can be compared with those of another snapshot.

Decides the layout only. Texts are not copied again; references are interned numbers. A column whose bytes equal those
of the message before is that message's object: `is` then tells that nothing in it has changed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from trimtab.v1 import snapshot_pb2 as pb

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt64 = NDArray[np.uint64]
_WINDOW: Final = 8
_ODD: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
"""Multipliers without pattern; any odd numbers give correct answers."""


T = TypeVar("T")


class Lengths(NamedTuple):
    """Lengths of concatenated texts. lengths : int32[P] in bytes; offsets : int64[P + 1] of the texts."""

    lengths: Int32
    offsets: Int64


class Texts(NamedTuple):
    """Concatenated texts. data : UTF-8; lengths : int32[P] in bytes; offsets : int64[P + 1] of the texts."""

    data: bytes
    lengths: Int32
    offsets: Int64

    @classmethod
    def of(cls, data: bytes, lengths: Int32) -> "Texts":
        """Return texts of given lengths."""
        return cls(data, *lengths_of(lengths))

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


def lengths_of(lengths: Int32) -> Lengths:
    """Return lengths with the offsets that they give."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return Lengths(lengths, offsets)


@dataclass(frozen=True)
class PodTableColumns:
    """Pods in the order of the table.

    namespace : int32[P]; columns : all other columns of P values except names and uids, with references as interned
    numbers; mounts : int64, ascending: pod row times 2^32 plus interned volume; number_places : int64, ascending: pod
    row times 2^32 plus interned key of an annotation; number_bits : int64, the bits of the number in it; received : the
    bytes of the table by field, except names and uids.
    """

    namespace: Int32
    names: Texts
    uids: Texts
    columns: tuple[NDArray[Any], ...]
    mounts: Int64
    number_places: Int64
    number_bits: Int64
    received: Mapping[str, bytes]

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


class InternedDictionaries(NamedTuple):
    """The interned number of each entry of a message's dictionaries. int32 each. `strings`, `label_sets`, `specs`,
    `volumes` : interned number by index.
    """

    strings: Int32
    label_sets: Int32
    specs: Int32
    volumes: Int32

    def extend(self, other: "InternedDictionaries") -> bool:
        """Return whether the entries of `other` have the same numbers here."""
        return all(np.array_equal(mine[: len(its)], its) for mine, its in zip(self, other, strict=True))


_NO_DICTIONARIES: Final = InternedDictionaries(*(np.zeros(0, np.int32) for _ in range(4)))


class _Received(NamedTuple):
    """Fields of the table, and what was made of them. `data` : bytes of each column."""

    data: tuple[bytes, ...]
    made: Any


class PodTableReader:
    """Reads the pod tables of consecutive messages; keeps the last one's bytes and columns."""

    def __init__(self) -> None:
        """Start with nothing kept."""
        self._count = 0
        self._dictionaries = _NO_DICTIONARIES
        self._kept: dict[str, _Received] = {}

    def read(self, table: pb.PodTable, dictionaries: InternedDictionaries) -> PodTableColumns:
        """Return the columns. Raises ValueError, IndexError for a table that breaks its contract."""
        same = table.count == self._count and dictionaries.extend(self._dictionaries)
        # Entries are added only once they are checked, so a refused table leaves nothing that is not valid.
        reading = _Reading(table, dictionaries, self._kept if same else {})
        self._count, self._dictionaries, self._kept = table.count, dictionaries, reading.kept
        return reading.columns()


class _Reading:
    """One table on its way to columns. known : by name, what the last message had; kept : the same of this one."""

    def __init__(self, table: pb.PodTable, dictionaries: InternedDictionaries, known: Mapping[str, _Received]) -> None:
        self._table, self._dictionaries, self._known = table, dictionaries, known
        self.kept: dict[str, _Received] = {}

    def columns(self) -> PodTableColumns:
        """Return the columns."""
        strings, label_sets, specs, volumes = self._dictionaries
        number_places, number_bits = self._of(
            ("number_pod", "number_key", "number"), lambda pods, keys, values: _numbers(pods, keys, values, strings)
        )
        return PodTableColumns(
            namespace=self._references("namespace", strings),
            names=self._texts("names", "name_lengths"),
            uids=self._texts("uids", "uid_lengths"),
            columns=(
                self._references("spec", specs),
                self._references("label_set", label_sets),
                self._references("node", strings),
                self._references("owner", strings),
                self._references("pinned_node", strings),
                self._references("pod_group", strings),
                self._references("nominated_node", strings),
                self._plain("created", "<i8"),
                self._plain("deletion", "<i8"),
                self._plain("phase", "u1"),
                self._plain("flags", "u1"),
                self._plain("deletion_cost", "<i4"),
            ),
            mounts=self._of(("volume_pod", "volume"), lambda pods, mounted: _mounts(pods, mounted, volumes)),
            number_places=number_places,
            number_bits=number_bits,
            received={
                field: data
                for fields, one in self.kept.items()
                if fields not in ("names", "uids")
                for field, data in zip(fields.split(), one.data, strict=True)
            },
        )

    def _of(self, fields: tuple[str, ...], make: Callable[..., T]) -> T:
        """Return what `make` makes of the bytes of some fields; the last message's object if they are equal."""
        name = " ".join(fields)
        data = tuple(getattr(self._table, field) for field in fields)
        known = self._known.get(name)
        if known is None or known.data != data:
            known = _Received(data, make(*data))
        self.kept[name] = known
        made: T = known.made
        return made

    def _plain(self, field: str, dtype: str) -> NDArray[Any]:
        return self._of((field,), lambda data: self._column(data, dtype))

    def _references(self, field: str, numbers: Int32) -> Int32:
        return self._of((field,), lambda data: numbers[self._indices(data)])

    def _texts(self, field: str, lengths_field: str) -> Texts:
        lengths = self._of((lengths_field,), lambda data: _checked_lengths(self._column(data, "<i4")))

        def make(data: bytes) -> Texts:
            if lengths.offsets[-1] != len(data):
                raise ValueError("lengths do not add up")
            return Texts(data, *lengths)

        texts = self._of((field,), make)
        # The same bytes may be cut differently.
        if texts.lengths is not lengths.lengths:
            texts = make(texts.data)
            self.kept[field] = _Received((texts.data,), texts)
        return texts

    def _column(self, data: bytes, dtype: str) -> NDArray[Any]:
        count = self._table.count
        found = np.frombuffer(data, dtype) if data else np.zeros(count, dtype)
        if len(found) != count:
            raise ValueError(f"a column has {len(found)} values for {count} pods")
        return found

    def _indices(self, data: bytes) -> NDArray[Any]:
        found = self._column(data, "<i4")
        if data and found.min() < 0:
            raise IndexError(f"{found.min()} is not an index")
        return found


def _checked_lengths(lengths: Int32) -> Lengths:
    if len(lengths) and lengths.min() < 0:
        raise ValueError("a length is negative")
    return lengths_of(lengths)


def _mounts(pods: bytes, of_pods: bytes, volumes: Int32) -> Int64:
    """Return the mounts, ascending."""
    mounted = np.frombuffer(pods, "<i4").astype(np.int64)
    return np.unique((mounted << 32) | volumes[np.frombuffer(of_pods, "<i4")])


def _numbers(pods: bytes, keys: bytes, numbers: bytes, strings: Int32) -> tuple[Int64, Int64]:
    """Return places and bits of the numbers in annotations, ascending by place."""
    having = np.frombuffer(pods, "<i4").astype(np.int64)
    key = np.frombuffer(keys, "<i4")
    if len(key) and key.min() < 0:
        raise IndexError(f"{key.min()} is not an index")
    places = (having << 32) | strings[key]
    bits = np.frombuffer(numbers, "<i8").astype(np.int64)
    if len(places) != len(bits):
        raise ValueError(f"there are {len(bits)} numbers for {len(places)} annotations")
    order = np.argsort(places, kind="stable")
    return places[order], bits[order]
