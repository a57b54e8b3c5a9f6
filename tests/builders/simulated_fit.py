"""Where a pending pod fits: for the simulated scheduler, and for the planner."""

from typing import Any

from trimtab.clients.cli.planners import open_planner
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.clients.simulation.cluster.scheduler import KubeScheduler
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.v1 import plan_pb2

Json = dict[str, Any]


def feasible(objects: list[Json], pod: Json) -> list[str]:
    """Return the nodes that the simulated scheduler fits a pod on, sorted."""
    scheduler = KubeScheduler()
    SimulatedCluster(objects, scheduler=scheduler)
    return scheduler.feasible(SimulatedPod(pod))


def fitting(objects: list[Json], pod: Json) -> list[str]:
    """Return the nodes that the planner fits a pod on, sorted."""
    snapshot = build_snapshot(decode_objects([*objects, pod])).snapshot
    with open_planner(None) as planner:
        answers = planner.check_fit(snapshot, plan_pb2.PlanRequest(now={"seconds": 1_800_000_000}))  # type: ignore[arg-type]
        name = f"default/{pod['metadata']['name']}"
        checks = [check for answer in answers if answer.pod == name for check in answer.nodes]
    return sorted(check.node for check in checks if not check.reasons)
