"""A day on nodes of several prices: what the policy "upstream" costs, and plans that look at money first."""

from importlib.resources import as_file, files
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from trimtab.clients.cli.simulate.command import built_in
from trimtab.clients.simulation import ClusterSimulation
from trimtab.clients.simulation.scenario_file import read_scenario
from trimtab.v1 import plan_pb2

MONEY = {"scaleUp": {"expanders": ["CHEAPEST_PLAN"]}, "scaleDown": {"savingBeforeCount": True}}


def day(settings: plan_pb2.PlanSettings) -> dict[str, Any]:
    with as_file(files("trimtab.clients.simulation.examples") / "prices.yaml") as path:
        scenario, _ = read_scenario(path)
    return ClusterSimulation(scenario, settings=settings).run().summary()


@pytest.mark.nightly
def test_the_day_costs_a_sixth_less_with_money_first_than_with_upstreams_policy() -> None:
    upstream, money = day(built_in("upstream")), day(ParseDict(MONEY, plan_pb2.PlanSettings()))
    assert upstream["podsPendingAtEnd"] == money["podsPendingAtEnd"] == 0
    assert money["money"] < upstream["money"] * 5 / 6
