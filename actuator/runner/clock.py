"""The actuator's two clocks: the wall clock, and the steady one, which never jumps.

Decides when the wall clock has jumped: between two calls, its advance differed from the steady clock's by more than
`JUMP_MS`. Durations are measured with the steady clock; the wall clock only gives time stamps. Never decides what
follows from a jump. Thread-safe. Times are milliseconds; those of the wall clock are Unix time.
"""

import threading
from collections.abc import Callable

# Less is a gradual adjustment of the clock, or the time between reading the two.
JUMP_MS = 2_000


class Clock:
    """The wall clock and the steady one, both given as functions that return seconds."""

    def __init__(self, wall: Callable[[], float], steady: Callable[[], float]) -> None:
        self._wall = wall
        self._steady = steady
        self._lock = threading.Lock()
        self._wall_ms = self.now_ms()
        self._steady_ms = self.steady_ms()

    def now_ms(self) -> int:
        """Return the present time."""
        return int(self._wall() * 1000)

    def steady_ms(self) -> int:
        """Return the steady time; only differences are meaningful."""
        return int(self._steady() * 1000)

    def take_jump(self) -> tuple[int, int]:
        """Return the present time and the length of a jump of the wall clock since the last call; 0 = none."""
        with self._lock:
            wall_ms, steady_ms = self.now_ms(), self.steady_ms()
            jump_ms = (wall_ms - self._wall_ms) - (steady_ms - self._steady_ms)
            self._wall_ms, self._steady_ms = wall_ms, steady_ms
        return wall_ms, jump_ms if abs(jump_ms) > JUMP_MS else 0
