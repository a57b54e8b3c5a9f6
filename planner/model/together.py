"""Interface for running computations in parallel, which the service passes in.

The pure packages start no threads. Results never depend on how many run at the same time.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Together(Protocol):
    """Runs computations that write to no shared data."""

    @property
    def width(self) -> int:
        """How many may run at the same time, at least 1."""

    def __call__(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Return the results in the order of the tasks. None of the tasks is still running when this
        returns or raises.
        """


class _OneByOne:
    """Runs one after the other."""

    width = 1

    def __call__(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Return the results."""
        return [task() for task in tasks]


ONE_BY_ONE: Together = _OneByOne()
