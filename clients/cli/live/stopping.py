"""How `trimtab run` ends on a signal: at once before the loop runs, afterwards in order, within seconds. Calls in
progress get `GRACE_S` to end by themselves before their connections are closed: a planner or an actuator that does not
answer must not delay the end. Unit: seconds.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

GRACE_S = 3.0


class StoppedEarlyError(Exception):
    """A signal to stop arrived while nothing was running yet."""


class Stopping:
    """SIGTERM and SIGINT. Use `on_signals` in the main thread."""

    def __init__(self) -> None:
        self._told = threading.Event()
        self._ended = threading.Event()
        self._runs = False
        self._was_told = False

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Handle signals. On a signal before `loop`, end the block quietly."""
        before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        except StoppedEarlyError:
            return
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def loop(self, stop: Callable[[], None], cut: Callable[[], None]) -> Iterator[None]:
        """While the block runs, a signal calls `stop`, and `GRACE_S` later `cut`, in another thread."""
        self._runs = True
        if self._told.is_set():
            raise StoppedEarlyError
        threading.Thread(target=self._watch, args=(stop, cut), name="stopper", daemon=True).start()
        try:
            yield
        finally:
            self._ended.set()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        # A handler must not take locks that the main thread may hold: it sets this, and the thread does the rest.
        # Setting it takes a lock too, which a second signal would find locked if it interrupted the first handler.
        was_told, self._was_told = self._was_told, True
        if not was_told:
            self._told.set()
        if not self._runs:
            self._runs = True  # a second signal must not interrupt the end
            raise StoppedEarlyError

    def _watch(self, stop: Callable[[], None], cut: Callable[[], None]) -> None:
        self._told.wait()
        stop()
        if not self._ended.wait(GRACE_S):
            cut()
