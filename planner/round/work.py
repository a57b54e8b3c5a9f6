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
from trimtab.planner.model.execution import SEQUENTIAL, UNLIMITED, Parallel, RequestLimits


def no_stop_watch(name: str) -> AbstractContextManager[None]:  # noqa: ARG001
    """Measure nothing."""
    return nullcontext()


class Work(NamedTuple):
    """stage : context of a named stage, which may raise if nobody waits for the answer any more;

    time_left : False once a simulation should stop, None = no bound; derive : see `Derive`; reuse : see `Reuse`;
    limits : see `RequestLimits`; earlier : see `Earlier`; latest : see `Latest`; parallel : see `Parallel`;
    ends_request : errors that `stage` and `limits` raise.
    """

    stage: Callable[[str], AbstractContextManager[None]] = no_stop_watch
    time_left: Callable[[], bool] | None = None
    derive: Derive = build_always
    limits: RequestLimits = UNLIMITED
    reuse: Reuse = write_always
    earlier: Earlier = nothing_earlier
    latest: Latest = NOTHING_KEPT
    parallel: Parallel = SEQUENTIAL
    ends_request: tuple[type[Exception], ...] = ()
