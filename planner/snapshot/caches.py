"""The two caches that the service passes in, with typed keys: values of one snapshot, and encoded bytes.

The pure packages keep nothing themselves. An answer never depends on what a cache holds: a value is computed from its
snapshot and its key alone, and only read once it is there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from trimtab.planner.snapshot.columns import Snapshot

T = TypeVar("T")


@dataclass(frozen=True)
class SnapshotKey(Generic[T]):
    """The key of a value of type T of a snapshot. Each kind of value has a class of its own, whose fields are all that
    the value depends on besides the snapshot; a class always goes with the same computation.
    """


@dataclass(frozen=True)
class LatestKey(SnapshotKey[T]):
    """A key of which only the value put last is kept with a snapshot, whatever the fields of the others."""


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

    def find(self, key: LatestKey[T] | SuccessorKey[T]) -> T | None:
        """Return the value put under a key; of a `SuccessorKey`, of this snapshot or else of its base. None = there is
        none. Whatever it is, an answer must be as if it were None.
        """

    def put(self, key: LatestKey[T] | SuccessorKey[T], value: T) -> None:
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
