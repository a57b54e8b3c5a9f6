"""A least-recently-used cache bounded by memory.

Decides what is kept; an answer must not depend on it. Not thread-safe: the service holds a lock around each call.
Sizes in bytes, estimated by the caller.
"""

from collections import OrderedDict
from collections.abc import Collection, Hashable, Mapping
from sys import getsizeof
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np

V = TypeVar("V")
_ROW_BYTES = 200
"""Approximate size of an object without its attributes."""
_ITEM_BYTES = 40
"""Size of an item without its content: a pointer and an object header."""
_WRITTEN_FACTOR = 4
"""Memory over encoded size: a name of 20 characters takes 21 bytes encoded, 77 as an object in a tuple."""
_SMALL = 64
"""Containers with more items than this are tables of rows; smaller ones may hold anything."""


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


def size_of(*values: object) -> int:
    """Return the approximate size of objects in bytes: arrays, bytes and texts exactly, rows of tables by content.

    Fields of named tuples, dataclasses and other objects are counted one by one, and so are the items of small
    containers. A part of an array counts as all of the memory that it keeps; what is held several times counts once.
    O(arrays + texts).
    """
    seen: set[int] = set()
    return sum(_size_of(value, seen) for value in values)


def _size_of(value: object, seen: set[int]) -> int:
    """Return the size of what has not been seen; `seen` : identities of objects that live on while this runs."""
    if isinstance(value, bytes | str):
        return getsizeof(value)
    if isinstance(value, np.ndarray):
        return _size_of_array(value, seen)
    if id(value) in seen:
        return 0
    if isinstance(value, Mapping):
        seen.add(id(value))
        return _size_of_items(tuple(value.keys()), seen) + _size_of_items(tuple(value.values()), seen)
    if isinstance(value, tuple | list | set | frozenset):
        seen.add(id(value))
        return _size_of_items(value, seen)
    if hasattr(value, "__dict__"):
        seen.add(id(value))
        return _ROW_BYTES + sum(_size_of(one, seen) for one in vars(value).values())
    return _ITEM_BYTES


def _size_of_array(array: np.ndarray[Any, Any], seen: set[int]) -> int:
    """Return the bytes that an array keeps in memory: those of the array, or of the buffer, that it is a part of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    owner = id(array if array.base is None else array.base)
    if owner in seen:
        return 0
    seen.add(owner)
    return int(array.nbytes)


def _size_of_items(items: Collection[object], seen: set[int]) -> int:
    if hasattr(items, "_fields") or len(items) <= _SMALL:
        return _ITEM_BYTES * len(items) + sum(_size_of(one, seen) for one in items)
    return _size_of_rows(items, seen)


def _size_of_rows(rows: Collection[object], seen: set[int]) -> int:
    """Return the approximate size of many rows: four times their encoded size, which compiled code computes fast."""
    try:
        return _ITEM_BYTES * len(rows) + _WRITTEN_FACTOR * len(msgspec.msgpack.encode(tuple(rows)))
    except (TypeError, OverflowError, NotImplementedError):
        return _ITEM_BYTES * len(rows) + sum(_size_of(one, seen) for one in rows)
