"""The status of CapacityBuffers: its content, and the handling of buffers that cannot be written."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.builders.actuator import Stage, small_cluster
from trimtab.actuator.kube.cluster import (
    ClusterError,
    ConflictError,
    ForbiddenError,
    KnownBuffer,
    NotFoundError,
    NotServedError,
)
from trimtab.actuator.service.object_status import apply_buffer_status, status_of
from trimtab.actuator.service.settings import WriteLimits
from trimtab.actuator.service.validation import MAX_BUFFERS, buffer_states
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.common.rpc.errors import ServiceError
from trimtab.v1 import actuator_pb2, plan_pb2

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SPARE = KnownBuffer("shop", "spare", 3, "chunk", "", {})


def buffer_with(asked: int, present: int, problem: str = "") -> plan_pb2.SlackObject:
    return plan_pb2.SlackObject(asked_count=asked, present_count=present, problem=problem)


def stage_with(*names: str) -> Stage:
    stage = Stage(small_cluster())
    for name in names:
        stage.cluster.put_buffer(SPARE._replace(name=name))
    return stage


def apply(
    stage: Stage, wanted: dict[str, plan_pb2.SlackObject], now: datetime = NOW, limits: WriteLimits | None = None
) -> actuator_pb2.ApplyBufferStatusResponse:
    return apply_buffer_status(stage.cluster, wanted, limits or WriteLimits(), now)


def written(stage: Stage, name: str = "spare") -> dict[str, Any]:
    return next(dict(one.status) for one in stage.cluster.buffers() if one.name == name)


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str, str, str]]:
    """Return status, reason, message and time of each condition."""
    return {
        one["type"]: (one["status"], one["reason"], one["message"], one["lastTransitionTime"])
        for one in status["conditions"]
    }


def test_the_status_says_how_much_room_there_is_and_is_written_once() -> None:
    stage = stage_with("spare")
    assert apply(stage, {"shop/spare": buffer_with(5, 3)}).written_count == 1
    status = written(stage)
    assert (status["replicas"], status["podTemplateRef"]) == (5, {"name": "chunk"})
    assert conditions(status) == {
        "ReadyForProvisioning": ("True", "Served", "its pods are known", "2026-01-02T03:04:05Z"),
        "Provisioning": ("True", "WaitsForNodes", "3 of 5 pods have room on nodes", "2026-01-02T03:04:05Z"),
    }
    assert {one["observedGeneration"] for one in status["conditions"]} == {3}
    later = NOW + timedelta(minutes=5)
    assert apply(stage, {"shop/spare": buffer_with(5, 3)}, later).unchanged_count == 1
    assert apply(stage, {"shop/spare": buffer_with(5, 5)}, later).written_count == 1
    # The condition's status has not changed, so neither has its time.
    expected = ("True", "RoomIsThere", "5 of 5 pods have room on nodes", "2026-01-02T03:04:05Z")
    assert conditions(written(stage))["Provisioning"] == expected


def test_a_buffer_that_is_not_served_says_why_and_since_when() -> None:
    stage = stage_with("spare")
    apply(stage, {"shop/spare": buffer_with(5, 5)})
    later = NOW + timedelta(minutes=5)
    assert apply(stage, {"shop/spare": buffer_with(0, 0, "there is no PodTemplate")}, later).written_count == 1
    status = written(stage)
    assert "podTemplateRef" not in status
    assert status["replicas"] == 0
    assert conditions(status)["ReadyForProvisioning"] == (
        "False", "NotServed", "there is no PodTemplate", "2026-01-02T03:09:05Z",
    )  # fmt: skip
    assert conditions(status)["Provisioning"][:2] == ("False", "NotServed")


def test_conditions_of_others_are_not_checked_and_a_strategy_is_repeated() -> None:
    strange = SPARE._replace(strategy="buffer.x-k8s.io/active-capacity", status={"conditions": [{"type": "Other"}, 3]})
    status = status_of(strange, buffer_with(1, 1), NOW)
    assert status is not None
    assert status["provisioningStrategy"] == "buffer.x-k8s.io/active-capacity"
    assert [one["type"] for one in status["conditions"]] == ["ReadyForProvisioning", "Provisioning"]
    assert status_of(strange._replace(status=status), buffer_with(1, 1), NOW) is None
    assert status_of(strange._replace(status={"conditions": "none"}), buffer_with(1, 1), NOW) == status


@pytest.mark.parametrize(
    ("error", "failures"),
    [
        pytest.param(NotFoundError("gone"), [], id="gone meanwhile"),
        pytest.param(
            ConflictError("conflict with x"),
            ["shop/a: another controller writes its status: conflict with x"],
            id="another controller",
        ),
        pytest.param(ForbiddenError("no patch"), ["shop/a: no patch"], id="no permission"),
        pytest.param(ClusterError("timeout"), ["shop/a: timeout"], id="lost"),
    ],
)
def test_a_buffer_that_cannot_be_written_does_not_stop_the_others(error: ClusterError, failures: list[str]) -> None:
    stage = stage_with("a", "b")
    stage.cluster.faults.add(Fault("write_buffer_status", "shop/a", error, times=1))
    answer = apply(stage, {"shop/a": buffer_with(1, 1), "shop/b": buffer_with(1, 1), "shop/gone": buffer_with(1, 1)})
    assert list(answer.failures) == failures
    assert (answer.written_count, answer.failed_count) == (1, len(failures))
    assert answer.unchanged_count == 2 - len(failures)
    assert apply(stage, {"shop/a": buffer_with(1, 1), "shop/b": buffer_with(1, 1)}).written_count == 1


@pytest.mark.parametrize("error", [NotServedError("no such kind"), ForbiddenError("no list")])
def test_where_buffers_cannot_be_read_each_says_so(error: ClusterError) -> None:
    stage = stage_with("a")
    stage.cluster.faults.add(Fault("buffers", error=error))
    answer = apply(stage, {"shop/a": buffer_with(1, 1)})
    assert list(answer.failures) == [f"shop/a: CapacityBuffers cannot be read: {error}"]
    assert apply(stage, {}) == actuator_pb2.ApplyBufferStatusResponse()


def test_the_limit_of_one_call_leaves_buffers_for_the_next() -> None:
    stage = stage_with("a", "b", "c")
    wanted = {f"shop/{name}": buffer_with(1, 0) for name in "abc"}
    answer = apply(stage, wanted, limits=WriteLimits(max_count=2))
    assert (answer.written_count, answer.left_count) == (2, 1)
    answer = apply(stage, wanted, limits=WriteLimits(max_count=2))
    assert (answer.written_count, answer.unchanged_count, answer.left_count) == (1, 2, 0)


def states(*buffers: plan_pb2.SlackObject) -> dict[str, plan_pb2.SlackObject]:
    return buffer_states(actuator_pb2.ApplyBufferStatusRequest(buffers=buffers))


def test_a_request_is_checked() -> None:
    good = plan_pb2.SlackObject(object="CapacityBuffer/shop/a", asked_count=2, present_count=1, problem="p")
    assert states(good) == {"shop/a": good}
    refused = {
        "was given before": [good, good],
        "is not a buffer": [plan_pb2.SlackObject(object="Deployment/shop/a")],
        "is not a buffer;": [plan_pb2.SlackObject(object="CapacityBuffer/../a")],
        "give 0 to asked_count": [plan_pb2.SlackObject(object="CapacityBuffer/shop/a", present_count=1)],
        "give at most": [good] * (MAX_BUFFERS + 1),
    }
    for message, buffers in refused.items():
        with pytest.raises(ServiceError, match=message):
            states(*buffers)
