"""Deadline and cancellation of a call.

Decides how much of the remaining time a simulation may use; the rest is for encoding and sending the answer. Times in
seconds on the monotonic clock.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from trimtab.planner.service.failures import cancelled, deadline_exceeded

RESERVE_SHARE: Final = 0.15
RESERVE_LEAST_S: Final = 0.02
RESERVE_MOST_S: Final = 2.0
"""Time for the answer: a bounded share of the caller's time. Sending a plan of 5,000 nodes takes 50 ms."""


def _yes() -> bool:
    return True


@dataclass(frozen=True)
class Bounds:
    """`deadline_s` : deadline of the caller, inf = none; `simulate_until_s` : when a simulation should stop."""

    deadline_s: float = math.inf
    simulate_until_s: float = math.inf
    is_wanted: Callable[[], bool] = _yes

    @staticmethod
    def within(time_remaining_s: float | None, is_wanted: Callable[[], bool] = _yes) -> "Bounds":
        """Return the bounds of a call that starts now. `time_remaining_s` None = no deadline."""
        if time_remaining_s is None:
            return Bounds(is_wanted=is_wanted)
        now_s = time.monotonic()
        reserve_s = min(max(time_remaining_s * RESERVE_SHARE, RESERVE_LEAST_S), RESERVE_MOST_S)
        return Bounds(now_s + time_remaining_s, now_s + time_remaining_s - reserve_s, is_wanted)

    def time_left(self) -> bool:
        """Return whether a simulation may go on."""
        return time.monotonic() < self.simulate_until_s and self.is_wanted()

    def check(self) -> None:
        """Raise ServiceError if the deadline has passed or the caller has gone."""
        if time.monotonic() >= self.deadline_s:
            raise deadline_exceeded()
        if not self.is_wanted():
            raise cancelled()
