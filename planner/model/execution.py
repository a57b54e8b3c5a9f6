"""Interfaces to what the service provides for a request: limits on time and memory, and parallel execution.

The pure packages have no clock, no limits of their own and start no threads. No result depends on the limits, unless
they end the request, nor on how many computations run at the same time.

Limits are those of the request that is being answered: `within` sets them, and whoever loops over what a request
contains asks them (`asking`, `check_limits`) and takes memory before it allocates (`reserve_memory`). What is computed
for one request and kept for others holds no limits, so each request is ended by its own. Functions that have a
parameter `limits` are given the same ones.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Final, Protocol, TypeVar

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
_LIMITS: Final[ContextVar[RequestLimits]] = ContextVar("request_limits", default=UNLIMITED)
_ITEMS: Final = 64
"""Items between two questions for the limits: a question takes a microsecond, an item seldom more than some."""


@contextmanager
def within(limits: RequestLimits) -> Iterator[None]:
    """Answer a request within its limits while the block runs, here and in tasks that are `in_context`."""
    token = _LIMITS.set(limits)
    try:
        yield
    finally:
        _LIMITS.reset(token)


def check_limits() -> None:
    """Raise if the request that is being answered has no time left."""
    _LIMITS.get().check()


def reserve_memory(byte_count: int, what: str) -> None:
    """Raise if so many more bytes exceed the limit of the request that is being answered. Called before allocation."""
    limits = _LIMITS.get()
    limits.check()
    limits.reserve(byte_count, what)


def asking(items: Iterable[T], every: int = _ITEMS) -> Iterator[T]:
    """Yield items, and ask the limits at the first and every so many."""
    limits = _LIMITS.get()
    for number, item in enumerate(items):
        if number % every == 0:
            limits.check()
        yield item


def in_context(task: Callable[[], T]) -> Callable[[], T]:
    """Return a task that runs within the limits of the request that is being answered, in whichever thread."""
    context = copy_context()
    return lambda: context.run(task)


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
