"""A cluster after a burst, on which disruption budgets decide how many nodes can go at once.

Deployments of equal size with small pods, each with a budget, on node groups in three zones; a burst, then 40 % of its
pods remain, spread over all nodes.
"""

from typing import Any

from trimtab.clients.simulation.scenario import Scenario
from trimtab.v1 import plan_pb2

ZONES = ("a", "b", "c")
CPU_MILLI = (100, 150, 200, 250, 300)
"""Cpu of a pod; deployments have them in turn."""
BURST_S = 120


def after_burst(
    deployments: int = 40, *, replicas: int = 50, remaining: int = 20, disruptions: int = 5, nodes: int = 33,
    duration: str = "90m", pod_start: float = 5,
) -> Scenario:  # fmt: skip
    """Return the scenario: all replicas for two minutes, then the remaining ones. nodes : of each zone at first."""
    workloads: list[dict[str, Any]] = [
        {
            "name": f"app-{number:02}",
            "replicas": 0,
            "steps": [{"at": 0, "replicas": replicas}, {"at": BURST_S, "replicas": remaining}],
            "pod": {"cpu": f"{CPU_MILLI[number % len(CPU_MILLI)]}m", "memory": "64Mi", "start": pod_start},
            "budget": {"maxUnavailable": disruptions},
        }
        for number in range(deployments)
    ]
    groups = [
        {
            "name": f"general-{zone}",
            "zone": zone,
            "cpu": "4",
            "memory": "16Gi",
            "size": nodes,
            "maxSize": 60,
            "start": 30,
        }
        for zone in ZONES
    ]
    timing = {"interval": 10, "podStop": 0 if pod_start == 0 else 10, "instanceDelete": 10}
    return Scenario.model_validate(
        {"name": "after-burst", "duration": duration, "timing": timing, "nodeGroups": groups, "workloads": workloads}
    )


def patient() -> plan_pb2.PlanSettings:
    """Return settings with which nodes go a minute after they are unneeded."""
    made = plan_pb2.PlanSettings()
    made.scale_down.unneeded_time.seconds = 60
    made.scale_down.delay_after_add.seconds = 60
    made.scale_down.max_scale_down_parallelism = 50
    made.scale_down.max_drain_parallelism = 50
    return made
