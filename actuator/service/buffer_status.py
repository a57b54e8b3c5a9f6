"""ApplyBufferStatus: write the status of CapacityBuffers. Decides the content of the status, and which buffers one call
writes: those whose status differs, up to a limit, in the order of the request. Nothing is stored: the next call reads
the buffers again. A buffer that cannot be written
does not stop the others. Durations in seconds.
Source: kubernetes/autoscaler, cluster-autoscaler/apis, CapacityBufferStatus and its conditions.
"""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import structlog

from trimtab.actuator.kube.cluster import (
    BufferStatus,
    ClusterApi,
    ClusterError,
    ConflictError,
    ForbiddenError,
    KnownBuffer,
    NotFoundError,
    NotServedError,
)
from trimtab.actuator.service.settings import BufferLimits
from trimtab.v1 import actuator_pb2

log = structlog.get_logger("buffers")

READY, PROVISIONING = "ReadyForProvisioning", "Provisioning"
MOST_FAILURES: Final = 100
_TIME = "%Y-%m-%dT%H:%M:%SZ"


def apply_buffer_status(
    cluster: ClusterApi, wanted: Mapping[str, BufferStatus], limits: BufferLimits, now: datetime
) -> actuator_pb2.ApplyBufferStatusResponse:
    """Write statuses that differ, within the limit of one call. wanted : by "namespace/name". Raises `ClusterError`."""
    response = actuator_pb2.ApplyBufferStatusResponse()
    if not wanted:
        return response
    try:
        known = {buffer.key: buffer for buffer in cluster.buffers()}
    except (NotServedError, ForbiddenError) as error:
        _fail(response, wanted, f"CapacityBuffers cannot be read: {error}")
        return response
    until, writes = time.monotonic() + limits.max_s, 0
    for key, status in wanted.items():
        buffer = known.get(key)
        document = status_of(buffer, status, now) if buffer else None
        if buffer is None or document is None:
            response.unchanged_count += 1
        elif writes >= limits.max_count or time.monotonic() > until:
            response.left_count += 1
        else:
            writes += 1
            _write(cluster, buffer, document, response)
    if response.failed_count:
        log.warning("buffer status not written", buffers=response.failed_count, such_as=response.failures[0])
    return response


def status_of(buffer: KnownBuffer, wanted: BufferStatus, now: datetime) -> dict[str, Any] | None:
    """Return the status to write; None = the buffer has it already."""
    served = not wanted.problem
    room = f"{wanted.present} of {wanted.replicas} pods have room on nodes"
    waits = wanted.present < wanted.replicas
    conditions = [
        _condition(READY, served, "Served" if served else "NotServed", wanted.problem or "its pods are known"),
        _condition(
            PROVISIONING, served, "NotServed" if not served else "WaitsForNodes" if waits else "RoomIsThere", room
        ),
    ]
    fields: dict[str, Any] = {"replicas": wanted.replicas}
    if served and buffer.template:
        fields["podTemplateRef"] = {"name": buffer.template}
    if buffer.strategy:
        fields["provisioningStrategy"] = buffer.strategy
    before = {str(condition.get("type")): condition for condition in _conditions(buffer)}
    for condition in conditions:
        condition["observedGeneration"] = buffer.generation
        old = before.get(condition["type"], {})
        is_same = old.get("status") == condition["status"]
        condition["lastTransitionTime"] = old.get("lastTransitionTime") if is_same else now.strftime(_TIME)
    there = {name: buffer.status.get(name) for name in fields}
    if there == fields and all(before.get(condition["type"]) == condition for condition in conditions):
        return None
    return fields | {"conditions": conditions}


def _condition(kind: str, holds: bool, reason: str, message: str) -> dict[str, Any]:
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message[:1024]}


def _conditions(buffer: KnownBuffer) -> Sequence[Mapping[str, Any]]:
    conditions = buffer.status.get("conditions")
    return (
        [condition for condition in conditions if isinstance(condition, dict)] if isinstance(conditions, list) else []
    )


def _write(
    cluster: ClusterApi,
    buffer: KnownBuffer,
    status: Mapping[str, Any],
    response: actuator_pb2.ApplyBufferStatusResponse,
) -> None:
    """Write one status and count it."""
    try:
        cluster.write_buffer_status(buffer, status)
    except NotFoundError:
        response.unchanged_count += 1
    except ConflictError as error:
        _fail(response, (buffer.key,), f"another controller writes its status: {error}")
    except ClusterError as error:
        _fail(response, (buffer.key,), str(error) or type(error).__name__)
    else:
        response.written_count += 1


def _fail(
    response: actuator_pb2.ApplyBufferStatusResponse, buffers: Sequence[str] | Mapping[str, Any], detail: str
) -> None:
    """Count buffers that could not be written."""
    for key in buffers:
        response.failed_count += 1
        if len(response.failures) < MOST_FAILURES:
            response.failures.append(f"{key}: {detail}")
