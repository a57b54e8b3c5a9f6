"""Derived things that whoever runs a decision may keep: what follows from a snapshot alone, whatever is asked of it.

The pure packages keep nothing; they say what may be kept, and an answer never depends on whether it was.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Derive(Protocol):
    """Returns what `build` returns, or what it returned before for the same snapshot and name.

    What is built is shared between calls, also simultaneous ones: it is never written. One name always stands for the
    same `build` and `of`. `build` may derive what it needs in turn.

    of : the fields of `Snapshot` that `build` reads, all of them, columns with a dot ("specs", "pods.spec"). Where a
    delta leaves every one of them as it was, what was built for its base is handed on to the new snapshot
    (`planner.snapshot.sharing` says when that is so). () : it reads anything, and is of this one snapshot.
    """

    def __call__(self, name: str, build: Callable[[], T], of: tuple[str, ...] = ()) -> T:
        """Return the derived object of this name."""


def build_always(name: str, build: Callable[[], T], of: tuple[str, ...] = ()) -> T:  # noqa: ARG001
    """Keep nothing."""
    return build()
