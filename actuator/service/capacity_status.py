"""ApplyCapacityStatus: write the conditions of ProvisioningRequests. Decides which conditions follow from an answer,
and which objects one call writes: those whose conditions differ, up to a limit, in the order of the request.

Nothing is stored here: the object is the record. What an answer means for an object depends on the conditions that it
has now, so a call that is repeated, or that comes late or after a crash, changes nothing twice and takes nothing back:
what has ended stays ended, only what is provisioned can be booked, expire or be revoked, and only what is not can be
provisioned or fail. Durations in seconds.
Source: kubernetes/autoscaler, cluster-autoscaler/apis, ProvisioningRequest; Cluster Autoscaler,
pkg/provisioningrequest/conditions (types and reasons; upstream never writes CapacityRevoked).
"""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import structlog

from trimtab.actuator.kube.cluster import (
    ClusterApi,
    ClusterError,
    ConflictError,
    ForbiddenError,
    KnownCapacityRequest,
    NotFoundError,
    NotServedError,
)
from trimtab.actuator.service.settings import CapacityLimits
from trimtab.v1 import actuator_pb2, plan_pb2

log = structlog.get_logger("capacity_requests")

Outcome = plan_pb2.CapacityOutcome
ACCEPTED, PROVISIONED, FAILED = "Accepted", "Provisioned", "Failed"
BOOKING_EXPIRED, CAPACITY_REVOKED = "BookingExpired", "CapacityRevoked"
ENDED: Final = frozenset((FAILED, BOOKING_EXPIRED, CAPACITY_REVOKED))
MOST_FAILURES: Final = 100
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


class _Condition(NamedTuple):
    """A condition that follows from an answer. needs_provisioned : only for a request that is provisioned, or (False)
    that is not."""

    type: str
    holds: bool
    reason: str
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


def apply_capacity_status(
    cluster: ClusterApi, answers: Sequence[plan_pb2.CapacityAnswer], limits: CapacityLimits, now: datetime
) -> actuator_pb2.ApplyCapacityStatusResponse:
    """Write conditions that differ, within the limit of one call. Raises `ClusterError`."""
    response = actuator_pb2.ApplyCapacityStatusResponse()
    if not answers:
        return response
    try:
        known = {one.key: one for one in cluster.capacity_requests()}
    except (NotServedError, ForbiddenError) as error:
        for answer in answers:
            _fail(response, f"{answer.namespace}/{answer.name}", f"ProvisioningRequests cannot be read: {error}")
        return response
    until, writes = time.monotonic() + limits.max_s, 0
    for answer in answers:
        one = known.get(f"{answer.namespace}/{answer.name}")
        conditions = conditions_of(one, answer, now) if one is not None and one.uid == answer.uid else None
        if one is None or conditions is None:
            response.unchanged_count += 1
        elif writes >= limits.max_count or time.monotonic() > until:
            response.left_count += 1
        else:
            writes += 1
            _write(cluster, one, conditions, response)
    if response.failed_count:
        log.warning("conditions not written", requests=response.failed_count, such_as=response.failures[0])
    return response


def conditions_of(
    one: KnownCapacityRequest, answer: plan_pb2.CapacityAnswer, now: datetime
) -> list[dict[str, Any]] | None:
    """Return all conditions of a request after an answer; None = it has them already, or they do not follow."""
    before = {str(condition.get("type")): dict(condition) for condition in one.conditions}
    true = {kind for kind, condition in before.items() if condition.get("status") == "True"}
    wanted = CONDITIONS.get(answer.outcome)
    if wanted is None or true & ENDED or wanted.needs_provisioned != (PROVISIONED in true):
        return None
    after = dict(before)
    if ACCEPTED not in true:
        accepted = _Condition(ACCEPTED, True, ACCEPTED, False)
        after[ACCEPTED] = _document(accepted, "it is answered by Trimtab", one, before, now)
    after[wanted.type] = _document(wanted, answer.detail, one, before, now)
    return None if after == before else list(after.values())


def _document(
    wanted: _Condition, message: str, one: KnownCapacityRequest, before: Mapping[str, Mapping[str, Any]], now: datetime
) -> dict[str, Any]:
    """Return a condition as it is written; its time changes with its status only."""
    old, status = before.get(wanted.type, {}), "True" if wanted.holds else "False"
    is_same = old.get("status") == status and old.get("lastTransitionTime")
    return {
        "type": wanted.type,
        "status": status,
        "reason": wanted.reason,
        "message": message[:1024],
        "observedGeneration": one.generation,
        "lastTransitionTime": old.get("lastTransitionTime") if is_same else now.strftime(_TIME),
    }


def _write(
    cluster: ClusterApi,
    one: KnownCapacityRequest,
    conditions: Sequence[Mapping[str, Any]],
    response: actuator_pb2.ApplyCapacityStatusResponse,
) -> None:
    """Write the conditions of one request, and count it."""
    try:
        cluster.write_capacity_conditions(one, conditions)
    except NotFoundError:
        response.unchanged_count += 1
    except ConflictError as error:
        _fail(response, one.key, f"it has changed meanwhile: {error}")
    except ClusterError as error:
        _fail(response, one.key, str(error) or type(error).__name__)
    else:
        response.written_count += 1


def _fail(response: actuator_pb2.ApplyCapacityStatusResponse, key: str, detail: str) -> None:
    """Count a request that could not be written."""
    response.failed_count += 1
    if len(response.failures) < MOST_FAILURES:
        response.failures.append(f"{key}: {detail}")
