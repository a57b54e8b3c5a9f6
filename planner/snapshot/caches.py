"""Caches: the two that the service passes in, with typed keys (values of one snapshot, and encoded bytes), and the one
bounded by memory that it is built on.

The pure packages keep nothing themselves. An answer never depends on what a cache holds: a value is computed from its
snapshot and its key alone, and only read once it is there. Sizes in bytes, estimated. Not thread-safe: the service
holds a lock around each call.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from sys import getsizeof
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
import numpy as np

from trimtab.planner.snapshot.columns import Snapshot

T = TypeVar("T")
V = TypeVar("V")
_ROW_BYTES = 200
"""Approximate size of an object without its attributes."""
_ITEM_BYTES = 40
"""Size of an item without its content: a pointer and an object header."""
_WRITTEN_FACTOR = 4
"""Memory over encoded size: a name of 20 characters takes 21 bytes encoded, 77 as an object in a tuple."""
_CONTAINERS = (Mapping, tuple, list, set, frozenset)
_SMALL = 64
"""Containers with more items than this are tables of rows; smaller ones may hold anything."""


@dataclass(frozen=True)
class SnapshotKey(Generic[T]):
    """The key of a value of type T of a snapshot. Each kind of value has a class of its own, whose fields are all that
    the value depends on besides the snapshot; a class always goes with the same computation.
    """


@dataclass(frozen=True)
class SuccessorKey(SnapshotKey[T]):
    """A key whose value is also found with the next snapshot of the same line, until that has a value of its own."""


@dataclass(frozen=True)
class ContentKey:
    """The key of encoded bytes: its fields identify every input of theirs, the snapshot's version included."""


class SnapshotCache(Protocol):
    """Values of one snapshot. They are shared between concurrent calls and never written."""

    def get(self, key: SnapshotKey[T], snapshot: Snapshot, compute: Callable[[Snapshot], T]) -> T:
        """Return the value of a key, computed once.

        compute : is given a view of the snapshot that records what is read (`trimtab.planner.snapshot.recorded_reads`),
        and must read nothing else of it; it may get other values from this cache for the view, and then depends on what
        they depend on. If a delta changes nothing that was read, the value is also that of the new snapshot.
        """

    def find(self, key: SuccessorKey[T]) -> T | None:
        """Return the value put under a key, of this snapshot or else of its base. None = there is none. Whatever it is,
        an answer must be as if it were None.
        """

    def put(self, key: SuccessorKey[T], value: T) -> None:
        """Keep a value in place of the one before."""


class KeyedCache(Protocol):
    """Encoded bytes by what they encode, bounded by memory: entries may be evicted at any time."""

    def get(self, key: ContentKey, write: Callable[[], bytes]) -> bytes:
        """Return the bytes of a key, stored or written."""


class _NoSnapshotCache:
    """Keeps nothing."""

    def get(self, key: SnapshotKey[T], snapshot: Snapshot, compute: Callable[[Snapshot], T]) -> T:  # noqa: ARG002
        """Return the value, computed."""
        return compute(snapshot)

    def find(self, key: SnapshotKey[T]) -> Any:  # noqa: ARG002
        """Return None."""
        return None

    def put(self, key: SnapshotKey[T], value: T) -> None:
        """Drop the value."""


class _NoKeyedCache:
    """Keeps nothing."""

    def get(self, key: ContentKey, write: Callable[[], bytes]) -> bytes:  # noqa: ARG002
        """Return the bytes, written."""
        return write()


UNCACHED: Final[SnapshotCache] = _NoSnapshotCache()
WRITE_ALWAYS: Final[KeyedCache] = _NoKeyedCache()


class LeastRecentlyUsed(Generic[V]):
    """Values by key, at most `limit` bytes in total."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self._entries: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> V | None:
        """Return a value and mark it as used, or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: Hashable, value: V, size: int) -> None:
        """Store a value as the most recently used one; it replaces an older one with the same key.

        A value larger than the limit is not stored.
        """
        _, before = self._entries.pop(key, (None, 0))
        self.size -= before
        if size > self.limit:
            return
        self._entries[key] = (value, size)
        self.size += size
        while self.size > self.limit:
            _, (_, freed) = self._entries.popitem(last=False)
            self.size -= freed


Parts = dict[int, int]
"""Bytes by identity of the array, buffer or container that occupies them; other objects count with their container."""


def size_of(*values: object) -> int:
    """Return the approximate size of objects in bytes: arrays, bytes and texts exactly, rows of tables by content.

    Fields of named tuples, dataclasses and other objects are counted one by one, and so are the items of small
    containers. A view of an array counts as all the memory that it keeps alive; an object that is held several times
    counts once. O(arrays + texts).
    """
    parts: Parts = {}
    return sum(_add(value, parts) for value in values) + sum(parts.values())


class Sizes:
    """Measures objects that never change; parts that were measured the last time are not measured again.

    before : an earlier one, whose measurements are taken over. Not thread-safe.
    """

    def __init__(self, before: "Sizes | None" = None) -> None:
        # Keeps the objects alive, so that none of their identities is reused.
        self._measured: dict[int, tuple[object, Parts]] = dict(before._measured) if before else {}

    def size_of(self, *values: object) -> int:
        """Return the same as `size_of`. O(arrays and containers in named tuples), besides what is measured first."""
        known, self._measured = self._measured, {}
        own = sum(self._measure(value, known) for value in values)
        parts: Parts = {}
        for _, more in self._measured.values():
            parts.update(more)
        return own + sum(parts.values())

    def _measure(self, value: object, known: dict[int, tuple[object, Parts]]) -> int:
        """Note the parts of a value, field by field; return its bytes if it is counted with its container, else 0."""
        if id(value) in self._measured:
            return 0
        fields: tuple[object, ...] | None = value if isinstance(value, tuple) and hasattr(value, "_fields") else None
        if fields is not None:
            own = _ITEM_BYTES * len(fields) + sum(self._measure(one, known) for one in fields)
            self._measured[id(value)] = (value, {id(value): own})
            return 0
        if id(value) in known:
            self._measured[id(value)] = known[id(value)]
            return 0
        parts: Parts = {}
        own = _add(value, parts)
        if parts:
            self._measured[id(value)] = (value, parts)
        return own


def _add(value: object, parts: Parts) -> int:
    """Add the parts of a value that are not there yet; return its bytes if it is counted with its container, else 0.

    `parts` holds identities of objects that stay alive while it is used.
    """
    if isinstance(value, bytes | str):
        return getsizeof(value)
    if isinstance(value, np.ndarray):
        _add_array(value, parts)
        return 0
    if not (isinstance(value, _CONTAINERS) or hasattr(value, "__dict__")):
        return _ITEM_BYTES
    if id(value) in parts:
        return 0
    parts[id(value)] = 0
    if isinstance(value, Mapping):
        own = _add_items(tuple(value.keys()), parts) + _add_items(tuple(value.values()), parts)
    elif isinstance(value, Collection):
        own = _add_items(value, parts)
    else:
        own = _ROW_BYTES + sum(_add(one, parts) for one in vars(value).values())
    parts[id(value)] = own
    return 0


def _add_array(array: np.ndarray[Any, Any], parts: Parts) -> None:
    """Add the bytes that an array keeps in memory: its own, or those of the array or buffer that it views."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    parts.setdefault(id(array if array.base is None else array.base), int(array.nbytes))


def _add_items(items: Collection[object], parts: Parts) -> int:
    if hasattr(items, "_fields") or len(items) <= _SMALL:
        return _ITEM_BYTES * len(items) + sum(_add(one, parts) for one in items)
    return _size_of_rows(items, parts)


def _size_of_rows(rows: Collection[object], parts: Parts) -> int:
    """Return the approximate size of many rows: four times their encoded size, which compiled code computes fast."""
    try:
        return _ITEM_BYTES * len(rows) + _WRITTEN_FACTOR * len(msgspec.msgpack.encode(tuple(rows)))
    except (TypeError, OverflowError, NotImplementedError):
        return _ITEM_BYTES * len(rows) + sum(_add(one, parts) for one in rows)
