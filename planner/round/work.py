"""Tools that the caller provides to decisions: a stop-watch, a bound, a cache for derived objects. The pure packages
read no clock and keep nothing; they use these.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from trimtab.planner.model.derive import (
    NOTHING_KEPT,
    Derive,
    Earlier,
    Latest,
    Reuse,
    build_always,
    nothing_earlier,
    write_always,
)
from trimtab.planner.model.effort import UNLIMITED, Effort
from trimtab.planner.model.together import ONE_BY_ONE, Together


def no_stop_watch(name: str) -> AbstractContextManager[None]:  # noqa: ARG001
    """Measure nothing."""
    return nullcontext()


class Work(NamedTuple):
    """stage : context of a named stage, which may raise if nobody waits for the answer any more;

    time_left : False once a simulation should stop, None = no bound; derive : see `Derive`; effort : see `Effort`;
    reuse : see `Reuse`; earlier : see `Earlier`; latest : see `Latest`; together : see `Together`.
    """

    stage: Callable[[str], AbstractContextManager[None]] = no_stop_watch
    time_left: Callable[[], bool] | None = None
    derive: Derive = build_always
    effort: Effort = UNLIMITED
    reuse: Reuse = write_always
    earlier: Earlier = nothing_earlier
    latest: Latest = NOTHING_KEPT
    together: Together = ONE_BY_ONE
