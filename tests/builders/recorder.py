"""A recorder of events of the actuator's work, without a tracker."""

import time

from trimtab.actuator.tracker import events as e


class Recorder:
    """Records events by the real clock."""

    def __init__(self) -> None:
        self.events: list[e.Event] = []

    def submit(self, event: e.Event) -> None:
        self.events.append(event)

    def now_ms(self) -> int:
        return int(time.time() * 1000)

    def steady_ms(self) -> int:
        return int(time.monotonic() * 1000)

    def awake_ms(self) -> int:
        return self.steady_ms()
