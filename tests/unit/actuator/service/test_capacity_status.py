"""The conditions of ProvisioningRequests: what follows from an answer, what is never taken back."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.builders.actuator import Stage, small_cluster
from trimtab.actuator.kube.cluster import (
    ClusterError,
    ForbiddenError,
    KnownCapacityRequest,
    NotFoundError,
    NotServedError,
)
from trimtab.actuator.service.object_status import apply_capacity_status
from trimtab.actuator.service.settings import WriteLimits
from trimtab.actuator.service.validation import MAX_CAPACITY_REQUESTS, capacity_answers
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.common.rpc.errors import ServiceError
from trimtab.v1 import actuator_pb2, plan_pb2

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
AT, LATER_AT = "2026-01-02T03:04:05Z", "2026-01-02T03:09:05Z"
LATER = NOW + timedelta(minutes=5)
Outcome = plan_pb2.CapacityRequestOutcome
TRAIN = KnownCapacityRequest("ml", "train", "uid-1", 1, "7", ())


def stage_with(*requests: KnownCapacityRequest) -> Stage:
    stage = Stage(small_cluster())
    for one in requests or (TRAIN,):
        stage.cluster.put_capacity_request(one)
    return stage


def answer(
    outcome: str, name: str = "train", uid: str = "uid-1", detail: str = "why"
) -> plan_pb2.CapacityRequestAnswer:
    return plan_pb2.CapacityRequestAnswer(
        namespace="ml", name=name, uid=uid, outcome=Outcome.Code.Value(outcome), detail=detail
    )


def apply(
    stage: Stage, *answers: plan_pb2.CapacityRequestAnswer, now: datetime = NOW, limits: WriteLimits | None = None
) -> actuator_pb2.ApplyCapacityStatusResponse:
    return apply_capacity_status(stage.cluster, answers, limits or WriteLimits(), now)


def conditions(stage: Stage, name: str = "train") -> dict[str, tuple[Any, ...]]:
    """Return status, reason and time of each condition."""
    (one,) = [one for one in stage.cluster.capacity_requests() if one.name == name]
    return {str(c["type"]): (c["status"], c["reason"], c["lastTransitionTime"]) for c in one.conditions}


@pytest.mark.parametrize(
    ("outcome", "kind", "status", "reason"),
    [
        ("FOUND", "Provisioned", "True", "CapacityIsFound"),
        ("PROVISIONED", "Provisioned", "True", "CapacityIsProvisioned"),
        ("COMING", "Provisioned", "False", "CapacityIsOrdered"),
        ("NOT_FOUND", "Provisioned", "False", "CapacityIsNotFound"),
        ("INVALID", "Provisioned", "False", "FailedToCreatePods"),
        ("FAILED", "Failed", "True", "CapacityIsNotFound"),
        ("EXPIRED", "Failed", "True", "Expired"),
    ],
)
def test_a_new_request_is_accepted_and_gets_the_condition_of_its_answer(
    outcome: str, kind: str, status: str, reason: str
) -> None:
    stage = stage_with()
    assert apply(stage, answer(outcome)).written_count == 1
    assert conditions(stage) == {"Accepted": ("True", "Accepted", AT), kind: (status, reason, AT)}
    assert apply(stage, answer(outcome), now=LATER).unchanged_count == 1


@pytest.mark.parametrize(
    ("outcome", "kind", "reason"),
    [
        ("BOOKING_EXPIRED", "BookingExpired", "CapacityReservationTimeExpired"),
        ("CONSUMED", "BookingExpired", "CapacityBookingConsumed"),
        ("REVOKED", "CapacityRevoked", "CapacityIsLost"),
    ],
)
def test_a_booking_ends_and_the_condition_provisioned_stays(outcome: str, kind: str, reason: str) -> None:
    stage = stage_with()
    apply(stage, answer("FOUND"))
    assert apply(stage, answer(outcome), now=LATER).written_count == 1
    found = conditions(stage)
    assert (found["Provisioned"], found[kind]) == (("True", "CapacityIsFound", AT), ("True", reason, LATER_AT))


def test_the_time_of_a_condition_changes_with_its_status_only() -> None:
    stage = stage_with()
    apply(stage, answer("NOT_FOUND"))
    apply(stage, answer("COMING"), now=LATER)
    assert conditions(stage)["Provisioned"] == ("False", "CapacityIsOrdered", AT)
    apply(stage, answer("PROVISIONED"), now=LATER)
    assert conditions(stage)["Provisioned"] == ("True", "CapacityIsProvisioned", LATER_AT)


def test_late_and_repeated_answers_take_nothing_back() -> None:
    stage = stage_with()
    apply(stage, answer("FOUND"))
    before = conditions(stage)
    for late in ("NOT_FOUND", "COMING", "INVALID", "FAILED", "EXPIRED", "PROVISIONED", "BOOKED"):
        assert apply(stage, answer(late), now=LATER).unchanged_count == 1
    assert conditions(stage) == before
    apply(stage, answer("CONSUMED"))
    before = conditions(stage)
    for late in ("FOUND", "REVOKED", "BOOKING_EXPIRED", "NOT_FOUND"):
        assert apply(stage, answer(late), now=LATER).unchanged_count == 1
    assert conditions(stage) == before


def test_only_what_is_provisioned_expires_or_is_revoked() -> None:
    stage = stage_with()
    for late in ("BOOKING_EXPIRED", "CONSUMED", "REVOKED"):
        assert apply(stage, answer(late)).unchanged_count == 1
    assert conditions(stage) == {}


def test_conditions_of_others_stay_and_a_new_object_of_the_name_is_not_written() -> None:
    own = {"type": "Theirs", "status": "True", "reason": "R", "message": "", "lastTransitionTime": AT}
    stage = stage_with(TRAIN._replace(conditions=(own,)))
    apply(stage, answer("FOUND"))
    assert set(conditions(stage)) == {"Theirs", "Accepted", "Provisioned"}
    assert apply(stage, answer("CONSUMED", uid="uid-2")).unchanged_count == 1
    assert apply(stage, answer("FOUND", name="gone")).unchanged_count == 1


def test_one_request_that_cannot_be_written_does_not_stop_the_others() -> None:
    stage = stage_with(TRAIN, TRAIN._replace(name="second", uid="uid-2"))
    stage.cluster.faults.add(Fault("write_capacity_conditions", "ml/second", ClusterError("the server is busy")))
    found = apply(stage, answer("FOUND", "second", "uid-2"), answer("FOUND"))
    assert (found.failed_count, found.written_count) == (1, 1)
    assert list(found.failures) == ["ml/second: the server is busy"]


def test_a_request_that_is_gone_meanwhile_is_no_failure() -> None:
    stage = stage_with()
    stage.cluster.faults.add(Fault("write_capacity_conditions", "ml/train", NotFoundError("gone")))
    assert apply(stage, answer("FOUND")).unchanged_count == 1


@pytest.mark.parametrize("error", [NotServedError("no such kind"), ForbiddenError("not allowed")], ids=str)
def test_without_the_kind_or_the_right_every_answer_says_so(error: ClusterError) -> None:
    stage = stage_with()
    stage.cluster.faults.add(Fault("capacity_requests", error=error))
    found = apply(stage, answer("FOUND"), answer("FOUND", "second", "uid-2"))
    assert found.failed_count == 2
    assert next(iter(found.failures)) == f"ml/train: ProvisioningRequests cannot be read: {error}"


def test_one_call_writes_a_limited_number_and_says_how_many_are_left() -> None:
    requests = [TRAIN._replace(name=f"r{at}", uid=f"u{at}") for at in range(5)]
    stage, limits = stage_with(*requests), WriteLimits(max_count=2)
    answers = [answer("FOUND", f"r{at}", f"u{at}") for at in range(5)]
    counts = []
    for _ in range(4):
        found = apply(stage, *answers, limits=limits)
        counts.append((found.written_count, found.left_count))
    assert counts == [(2, 3), (2, 1), (1, 0), (0, 0)]


def test_answers_are_checked_before_anything_is_written() -> None:
    def refused(*answers: plan_pb2.CapacityRequestAnswer) -> str:
        with pytest.raises(ServiceError) as error:
            capacity_answers(actuator_pb2.ApplyCapacityStatusRequest(requests=answers))
        return str(error.value)

    assert "was given before" in refused(answer("FOUND"), answer("FOUND"))
    assert "is no name of an object" in refused(answer("FOUND", name="a/b"))
    assert "give at most" in refused(*[answer("FOUND", name=f"r{at}") for at in range(MAX_CAPACITY_REQUESTS + 1)])
