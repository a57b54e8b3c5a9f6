"""Interfaces to caches that the service passes in: objects derived from a snapshot alone, and bytes already written.

The pure packages keep nothing themselves. An answer never depends on what a cache holds.
"""

from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
FOR_NEXT = "for the next snapshot: "
"""Beginning of the names of derived objects that are also handed to the next snapshot of the same line: `Earlier`."""


class Derive(Protocol):
    """Cache of derived objects: returns the result of `build`, or the earlier result for the same snapshot and name.

    Results are shared between concurrent calls and never written. A name always goes with the same `build` and `of`.
    `build` may itself derive other objects.

    of : all fields of `Snapshot` that `build` reads, columns with a dot ("specs", "pods.spec"). If a delta changes none
    of them, the result for its base is also used for the new snapshot (see `trimtab.planner.snapshot.sharing`). () :
    any field may be read; the result is used for this snapshot only.
    """

    def __call__(self, name: str, build: Callable[[], T], of: tuple[str, ...] = ()) -> T:
        """Return the derived object of this name."""


class Earlier(Protocol):
    """Returns what was derived under a name that begins with FOR_NEXT, of this snapshot or else of its base; None where
    nothing was. Whatever it is, an answer must be as if it were None.
    """

    def __call__(self, name: str) -> Any:
        """Return the earlier object of this name, or None."""


class Reuse(Protocol):
    """Cache of encoded bytes: returns the bytes stored under a key, or writes them. Entries may be evicted at any time.

    key : identifies every input of the bytes, the snapshot's version included; equal keys imply equal bytes.
    """

    def __call__(self, key: str, write: Callable[[], bytes]) -> bytes:
        """Return the bytes of this key."""


class Latest(Protocol):
    """Keeps with a snapshot, under each name, the object of the latest key. Objects are never written once put.

    key : identifies every input besides the snapshot; an answer must be as if nothing had been kept.
    """

    def get(self, name: str, key: Hashable) -> Any:
        """Return the object put under this name with an equal key, or None."""

    def put(self, name: str, key: Hashable, value: object) -> None:
        """Keep an object in place of the one before."""


class _NothingKept:
    """Keeps nothing."""

    def get(self, name: str, key: Hashable) -> Any:
        """Return None."""

    def put(self, name: str, key: Hashable, value: object) -> None:
        """Drop the object."""


NOTHING_KEPT: Latest = _NothingKept()


def nothing_earlier(name: str) -> Any:  # noqa: ARG001
    """Return None; nothing is cached."""
    return None


def write_always(key: str, write: Callable[[], bytes]) -> bytes:  # noqa: ARG001
    """Call `write`; nothing is cached."""
    return write()


def build_always(name: str, build: Callable[[], T], of: tuple[str, ...] = ()) -> T:  # noqa: ARG001
    """Call `build`; nothing is cached."""
    return build()
