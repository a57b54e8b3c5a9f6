"""A cache that keeps everything, for tests that look at what is kept, and comparable forms of what is there."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from trimtab.planner.simulation.build import Simulation
from trimtab.planner.snapshot.caches import SnapshotKey, SuccessorKey
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

    def find(self, key: SuccessorKey[T]) -> T | None:
        return None

    def put(self, key: SuccessorKey[T], value: T) -> None:
        pass


def look(value: Any) -> Any:
    """Return a kept value in a form that can be compared."""
    if isinstance(value, Simulation):
        return look(value.state)
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, tuple):
        return tuple(look(item) for item in value)
    if isinstance(value, dict) or hasattr(value, "__dict__"):
        return look(tuple((value if isinstance(value, dict) else vars(value)).items()))
    return repr(value)


class NotKeptError(Exception):
    """A value would be computed."""


def not_there(snapshot: Snapshot) -> Any:
    """Stand for the computation of a value that is not kept."""
    raise NotKeptError(snapshot.version)
