"""Pod deletion costs: what is written, what is left, and what becomes of pods that cannot be written."""

import pytest
from trimtab.v1 import actuator_pb2, plan_pb2, reason_pb2

from actuator.kube.cluster import ClusterError, ConflictError, ForbiddenError, NotFoundError, RefusedError
from actuator.service.pod_costs import apply_pod_costs
from actuator.service.settings import PodCostLimits
from actuator.service.validation import MAX_COSTS, cost_requests
from actuator.simulated_cluster.faults import Fault
from clients.transport.errors import ServiceError
from tests.builders.actuator import Stage, small_cluster

WEB = [f"default/web-{number}" for number in range(5)]


def request(costs: dict[str, int], remove: list[str] | None = None) -> actuator_pb2.ApplyPodCostsRequest:
    groups = [plan_pb2.PodCostGroup(owner="ReplicaSet/default/web", costs=costs)] if costs else []
    return actuator_pb2.ApplyPodCostsRequest(groups=groups, remove=remove or [])


def apply(
    stage: Stage, costs: dict[str, int], remove: list[str] | None = None, limits: PodCostLimits | None = None
) -> actuator_pb2.ApplyPodCostsResponse:
    return apply_pod_costs(stage.cluster, cost_requests(request(costs, remove)), limits or PodCostLimits())


def cost(stage: Stage, key: str) -> str | None:
    return stage.cluster.pod_costs([key])[key].cost


def test_a_cost_is_written_changed_and_taken_away_and_never_twice() -> None:
    stage = Stage(small_cluster())
    for value in (3, -7):
        assert apply(stage, {WEB[0]: value}).written_count == 1
        assert cost(stage, WEB[0]) == str(value)
        assert apply(stage, {WEB[0]: value}).unchanged_count == 1
    assert apply(stage, {}, [WEB[0]]).removed_count == 1
    assert cost(stage, WEB[0]) is None
    assert apply(stage, {}, [WEB[0], "default/gone"]).unchanged_count == 2
    assert stage.noted("cost_written") == [WEB[0]] * 3


def test_no_cost_is_as_good_as_zero() -> None:
    stage = Stage(small_cluster())
    assert apply(stage, {WEB[0]: 0}).unchanged_count == 1
    apply(stage, {WEB[0]: 4})
    assert apply(stage, {WEB[0]: 0}).written_count == 1
    assert cost(stage, WEB[0]) == "0"


def test_one_call_writes_a_bounded_number_and_the_next_one_goes_on() -> None:
    stage = Stage(small_cluster())
    costs = {pod: number + 1 for number, pod in enumerate(WEB)}
    counts = []
    for _ in range(4):
        response = apply(stage, costs, limits=PodCostLimits(max_count=2))
        counts.append((response.unchanged_count, response.written_count, response.left_count))
    assert counts == [(0, 2, 3), (2, 2, 1), (4, 1, 0), (5, 0, 0)]
    assert apply(stage, dict.fromkeys(WEB, 9), limits=PodCostLimits(max_s=-1)).left_count == 5


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(NotFoundError("gone"), "POD_NOT_FOUND", id="gone meanwhile"),
        pytest.param(ForbiddenError("no rule"), "FORBIDDEN", id="forbidden"),
        pytest.param(RefusedError("webhook"), "REFUSED", id="refused"),
        pytest.param(ConflictError("written meanwhile"), "NOT_WRITTEN", id="conflict"),
        pytest.param(ClusterError("timeout"), "NOT_WRITTEN", id="no answer"),
    ],
)
def test_a_pod_that_cannot_be_written_is_told_with_its_reason_and_keeps_no_other(
    error: ClusterError, reason: str
) -> None:
    stage = Stage(small_cluster())
    stage.cluster.faults.add(Fault("write_pod_cost", WEB[1], error))
    response = apply(stage, dict.fromkeys(WEB[:3], 6))
    assert (response.written_count, response.failed_count) == (2, 1)
    (failure,) = response.failures
    name = reason_pb2.PodCostReason.Code.Name(failure.reason)
    assert (failure.pod, name, failure.detail) == (WEB[1], reason, str(error))


def test_pods_that_cannot_be_read_fail_the_call() -> None:
    stage = Stage(small_cluster())
    stage.cluster.faults.add(Fault("pod_costs", error=ClusterError("no answer")))
    with pytest.raises(ClusterError):
        apply(stage, {WEB[0]: 1})


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        pytest.param(request({}), "names 0 pods; give 1 to", id="nothing"),
        pytest.param(request({f"a/{n}": 1 for n in range(MAX_COSTS + 1)}), "names 200001 pods", id="too many"),
        pytest.param(request({"web-0": 1}), "'web-0' is no pod; write namespace/name", id="no namespace"),
        pytest.param(request({"a/b/c": 1}), "'a/b/c' is no pod", id="too many parts"),
        pytest.param(request({"/b": 1}), "'/b' is no pod", id="an empty namespace"),
        pytest.param(request({}, ["a/"]), "remove: 'a/' is no pod", id="an empty name"),
        pytest.param(request({"a/b": 1}, ["a/b"]), "remove: a/b was given before", id="written and taken away"),
    ],
)
def test_a_bad_request_is_refused_by_name(bad: actuator_pb2.ApplyPodCostsRequest, message: str) -> None:
    with pytest.raises(ServiceError, match=message):
        cost_requests(bad)
