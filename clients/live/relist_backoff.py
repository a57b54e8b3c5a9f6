"""How long a reflector pauses before it lists or watches again.

Decides only the pause: it doubles with each call, with jitter, and is reset once no pause was needed for a while. A
successful list does not reset it: if every watch fails at once, lists succeed and must still become rare. Units:
seconds.

Source: client-go, tools/cache/reflector.go (800 ms to 30 s, factor 2, jitter 1, reset after 2 minutes).
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class RelistBackoffSettings:
    """Bounds of the pauses. The defaults are client-go's."""

    # The first pause takes between this and twice this.
    first_s: float = 0.8
    # The pauses stop growing here; with jitter they take up to twice this.
    longest_s: float = 30.0
    # If there was no pause for this long, the next one is a first one again.
    reset_after_s: float = 120.0


class RelistBackoff:
    """The pauses of one reflector."""

    def __init__(
        self,
        settings: RelistBackoffSettings,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """`clock` is monotonic, in seconds; `draw` returns a number in [0, 1)."""
        self._settings, self._clock, self._draw = settings, clock, draw
        self._next_s = settings.first_s
        self._last_at_s: float | None = None

    def pause_s(self) -> float:
        """Return the length of the pause that begins now."""
        settings, now_s = self._settings, self._clock()
        if self._last_at_s is None or now_s - self._last_at_s > settings.reset_after_s:
            self._next_s = settings.first_s
        self._last_at_s = now_s
        pause_s = self._next_s * (1 + self._draw())
        self._next_s = min(2 * self._next_s, settings.longest_s)
        return pause_s
