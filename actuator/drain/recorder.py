"""The interface by which work on nodes reports what it did. Decides nothing."""

from typing import Protocol

from trimtab.actuator.tracker import events as e


class Recorder(Protocol):
    """Records events; durable when `submit` returns."""

    def submit(self, event: e.Event) -> None:
        """Record an event."""

    def now_ms(self) -> int:
        """Return the present time."""

    def steady_ms(self) -> int:
        """Return the steady time, for durations."""

    def awake_ms(self) -> int:
        """Return the steady time without that in which the process was suspended, for deadlines."""
