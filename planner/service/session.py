"""What the service keeps between calls: a session for each caller and cluster, dropped as a whole.

A session holds the last snapshots with what was computed from them, the last states, and the cluster's objects if it
came as objects. No caller sees those of another. An answer never depends on a session: a caller whose base was dropped
sends the whole cluster. Sizes in bytes, estimated. Thread-safe.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from hashlib import blake2b
from operator import attrgetter
from sys import getsizeof
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

import msgspec
import numpy as np

from trimtab.common.watched.cluster_objects import ClusterObjects
from trimtab.common.watched.received_objects import SharedParts
from trimtab.planner.device_amounts.planned import PlannedDevices, planned_snapshot
from trimtab.planner.snapshot.caches import Reads, SnapshotKey, SuccessorKey, recorded
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.v1 import plan_pb2 as pb

T = TypeVar("T")
VERSIONS: Final = 2
"""Snapshots and states of a session: the base that is used again and again, or the last one, whose answer may have been
lost; and the newest."""
_SESSION_BYTES: Final = 1000
"""Of a session without content."""
_ROW_BYTES: Final = 200
"""Approximate size of an object without its attributes."""
_ITEM_BYTES: Final = 40
"""Size of an item without its content: a pointer and an object header."""
_WRITTEN_FACTOR: Final = 4
"""Memory over encoded size: a name of 20 characters takes 21 bytes encoded, 77 as an object in a tuple."""
_SMALL: Final = 64
"""Containers with more items than this are tables of rows; smaller ones may hold anything."""


class _CachedValue(NamedTuple):
    """A value, and the paths of all fields of the snapshot that were read to compute it."""

    value: object
    reads: frozenset[str]


class PlannedWith(NamedTuple):
    """What decisions are made with, and its values."""

    devices: PlannedDevices
    cached: "CachedSnapshot"


class CachedSnapshot:
    """A snapshot with its values: a `SnapshotCache`. Values are never written once computed.

    base : the snapshot that a delta was applied to; values for which nothing was read that has changed are taken over.
    """

    def __init__(self, snapshot: Snapshot, base: "CachedSnapshot | None" = None) -> None:
        self.snapshot = snapshot
        self.came_as_objects = False
        """The last time; its objects then have settings, too."""
        self._lock = threading.RLock()
        self._size: int | None = None
        """None = not measured since the last value was added."""
        self._values = base.values_of_same(snapshot) if base else {}
        self._last: dict[object, object] = {}
        self._last_of_base = dict(base._last) if base else {}
        self._computing: list[Reads] = []
        self._planned: PlannedWith | None = None
        self._planned_of_base = base._planned if base else None
        self._checked: CachedSnapshot | None = None

    def planned(self) -> "CachedSnapshot":
        """Return the snapshot with which decisions are made, with its values: this one if it has no devices."""
        return self.planned_with().cached

    def planned_with(self) -> PlannedWith:
        """Return what decisions are made with."""
        with self._lock:
            if self._planned is None:
                before, self._planned_of_base = self._planned_of_base, None
                devices = planned_snapshot(self.snapshot, before.devices if before else None)
                cached = self
                if devices.snapshot is not self.snapshot:
                    cached = CachedSnapshot(devices.snapshot, before.cached if before else None)
                self._planned = PlannedWith(devices, cached)
            return self._planned

    def checked(self) -> "CachedSnapshot":
        """Return the snapshot with which pods are checked one by one: no pod requests what others need."""
        with self._lock:
            planned = self.planned_with()
            if not planned.devices.has_pods_together:
                return planned.cached
            if self._checked is None:
                self._checked = CachedSnapshot(planned_snapshot(self.snapshot, is_together=False).snapshot)
            return self._checked

    def get(self, key: SnapshotKey[T], snapshot: Snapshot, compute: Callable[[Snapshot], T]) -> T:
        """Return the value of a key, computed once. snapshot : this one, or the view of it given to a computation."""
        del snapshot
        with self._lock:
            if key not in self._values:
                reads = Reads()
                self._computing.append(reads)
                try:
                    value = compute(recorded(self.snapshot, reads))
                finally:
                    self._computing.pop()
                self._values[key], self._size = _CachedValue(value, reads.end()), None
            cached = self._values[key]
            if self._computing:
                # Whatever is computed from it depends on the same.
                self._computing[-1].paths |= cached.reads
            return cast(T, cached.value)

    def find(self, key: SuccessorKey[T]) -> T | None:
        """Return the value put under a key, of this snapshot or else of its base, or None."""
        with self._lock:
            return cast(T | None, self._last.get(key, self._last_of_base.get(key)))

    def put(self, key: SuccessorKey[T], value: T) -> None:
        """Keep a value in place of the one before."""
        with self._lock:
            self._last[key], self._size = value, None
            self._last_of_base.pop(key, None)

    def values_of_same(self, snapshot: Snapshot) -> dict[SnapshotKey[Any], _CachedValue]:
        """Return the values computed from fields that another snapshot shares."""
        with self._lock:
            values = dict(self._values)
        paths = {path: attrgetter(path) for value in values.values() for path in value.reads}
        is_same = {path: field(self.snapshot) is field(snapshot) for path, field in paths.items()}
        return {key: value for key, value in values.items() if all(is_same[path] for path in value.reads)}

    def size(self) -> int:
        """Return the size; parts shared with other snapshots are included."""
        with self._lock:
            if self._size is None:
                values = (value.value for value in self._values.values())
                self._size = size_of(self.snapshot, *values, *self._last.values())
            planned = self if self._planned is None else self._planned.cached
            return self._size if planned is self else self._size + planned.size()

    def drop_values(self) -> None:
        """Drop all values; keep the snapshot."""
        with self._lock:
            self._values, self._last, self._last_of_base, self._size = {}, {}, {}, None
            self._planned = self._planned_of_base = self._checked = None


class CachedObjects:
    """The objects of a cluster, and the snapshot that they are. Hold `lock` to read or write these."""

    def __init__(self, objects: ClusterObjects, shared: SharedParts) -> None:
        self.lock = threading.Lock()
        self.objects = objects
        self.shared = shared
        """What the next request's objects may share with these."""
        self.snapshot: CachedSnapshot | None = None
        self.before = ""
        """The version that taking the last update back leads to, "" = none."""

    @property
    def version(self) -> str:
        """Return the version of the snapshot, "" = there is none."""
        return "" if self.snapshot is None else self.snapshot.snapshot.version


class _LastUsed(Generic[T]):
    """The `VERSIONS` values that were used last, by version."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: OrderedDict[str, T] = OrderedDict()

    def get(self, version: str) -> T | None:
        with self._lock:
            if version in self._values:
                self._values.move_to_end(version)
            return self._values.get(version)

    def put(self, version: str, value: T) -> None:
        with self._lock:
            self._values[version] = value
            self._values.move_to_end(version)
            if len(self._values) > VERSIONS:
                self._values.popitem(last=False)

    def all(self) -> list[T]:
        with self._lock:
            return list(self._values.values())


class Session:
    """What is kept of a caller's cluster."""

    def __init__(self) -> None:
        self.snapshots: _LastUsed[CachedSnapshot] = _LastUsed()
        self._states: _LastUsed[bytes] = _LastUsed()
        self.objects: CachedObjects | None = None

    def keep_snapshot(self, cached: CachedSnapshot) -> None:
        """Keep a snapshot with its values so far."""
        self.snapshots.put(cached.snapshot.version, cached)

    def state(self, version: str) -> pb.PlanState | None:
        """Return a state, or None."""
        data = self._states.get(version)
        return None if data is None else pb.PlanState.FromString(data)

    def keep_state(self, state: pb.PlanState) -> str:
        """Keep a state; return its version, a digest of its content."""
        data = state.SerializeToString(deterministic=True)
        version = blake2b(data, digest_size=16).hexdigest()
        self._states.put(version, data)
        return version

    def drop_values(self) -> None:
        """Drop what was computed from the snapshots."""
        for cached in self.snapshots.all():
            cached.drop_values()

    def size(self) -> int:
        """Return the size; what snapshots share counts with each. O(arrays and rows that are new)."""
        objects = self.objects.objects.size() if self.objects is not None else 0
        snapshots = sum(cached.size() for cached in self.snapshots.all())
        return _SESSION_BYTES + objects + snapshots + sum(map(len, self._states.all()))


class Sessions:
    """Sessions by caller identity and cluster, at most `limit` bytes in total: those used longest ago are dropped.

    limit : None = no limit, and sizes are not measured, which takes longer than most small plans.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._sessions: OrderedDict[tuple[str, str], tuple[Session, int]] = OrderedDict()
        self._size = 0

    def get(self, identity: str, cluster: str) -> Session:
        """Return the session of a caller's cluster, a new one if there is none."""
        with self._lock:
            session, size = self._sessions.get((identity, cluster), (None, 0))
        session = session or Session()
        self._put((identity, cluster), session, size or _SESSION_BYTES)
        return session

    def keep(self, identity: str, cluster: str, session: Session) -> None:
        """Measure a session that has changed, and drop others, or else this one, if all together are too large. Its
        values go first if it alone is.
        """
        if self._limit is not None:
            size = session.size()
            if size > self._limit:
                session.drop_values()
                size = session.size()
            self._put((identity, cluster), session, size)

    def _put(self, key: tuple[str, str], session: Session, size: int) -> None:
        with self._lock:
            _, before = self._sessions.pop(key, (None, 0))
            self._size -= before
            if self._limit is not None and size > self._limit:
                return
            self._sessions[key] = (session, size)
            self._size += size
            while self._limit is not None and self._size > self._limit:
                _, (_, freed) = self._sessions.popitem(last=False)
                self._size -= freed


def size_of(*values: object) -> int:
    """Return the approximate size of objects in bytes: arrays, bytes and texts exactly, rows of tables by content.

    Fields of named tuples, dataclasses and other objects are counted separately, and so are the items of small
    containers. A view of an array counts as all the memory that it keeps alive; an object that is held several times
    counts once. O(arrays + texts).
    """
    counted: set[int] = set()
    return sum(_size_of(value, counted) for value in values)


def _size_of(value: object, counted: set[int]) -> int:
    """Return the bytes of a value that are not counted yet. counted : identities of objects that stay alive."""
    if isinstance(value, bytes | str):
        return getsizeof(value)
    if isinstance(value, np.ndarray):
        while isinstance(value.base, np.ndarray):
            value = value.base
        return _once(value if value.base is None else value.base, int(value.nbytes), counted)
    if not (isinstance(value, Mapping | tuple | list | set | frozenset) or hasattr(value, "__dict__")):
        return _ITEM_BYTES
    if not _once(value, 1, counted):
        return 0
    if isinstance(value, Mapping):
        return _size_of_items(tuple(value.keys()), counted) + _size_of_items(tuple(value.values()), counted)
    if isinstance(value, Collection):
        return _size_of_items(value, counted)
    return _ROW_BYTES + sum(_size_of(field, counted) for field in vars(value).values())


def _once(holder: object, size: int, counted: set[int]) -> int:
    if id(holder) in counted:
        return 0
    counted.add(id(holder))
    return size


def _size_of_items(items: Collection[object], counted: set[int]) -> int:
    """Many rows count as four times their encoded size, which compiled code computes fast."""
    if not hasattr(items, "_fields") and len(items) > _SMALL:
        try:
            return _ITEM_BYTES * len(items) + _WRITTEN_FACTOR * len(msgspec.msgpack.encode(tuple(items)))
        except (TypeError, OverflowError, NotImplementedError):
            pass
    return _ITEM_BYTES * len(items) + sum(_size_of(item, counted) for item in items)
