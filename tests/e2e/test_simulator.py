"""The simulator against reality: one scenario simulated, and run on a real control plane with the real scheduler.

Nightly; of each change `test_waves.py` compares both on a shorter scenario.

About 100 nodes and 2,000 pods: two bursts, fewer pods after each, at last a quiet phase. Both have the same planner,
loop, actuator, timers and virtual time. Nodes over time must agree within 10 %: which pods a controller removes and
which node of several the scheduler takes differs, and with it when nodes can go. At the end nodes and their loads must
agree within 5 %: all pods ask for the same, and any node may go whose pods find room elsewhere, so that how many stay
does not depend on those choices.
"""

from typing import Any

import pytest

from tests.e2e.control_plane.control_plane import ControlPlane
from tests.e2e.plane_on_virtual_time import scenario_on
from trimtab.clients.simulation import ClusterSimulation
from trimtab.clients.simulation.scenario import Scenario
from trimtab.v1 import plan_pb2

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
Json = dict[str, Any]
NODE_MILLI = 4000
SIZES = {"web": 200, "shop": 200, "mail": 200, "search": 200}
"""Cpu of a pod of each workload, in milli-cores."""
PHASES = ((0, 1200), (120, 2000), (360, 1200), (600, 1900), (840, 800))
"""From which second on there are how many pods."""
SAMPLE_S = 10


def scenario() -> Scenario:
    """Four controllers of equal size, one of them with a budget."""
    steps = [{"at": at, "replicas": pods // len(SIZES)} for at, pods in PHASES]
    workloads: list[Json] = []
    for name, cpu in SIZES.items():
        pod = {"cpu": f"{cpu}m", "memory": "64Mi", "start": 0}
        workloads.append({"name": name, "replicas": 0, "steps": steps, "pod": pod})
    workloads[0]["budget"] = {"maxUnavailable": "10%"}
    group = {"name": "general", "size": 60, "maxSize": 150, "cpu": f"{NODE_MILLI}m", "memory": "16Gi", "start": 30}
    timing = {"interval": 10, "podStop": 0, "instanceDelete": 10}
    return Scenario.model_validate(
        {"name": "reality", "duration": "20m", "timing": timing, "nodeGroups": [group], "workloads": workloads}
    )


def settings() -> plan_pb2.PlanSettings:
    made = plan_pb2.PlanSettings()
    made.scale_down.utilization_threshold = 1.0
    made.scale_down.unneeded_time.seconds = 60
    made.scale_down.delay_after_add.seconds = 30
    made.scale_down.unremovable_node_recheck_timeout.SetInParent()
    made.scale_down.max_scale_down_parallelism = 50
    made.scale_down.max_drain_parallelism = 20
    return made


def loads(simulation: ClusterSimulation) -> list[int]:
    """Requested cpu of each node, most first."""
    nodes = simulation.cluster.state.nodes.values()
    return sorted((node.used.get("cpu", 0) for node in nodes), reverse=True)


@pytest.mark.timeout(1800)  # half an hour of a cluster, on a machine that does other things too
def test_a_simulation_shows_what_the_same_cluster_does_in_reality(plane: ControlPlane) -> None:
    simulation = ClusterSimulation(scenario(), settings=settings())
    moments = range(SAMPLE_S, int(simulation.scenario.duration) + 1, SAMPLE_S)
    simulated = [simulation.run_for(SAMPLE_S).node_count() for _ in moments]
    with scenario_on(plane, simulation) as reality:
        real = [len(reality.run_for(SAMPLE_S).load) for _ in moments]
        ours, theirs = loads(simulation), sorted(reality.load.values(), reverse=True)
        assert reality.pending == 0
    assert not simulation.pending

    off = sum(abs(a - b) for a, b in zip(simulated, real, strict=True)) / sum(real)
    mean = sum(real) / len(real)
    unchanging = sum(abs(mean - nodes) for nodes in real) / sum(real)
    most = max(len(ours), len(theirs))
    padded = [one + [0] * (most - len(one)) for one in (ours, theirs)]
    packing = sum(abs(a - b) for a, b in zip(*padded, strict=True)) / sum(theirs)
    print("second, nodes simulated, real:", *zip(moments, simulated, real, strict=True))
    print(f"nodes over time differ by {off:.1%}; without any change of size by {unchanging:.1%}")
    print(f"at the end: {len(ours)} nodes simulated, {len(theirs)} real; their loads differ by {packing:.1%}")
    assert min(len(ours), len(theirs)) > 0
    assert max(real) >= 95
    assert off <= 0.1
    assert abs(len(ours) - len(theirs)) <= 0.05 * len(theirs)
    assert packing <= 0.05
