"""Tools that the caller provides to decisions: a stop-watch, a bound, two caches. The pure packages
read no clock and keep nothing; they use these.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from trimtab.planner.model.execution import SEQUENTIAL, UNLIMITED, Parallel, RequestLimits
from trimtab.planner.snapshot.caches import UNCACHED, WRITE_ALWAYS, KeyedCache, SnapshotCache


def no_stop_watch(name: str) -> AbstractContextManager[None]:  # noqa: ARG001
    """Measure nothing."""
    return nullcontext()


class Work(NamedTuple):
    """stage : context of a named stage, which may raise if nobody waits for the answer any more;

    time_left : False once a simulation should stop, None = no bound; cache : values of the snapshot; limits : see
    `RequestLimits`; encodings : bytes of the same content; parallel : see `Parallel`;
    ends_request : errors that `stage` and `limits` raise.
    """

    stage: Callable[[str], AbstractContextManager[None]] = no_stop_watch
    time_left: Callable[[], bool] | None = None
    cache: SnapshotCache = UNCACHED
    limits: RequestLimits = UNLIMITED
    encodings: KeyedCache = WRITE_ALWAYS
    parallel: Parallel = SEQUENTIAL
    ends_request: tuple[type[Exception], ...] = ()
