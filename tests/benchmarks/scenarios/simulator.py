"""The simulator: a day of 1,000 nodes, an hour of 5,000 nodes, a sweep of 100 settings. Synthetic loads.

The load follows the time of day: twenty ReplicaSets with budgets that need 0.6 to 1 of the nodes, a DaemonSet, and
sixty jobs of four pods an hour, on node groups of four zones. "total" is the whole simulation, set up and result
included.
"""

import resource
from typing import Any

import structlog

from tests.benchmarks.registry import Stages, scenario
from trimtab.clients.cli.simulate.command import settings_from
from trimtab.clients.simulation import ClusterSimulation
from trimtab.clients.simulation.result import encoded, result_of
from trimtab.clients.simulation.scenario import Scenario
from trimtab.clients.simulation.settings_grid import NamedSettings, grid, read_axis
from trimtab.clients.simulation.sweep import Run, sweep
from trimtab.v1 import plan_pb2

SERVICES = 20
NODE_CPU = 7.2
"""Cores of a node that pods take on average at the busiest time; it has eight."""


def load(name: str, nodes: int, hours: float, services: int = SERVICES) -> Scenario:
    """Return a scenario that needs so many nodes at its busiest time."""
    start = max(1, nodes * 6 // 40)
    of_group: dict[str, Any] = {"cpu": "8", "memory": "32Gi", "price": 0.4, "start": "60s", "startSpread": "30s"}
    groups = [{"name": f"general-{z}", "zone": z, "maxSize": nodes, "size": start, **of_group} for z in "abcd"]
    most = int(nodes * NODE_CPU / services)
    workloads: list[dict[str, Any]] = [
        {"name": "agent", "kind": "DaemonSet", "namespace": "infra", "pod": {"cpu": "100m", "memory": "200Mi"}}
    ]
    for number in range(services):
        wave = {"low": most * 6 // 10, "high": most, "peak": f"{12 + number % 5}h", "every": "10m", "noise": 0.03}
        pod = {"cpu": "900m" if number % 2 else "1100m", "memory": "2Gi", "start": "20s"}
        workloads.append({"name": f"web-{number}", "diurnal": wave, "pod": pod, "budget": {"maxUnavailable": "10%"}})
    batches = [{"name": "jobs", "perHour": 60, "pods": 4, "lifetime": "5m", "pod": {"cpu": "500m", "memory": "1Gi"}}]
    return Scenario.model_validate(
        {
            **{"name": name, "seed": 1, "duration": f"{hours}h", "nodeGroups": groups},
            **{"workloads": workloads, "batches": batches},
        }
    )


def quiet() -> None:
    """Have services log nothing."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())


def simulated(chosen: Scenario, stages: Stages) -> dict[str, Any]:
    """Simulate, and note how much there was."""
    quiet()
    result = result_of(ClusterSimulation(chosen).run(), "defaults")
    most = max(sum(row) for row in zip(*result["samples"]["nodes"].values(), strict=True))
    stages.fact("nodes at most", most)
    stages.fact("rounds of the loop", result["summary"]["rounds"])
    stages.fact("pods scheduled", result["summary"]["podsScheduled"])
    return result


def warm() -> None:
    """Have the kernels compiled or loaded."""
    quiet()
    ClusterSimulation(load("warm", 8, 1, services=2)).run()


def prepared(name: str, nodes: int, hours: float) -> Scenario:
    """Return a scenario, with everything loaded."""
    warm()
    return load(name, nodes, hours)


def served(_made: object, result: dict[str, Any]) -> None:
    """Hold a result to what must be true of it: nobody waits at the end, nothing was lost, groups grew where needed."""
    summary = result["summary"]
    assert summary["podsPendingAtEnd"] == 0
    assert summary["podsLost"] == 0
    assert summary["nodesAdded"] > 0
    assert summary["podsScheduled"] > 0
    assert summary["timeToScheduleS"]["p99"] <= 120, summary["timeToScheduleS"]


scenario(
    name="simulated-day",
    what="a day of 1,000 nodes on virtual time",
    setup=lambda: prepared("day", 1_050, 24),
    run=simulated,
    verify=served,
    aims={"total": 60.0},
    repeats=1,
    large=True,
)
scenario(
    name="simulated-hour-5000",
    what="an hour of 5,000 nodes on virtual time",
    setup=lambda: prepared("hour", 5_000, 1),
    run=simulated,
    verify=served,
    repeats=1,
    large=True,
)


def hundred(thresholds: int = 10) -> list[Run]:
    """Return runs of one small scenario under 100 settings, or ten for each of fewer thresholds."""
    warm()
    axes = [
        read_axis("scaleDown.utilizationThreshold=" + ",".join(f"{8 / 20 + n / 20}" for n in range(thresholds))),
        read_axis("scaleDown.unneededTime=" + ",".join(f"{60 * number}s" for number in range(1, 11))),
    ]
    chosen = load("sweep", 40, 2, services=4)
    settings = grid([NamedSettings("defaults", plan_pb2.PlanSettings())], axes, settings_from)
    return [Run(chosen, (), one.name, one.settings.SerializeToString(deterministic=True)) for one in settings]


def swept(runs: list[Run], stages: Stages) -> list[bytes]:
    """Make all runs on one process, and on two.

    The speed-up of wall time is that of the machine as it is. That of CPU time is what two free cores would give, if
    both workers had as much to do: others that use the cores do not change it much.
    """
    quiet()
    before = cpu_s()
    with stages.stage("one process"):
        alone = [encoded(one) for one in sweep(runs)]
    between = cpu_s()
    with stages.stage("two processes"):
        spread = [encoded(one) for one in sweep(runs, 2)]
    after = cpu_s()
    of_one, of_workers = between[0] - before[0], after[1] - between[1]
    stages.fact("CPU s of one process", of_one)
    stages.fact("CPU s of both workers", of_workers)
    stages.fact("CPU s beside them", after[0] - between[0])
    stages.fact("speed-up of wall time", stages.seconds["one process"] / stages.seconds["two processes"])
    stages.fact("speed-up of CPU time", of_one / (of_workers / 2))
    assert alone == spread
    return alone


def cpu_s() -> tuple[float, float]:
    """Return the CPU seconds of this process and of those that it has started and that have ended."""
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime, others.ru_utime + others.ru_stime


def differ(_made: object, results: list[bytes]) -> None:
    """Hold a sweep to having all results, of which not all are alike."""
    assert len(results) == 100
    assert len(set(results)) == 100


scenario(
    name="simulated-sweep",
    what="100 settings over two hours of 40 nodes, on one process and on two",
    setup=hundred,
    run=swept,
    verify=differ,
    repeats=1,
    large=True,
)
