"""ApplyBufferStatus: write the status of CapacityBuffers. Decides the content of the status, and which buffers one call
writes: those whose status differs, up to a limit, in the order of the request. Nothing is stored: the next call reads
the buffers again.
Source: kubernetes/autoscaler, cluster-autoscaler/apis, CapacityBufferStatus and its conditions.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any

import structlog

from trimtab.actuator.kube.cluster import (
    BufferStatus,
    ClusterApi,
    ForbiddenError,
    KnownBuffer,
    NotServedError,
    conditions_in,
)
from trimtab.actuator.service.object_status import Due, condition, dated, fail, write_due
from trimtab.actuator.service.settings import BufferLimits
from trimtab.v1 import actuator_pb2

log = structlog.get_logger("buffers")

READY, PROVISIONING = "ReadyForProvisioning", "Provisioning"


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
        for key in wanted:
            fail(response, key, f"CapacityBuffers cannot be read: {error}")
        return response
    due = _due(cluster, known, wanted, now)
    write_due(response, due, limits, "another controller writes its status")
    if response.failed_count:
        log.warning("buffer status not written", buffers=response.failed_count, such_as=response.failures[0])
    return response


def _due(
    cluster: ClusterApi, known: Mapping[str, KnownBuffer], wanted: Mapping[str, BufferStatus], now: datetime
) -> Iterator[Due]:
    for key, status in wanted.items():
        buffer = known.get(key)
        document = status_of(buffer, status, now) if buffer else None
        yield key, partial(cluster.write_buffer_status, buffer, document) if buffer and document else None


def status_of(buffer: KnownBuffer, wanted: BufferStatus, now: datetime) -> dict[str, Any] | None:
    """Return the status to write; None = the buffer has it already."""
    served = not wanted.problem
    room = f"{wanted.present} of {wanted.replicas} pods have room on nodes"
    waits = wanted.present < wanted.replicas
    conditions = [
        condition(READY, served, "Served" if served else "NotServed", wanted.problem or "its pods are known"),
        condition(
            PROVISIONING, served, "NotServed" if not served else "WaitsForNodes" if waits else "RoomIsThere", room
        ),
    ]
    fields: dict[str, Any] = {"replicas": wanted.replicas}
    if served and buffer.template:
        fields["podTemplateRef"] = {"name": buffer.template}
    if buffer.strategy:
        fields["provisioningStrategy"] = buffer.strategy
    before = {str(one.get("type")): one for one in conditions_in(buffer.status)}
    conditions = [dated(one, before.get(one["type"], {}), buffer.generation, now) for one in conditions]
    there = {name: buffer.status.get(name) for name in fields}
    if there == fields and all(before.get(one["type"]) == one for one in conditions):
        return None
    return fields | {"conditions": conditions}
