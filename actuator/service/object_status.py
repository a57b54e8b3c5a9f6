"""What ApplyBufferStatus and ApplyCapacityStatus share: the form of conditions, and the writes of one call, up to its
limits. An object that cannot be written does not stop the others. Durations in seconds.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from trimtab.actuator.kube.cluster import ClusterError, ConflictError, NotFoundError
from trimtab.actuator.service.settings import BufferLimits, CapacityLimits
from trimtab.v1 import actuator_pb2

MOST_FAILURES: Final = 100
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
Response = actuator_pb2.ApplyBufferStatusResponse | actuator_pb2.ApplyCapacityStatusResponse
Due = tuple[str, Callable[[], None] | None]
"""An object, "namespace/name", and the write of its status; None = it has the status, or no longer exists."""


def write_due(response: Response, due: Iterable[Due], limits: BufferLimits | CapacityLimits, conflict: str) -> None:
    """Write statuses in order, within the limits, and count what becomes of each. conflict : what a conflict means."""
    until, writes = time.monotonic() + limits.max_s, 0
    for key, write in due:
        if write is None:
            response.unchanged_count += 1
        elif writes >= limits.max_count or time.monotonic() > until:
            response.left_count += 1
        else:
            writes += 1
            _write(response, key, write, conflict)


def _write(response: Response, key: str, write: Callable[[], None], conflict: str) -> None:
    """Write one status and count it."""
    try:
        write()
    except NotFoundError:
        response.unchanged_count += 1
    except ConflictError as error:
        fail(response, key, f"{conflict}: {error}")
    except ClusterError as error:
        fail(response, key, str(error) or type(error).__name__)
    else:
        response.written_count += 1


def fail(response: Response, key: str, detail: str) -> None:
    """Count an object that could not be written."""
    response.failed_count += 1
    if len(response.failures) < MOST_FAILURES:
        response.failures.append(f"{key}: {detail}")


def condition(kind: str, holds: bool, reason: str, message: str) -> dict[str, Any]:
    """Return a condition without its time."""
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message[:1024]}


def dated(one: Mapping[str, Any], before: Mapping[str, Any], generation: int, now: datetime) -> dict[str, Any]:
    """Return a condition as it is written: its time changes with its status only. before : the one of its type that
    the object has, {} = none; generation : of the object.
    """
    since = before.get("lastTransitionTime") if before.get("status") == one["status"] else None
    return {**one, "observedGeneration": generation, "lastTransitionTime": since or now.strftime(_TIME)}
