"""Caches that keep everything, for tests that look at what is kept."""

from collections.abc import Callable
from typing import Any, TypeVar

from trimtab.planner.snapshot.caches import ContentKey, LatestKey, SnapshotKey, SuccessorKey
from trimtab.planner.snapshot.columns import Snapshot

T = TypeVar("T")


class KeptValues:
    """A `SnapshotCache` for snapshots of equal content."""

    def __init__(self) -> None:
        self.values: dict[SnapshotKey[Any], Any] = {}

    def get(self, key: SnapshotKey[T], snapshot: Snapshot, compute: Callable[[Snapshot], T]) -> T:
        if key not in self.values:
            self.values[key] = compute(snapshot)
        found: T = self.values[key]
        return found

    def find(self, key: LatestKey[T] | SuccessorKey[T]) -> T | None:
        return None

    def put(self, key: LatestKey[T] | SuccessorKey[T], value: T) -> None:
        pass


class KeptBytes:
    """A `KeyedCache`."""

    def __init__(self) -> None:
        self.written: dict[ContentKey, bytes] = {}

    def get(self, key: ContentKey, write: Callable[[], bytes]) -> bytes:
        if key not in self.written:
            self.written[key] = write()
        return self.written[key]
