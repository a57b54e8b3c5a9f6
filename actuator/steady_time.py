"""A wall clock that does not jump, for times that must neither be advanced nor delayed by a jump of the wall clock.

Never reads a clock itself: both come as functions. Times are Unix milliseconds.
"""

from collections.abc import Callable


class SteadyTime:
    """The wall clock as it was at construction, advanced by the steady clock."""

    def __init__(self, wall_ms: Callable[[], int], steady_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._steady_ms = steady_ms
        self._first_wall_ms, self._first_steady_ms = wall_ms(), steady_ms()

    def now_ms(self) -> int:
        """Return the present time, whatever the wall clock did since construction."""
        return self._first_wall_ms + self._steady_ms() - self._first_steady_ms

    def earliest_ms(self) -> int:
        """Return the earlier of the wall clock and `now_ms`: neither has advanced less."""
        return min(self._wall_ms(), self.now_ms())
