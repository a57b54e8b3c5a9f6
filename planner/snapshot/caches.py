"""Values computed from a snapshot and kept with it: their keys, the cache that the service passes in, and the view that
notes what is read while a value is computed.

The pure packages keep nothing themselves. An answer never depends on what a cache holds: a value is computed from its
snapshot and its key alone. What it depends on is noted by the view and listed nowhere: a field of `Snapshot` by its
name, a column of pods, nodes and templates with its table ("pods.spec"). Whoever reads a whole table or all of a
snapshot (by position, as a tuple, by `_replace`) depends on all of it; whoever reads the version depends on everything.

A view belongs to one computation. Reading a field for the first time after it has ended raises RuntimeError, as nobody
would learn of that dependency. Values read are those of the snapshot, never copies. Cost: a dictionary entry for each
field read; a second read of a field costs nothing. Not thread-safe: the service holds a lock around each call.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from trimtab.planner.snapshot.columns import (
    ClaimColumns,
    DanglingReferences,
    DeviceColumns,
    NodeColumns,
    PodColumns,
    SliceColumns,
    Snapshot,
)

T = TypeVar("T")


@dataclass(frozen=True)
class SnapshotKey(Generic[T]):
    """The key of a value of type T of a snapshot. Each kind of value has a class of its own, whose fields are all that
    the value depends on besides the snapshot; a class always goes with the same computation.
    """


@dataclass(frozen=True)
class SuccessorKey(SnapshotKey[T]):
    """A key whose value is also found with the next snapshot of the same line, until that has a value of its own."""


class SnapshotCache(Protocol):
    """Values of one snapshot. They are shared between concurrent calls and never written."""

    def get(self, key: SnapshotKey[T], snapshot: Snapshot, compute: Callable[[Snapshot], T]) -> T:
        """Return the value of a key, computed once.

        compute : is given a view of the snapshot that records what is read, and must read nothing else of it; it may
        get other values from this cache for the view, and then depends on what they depend on. If a delta changes
        nothing that was read, the value is also that of the new snapshot.
        """

    def find(self, key: SuccessorKey[T]) -> T | None:
        """Return the value put under a key, of this snapshot or else of its base. None = there is none. Whatever it is,
        an answer must be as if it were None.
        """

    def put(self, key: SuccessorKey[T], value: T) -> None:
        """Keep a value in place of the one before."""


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


UNCACHED: Final[SnapshotCache] = _NoSnapshotCache()
EVERYTHING: Final = "version"
"""The field that differs between any two snapshots that differ."""
_TABLES: Final = (PodColumns, NodeColumns, DanglingReferences, DeviceColumns, SliceColumns, ClaimColumns)
"""Tables whose columns are noted one by one. Label sets go to kernels and indexes as one value."""


class Reads:
    """The paths of the fields read by one computation, until it ends."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self._has_ended = False

    def note(self, path: str) -> None:
        """Note a field."""
        if self._has_ended:
            raise RuntimeError(f"{path} of a snapshot is read through a view whose computation has ended")
        self.paths.add(path)

    def end(self) -> frozenset[str]:
        """Return what was read; nothing more can be noted."""
        self._has_ended = True
        return frozenset(self.paths)


def recorded(snapshot: Snapshot, reads: Reads) -> Snapshot:
    """Return a view of a snapshot that notes what is read."""
    return cast(Snapshot, _RecordedTable(snapshot, "", reads))


def depend_on_everything(snapshot: Snapshot) -> None:
    """Note that the value being computed depends on everything: also on data that were read before."""
    getattr(snapshot, EVERYTHING)


class _RecordedTable:
    """Stands for a snapshot, or for one of its tables."""

    def __init__(self, table: Any, prefix: str, reads: Reads) -> None:
        self.__table, self.__prefix, self.__reads = table, prefix, reads

    def __getattr__(self, name: str) -> Any:
        """Return a field, noted, or a method. Called only once for each field, which then is an attribute."""
        if name in self.__table._fields:
            value = getattr(self.__table, name)
            path = f"{self.__prefix}{name}"
            if isinstance(value, _TABLES):
                value = _RecordedTable(value, f"{path}.", self.__reads)
            else:
                self.__reads.note(path)
            vars(self)[name] = value
            return value
        method = getattr(type(self.__table), name, None)
        if isinstance(method, FunctionType) and not name.startswith("_"):
            return MethodType(method, self)
        return getattr(self.__whole(), name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.__whole())

    def __len__(self) -> int:
        return len(self.__table)

    def __getitem__(self, at: Any) -> Any:
        return self.__whole()[at]

    def __whole(self) -> Any:
        """Return the table itself, noted as a whole."""
        self.__reads.note(self.__prefix.removesuffix(".") or EVERYTHING)
        return self.__table
