"""A view of a snapshot that notes which of its fields are read while a value is computed from it.

What a cached value depends on is recorded in this way and listed nowhere. A field of `Snapshot` is noted by its name, a
column of pods, nodes and templates with its table ("pods.spec"); whoever reads a whole table or all of a snapshot (by
position, as a tuple, by `_replace`) depends on all of it. Whoever reads the version depends on everything.

Contract: a view belongs to one computation. Reading a field for the first time after it has ended raises RuntimeError,
as nobody would learn of that dependency. Values read are those of the snapshot, never copies. Cost: a dictionary entry
for each field read; a second read of a field costs nothing.
"""

from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any, Final, cast

from trimtab.planner.snapshot.columns import (
    ClaimColumns,
    DanglingReferences,
    DeviceColumns,
    NodeColumns,
    PodColumns,
    SliceColumns,
    Snapshot,
)

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
