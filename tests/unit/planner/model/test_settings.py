"""Planner-wide settings and those of scale-down: defaults, overrides, and errors that name the field."""

import pytest
from google.protobuf.json_format import ParseDict

from trimtab.planner.model.settings import (
    PlannerSettings,
    Readiness,
    ResourceLimit,
    ScaleDownSettings,
    SettingsError,
    SimilaritySettings,
    resolve_planner,
    resolve_scale_down,
)
from trimtab.planner.model.values import LabelRequirement
from trimtab.v1 import plan_pb2
from trimtab.v1.snapshot_pb2 import LabelOperator


def resolved(**given: object) -> ScaleDownSettings:
    more = {key: given.pop(key) for key in ("nodeGroups", "planner") if key in given}
    return resolve_scale_down(ParseDict({"scaleDown": given} | more, plan_pb2.PlanSettings()))


def general(**given: object) -> PlannerSettings:
    return resolve_planner(ParseDict({"planner": given}, plan_pb2.PlanSettings()))


def test_nothing_given_means_the_defaults() -> None:
    assert resolved() == ScaleDownSettings()
    assert general() == PlannerSettings()
    assert ScaleDownSettings().max_parallelism == 10
    assert ScaleDownSettings().general.unneeded_time_ns == 600 * 10**9


def test_zero_given_is_not_the_default() -> None:
    given = resolved(utilizationThreshold=0, unneededTime="0s", enabled=False)
    assert given.general.utilization_threshold == 0
    assert given.general.unneeded_time_ns == 0
    assert not given.enabled


def test_a_group_takes_what_it_lacks_from_the_general_settings() -> None:
    given = resolved(unneededTime="60s", utilizationThreshold=0.3, nodeGroups={"a": {"utilizationThreshold": 0.9}})
    assert given.of_group("a").utilization_threshold == 0.9
    assert given.of_group("a").unneeded_time_ns == 60 * 10**9
    assert given.of_group("b").utilization_threshold == 0.3


def test_orders_are_taken_once_each() -> None:
    order = plan_pb2.CandidateOrder
    assert resolved(candidateOrders=["PRICE", "NAME", "PRICE"]).candidate_orders == (order.PRICE, order.NAME)
    assert resolved(candidateOrders=[]).candidate_orders == ()


WRONG = {
    "scale_down.utilization_threshold": {"utilizationThreshold": 1.5},
    "scale_down.gpu_utilization_threshold": {"gpuUtilizationThreshold": "NaN"},
    "scale_down.unneeded_time": {"unneededTime": "-1s"},
    "scale_down.unready_time": {"unreadyTime": "9000000000s"},
    "scale_down.max_scale_down_parallelism": {"maxScaleDownParallelism": 0},
    "scale_down.max_drain_parallelism": {"maxDrainParallelism": -1},
    "scale_down.max_evaluated_nodes": {"maxEvaluatedNodes": -1},
    "scale_down.min_replica_count": {"minReplicaCount": -1},
    "scale_down.min_saving_per_eviction": {"minSavingPerEviction": "Infinity"},
    "scale_down.candidate_orders[1]": {"candidateOrders": ["NAME", 0]},
    "node_groups['a'].unneeded_time": {"nodeGroups": {"a": {"unneededTime": "-1s"}}},
}


@pytest.mark.parametrize("field", WRONG)
def test_a_value_that_cannot_be_meant_is_refused_by_name(field: str) -> None:
    with pytest.raises(SettingsError) as caught:
        resolved(**WRONG[field])
    assert caught.value.field == field
    assert caught.value.problem


def test_an_empty_gpu_label_means_no_label_and_a_cutoff_of_zero_is_a_cutoff() -> None:
    given = general(gpuLabel="", expendablePodsPriorityCutoff=0, reserveForPendingPods=False, recentEvictionTtl="0s")
    assert given == PlannerSettings(0, 0, reserve_for_pending=False, readiness=Readiness(gpu_label=""))


def test_a_largest_difference_between_groups_implies_balance() -> None:
    given: dict[str, object] = {"planner": {"balance": {"maxDifference": 2}}}
    assert resolved(**given).balance
    assert general(balance={"maxDifference": 2}).max_balance_difference == 2


def test_what_makes_groups_similar_can_be_set() -> None:
    labels = general(balance={"ignoredLabels": ["b", "a", "b"], "maxFreeDifferenceRatio": 0}).similarity
    assert labels == SimilaritySettings(ignored_labels=frozenset("ab"), free_ratio=0)
    given = general(
        balance={"comparedLabels": ["b", "a"], "maxMemoryDifferenceRatio": 1, "maxAllocatableDifferenceRatio": 0.2}
    )
    assert given.similarity == SimilaritySettings(compared_labels=("a", "b"), memory_ratio=1, allocatable_ratio=0.2)


def test_a_limit_names_its_resource_its_bounds_and_its_nodes() -> None:
    nodes = {"matchLabels": {"pool": "a"}, "matchExpressions": [{"key": "gpu", "operator": "DOES_NOT_EXIST"}]}
    given = general(limits=[{"resource": "cpu", "minimum": 4000}, {"resource": "nodes", "maximum": 9, "nodes": nodes}])
    assert general(limits=[{"resource": "cpu", "maximumAdded": 7}]).limits[0].maximum_added == 7
    pool = LabelRequirement("pool", LabelOperator.IN, ("a",))
    no_gpu = LabelRequirement("gpu", LabelOperator.DOES_NOT_EXIST, ())
    assert given.limits == (ResourceLimit("cpu", 4000), ResourceLimit("nodes", None, 9, nodes=(pool, no_gpu)))


def requirement(**given: object) -> dict[str, object]:
    return {"limits": [{"resource": "cpu", "minimum": 1, "nodes": {"matchExpressions": [given]}}]}


WRONG_IN_GENERAL: dict[str, dict[str, object]] = {
    "planner.recent_eviction_ttl": {"recentEvictionTtl": "-1s"},
    "planner.balance.max_difference": {"balance": {"maxDifference": -1}},
    "planner.balance.ignored_labels[1]": {"balance": {"ignoredLabels": ["a", ""]}},
    "planner.balance.compared_labels[0]": {"balance": {"comparedLabels": [""]}},
    "planner.balance.compared_labels": {"balance": {"comparedLabels": ["a"], "ignoredLabels": ["b"]}},
    "planner.balance.max_memory_difference_ratio": {"balance": {"maxMemoryDifferenceRatio": 1.1}},
    "planner.balance.max_allocatable_difference_ratio": {"balance": {"maxAllocatableDifferenceRatio": -0.1}},
    "planner.balance.max_free_difference_ratio": {"balance": {"maxFreeDifferenceRatio": "NaN"}},
    "planner.limits[0].resource": {"limits": [{"minimum": 1}]},
    "planner.limits[0].minimum": {"limits": [{"resource": "cpu", "minimum": -1}]},
    "planner.limits[0].maximum": {"limits": [{"resource": "cpu", "maximum": -1}]},
    "planner.limits[0].maximum_added": {"limits": [{"resource": "cpu", "maximumAdded": -1}]},
    "planner.limits[0]": {"limits": [{"resource": "cpu"}]},
    "planner.limits[1].minimum": {
        "limits": [{"resource": "cpu", "maximum": 1}, {"resource": "cpu", "minimum": 3, "maximum": 2}]
    },
    "planner.limits[0].nodes.match_labels": {
        "limits": [{"resource": "cpu", "minimum": 1, "nodes": {"matchLabels": {"": "a"}}}]
    },
    "planner.limits[0].nodes.match_expressions[0].key": requirement(operator="EXISTS"),
    "planner.limits[0].nodes.match_expressions[0].operator": requirement(key="a", operator="GT", values=["1"]),
    "planner.limits[0].nodes.match_expressions[0].values": requirement(key="a", operator="IN"),
}


@pytest.mark.parametrize("field", WRONG_IN_GENERAL)
def test_a_planner_wide_value_that_cannot_be_meant_is_refused_by_name(field: str) -> None:
    with pytest.raises(SettingsError) as caught:
        general(**WRONG_IN_GENERAL[field])
    assert caught.value.field == field
    assert caught.value.problem


@pytest.mark.parametrize(("operator", "values"), [("EXISTS", ["x"]), ("DOES_NOT_EXIST", ["x"]), ("NOT_IN", [])])
def test_an_operator_gets_the_values_that_it_needs(operator: str, values: list[str]) -> None:
    with pytest.raises(SettingsError, match="values"):
        general(**requirement(key="a", operator=operator, values=values))
