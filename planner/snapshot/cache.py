"""A cache bounded by memory: what was not used for longest goes first.

Decides what is kept; never whether an answer may depend on it: it may not. Not for several threads at a time: the
service holds a lock around each call. Sizes in bytes, as the caller estimates them.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from typing import Generic, TypeVar

import numpy as np

V = TypeVar("V")
_ROW_BYTES = 200
"""What a row of Python objects takes, about: a name with its string object, or a tuple of a few values."""
_SMALL = 64
"""Containers of at most so many items are no tables of rows: they may hold anything."""


class LeastRecentlyUsed(Generic[V]):
    """Values by key, of at most `limit` bytes together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self._entries: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> V | None:
        """Return a value and count it as used, or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: Hashable, value: V, size: int) -> None:
        """Keep a value, as the one used last, in place of an older one with its key.

        One that is larger than the limit by itself is not kept.
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


def size_of(value: object) -> int:
    """Return about how many bytes an object takes: arrays exactly, rows of tables at a flat rate.

    Fields of named tuples and dataclasses are counted one by one, and so are the items of small containers. O(arrays).
    """
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, bytes):
        return _ROW_BYTES + len(value)
    if is_dataclass(value):
        return _ROW_BYTES + sum(size_of(getattr(value, one.name)) for one in fields(value))
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, tuple | list | set | frozenset):
        if hasattr(value, "_fields") or len(value) <= _SMALL:
            return sum(size_of(item) for item in value)
        return _ROW_BYTES * len(value)
    return _ROW_BYTES
