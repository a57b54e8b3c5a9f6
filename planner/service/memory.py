"""What the service remembers between calls: snapshots as bases of deltas, states by their version.

Decides whose they are: keyed by caller identity and cluster, so that nobody gets another's. An answer never depends on
what is here; a caller whose base is gone sends it again. Safe between threads.
"""

import threading
from collections.abc import Callable
from hashlib import blake2b
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar, cast

from trimtab.v1 import plan_pb2 as pb

from planner.snapshot.cache import LeastRecentlyUsed, size_of
from planner.snapshot.columns import Snapshot

T = TypeVar("T")
STATE_SHARE: Final = 0.1
"""Part of the memory for states: they are a tenth of the snapshots they come with."""


class Owner(NamedTuple):
    """Whose entries: who calls, for which cluster."""

    identity: str
    cluster: str


class _Derived(NamedTuple):
    """Something derived, and the fields of the snapshot that it is all made of; () = any."""

    value: object
    of: tuple[str, ...]


class KeptSnapshot:
    """A snapshot, and what was derived from it: a `Derive`. Nothing in here is ever written after it was built.

    base : what a delta was applied to; what was derived from fields of it that are unchanged holds here too.
    """

    def __init__(self, snapshot: Snapshot, base: "KeptSnapshot | None" = None) -> None:
        self.snapshot = snapshot
        self._lock = threading.RLock()
        self._derived = base.derived_of_same(snapshot) if base else {}

    def derive(self, name: str, build: Callable[[], T], of: tuple[str, ...] = ()) -> T:
        """Return the derived object of this name, built once."""
        with self._lock:
            if name not in self._derived:
                for field in of:
                    _field(self.snapshot, field)
                self._derived[name] = _Derived(build(), of)
            return cast(T, self._derived[name].value)

    def derived_of_same(self, snapshot: Snapshot) -> dict[str, _Derived]:
        """Return what was derived from fields that another snapshot has too: the very same objects."""
        with self._lock:
            derived = dict(self._derived)
        return {
            name: one
            for name, one in derived.items()
            if one.of and all(_field(snapshot, field) is _field(self.snapshot, field) for field in one.of)
        }

    def size(self) -> int:
        """Return about how many bytes all this takes; what is shared with other snapshots is counted here too."""
        with self._lock:
            return size_of(self.snapshot) + sum(size_of(one.value) for one in self._derived.values())

    def forget_derived(self) -> None:
        """Keep the snapshot alone."""
        with self._lock:
            self._derived = {}


def _field(snapshot: Snapshot, path: str) -> object:
    return attrgetter(path)(snapshot)


class Memory:
    """Snapshots and states of at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._lock = threading.Lock()
        self._snapshots: LeastRecentlyUsed[KeptSnapshot] = LeastRecentlyUsed(limit - int(limit * STATE_SHARE))
        self._states: LeastRecentlyUsed[bytes] = LeastRecentlyUsed(int(limit * STATE_SHARE))

    def snapshot(self, owner: Owner, version: str) -> KeptSnapshot | None:
        """Return a snapshot kept before."""
        with self._lock:
            return self._snapshots.get((owner, version))

    def keep_snapshot(self, owner: Owner, kept: KeptSnapshot) -> None:
        """Keep a snapshot, with what was derived from it by now if there is room for both."""
        size = kept.size()
        if size > self._snapshots.limit:
            kept.forget_derived()
            size = kept.size()
        with self._lock:
            self._snapshots.put((owner, kept.snapshot.version), kept, size)

    def state(self, owner: Owner, version: str) -> pb.PlanState | None:
        """Return a state kept before."""
        with self._lock:
            data = self._states.get((owner, version))
        return None if data is None else pb.PlanState.FromString(data)

    def keep_state(self, owner: Owner, state: pb.PlanState) -> str:
        """Keep a state; return its version, which is a digest of its content."""
        data = state.SerializeToString(deterministic=True)
        version = blake2b(data, digest_size=16).hexdigest()
        with self._lock:
            self._states.put((owner, version), data, len(data))
        return version
