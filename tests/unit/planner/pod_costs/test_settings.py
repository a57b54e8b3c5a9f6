"""Settings of pod costs: invalid values are refused, and the message names the field."""

import math
from typing import Any

import pytest

from trimtab.planner.model.settings import SettingsError
from trimtab.planner.pod_costs.settings import resolve_pod_costs
from trimtab.v1 import plan_pb2 as pb

S = pb.PodCostStrategy


def resolved(**fields: Any) -> Any:
    message = pb.PlanSettings()
    message.pod_costs.targets.add().strategies.add(**fields)
    return resolve_pod_costs(message).targets[0].terms[0]


def test_what_is_absent_has_its_default() -> None:
    term = resolved(strategy=S.YOUNGEST)
    assert (term.weight, term.threshold) == (1.0, None)
    assert resolve_pod_costs(pb.PlanSettings()).targets == ()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "strategy"),
        ({"strategy": 99}, "strategy"),
        ({"strategy": S.YOUNGEST, "weight": -1.0}, "weight"),
        ({"strategy": S.YOUNGEST, "weight": math.nan}, "weight"),
        ({"strategy": S.YOUNGEST, "weight": math.inf}, "weight"),
        ({"strategy": S.YOUNGEST, "threshold": 0.0}, "threshold"),
        ({"strategy": S.YOUNGEST, "threshold": math.nan}, "threshold"),
        ({"strategy": S.BALANCE_DOMAINS}, "topology_key"),
        ({"strategy": S.YOUNGEST, "topology_key": "zone"}, "topology_key"),
        ({"strategy": S.IDLE}, "annotation"),
        ({"strategy": S.ACCUMULATED_WORK}, "annotation"),
        ({"strategy": S.NODE_COST, "annotation": "x"}, "annotation"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_and_named(fields: Any, field: str) -> None:
    with pytest.raises(SettingsError) as error:
        resolved(**fields)
    assert error.value.field == f"pod_costs.targets[0].strategies[0].{field}"


def test_a_target_without_strategies_or_with_empty_names_is_refused() -> None:
    message = pb.PlanSettings()
    made = message.pod_costs.targets.add()
    with pytest.raises(SettingsError, match=r"targets\[0\]\.strategies"):
        resolve_pod_costs(message)
    made.strategies.add(strategy=S.YOUNGEST)
    made.namespaces.append("")
    with pytest.raises(SettingsError, match=r"targets\[0\]\.namespaces"):
        resolve_pod_costs(message)
    made.ClearField("namespaces")
    made.selector.match_expressions.add(key="x")
    with pytest.raises(SettingsError, match=r"targets\[0\]\.selector"):
        resolve_pod_costs(message)
