"""Hours on a cluster that churns and has nodes of the wrong size: what replacement saves, and that it does not flap."""

import re
from typing import Any

import pytest

from trimtab.clients.simulation.result import result_of
from trimtab.clients.simulation.scenario import Scenario
from trimtab.clients.simulation.simulation import ClusterSimulation
from trimtab.v1 import plan_pb2

HOURS = 6
PAYBACK_S = 6 * 3600
MOST_MOVES = 3.0
"""Most evictions for replacements, as a multiple of the mean number of pods."""
DAY = 24
MOST_MOVES_A_DAY = 6.0
"""The same over a day: 4.4 was measured."""
MOST_COST = 0.95
"""Most that it costs with replacement, as a share of what it costs without: 0.935 was measured, and with three other
seeds 0.897, 0.919 and 0.968."""
GROUPS = [
    {"name": "large", "cpu": "16", "memory": "64Gi", "price": 0.96, "size": 8, "maxSize": 20},
    {"name": "medium", "cpu": "8", "memory": "32Gi", "price": 0.40, "size": 0, "maxSize": 30},
    {"name": "small", "cpu": "4", "memory": "16Gi", "price": 0.21, "size": 0, "maxSize": 40},
    {"name": "memory", "cpu": "4", "memory": "32Gi", "price": 0.26, "size": 0, "maxSize": 40},
]
WORKLOADS = [
    {"name": "shop", "diurnal": {"low": 10, "high": 50, "noise": 0.1}, "pod": {"cpu": "900m", "memory": "2Gi"},
     "budget": {"maxUnavailable": 2}},
    {"name": "cache", "replicas": 12, "pod": {"cpu": "300m", "memory": "6Gi"}, "budget": {"maxUnavailable": 1}},
    {"name": "mail", "bursts": {"base": 4, "size": 16, "every": "5h", "length": "40m", "first": "2h"},
     "pod": {"cpu": "1500m", "memory": "1Gi"}},
]  # fmt: skip
BATCH = [{"name": "job", "perHour": 4, "pods": 3, "lifetime": "30m", "pod": {"cpu": "700m", "memory": "1Gi"}}]


def simulated(hours: int, *, with_it: bool, interval: str = "30s") -> dict[str, Any]:
    """Simulate some hours, with a round in each interval; return the result."""
    scenario = Scenario.model_validate({
        "name": "churn", "start": "2026-03-02T06:00:00Z", "duration": f"{hours}h", "timing": {"interval": interval},
        "decisions": ["scale-up", "scale-down", "replacement"], "nodeGroups": GROUPS, "workloads": WORKLOADS,
        "batches": BATCH,
    })  # fmt: skip
    settings = plan_pb2.PlanSettings()
    settings.replacement.enabled = with_it
    settings.replacement.max_payback_time.seconds = PAYBACK_S
    settings.replacement.stable_time.seconds = 300
    return result_of(ClusterSimulation(scenario, settings=settings).run(), "churn")


def moves_for_replacements(result: dict[str, Any]) -> int:
    """Return how many pods the waves that were started were to move."""
    texts = [one["text"] for one in result["decisions"] if one["kind"] == "replacement"]
    return sum(int(found[1]) for text in texts if (found := re.search(r"(\d+) pods move", text)))


def new_nodes_replaced_again(result: dict[str, Any]) -> list[str]:
    """Return the nodes that came by a replacement and were replaced within the payback time."""
    came: dict[str, float] = {}
    again = []
    for one in sorted(result["replacements"], key=lambda one: one["ended"]):
        again += [name for name in one["gone"] if one["ended"] - came.get(name, -1e12) < PAYBACK_S]
        came |= dict.fromkeys(one["came"], one["ended"])
    return again


@pytest.mark.nightly
@pytest.mark.timeout(1500)
def test_replacement_saves_money_under_churn_with_few_moves_and_replaces_no_new_node_before_it_has_paid() -> None:
    without, with_it = simulated(HOURS, with_it=False), simulated(HOURS, with_it=True)
    pods = with_it["summary"]["podHours"] / HOURS
    assert with_it["summary"]["podsPendingAtEnd"] == 0
    assert with_it["summary"]["money"] < without["summary"]["money"] * MOST_COST
    assert any(one["stage"] == "DONE" for one in with_it["replacements"])
    assert new_nodes_replaced_again(with_it) == []
    assert 0 < moves_for_replacements(with_it) <= MOST_MOVES * pods
    assert with_it["summary"]["evictions"] <= without["summary"]["evictions"] + MOST_MOVES * pods


@pytest.mark.nightly
@pytest.mark.timeout(1500)
def test_over_a_day_moves_are_few_and_no_new_node_is_replaced_before_it_has_paid() -> None:
    result = simulated(DAY, with_it=True, interval="60s")
    pods = result["summary"]["podHours"] / DAY
    assert result["summary"]["podsPendingAtEnd"] == 0
    assert sum(one["stage"] == "DONE" for one in result["replacements"]) > 10
    assert new_nodes_replaced_again(result) == []
    assert 0 < moves_for_replacements(result) <= MOST_MOVES_A_DAY * pods
