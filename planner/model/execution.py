"""Interfaces to what the service provides for a request: limits on time and memory, and parallel execution.

The pure packages have no clock, no limits of their own and start no threads. No result depends on the limits, unless
they end the request, nor on how many computations run at the same time.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class RequestLimits(Protocol):
    """Limits of one request. Both methods raise an error that ends the request."""

    def check(self) -> None:
        """Raise when the deadline has passed or the caller has gone. Called in every loop over request data."""

    def reserve(self, byte_count: int, what: str) -> None:
        """Raise if `byte_count` more bytes exceed the limit; `what` names their use. Called before allocation."""


class _Unlimited:
    """No limits."""

    def check(self) -> None:
        """Accept."""

    def reserve(self, byte_count: int, what: str) -> None:
        """Accept."""


UNLIMITED: RequestLimits = _Unlimited()


class Parallel(Protocol):
    """Runs computations that write to no shared data."""

    @property
    def width(self) -> int:
        """How many may run at the same time, at least 1."""

    def __call__(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Return the results in the order of the tasks. None of the tasks is still running when this
        returns or raises.
        """


class _Sequential:
    """Runs one after the other."""

    width = 1

    def __call__(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Return the results."""
        return [task() for task in tasks]


SEQUENTIAL: Parallel = _Sequential()
