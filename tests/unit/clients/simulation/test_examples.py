"""The example scenarios are read and run, and use what they are to show."""

import json
import sys
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from trimtab.clients.cli.blocks import Chart, Table
from trimtab.clients.cli.report.command import simulated
from trimtab.clients.simulation import ClusterSimulation
from trimtab.clients.simulation.result import problem_of, result_of
from trimtab.clients.simulation.scenario_file import read_scenario
from trimtab.clients.simulation.sweep import Run, simulate

EXAMPLES = Path(str(files("trimtab.clients.simulation.examples")))
SHORT = {
    "shop": 1800.0,
    "prices": 3600.0,
    "spot": 5400.0,
    "priorities": 3600.0,
    "volumes": 7200.0,
    "simkube": 1200.0,
    "requests": 7200.0,
}
"""How much of each example runs here, seconds."""


@cache
def ran(name: str) -> ClusterSimulation:
    """An example that has run; tests only read it."""
    scenario, trace = read_scenario(EXAMPLES / f"{name}.yaml")
    return ClusterSimulation(scenario.model_copy(update={"duration": SHORT[name]}), trace).run()


def test_every_example_is_tried() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.yaml")} == SHORT.keys()


@pytest.mark.ci
@pytest.mark.parametrize("name", ["spot", "priorities", "volumes", "simkube", "requests"])
def test_an_example_shows_what_it_is_for(name: str) -> None:
    simulation = ran(name)
    figures: dict[str, Any] = simulation.summary()
    assert figures["podsScheduled"] > 0
    shown = {
        "spot": figures["reclaims"],
        "priorities": figures["preemptions"],
        "volumes": len([key for key in simulation.cluster.state.others if key.startswith("PersistentVolume//")]),
        "simkube": len(simulation.cluster.state.owners),
        "requests": figures["requestsProvisioned"],
    }
    assert shown[name] > 0


def test_the_page_of_a_simulation_shows_reclaimed_machines_and_their_pods() -> None:
    result = result_of(ran("spot"), "upstream")
    assert problem_of(result) == ""
    page = simulated(json.loads(json.dumps(result)))
    (chart,) = [one for one in page.blocks if isinstance(one, Chart) and one.title == "Machines reclaimed"]
    assert chart.description.startswith(f"upstream: {result['summary']['reclaims']} machines with ")
    (table,) = [one for one in page.blocks if isinstance(one, Table) and one.title.startswith("Machines reclaimed")]
    assert {line.cells[0] for line in table.lines} == {one["node"] for one in result["reclaims"]}


def test_a_page_without_reclaims_has_no_part_on_them() -> None:
    page = simulated(json.loads(json.dumps(result_of(ran("simkube"), "upstream"))))
    titles = [one.title for one in page.blocks if isinstance(one, Chart | Table)]
    assert not [title for title in titles if title.startswith("Machines reclaimed")]


def test_the_example_of_an_external_policy_serves_all_pods() -> None:
    scenario, trace = read_scenario(EXAMPLES / "simkube.yaml")
    policy = {"external": [sys.executable, str(EXAMPLES / "external_policy.py")]}
    document = {**dict(scenario), "policy": policy, "duration": 1200}
    summary = simulate(Run(type(scenario).model_validate(document), trace, "external", b""))["summary"]
    assert summary["podsPendingAtEnd"] == 0
    assert summary["nodesAdded"] > 0
