"""Pod deletion costs: what is written, what is left for later, and the handling of pods that cannot be written."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.builders.actuator import Stage, small_cluster
from trimtab.actuator.kube.cluster import (
    ClusterError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    NotServedError,
    RefusedError,
)
from trimtab.actuator.service.pod_costs import apply_pod_costs
from trimtab.actuator.service.settings import WriteLimits
from trimtab.actuator.service.validation import MAX_COSTS, cost_orders
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.common.rpc.errors import ServiceError
from trimtab.v1 import actuator_pb2, plan_pb2, reason_pb2

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WEB = [f"default/web-{number}" for number in range(5)]


def request(costs: dict[str, int], remove: list[str] | None = None) -> actuator_pb2.ApplyPodCostsRequest:
    groups = [plan_pb2.PodCostGroup(owner="ReplicaSet/default/web", pods=costs, costs=costs.values())] if costs else []
    return actuator_pb2.ApplyPodCostsRequest(groups=groups, remove=remove or [])


def apply(
    stage: Stage, costs: dict[str, int], remove: list[str] | None = None, limits: WriteLimits | None = None
) -> actuator_pb2.ApplyPodCostsResponse:
    orders = cost_orders(request(costs, remove), NOW)
    return apply_pod_costs(stage.cluster, orders, limits or WriteLimits())


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


def annotations(stage: Stage, key: str) -> dict[str, str]:
    namespace, _, name = key.partition("/")
    found = stage.cluster.state.pods[namespace, name].annotations
    return {key.rpartition("/")[2]: text for key, text in found.items()}


@pytest.mark.parametrize(
    ("value", "rank"), [(0, "0"), (-7, "7"), (2**31 - 1, str(1 - 2**31)), (-(2**31), str(2**31 - 1))]
)
def test_a_cost_is_also_written_as_a_rank_and_says_when_it_was_made(value: int, rank: str) -> None:
    stage = Stage(small_cluster())
    assert apply(stage, {WEB[0]: value}).written_count == 1
    assert annotations(stage, WEB[0]) == {
        "pod-deletion-cost": str(value), "cost": rank, "pod-cost-time": "2026-01-02T03:04:05Z",
    }  # fmt: skip
    assert apply(stage, {WEB[0]: value}).unchanged_count == 1


def set_by_hand(stage: Stage, key: str, cost: str) -> None:
    namespace, _, name = key.partition("/")
    pod = stage.cluster.state.pods[namespace, name]
    pod.item["metadata"].setdefault("annotations", {})["controller.kubernetes.io/pod-deletion-cost"] = cost


def test_a_cost_of_another_client_stays_and_its_group_is_not_complete() -> None:
    stage = Stage(small_cluster())
    set_by_hand(stage, WEB[1], "77")
    response = apply(stage, dict.fromkeys(WEB[:3], 6), remove=[])
    assert (response.written_count, response.failed_count) == (2, 1)
    assert [(one.pod, one.reason) for one in response.failures] == [(WEB[1], reason_pb2.PodCostReason.FOREIGN_COST)]
    (group,) = response.incomplete
    assert (group.owner, group.pod_count, group.ranked_count) == ("ReplicaSet/default/web", 3, 2)
    assert "'77'" in group.detail
    assert apply(stage, {}, [WEB[1]]).removed_count == 0
    assert cost(stage, WEB[1]) == "77"


def test_a_group_that_shrinks_faster_than_it_is_ranked_is_named() -> None:
    stage = Stage(small_cluster())
    response = apply(stage, {WEB[0]: 1, "default/gone": 2})
    assert (response.written_count, response.incomplete[0].ranked_count) == (1, 1)
    assert "shrinks faster than it is ranked" in response.incomplete[0].detail


def test_what_a_call_that_died_midway_left_is_written_by_the_next() -> None:
    stage = Stage(small_cluster())
    stage.cluster.faults.add(Fault("write_pod_cost", WEB[2], SystemExit("killed")))  # type: ignore[arg-type]
    costs = {pod: -number for number, pod in enumerate(WEB)}
    with pytest.raises(SystemExit):
        apply(stage, costs)
    assert [cost(stage, pod) for pod in WEB] == ["0", "-1", None, None, None]
    stage.cluster.faults.clear()
    response = apply(stage, costs)
    assert (response.unchanged_count, response.written_count) == (2, 3)
    assert not response.incomplete


def test_costs_of_owners_that_are_no_longer_ranked_are_removed_and_no_others() -> None:
    stage = Stage(small_cluster())
    set_by_hand(stage, WEB[4], "5")
    apply(stage, dict.fromkeys(WEB[:3], 6))
    keeps = actuator_pb2.ApplyPodCostsRequest(remove_others=True)
    # A group that could not be ranked keeps its costs.
    keeps.groups.add(owner="ReplicaSet/default/web")
    assert apply_pod_costs(stage.cluster, cost_orders(keeps, NOW), WriteLimits()).removed_count == 0
    drops = cost_orders(actuator_pb2.ApplyPodCostsRequest(remove_others=True), NOW)
    counts = []
    for _ in range(3):
        response = apply_pod_costs(stage.cluster, drops, WriteLimits(max_count=2))
        counts.append((response.removed_count, response.left_count))
    assert counts == [(2, 1), (1, 0), (0, 0)]
    assert [cost(stage, pod) for pod in WEB] == [None, None, None, None, "5"]


def rank_again(stage: Stage, costs: dict[str, int], after_s: int = 0, **fields: Any) -> Any:
    message = request(costs)
    message.groups[0].ranked_after_each_removal = True
    message.groups[0].waits_for = fields.pop("waits_for", "")
    limits = fields.pop("limits", WriteLimits())
    return apply_pod_costs(stage.cluster, cost_orders(message, NOW + timedelta(seconds=after_s)), limits)


def test_costs_that_hold_until_the_next_removal_are_written_as_one_object() -> None:
    stage = Stage(small_cluster())
    apply(stage, {WEB[0]: 4})
    response = rank_again(stage, {WEB[0]: -3, WEB[1]: -1}, waits_for="Job/default/other")
    assert (response.objects_written_count, response.written_count, response.removed_count) == (1, 2, 1)
    (known,) = stage.cluster.group_costs()
    assert known.cost.name == "replicaset-web"
    assert (dict(known.cost.costs), known.cost.max_removals) == ({"web-0": 3, "web-1": 1}, 1)
    assert known.cost.waits_for == "Job/default/other"
    assert known.status is not None
    assert (known.status.observed_pods, known.status.ranked_pods, known.status.complete) == (2, 2, True)
    # No reader uses both annotations and the object.
    assert cost(stage, WEB[0]) is None


def test_an_object_is_written_when_its_costs_differ_and_confirmed_now_and_then() -> None:
    stage = Stage(small_cluster())
    counts = []
    for value, after_s in ((-3, 0), (-3, 10), (-3, 70), (-4, 71)):
        response = rank_again(stage, {WEB[0]: value}, after_s)
        (known,) = stage.cluster.group_costs()
        assert known.status is not None
        counts.append((response.objects_written_count, known.generation, known.status.made[-4:]))
    assert counts == [(1, 1, ":05Z"), (0, 1, ":05Z"), (0, 1, ":15Z"), (1, 2, ":16Z")]


def test_the_status_of_an_object_says_when_a_group_shrinks_faster_than_it_is_ranked() -> None:
    stage = Stage(small_cluster())
    response = rank_again(stage, {WEB[0]: -1, "default/gone": -2})
    (known,) = stage.cluster.group_costs()
    assert known.status is not None
    assert (known.status.observed_pods, known.status.complete) == (1, False)
    assert "shrinks faster" in known.status.message
    assert response.incomplete[0].ranked_count == 1


@pytest.mark.parametrize("operation", ["write_group_cost", "write_group_cost_status"])
def test_an_object_that_cannot_be_written_leaves_its_group_incomplete_and_no_status_of_it(operation: str) -> None:
    stage = Stage(small_cluster())
    rank_again(stage, {WEB[0]: -1})
    stage.cluster.faults.add(Fault(operation, "replicaset-web", ClusterError("no answer")))
    response = rank_again(stage, {WEB[0]: -2})
    assert (response.failed_count, response.incomplete[0].ranked_count) == (1, 0)
    (known,) = stage.cluster.group_costs()
    assert (known.status is None) == (operation == "write_group_cost_status")
    stage.cluster.faults.clear()
    assert not rank_again(stage, {WEB[0]: -2}).incomplete


def test_without_the_kind_in_the_cluster_that_is_reported_and_other_groups_continue() -> None:
    stage = Stage(small_cluster())
    stage.cluster.faults.add(Fault("group_costs", error=NotServedError("no such kind")))
    message = request({WEB[0]: -3})
    message.groups[0].ranked_after_each_removal = True
    message.groups.add(owner="ReplicaSet/default/db", pods=[WEB[1]], costs=[5])
    response = apply_pod_costs(stage.cluster, cost_orders(message, NOW), WriteLimits())
    assert (response.failed_count, response.written_count) == (1, 1)
    assert "apply the manifest" in response.incomplete[0].detail


def test_objects_of_owners_that_are_no_longer_ranked_so_are_removed() -> None:
    stage = Stage(small_cluster())
    rank_again(stage, {WEB[0]: -1})
    message = request({WEB[0]: -1})
    message.remove_others = True
    response = apply_pod_costs(stage.cluster, cost_orders(message, NOW), WriteLimits())
    assert (response.objects_removed_count, response.written_count) == (1, 1)
    assert not stage.cluster.group_costs()


def test_one_call_writes_a_bounded_number_and_the_next_one_continues() -> None:
    stage = Stage(small_cluster())
    costs = {pod: number + 1 for number, pod in enumerate(WEB)}
    counts = []
    for _ in range(4):
        response = apply(stage, costs, limits=WriteLimits(max_count=2))
        counts.append((response.unchanged_count, response.written_count, response.left_count))
    assert counts == [(0, 2, 3), (2, 2, 1), (4, 1, 0), (5, 0, 0)]
    assert apply(stage, dict.fromkeys(WEB, 9), limits=WriteLimits(max_s=-1)).left_count == 5


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
def test_a_pod_that_cannot_be_written_is_reported_with_its_reason_and_keeps_no_other(
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
        pytest.param(
            actuator_pb2.ApplyPodCostsRequest(groups=[plan_pb2.PodCostGroup(owner="web", pods=["a/b"], costs=[1])]),
            "'web' is not an owner",
            id="no owner",
        ),
        pytest.param(request({"web-0": 1}), "'web-0' is not a pod; write namespace/name", id="no namespace"),
        pytest.param(request({"a/b/c": 1}), "'a/b/c' is not a pod", id="too many parts"),
        pytest.param(request({"/b": 1}), "'/b' is not a pod", id="an empty namespace"),
        pytest.param(request({}, ["a/"]), "remove: 'a/' is not a pod", id="an empty name"),
        pytest.param(request({"a/b": 1}, ["a/b"]), "remove: a/b was given before", id="written and taken away"),
    ],
)
def test_a_bad_request_is_refused_by_name(bad: actuator_pb2.ApplyPodCostsRequest, message: str) -> None:
    with pytest.raises(ServiceError, match=message):
        cost_orders(bad, NOW)
