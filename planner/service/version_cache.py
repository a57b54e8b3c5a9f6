"""Cache between calls: snapshots as bases of deltas, states by version, parts of answers.

Entries are keyed by caller identity and cluster; no caller sees those of another. An answer never depends on the cache;
a caller whose base was evicted sends the full snapshot. Thread-safe.
"""

import threading
from collections.abc import Callable, Hashable
from hashlib import blake2b
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar, cast

from trimtab.planner.model.derive import FOR_NEXT
from trimtab.planner.snapshot.cache import LeastRecentlyUsed, Sizes
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.v1 import plan_pb2 as pb

T = TypeVar("T")
STATE_SHARE: Final = 0.1
"""Share of the memory for states; their size is about a tenth of the snapshot's."""
ANSWER_SHARE: Final = 0.1
"""Share of the memory for parts of answers, which are reused as long as nothing changes."""


class CacheScope(NamedTuple):
    """Caller identity and cluster that entries belong to."""

    identity: str
    cluster: str


class _Derived(NamedTuple):
    """A derived object, and all fields of the snapshot that it was built from; () = any."""

    value: object
    of: tuple[str, ...]


class LatestObjects:
    """The object of the latest key under each name: a `Latest`. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[Hashable, object]] = {}

    def get(self, name: str, key: Hashable) -> Any:
        """Return the object of this name and key, or None."""
        with self._lock:
            of, value = self._kept.get(name, (None, None))
        return value if of == key else None

    def put(self, name: str, key: Hashable, value: object) -> None:
        """Keep an object in place of the one before."""
        with self._lock:
            self._kept[name] = (key, value)

    def objects(self) -> list[object]:
        """Return keys and objects."""
        with self._lock:
            return [part for one in self._kept.values() for part in one]

    def clear(self) -> None:
        """Drop all objects."""
        with self._lock:
            self._kept.clear()


class CachedSnapshot:
    """A snapshot with the objects derived from it; its `derive` is a `Derive`. Objects are never written once built.

    latest : objects kept with it, each for one set of other inputs; base : the snapshot that a delta was applied to;
    objects derived from its unchanged fields are taken over.
    """

    def __init__(self, snapshot: Snapshot, base: "CachedSnapshot | None" = None) -> None:
        self.snapshot = snapshot
        self.is_whole = base is None
        self.latest = LatestObjects()
        self._lock = threading.RLock()
        self._sizes = Sizes(base.sizes() if base else None)
        self._derived = base.derived_of_same(snapshot) if base else {}
        # Objects of the base, until the same ones are derived from this snapshot.
        self._earlier: dict[str, object] = base.derived_for_next() if base else {}

    def derive(self, name: str, build: Callable[[], T], of: tuple[str, ...] = ()) -> T:
        """Return the derived object of this name, built once."""
        with self._lock:
            if name not in self._derived:
                for field in of:
                    _field(self.snapshot, field)
                self._derived[name] = _Derived(build(), of)
                self._earlier.pop(name, None)
            return cast(T, self._derived[name].value)

    def derived_of_same(self, snapshot: Snapshot) -> dict[str, _Derived]:
        """Return the objects derived from fields that another snapshot shares (`is`)."""
        with self._lock:
            derived = dict(self._derived)
        return {
            name: one
            for name, one in derived.items()
            if one.of and all(_field(snapshot, field) is _field(self.snapshot, field) for field in one.of)
        }

    def earlier(self, name: str) -> Any:
        """Return the object derived under a name from this snapshot, or else from its base: an `Earlier`."""
        with self._lock:
            found = self._derived.get(name)
            return self._earlier.get(name) if found is None else found.value

    def derived_for_next(self) -> dict[str, object]:
        """Return the objects that are handed to the next snapshot."""
        with self._lock:
            return {name: one.value for name, one in self._derived.items() if name.startswith(FOR_NEXT)}

    def size(self) -> int:
        """Return the approximate size in bytes; parts shared with other snapshots are included."""
        with self._lock:
            derived = (one.value for one in self._derived.values())
            return self._sizes.size_of(self.snapshot, *derived, *self.latest.objects())

    def sizes(self) -> Sizes:
        """Return a copy of what has been measured."""
        with self._lock:
            return Sizes(self._sizes)

    def drop_derived(self) -> None:
        """Drop the derived objects and the latest ones; keep the snapshot."""
        with self._lock:
            self._derived, self._earlier = {}, {}
        self.latest.clear()


def _field(snapshot: Snapshot, path: str) -> object:
    return attrgetter(path)(snapshot)


class VersionCache:
    """Snapshots, states and parts of answers, at most `limit` bytes in total."""

    def __init__(self, limit: int) -> None:
        self._lock = threading.Lock()
        self._snapshots: LeastRecentlyUsed[CachedSnapshot] = LeastRecentlyUsed(
            limit - int(limit * STATE_SHARE) - int(limit * ANSWER_SHARE)
        )
        self._states: LeastRecentlyUsed[bytes] = LeastRecentlyUsed(int(limit * STATE_SHARE))
        self._parts: LeastRecentlyUsed[bytes] = LeastRecentlyUsed(int(limit * ANSWER_SHARE))

    def snapshot(self, scope: CacheScope, version: str) -> CachedSnapshot | None:
        """Return a cached snapshot, or None."""
        with self._lock:
            return self._snapshots.get((scope, version))

    def keep_snapshot(self, scope: CacheScope, kept: CachedSnapshot) -> None:
        """Store a snapshot, with the objects derived so far if both fit."""
        size = kept.size()
        if size > self._snapshots.limit:
            kept.drop_derived()
            size = kept.size()
        with self._lock:
            self._snapshots.put((scope, kept.snapshot.version), kept, size)

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

    def reuse(self, scope: CacheScope, key: str, write: Callable[[], bytes]) -> bytes:
        """Return the bytes stored under a key, or write and store them: a `Reuse` for one scope."""
        with self._lock:
            data = self._parts.get((scope, key))
        if data is None:
            data = write()
            with self._lock:
                self._parts.put((scope, key), data, len(data) + len(key))
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
