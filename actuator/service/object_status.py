"""ApplyBufferStatus and ApplyCapacityStatus: write the status of CapacityBuffers, and the conditions of
ProvisioningRequests. Decides their content, and which objects one call writes: those that differ, up to a limit, in the
order of the request. An object that cannot be written does not stop the others. Durations in seconds.

Nothing is stored here: the next call reads the objects again, and the object is the record. What an answer means for a
ProvisioningRequest depends on the conditions that it has now, so a call that is repeated, or that comes late or after a
crash, changes nothing twice and takes nothing back: what has ended stays ended, only what is provisioned can be booked,
expire or be revoked, and only what is not can be provisioned or fail.
Source: kubernetes/autoscaler, cluster-autoscaler/apis (CapacityBufferStatus, ProvisioningRequest) and
pkg/provisioningrequest/conditions (types and reasons; upstream never writes CapacityRevoked).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

import structlog

from trimtab.actuator.kube.cluster import (
    ClusterApi,
    ClusterError,
    ConflictError,
    ForbiddenError,
    KnownBuffer,
    KnownCapacityRequest,
    NotFoundError,
    NotServedError,
    conditions_in,
)
from trimtab.actuator.service.settings import WriteLimits
from trimtab.v1 import actuator_pb2, plan_pb2

log = structlog.get_logger("object_status")

MOST_FAILURES: Final = 100
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
Response = actuator_pb2.ApplyBufferStatusResponse | actuator_pb2.ApplyCapacityStatusResponse
Due = tuple[str, Callable[[], None] | None]
"""An object, "namespace/name", and the write of its status; None = it has the status, or no longer exists."""

READY, PROVISIONING = "ReadyForProvisioning", "Provisioning"
Outcome = plan_pb2.CapacityRequestOutcome
ACCEPTED, PROVISIONED, FAILED = "Accepted", "Provisioned", "Failed"
BOOKING_EXPIRED, CAPACITY_REVOKED = "BookingExpired", "CapacityRevoked"
ENDED: Final = frozenset((FAILED, BOOKING_EXPIRED, CAPACITY_REVOKED))


class _Condition(NamedTuple):
    """A condition that follows from an answer."""

    type: str
    holds: bool
    reason: str
    # Only for a request that is provisioned, or (False) that is not.
    needs_provisioned: bool


CONDITIONS: Final[Mapping[int, _Condition]] = {
    Outcome.FOUND: _Condition(PROVISIONED, True, "CapacityIsFound", False),
    Outcome.PROVISIONED: _Condition(PROVISIONED, True, "CapacityIsProvisioned", False),
    Outcome.COMING: _Condition(PROVISIONED, False, "CapacityIsOrdered", False),
    Outcome.NOT_FOUND: _Condition(PROVISIONED, False, "CapacityIsNotFound", False),
    Outcome.INVALID: _Condition(PROVISIONED, False, "FailedToCreatePods", False),
    Outcome.FAILED: _Condition(FAILED, True, "CapacityIsNotFound", False),
    Outcome.EXPIRED: _Condition(FAILED, True, "Expired", False),
    Outcome.BOOKING_EXPIRED: _Condition(BOOKING_EXPIRED, True, "CapacityReservationTimeExpired", True),
    Outcome.CONSUMED: _Condition(BOOKING_EXPIRED, True, "CapacityBookingConsumed", True),
    Outcome.REVOKED: _Condition(CAPACITY_REVOKED, True, "CapacityIsLost", True),
}
"""What follows from each outcome; BOOKED changes nothing."""


def apply_buffer_status(
    cluster: ClusterApi, wanted: Mapping[str, plan_pb2.SlackObject], limits: WriteLimits, now: datetime
) -> actuator_pb2.ApplyBufferStatusResponse:
    """Write statuses that differ, within the limit of one call. wanted : by "namespace/name". Raises `ClusterError`."""
    response = actuator_pb2.ApplyBufferStatusResponse()

    def due() -> Iterable[Due]:
        known = {buffer.key: buffer for buffer in cluster.buffers()}
        for key, status in wanted.items():
            buffer = known.get(key)
            document = status_of(buffer, status, now) if buffer else None
            yield key, partial(cluster.write_buffer_status, buffer, document) if buffer and document else None

    _write_due(response, list(wanted), due, limits, ("CapacityBuffers", "another controller writes its status"))
    return response


def apply_capacity_status(
    cluster: ClusterApi, answers: Sequence[plan_pb2.CapacityRequestAnswer], limits: WriteLimits, now: datetime
) -> actuator_pb2.ApplyCapacityStatusResponse:
    """Write conditions that differ, within the limit of one call. Raises `ClusterError`."""
    response = actuator_pb2.ApplyCapacityStatusResponse()
    keys = [f"{answer.namespace}/{answer.name}" for answer in answers]

    def due() -> Iterable[Due]:
        known = {one.key: one for one in cluster.capacity_requests()}
        for key, answer in zip(keys, answers, strict=True):
            one = known.get(key)
            conditions = conditions_of(one, answer, now) if one is not None and one.uid == answer.uid else None
            yield key, partial(cluster.write_capacity_conditions, one, conditions) if one and conditions else None

    _write_due(response, keys, due, limits, ("ProvisioningRequests", "it has changed meanwhile"))
    return response


def _write_due(
    response: Response,
    keys: Sequence[str],
    due: Callable[[], Iterable[Due]],
    limits: WriteLimits,
    kind_and_conflict: tuple[str, str],
) -> None:
    """Write statuses in order, within the limits, and count what becomes of each. kind_and_conflict : the objects, and
    what a conflict means.
    """
    kind, conflict = kind_and_conflict
    may_write = limits.begin()
    try:
        writes_due = list(due()) if keys else []
    except (NotServedError, ForbiddenError) as error:
        writes_due = []
        for key in keys:
            _fail(response, key, f"{kind} cannot be read: {error}")
    for key, write in writes_due:
        if write is None:
            response.unchanged_count += 1
        elif may_write():
            _write(response, key, write, conflict)
        else:
            response.left_count += 1
    if response.failed_count:
        log.warning("status not written", objects=response.failed_count, such_as=response.failures[0])


def _write(response: Response, key: str, write: Callable[[], None], conflict: str) -> None:
    try:
        write()
    except NotFoundError:
        response.unchanged_count += 1
    except ConflictError as error:
        _fail(response, key, f"{conflict}: {error}")
    except ClusterError as error:
        _fail(response, key, str(error) or type(error).__name__)
    else:
        response.written_count += 1


def _fail(response: Response, key: str, detail: str) -> None:
    response.failed_count += 1
    if len(response.failures) < MOST_FAILURES:
        response.failures.append(f"{key}: {detail}")


def status_of(buffer: KnownBuffer, wanted: plan_pb2.SlackObject, now: datetime) -> dict[str, Any] | None:
    """Return the status to write; None = the buffer has it already."""
    served = not wanted.problem
    room = f"{wanted.present_count} of {wanted.asked_count} pods have room on nodes"
    waits = wanted.present_count < wanted.asked_count
    reason = "NotServed" if not served else "WaitsForNodes" if waits else "RoomIsThere"
    conditions = [
        _condition(READY, served, "Served" if served else "NotServed", wanted.problem or "its pods are known"),
        _condition(PROVISIONING, served, reason, room),
    ]
    fields: dict[str, Any] = {"replicas": wanted.asked_count}
    if served and buffer.template:
        fields["podTemplateRef"] = {"name": buffer.template}
    if buffer.strategy:
        fields["provisioningStrategy"] = buffer.strategy
    before = {str(one.get("type")): one for one in conditions_in(buffer.status)}
    conditions = [_dated(one, before.get(one["type"], {}), buffer.generation, now) for one in conditions]
    there = {name: buffer.status.get(name) for name in fields}
    if there == fields and all(before.get(one["type"]) == one for one in conditions):
        return None
    return fields | {"conditions": conditions}


def conditions_of(
    request: KnownCapacityRequest, answer: plan_pb2.CapacityRequestAnswer, now: datetime
) -> list[dict[str, Any]] | None:
    """Return all conditions of a request after an answer; None = it has them already, or they do not follow."""
    before = {str(old.get("type")): dict(old) for old in request.conditions}
    true = {kind for kind, old in before.items() if old.get("status") == "True"}
    wanted = CONDITIONS.get(answer.outcome)
    if wanted is None or true & ENDED or wanted.needs_provisioned != (PROVISIONED in true):
        return None
    changed = [_condition(wanted.type, wanted.holds, wanted.reason, answer.detail)]
    if ACCEPTED not in true:
        changed.insert(0, _condition(ACCEPTED, True, ACCEPTED, "it is answered by Trimtab"))
    after = dict(before)
    for new in changed:
        after[new["type"]] = _dated(new, before.get(new["type"], {}), request.generation, now)
    return None if after == before else list(after.values())


def _condition(kind: str, holds: bool, reason: str, message: str) -> dict[str, Any]:
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message[:1024]}


def _dated(one: Mapping[str, Any], before: Mapping[str, Any], generation: int, now: datetime) -> dict[str, Any]:
    """Return a condition as it is written: its time changes with its status only. before : the one of its type that
    the object has, {} = none; generation : of the object.
    """
    since = before.get("lastTransitionTime") if before.get("status") == one["status"] else None
    return {**one, "observedGeneration": generation, "lastTransitionTime": since or now.strftime(_TIME)}
