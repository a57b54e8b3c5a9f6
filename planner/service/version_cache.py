"""Cache between calls: snapshots as bases of deltas, objects, states by version, parts of answers.

Entries are keyed by caller identity and cluster; no caller sees those of another. An answer never depends on the cache;
a caller whose base was evicted sends the full snapshot. Thread-safe.
"""

import threading
from collections.abc import Callable
from hashlib import blake2b
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar, cast

from trimtab.common.watched.cluster_objects import ClusterObjects
from trimtab.common.watched.received_objects import SharedParts
from trimtab.planner.device_amounts.planned import PlannedDevices, planned_snapshot
from trimtab.planner.snapshot.caches import (
    ContentKey,
    KeyedCache,
    LeastRecentlyUsed,
    Sizes,
    SnapshotKey,
    SuccessorKey,
)
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.recorded_reads import Reads, recorded
from trimtab.v1 import plan_pb2 as pb

T = TypeVar("T")
OBJECTS_SHARE: Final = 0.3
"""Share of the memory for the objects of clusters that come as objects: four times what their snapshots take."""
STATE_SHARE: Final = 0.1
"""Share of the memory for states; their size is about a tenth of the snapshot's."""
ANSWER_SHARE: Final = 0.1
"""Share of the memory for parts of answers, which are reused as long as nothing changes."""
_KEY_BYTES: Final = 200
"""Approximate size of the key of a part of an answer."""


class CacheScope(NamedTuple):
    """Caller identity and cluster that entries belong to."""

    identity: str
    cluster: str


class _CachedValue(NamedTuple):
    """A value, and the paths of all fields of the snapshot that were read to compute it."""

    value: object
    reads: frozenset[str]


class _PlannedWith(NamedTuple):
    """What decisions are made with, and its values."""

    planned: PlannedDevices
    kept: "CachedSnapshot"


class CachedSnapshot:
    """A snapshot with its values: a `SnapshotCache`. Values are never written once computed.

    base : the snapshot that a delta was applied to; values for which nothing was read that has changed are taken over.
    """

    def __init__(self, snapshot: Snapshot, base: "CachedSnapshot | None" = None) -> None:
        self.snapshot = snapshot
        self.is_whole = base is None
        self.came_as_objects = False
        """The last time; its objects then have settings, too."""
        self._lock = threading.RLock()
        self._sizes = Sizes(base.sizes() if base else None)
        self._values = base.values_of_same(snapshot) if base else {}
        self._put: dict[object, object] = {}
        # Those of the base, until this snapshot has its own.
        self._of_base: dict[object, object] = base.values_for_next() if base else {}
        self._computing: list[Reads] = []
        self._planned: _PlannedWith | None = None
        self._planned_before = base._planned if base else None
        self._checked: CachedSnapshot | None = None

    def planned(self) -> "CachedSnapshot":
        """Return the snapshot with which decisions are made, with its values: this one if it has no devices."""
        with self._lock:
            if self._planned is None:
                before, self._planned_before = self._planned_before, None
                found = planned_snapshot(self.snapshot, before.planned if before else None)
                if found.snapshot is self.snapshot:
                    kept = self
                else:
                    kept = CachedSnapshot(found.snapshot, before.kept if before else None)
                self._planned = _PlannedWith(found, kept)
            return self._planned.kept

    def planned_devices(self) -> PlannedDevices:
        """Return what decisions are made with, devices included."""
        with self._lock:
            self.planned()
            assert self._planned is not None
            return self._planned.planned

    def checked(self) -> "CachedSnapshot":
        """Return the snapshot with which pods are checked one by one: no pod requests what others need."""
        with self._lock:
            kept = self.planned()
            if self._planned is None or not self._planned.planned.has_pods_together:
                return kept
            if self._checked is None:
                self._checked = CachedSnapshot(planned_snapshot(self.snapshot, is_together=False).snapshot)
            return self._checked

    def get(self, key: SnapshotKey[T], snapshot: Snapshot, compute: Callable[[Snapshot], T]) -> T:
        """Return the value of a key, computed once. snapshot : this one, or the view of it given to a computation."""
        del snapshot
        with self._lock:
            if key not in self._values:
                self._values[key] = self._computed(compute)
            cached = self._values[key]
            if self._computing:
                # Whatever is computed from it depends on the same.
                self._computing[-1].paths |= cached.reads
            return cast(T, cached.value)

    def find(self, key: SuccessorKey[T]) -> T | None:
        """Return the value put under a key, of this snapshot or else of its base, or None."""
        with self._lock:
            return cast(T | None, self._put.get(key, self._of_base.get(key)))

    def put(self, key: SuccessorKey[T], value: T) -> None:
        """Keep a value in place of the one before."""
        with self._lock:
            self._put[key] = value
            self._of_base.pop(key, None)

    def _computed(self, compute: Callable[[Snapshot], object]) -> _CachedValue:
        reads = Reads()
        self._computing.append(reads)
        try:
            value = compute(recorded(self.snapshot, reads))
        finally:
            self._computing.pop()
        return _CachedValue(value, reads.end())

    def values_of_same(self, snapshot: Snapshot) -> "dict[SnapshotKey[Any], _CachedValue]":
        """Return the values computed from fields that another snapshot shares (`is`)."""
        with self._lock:
            values = dict(self._values)
        is_same = {path: _is_same(path, self.snapshot, snapshot) for one in values.values() for path in one.reads}
        return {key: one for key, one in values.items() if all(is_same[path] for path in one.reads)}

    def values_for_next(self) -> dict[object, object]:
        """Return the values that are handed to the next snapshot."""
        with self._lock:
            return dict(self._put)

    def size(self) -> int:
        """Return the approximate size in bytes; parts shared with other snapshots are included."""
        with self._lock:
            values = (one.value for one in self._values.values())
            own = self._sizes.size_of(self.snapshot, *values, *self._put.values())
            planned = self._planned.kept if self._planned is not None else self
            return own if planned is self else own + planned.size()

    def sizes(self) -> Sizes:
        """Return a copy of what has been measured."""
        with self._lock:
            return Sizes(self._sizes)

    def drop_values(self) -> None:
        """Drop all values; keep the snapshot."""
        with self._lock:
            self._values, self._put, self._of_base = {}, {}, {}
            self._planned = self._planned_before = self._checked = None


def _is_same(path: str, one: Snapshot, other: Snapshot) -> bool:
    """Return whether two snapshots share a field."""
    field = attrgetter(path)
    return field(one) is field(other)


class _ScopedBytes:
    """The parts of answers of one scope: a `KeyedCache`."""

    def __init__(self, cache: "VersionCache", scope: CacheScope) -> None:
        self._cache, self._scope = cache, scope

    def get(self, key: ContentKey, write: Callable[[], bytes]) -> bytes:
        """Return the bytes of a key, stored or written."""
        return self._cache.part(self._scope, key, write)


class CachedObjects:
    """The objects of a cluster, and the snapshot that they are. kept : the snapshot; before : the version that taking
    the last update back leads to, "" = none. Hold `lock` to read or write these. shared : see there.
    """

    def __init__(self, objects: ClusterObjects, shared: SharedParts) -> None:
        self.lock = threading.Lock()
        self.objects, self.shared = objects, shared
        self.kept: CachedSnapshot | None = None
        self.before = ""

    @property
    def version(self) -> str:
        """Return the version of the snapshot, "" = there is none."""
        return self.kept.snapshot.version if self.kept is not None else ""


class VersionCache:
    """Snapshots, objects, states and parts of answers, at most `limit` bytes in total."""

    def __init__(self, limit: int) -> None:
        self._lock = threading.Lock()
        self._snapshots: LeastRecentlyUsed[CachedSnapshot] = LeastRecentlyUsed(
            limit - int(limit * STATE_SHARE) - int(limit * ANSWER_SHARE) - int(limit * OBJECTS_SHARE)
        )
        self._objects: LeastRecentlyUsed[CachedObjects] = LeastRecentlyUsed(int(limit * OBJECTS_SHARE))
        self._states: LeastRecentlyUsed[bytes] = LeastRecentlyUsed(int(limit * STATE_SHARE))
        self._parts: LeastRecentlyUsed[bytes] = LeastRecentlyUsed(int(limit * ANSWER_SHARE))

    def snapshot(self, scope: CacheScope, version: str) -> CachedSnapshot | None:
        """Return a cached snapshot, or None."""
        with self._lock:
            return self._snapshots.get((scope, version))

    def keep_snapshot(self, scope: CacheScope, kept: CachedSnapshot) -> None:
        """Store a snapshot, with its values so far if both fit."""
        size = kept.size()
        if size > self._snapshots.limit:
            kept.drop_values()
            size = kept.size()
        with self._lock:
            self._snapshots.put((scope, kept.snapshot.version), kept, size)

    def objects(self, scope: CacheScope) -> "CachedObjects | None":
        """Return the objects that the caller sent for the cluster, or None."""
        with self._lock:
            return self._objects.get(scope)

    def keep_objects(self, scope: CacheScope, session: "CachedObjects") -> None:
        """Store the objects of a cluster."""
        size = session.objects.size()
        with self._lock:
            self._objects.put(scope, session, size)

    def state(self, scope: CacheScope, version: str) -> pb.PlanState | None:
        """Return a cached state, or None."""
        with self._lock:
            data = self._states.get((scope, version))
        return None if data is None else pb.PlanState.FromString(data)

    def keep_state(self, scope: CacheScope, state: pb.PlanState) -> str:
        """Store a state; return its version, a digest of its content."""
        data = state.SerializeToString(deterministic=True)
        version = blake2b(data, digest_size=16).hexdigest()
        with self._lock:
            self._states.put((scope, version), data, len(data))
        return version

    def parts(self, scope: CacheScope) -> KeyedCache:
        """Return the cache of one scope's parts of answers."""
        return _ScopedBytes(self, scope)

    def part(self, scope: CacheScope, key: ContentKey, write: Callable[[], bytes]) -> bytes:
        """Return the bytes stored under a key, or write and store them."""
        with self._lock:
            data = self._parts.get((scope, key))
        if data is None:
            data = write()
            with self._lock:
                self._parts.put((scope, key), data, len(data) + _KEY_BYTES)
        return data


class LatestCache(VersionCache):
    """The latest snapshot of each scope, whatever its size, for a caller in the planner's own process, which sends each
    delta relative to the last answer. Sizes are not measured, because that takes longer than most small plans.
    """

    def __init__(self, limit: int) -> None:
        """`limit` : bytes for states and parts of answers; see `VersionCache`."""
        super().__init__(limit)
        self._latest: dict[CacheScope, CachedSnapshot] = {}

    def snapshot(self, scope: CacheScope, version: str) -> CachedSnapshot | None:
        """Return the latest snapshot if it has this version, else None."""
        kept = self._latest.get(scope)
        return kept if kept is not None and kept.snapshot.version == version else None

    def keep_snapshot(self, scope: CacheScope, kept: CachedSnapshot) -> None:
        """Keep a snapshot in place of the previous one."""
        self._latest[scope] = kept


class WholeCache(LatestCache):
    """The latest snapshot that was sent whole, for a caller in the planner's own process that compares plans: it sends
    each delta relative to the same cluster.
    """

    def keep_snapshot(self, scope: CacheScope, kept: CachedSnapshot) -> None:
        """Keep a snapshot in place of the previous one, unless it comes from a delta."""
        if kept.is_whole:
            super().keep_snapshot(scope, kept)
