"""How long to pause before a retry: one definition for services, clients and loops. Decides the distribution (random,
with a bound that doubles with each consecutive failure), never what is retried.
Unit: seconds.
"""

from dataclasses import dataclass

from tenacity import RetryCallState, wait_random_exponential


@dataclass(frozen=True)
class Backoff:
    """Bounds of the random exponential pause after a failure."""

    # Longest pause after the first failure; it doubles with each one after.
    first_s: float
    # Upper limit of all pauses.
    longest_s: float

    def pause_s(self, state: RetryCallState) -> float:
        """Return the pause after the attempts so far, between 0 and their bound."""
        return wait_random_exponential(self.first_s, self.longest_s)(state)
