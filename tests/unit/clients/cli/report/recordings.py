"""Recordings for tests of the report, made by a simulation with the real planner and actuator."""

from pathlib import Path
from typing import Any

from trimtab.clients.cli.live.rounds_reader import RoundsRecorder
from trimtab.clients.simulation.scenario import Scenario
from trimtab.clients.simulation.simulation import ClusterSimulation, SimulationRunOptions
from trimtab.v1 import plan_pb2

Json = dict[str, Any]


def scenario(prefix: str = "", **fields: object) -> Json:
    """Return an hour in which nodes come and go: a burst of pods, and room of slack."""
    groups = [
        {"name": f"{prefix}{zone}", "zone": zone, "size": 2, "price": 0.5, "minSize": 1, "maxSize": 4} for zone in "ab"
    ]
    bursts = {"base": 2, "size": 18, "every": "2h", "length": "10m", "first": "5m"}
    workloads = [{"name": f"{prefix}web", "bursts": bursts, "pod": {"cpu": 1}}]
    decisions = ["scale-up", "scale-down", "slack"]
    return {"duration": "1h", "nodeGroups": groups, "workloads": workloads, "decisions": decisions} | fields


def recorded(path: Path, document: Json, slack_rate: float = 0.3) -> ClusterSimulation:
    """Simulate a scenario and record its rounds; return the simulation at its end."""
    settings = plan_pb2.PlanSettings()
    settings.slack.extra_capacity_min_rate = slack_rate
    with RoundsRecorder(path, "shop") as recorder:
        options = SimulationRunOptions(recorder=recorder)
        return ClusterSimulation(Scenario.model_validate(document), settings=settings, options=options).run()
