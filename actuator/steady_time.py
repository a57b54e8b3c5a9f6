"""A wall clock that does not jump, for times that a jump must neither advance nor delay.

Never reads a clock itself: both come as functions. Times are Unix milliseconds. And threads that repeat a step, with
pauses in steady time.
"""

import threading
from collections.abc import Callable
from typing import Final, Self

import structlog

log = structlog.get_logger("actuator")
LONGEST_WAIT_S: Final = 10.0
"""Longest time that the end of a thread is waited for."""


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


class RepeatingThread:
    """A thread that does the same again and again, after a pause each time. Use as a context manager, or start and
    stop it. An error that `step` raises is logged, and the next step is made as usual.
    """

    def __init__(self, name: str, step: Callable[[], object], pause_s: float) -> None:
        self._name, self._step, self._pause_s = name, step, pause_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End, and wait a while for the running step."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(LONGEST_WAIT_S)

    def start(self) -> None:
        """Begin; the first step is made after a pause."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the running step, and do not wait for it."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._pause_s):
            try:
                self._step()
            except Exception as error:
                log.error("a step failed; the next one is made as usual", thread=self._name, exc_info=error)
