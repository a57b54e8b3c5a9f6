"""Settings of replacement that cannot be used are refused with the field and what to write."""

import pytest
from google.protobuf.json_format import ParseDict

from tests.builders.kubernetes import Json
from trimtab.planner.model.settings import SettingsError
from trimtab.planner.replacement.settings import resolve_replacement
from trimtab.v1 import plan_pb2

WRONG: list[tuple[Json, str, str]] = [
    ({"minSavingPerHour": -1}, "min_saving_per_hour", "-1 is below the minimum 0"),
    ({"minSavingShare": -0.1}, "min_saving_share", "-0.1 is below the minimum 0"),
    ({"minSavingShare": 2}, "min_saving_share", "2 is above 1"),
    ({"minSavingPerEviction": "Infinity"}, "min_saving_per_eviction", "not a finite number"),
    ({"pricePerEviction": "NaN"}, "price_per_eviction", "not a finite number"),
    ({"maxPaybackTime": "0s"}, "max_payback_time", "0 s is too short; use more than 0 s"),
    ({"maxPaybackTime": "-1s"}, "max_payback_time", "-1 s is too short"),
    ({"maxSurgeNodes": 0}, "max_surge_nodes", "0 is below the minimum 1"),
    ({"maxLeavingNodes": -1}, "max_leaving_nodes", "-1 is below the minimum 1"),
    ({"maxWaves": 0}, "max_waves", "0 is below the minimum 1"),
    ({"stabilityMargin": 1.5}, "stability_margin", "1.5 is above 1"),
    ({"minBalancedScore": "NaN"}, "min_balanced_score", "not a finite number"),
    ({"consolidateAfter": "-5s"}, "consolidate_after", "use at least 0 s"),
    ({"stableTime": "-5s"}, "stable_time", "use at least 0 s"),
    ({"avoidTime": "-5s"}, "avoid_time", "use at least 0 s"),
    ({"choice": 99}, "choice", "99 is not a value; use one of MOST_SAVED"),
    ({"spot": {"minAlternatives": 0}}, "spot.min_alternatives", "0 is below the minimum 1"),
    ({"disruptionBudgets": [{}]}, "disruption_budgets[0].max_nodes", 'write "5" or "10%"'),
    (
        {"disruptionBudgets": [{"maxNodes": "1"}, {"maxNodes": "ten"}]},
        "disruption_budgets[1].max_nodes",
        "'ten' is neither a number",
    ),
    (
        {"disruptionBudgets": [{"maxNodes": "110%"}]},
        "disruption_budgets[0].max_nodes",
        "'110%' is neither a number nor a share up to 100%",
    ),
    (
        {"disruptionBudgets": [{"maxNodes": "1", "reasons": ["Foo"]}]},
        "disruption_budgets[0].reasons[0]",
        "use Underutilized, Empty",
    ),
    (
        {"disruptionBudgets": [{"maxNodes": "1", "nodeGroups": [""]}]},
        "disruption_budgets[0].node_groups[0]",
        "empty; name a node group",
    ),
    (
        {"disruptionBudgets": [{"maxNodes": "1", "schedule": "x", "duration": "1s"}]},
        "disruption_budgets[0].schedule",
        "has 1 fields",
    ),
    (
        {"disruptionBudgets": [{"maxNodes": "1", "schedule": "@daily"}]},
        "disruption_budgets[0].duration",
        "schedule and duration together",
    ),
    (
        {"disruptionBudgets": [{"maxNodes": "1", "duration": "60s"}]},
        "disruption_budgets[0].duration",
        "schedule and duration together",
    ),
]


@pytest.mark.parametrize(("given", "field", "said"), WRONG, ids=[f"{field} {said}" for _, field, said in WRONG])
def test_a_setting_that_cannot_be_used_is_refused_with_its_field(given: Json, field: str, said: str) -> None:
    part = "planner" if "disruptionBudgets" in given else "replacement"
    message = ParseDict({part: given}, plan_pb2.PlanSettings())
    with pytest.raises(SettingsError) as error:
        resolve_replacement(message)
    assert f"{part}.{field}" in str(error.value)
    assert said in str(error.value)
