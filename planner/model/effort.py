"""Interface to the limits of a request, time and memory, for packages without clock or limits of their own.

Both methods raise an error that ends the request.
"""

from typing import Protocol


class Effort(Protocol):
    """Limits of one request."""

    def check(self) -> None:
        """Raise when the deadline has passed or the caller has gone. Called in every loop over request data."""

    def take(self, byte_count: int, what: str) -> None:
        """Raise if `byte_count` more bytes exceed the limit; `what` names their use. Called before allocation."""


class _Unlimited:
    """No limits."""

    def check(self) -> None:
        """Accept."""

    def take(self, byte_count: int, what: str) -> None:
        """Accept."""


UNLIMITED: Effort = _Unlimited()
