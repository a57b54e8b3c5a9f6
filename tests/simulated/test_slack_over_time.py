"""Slack over hours, planner and actuator in a closed loop on virtual time: bursts arrive, pods start at once in the
room of slack, and its cost in node-hours is known.
"""

import math
import re
from pathlib import Path
from typing import Any

import pytest

from trimtab.clients.simulation import ClusterSimulation
from trimtab.clients.simulation.scenario import Scenario
from trimtab.v1 import plan_pb2

DECISIONS = {"decisions": ["slack", "scale-up", "scale-down"]}
START_S = 120.0
"""Start-up time of a node."""
BURSTS, FIRST_S = 3, 1800.0
CORES, POD_CORES, RESTING = 4.0, 0.8, 10
PRICE = 0.2
RATES = (0.0, 0.1, 0.3, 0.5)
PAGE = Path(__file__).parents[2] / "docs" / "jobs.md"


def shop(rate: float, size: int = 5) -> ClusterSimulation:
    """Return ten pods of 800m, which fill two nodes of 4 cores, and three bursts of 15 minutes with more pods."""
    group = {"name": "general", "cpu": "4", "memory": "20Gi", "price": PRICE, "size": 2, "maxSize": 20, "start": "2m"}
    bursts = {"base": RESTING, "size": size, "every": "1h", "length": "15m", "first": "30m"}
    web = {"name": "web", "bursts": bursts, "pod": {"cpu": "800m", "memory": "1Gi"}}
    given: dict[str, Any] = {"seed": 3, "duration": "3h", "nodeGroups": [group], "workloads": [web], **DECISIONS}
    settings = plan_pb2.PlanSettings()
    settings.slack.extra_capacity_min_rate = rate
    return ClusterSimulation(Scenario.model_validate(given), settings=settings)


def needed(rate: float, pods: int) -> int:
    """Return the smallest number of nodes of which the pods leave the given share free."""
    return next(nodes for nodes in range(1, 99) if CORES * nodes * (1 - rate) >= POD_CORES * pods - 1e-9)


@pytest.fixture(scope="module")
def summaries() -> dict[float, dict[str, Any]]:
    return {rate: shop(rate).run().summary() for rate in RATES}


@pytest.mark.nightly
def test_pods_of_a_burst_wait_for_a_node_without_slack_and_start_at_once_with_it(
    summaries: dict[float, dict[str, Any]],
) -> None:
    waits = {rate: one["timeToScheduleS"]["max"] for rate, one in summaries.items()}
    print("longest time to schedule by slack, seconds:", waits)
    assert waits.pop(0.0) >= START_S
    assert set(waits.values()) == {0.0}
    assert all(one["podsPendingAtEnd"] == 0 for one in summaries.values())


@pytest.mark.nightly
def test_the_room_of_slack_and_its_use_by_pods_are_reported(summaries: dict[float, dict[str, Any]]) -> None:
    without, with_slack = summaries[0.0], summaries[0.3]
    assert [without[key] for key in ("slackCpuHours", "slackMoney", "slackTaken", "slackTakenCpu")] == [0, 0, 0, 0]
    assert (with_slack["slackTaken"], with_slack["slackTakenCpu"]) == (BURSTS * 5, BURSTS * 5 * POD_CORES)
    # Room of whole placeholders with the size of the largest pod, on four to six nodes.
    assert 0.3 * CORES * 4 * 3 * 0.9 < with_slack["slackCpuHours"] < 0.3 * CORES * 6 * 3
    assert with_slack["slackMoney"] == pytest.approx(with_slack["slackCpuHours"] / CORES * PRICE, rel=0.01)


@pytest.mark.nightly
def test_slack_costs_the_nodes_that_it_holds_free_and_no_more(
    summaries: dict[float, dict[str, Any]],
) -> None:
    hours = {rate: one["nodeHours"] for rate, one in summaries.items()}
    print("node-hours by slack:", hours)
    for rate in RATES[1:]:
        rest, burst = (needed(rate, pods) - needed(0.0, pods) for pods in (RESTING, RESTING + 5))
        least = 3 * rest + BURSTS * 0.25 * (burst - rest)
        # A node goes once it has been unneeded for ten minutes, or the quarter of an hour after a burst.
        most = least + BURSTS * 0.25 * burst
        assert least - 0.1 <= hours[rate] - hours[0.0] <= most, rate
    assert hours[0.1] - hours[0.0] == pytest.approx(3.0, abs=0.05)


@pytest.mark.nightly
def test_each_burst_grows_by_what_it_used_up_and_goes_back(summaries: dict[float, dict[str, Any]]) -> None:
    for rate, one in summaries.items():
        assert one["nodesAdded"] - one["nodesRemoved"] == one["nodesAtEnd"] - 2
        assert one["nodesAtEnd"] == needed(rate, RESTING), rate


def test_of_a_burst_larger_than_slack_as_many_start_at_once_as_there_is_room_for() -> None:
    waiting = {}
    for rate in (0.0, 0.3):
        simulation = shop(rate, size=15)
        simulation.run_until(simulation.begin_s + FIRST_S + 1)
        waiting[rate] = len(simulation.pending)
        simulation.run_for(START_S + 60)
        assert not simulation.pending
    free = needed(0.3, RESTING) * CORES - RESTING * POD_CORES
    assert waiting == {0.0: 15, 0.3: 15 - math.floor(free / POD_CORES)}


@pytest.mark.ci
@pytest.mark.parametrize("rate", [0.3, *(pytest.param(rate, marks=pytest.mark.nightly) for rate in (0.1, 0.5))])
def test_in_a_quiet_cluster_no_node_comes_or_goes(rate: float) -> None:
    simulation = ClusterSimulation(Scenario.model_validate(DECISIONS))
    simulation.settings.slack.extra_capacity_min_rate = rate
    simulation.add_group("general", cpu="4", memory="20Gi", price=0.2, size=2, max_size=20)
    simulation.add_workload("web", replicas=RESTING, cpu="800m", memory="1Gi")
    simulation.run_for("30m")
    nodes, before = sorted(simulation.cluster.state.nodes), simulation.summary()
    assert len(nodes) == needed(rate, RESTING)
    simulation.run_for("1h")
    after = simulation.summary()
    assert sorted(simulation.cluster.state.nodes) == nodes
    assert (after["nodesAdded"], after["nodesRemoved"]) == (before["nodesAdded"], before["nodesRemoved"])


@pytest.mark.nightly
def test_the_page_shows_what_comes_out_here(summaries: dict[float, dict[str, Any]]) -> None:
    rows = re.findall(r"^\| (none|\d+ %) \| (\d+) s \| ([\d.]+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    shown = {0.0 if slack == "none" else int(slack[:-2]) / 100: (wait, hours) for slack, wait, hours in rows}
    assert len(shown) >= 2
    assert shown == {
        rate: (f"{summaries[rate]['timeToScheduleS']['max']:.0f}", f"{summaries[rate]['nodeHours']:.1f}")
        for rate in shown
    }
