"""Karpenter's own cases of candidates, budgets for nodes, eviction costs and commands, restated: the same verdict, or
another one for a reason. Each plan is checked by the certificate.
"""

from pathlib import Path

import pytest
import yaml

from tests.builders.kubernetes import Json
from tests.builders.replacement import WEB, group, plan, web
from tests.parity.karpenter_cases import check_verdict

DATA = yaml.safe_load((Path(__file__).parent / "data" / "karpenter_suite.yaml").read_text(encoding="utf-8"))
COUNT = 66
"""Cases of suite_test.go."""


@pytest.mark.parametrize("case", [pytest.param(one, id=one["name"]) for one in DATA["cases"]])
def test_the_verdict_is_karpenters_or_another_for_a_reason(case: Json) -> None:
    assert (check_verdict(case) > 1e-9) == case.get("dearer", False)


def cost_of(annotations: dict[str, str], priority: int | None = None) -> float:
    """Return what the eviction of a pod costs, of a plan that moves it."""
    moved = web("p", "n0", annotations=annotations, priority=priority)
    found = plan([WEB, *group("dear", "16", "64Gi", 1.0, ["n0"]), *group("cheap", "4", "16Gi", 0.2), moved])
    return found.decision.frontier[0].eviction_cost


@pytest.mark.parametrize("case", [pytest.param(one, id=one["name"]) for one in DATA["costs"]])
def test_an_eviction_costs_more_or_less_as_in_karpenter(case: Json) -> None:
    cost, other = cost_of(case.get("annotations", {}), case.get("priority")), cost_of(case.get("than", {}))
    assert {"more": cost > other, "less": cost < other, "equal": cost == other == 1.0}[case["is"]]


def test_each_case_of_the_source_is_restated_once_or_left_out_for_a_reason() -> None:
    lines = [line for part in ("cases", "costs", "skipped") for one in DATA[part] for line in one.get("of", [])]
    assert len(set(lines)) == len(lines) == COUNT
