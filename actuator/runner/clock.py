"""The actuator's two clocks: the wall clock, and the steady one, which never jumps.

Decides when the wall clock has jumped: between two calls, its advance differed from the steady clock's by more than
`JUMP_MS`. Durations are measured with the steady clock; the wall clock only gives time stamps. Never decides what
follows from a jump. Also measures for how long the process has been awake: a process or a machine that was suspended
observed nothing, and its deadlines must not come closer meanwhile. Thread-safe. Times are milliseconds; those of the
wall clock are Unix time.
"""

import threading
from collections.abc import Callable
from typing import Final

# Less is a gradual adjustment of the clock, or the time between reading the two.
JUMP_MS = 2_000
# Pause between two beats, and the longest time between two that a busy process needs: more is a suspension.
BEAT_S: Final = 1.0
LONGEST_BEAT_MS: Final = 10_000


class Clock:
    """The wall clock and the steady one, both given as functions that return seconds."""

    def __init__(self, wall: Callable[[], float], steady: Callable[[], float]) -> None:
        self._wall = wall
        self._steady = steady
        self._lock = threading.Lock()
        self._wall_ms = self.now_ms()
        self._steady_ms = self.steady_ms()
        # The last beat, None = none yet, and how long the process was suspended so far.
        self._beat_ms: int | None = None
        self._suspended_ms = 0

    def now_ms(self) -> int:
        """Return the present time."""
        return int(self._wall() * 1000)

    def steady_ms(self) -> int:
        """Return the steady time; only differences are meaningful."""
        return int(self._steady() * 1000)

    def beat(self) -> None:
        """Note that the process is awake. From the first call on, a pause of more than `LONGEST_BEAT_MS` between two
        counts as a suspension.
        """
        with self._lock:
            self._note_suspension(self.steady_ms())

    def awake_ms(self) -> int:
        """Return the steady time without the time in which the process was suspended; only differences are
        meaningful.
        """
        with self._lock:
            steady_ms = self.steady_ms()
            if self._beat_ms is not None:
                self._note_suspension(steady_ms)
            return steady_ms - self._suspended_ms

    def _note_suspension(self, steady_ms: int) -> None:
        if self._beat_ms is not None and steady_ms - self._beat_ms > LONGEST_BEAT_MS:
            self._suspended_ms += steady_ms - self._beat_ms - LONGEST_BEAT_MS
        self._beat_ms = steady_ms

    def take_jump(self) -> tuple[int, int]:
        """Return the present time and the length of a jump of the wall clock since the last call; 0 = none."""
        with self._lock:
            wall_ms, steady_ms = self.now_ms(), self.steady_ms()
            jump_ms = (wall_ms - self._wall_ms) - (steady_ms - self._steady_ms)
            self._wall_ms, self._steady_ms = wall_ms, steady_ms
        return wall_ms, jump_ms if abs(jump_ms) > JUMP_MS else 0
