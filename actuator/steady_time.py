"""A wall clock that does not jump, for times that a jump must neither advance nor delay.

Never reads a clock itself: both come as functions. Times are Unix milliseconds.
"""

from collections.abc import Callable


class SteadyTime:
    """The wall clock's time at construction, advanced by the steady clock."""

    def __init__(self, wall_ms: Callable[[], int], steady_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._steady_ms = steady_ms
        self._first_wall_ms, self._first_steady_ms = wall_ms(), steady_ms()

    def now_ms(self) -> int:
        """Return the present time, unaffected by jumps of the wall clock since construction."""
        return self._first_wall_ms + self._steady_ms() - self._first_steady_ms

    def earliest_ms(self) -> int:
        """Return the earlier of the wall clock's time and `now_ms`."""
        return min(self._wall_ms(), self.now_ms())
