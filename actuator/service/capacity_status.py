"""ApplyCapacityStatus: write the conditions of ProvisioningRequests. Decides which conditions follow from an answer,
and which objects one call writes: those whose conditions differ, up to a limit, in the order of the request.

Nothing is stored here: the object is the record. What an answer means for an object depends on the conditions that it
has now, so a call that is repeated, or that comes late or after a crash, changes nothing twice and takes nothing back:
what has ended stays ended, only what is provisioned can be booked, expire or be revoked, and only what is not can be
provisioned or fail.
Source: kubernetes/autoscaler, cluster-autoscaler/apis, ProvisioningRequest; Cluster Autoscaler,
pkg/provisioningrequest/conditions (types and reasons; upstream never writes CapacityRevoked).
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

import structlog

from trimtab.actuator.kube.cluster import ClusterApi, ForbiddenError, KnownCapacityRequest, NotServedError
from trimtab.actuator.service.object_status import Due, condition, dated, fail, write_due
from trimtab.actuator.service.settings import CapacityLimits
from trimtab.v1 import actuator_pb2, plan_pb2

log = structlog.get_logger("capacity_requests")

Outcome = plan_pb2.CapacityRequestOutcome
ACCEPTED, PROVISIONED, FAILED = "Accepted", "Provisioned", "Failed"
BOOKING_EXPIRED, CAPACITY_REVOKED = "BookingExpired", "CapacityRevoked"
ENDED: Final = frozenset((FAILED, BOOKING_EXPIRED, CAPACITY_REVOKED))


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
    cluster: ClusterApi, answers: Sequence[plan_pb2.CapacityRequestAnswer], limits: CapacityLimits, now: datetime
) -> actuator_pb2.ApplyCapacityStatusResponse:
    """Write conditions that differ, within the limit of one call. Raises `ClusterError`."""
    response = actuator_pb2.ApplyCapacityStatusResponse()
    if not answers:
        return response
    try:
        known = {one.key: one for one in cluster.capacity_requests()}
    except (NotServedError, ForbiddenError) as error:
        for answer in answers:
            fail(response, f"{answer.namespace}/{answer.name}", f"ProvisioningRequests cannot be read: {error}")
        return response
    write_due(response, _due(cluster, known, answers, now), limits, "it has changed meanwhile")
    if response.failed_count:
        log.warning("conditions not written", requests=response.failed_count, such_as=response.failures[0])
    return response


def _due(
    cluster: ClusterApi,
    known: Mapping[str, KnownCapacityRequest],
    answers: Sequence[plan_pb2.CapacityRequestAnswer],
    now: datetime,
) -> Iterator[Due]:
    for answer in answers:
        key = f"{answer.namespace}/{answer.name}"
        one = known.get(key)
        conditions = conditions_of(one, answer, now) if one is not None and one.uid == answer.uid else None
        yield key, partial(cluster.write_capacity_conditions, one, conditions) if one and conditions else None


def conditions_of(
    one: KnownCapacityRequest, answer: plan_pb2.CapacityRequestAnswer, now: datetime
) -> list[dict[str, Any]] | None:
    """Return all conditions of a request after an answer; None = it has them already, or they do not follow."""
    before = {str(old.get("type")): dict(old) for old in one.conditions}
    true = {kind for kind, old in before.items() if old.get("status") == "True"}
    wanted = CONDITIONS.get(answer.outcome)
    if wanted is None or true & ENDED or wanted.needs_provisioned != (PROVISIONED in true):
        return None
    changed = [condition(wanted.type, wanted.holds, wanted.reason, answer.detail)]
    if ACCEPTED not in true:
        changed.insert(0, condition(ACCEPTED, True, ACCEPTED, "it is answered by Trimtab"))
    after = dict(before)
    for new in changed:
        after[new["type"]] = dated(new, before.get(new["type"], {}), one.generation, now)
    return None if after == before else list(after.values())
