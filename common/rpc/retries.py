"""The one way in which a failed call is repeated: `with_retries`.

Each call is repeated in one layer only, next to the connection: whoever calls that layer repeats nothing, except a loop
that begins again from new data. Never knows what a call means; its caller says which errors may pass. Units: seconds.
"""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import tenacity
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_random_exponential
from tenacity.nap import sleep_using_event

T = TypeVar("T")


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


@dataclass(frozen=True)
class RetryPolicy:
    """How often and for how long a failed call is repeated."""

    # Calls in total. 5 bridge a service's restart of a second or two.
    attempts: float = 5
    # Seconds after which no further call is made.
    total_s: float = 30.0
    # Pauses between two calls.
    backoff: Backoff = field(default_factory=lambda: Backoff(0.1, 5.0))
    # Pause before the next call that the service has asked for, instead of a random one; None = it did not.
    hint_s: float | None = None


ONCE = RetryPolicy(attempts=1)
"""No repetition."""


def attempts(count: float, first_s: float, longest_s: float) -> RetryPolicy:
    """Return a policy that bounds the number of calls, and no time."""
    return RetryPolicy(count, math.inf, Backoff(first_s, longest_s))


def with_retries(
    call: Callable[[], T],
    policy_of: Callable[[BaseException], RetryPolicy | None],
    stopped: threading.Event | None = None,
    before_pause: Callable[[BaseException, int, float], None] | None = None,
) -> T:
    """Make a call, and repeat it while `policy_of` gives a policy for its error that allows another one; raise that
    error otherwise. None = the error is not transient.

    stopped : ends a pause, and then the repetition; before_pause : called with error, attempts so far and pause.
    """

    def policy(state: RetryCallState) -> RetryPolicy:
        return policy_of(_error(state)) or ONCE

    def is_enough(state: RetryCallState) -> bool:
        present = policy(state)
        is_stopped = stopped is not None and stopped.is_set()
        return is_stopped or state.attempt_number >= present.attempts or _elapsed_s(state) >= present.total_s

    def pause_s(state: RetryCallState) -> float:
        present = policy(state)
        return present.backoff.pause_s(state) if present.hint_s is None else present.hint_s

    def report(state: RetryCallState) -> None:
        if before_pause is not None:
            before_pause(_error(state), state.attempt_number, state.next_action.sleep if state.next_action else 0.0)

    retrying = Retrying(
        retry=retry_if_exception(lambda error: policy_of(error) is not None),
        stop=is_enough,
        wait=pause_s,
        sleep=tenacity.nap.sleep if stopped is None else sleep_using_event(stopped),
        before_sleep=report,
        reraise=True,
    )
    return retrying(call)


def _error(state: RetryCallState) -> BaseException:
    """Return the error of the last attempt, which has failed."""
    error = state.outcome.exception() if state.outcome else None
    assert error is not None
    return error


def _elapsed_s(state: RetryCallState) -> float:
    return state.seconds_since_start or 0.0
