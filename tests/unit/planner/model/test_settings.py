"""Settings of scale-down: defaults, overrides, and errors that name the field."""

import pytest
from google.protobuf.json_format import ParseDict
from trimtab.v1 import plan_pb2

from planner.model.settings import DEFAULT_ORDERS, ScaleDownSettings, SettingsError, resolve_scale_down


def resolved(**given: object) -> ScaleDownSettings:
    groups = given.pop("nodeGroups", {})
    return resolve_scale_down(ParseDict({"scaleDown": given, "nodeGroups": groups}, plan_pb2.PlanSettings()))


def test_nothing_given_means_the_defaults() -> None:
    assert resolved() == ScaleDownSettings()
    assert ScaleDownSettings().max_parallelism == 10
    assert ScaleDownSettings().general.unneeded_time_ns == 600 * 10**9


def test_zero_given_is_not_the_default() -> None:
    given = resolved(utilizationThreshold=0, unneededTime="0s", minEvaluatedNodes=0, enabled=False)
    assert given.general.utilization_threshold == 0
    assert given.general.unneeded_time_ns == 0
    assert given.min_evaluated == 0
    assert not given.enabled


def test_a_group_takes_what_it_lacks_from_the_general_settings() -> None:
    given = resolved(unneededTime="60s", utilizationThreshold=0.3, nodeGroups={"a": {"utilizationThreshold": 0.9}})
    assert given.of_group("a").utilization_threshold == 0.9
    assert given.of_group("a").unneeded_time_ns == 60 * 10**9
    assert given.of_group("b").utilization_threshold == 0.3


def test_the_deprecated_limit_counts_where_the_new_one_is_absent() -> None:
    assert resolved(maxEmptyBulkDelete=3).max_parallelism == 3
    assert resolved(maxEmptyBulkDelete=3, maxScaleDownParallelism=7).max_parallelism == 7


def test_orders_are_taken_once_each() -> None:
    order = plan_pb2.CandidateOrder
    assert resolved(candidateOrders=["AGE", "NAME", "AGE"]).orders == (order.AGE, order.NAME)
    assert resolved(candidateOrders=[]).orders == DEFAULT_ORDERS


WRONG = {
    "scale_down.utilization_threshold": {"utilizationThreshold": 1.5},
    "scale_down.gpu_utilization_threshold": {"gpuUtilizationThreshold": "NaN"},
    "scale_down.unneeded_time": {"unneededTime": "-1s"},
    "scale_down.unready_time": {"unreadyTime": "9000000000s"},
    "scale_down.max_scale_down_parallelism": {"maxScaleDownParallelism": 0},
    "scale_down.max_empty_bulk_delete": {"maxEmptyBulkDelete": 0},
    "scale_down.max_drain_parallelism": {"maxDrainParallelism": -1},
    "scale_down.max_evaluated_nodes": {"maxEvaluatedNodes": -1},
    "scale_down.min_replica_count": {"minReplicaCount": -1},
    "scale_down.stability_margin": {"stabilityMargin": -0.1},
    "scale_down.min_saving_per_eviction": {"minSavingPerEviction": "Infinity"},
    "scale_down.candidate_orders[1]": {"candidateOrders": ["AGE", 0]},
    "scale_down.resource_minimums[0].resource": {"resourceMinimums": [{"amount": 1}]},
    "scale_down.resource_minimums[0].amount": {"resourceMinimums": [{"resource": "cpu", "amount": -1}]},
    "node_groups['a'].unneeded_time": {"nodeGroups": {"a": {"unneededTime": "-1s"}}},
}


@pytest.mark.parametrize("field", WRONG)
def test_a_value_that_cannot_be_meant_is_refused_by_name(field: str) -> None:
    with pytest.raises(SettingsError) as caught:
        resolved(**WRONG[field])
    assert caught.value.field == field
    assert caught.value.problem
