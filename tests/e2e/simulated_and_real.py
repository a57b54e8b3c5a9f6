"""A scenario after a burst in the simulator and on a real control plane, and what is left of it in both."""

from typing import NamedTuple

from tests.builders.after_burst import patient
from tests.e2e.control_plane.control_plane import ControlPlane
from tests.e2e.plane_on_virtual_time import scenario_on
from trimtab.clients.simulation import ClusterSimulation
from trimtab.clients.simulation.scenario import Scenario


class End(NamedTuple):
    """Nodes at the end, and evictions for each node that went."""

    nodes: int
    evictions: float


def simulated_and_real(plane: ControlPlane, scenario: Scenario) -> tuple[End, End]:
    """Run a scenario in the simulator and on the control plane."""
    simulation = ClusterSimulation(scenario, settings=patient())
    figures = simulation.run().summary()
    ours = End(simulation.node_count(), figures["evictions"] / figures["nodesRemoved"])
    with scenario_on(plane, simulation) as reality:
        sizes = [len(reality.run_for(60).load) for _ in range(int(scenario.duration) // 60)]
        assert reality.pending == 0
        theirs = End(sizes[-1], len(reality.evicted) / (max(sizes) - sizes[-1]))
    print("nodes by minute, real:", *sizes)
    print(f"simulated: {ours}; real: {theirs}")
    return ours, theirs
