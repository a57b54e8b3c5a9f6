"""How long to pause before something is tried again: one definition for services, clients and loops.

Decides the distribution (random, its bound doubling with each failure in a row), never what is tried again.
Unit: seconds.
"""

from dataclasses import dataclass

from tenacity import RetryCallState, wait_random_exponential


@dataclass(frozen=True)
class Backoff:
    """Bounds of the random exponential pause after a failure."""

    # Longest pause after the first failure; it doubles with each one after.
    first_s: float
    # Longest pause of all.
    longest_s: float

    def pause_s(self, state: RetryCallState) -> float:
        """Return the pause after the attempts so far, between 0 and their bound."""
        return wait_random_exponential(self.first_s, self.longest_s)(state)
