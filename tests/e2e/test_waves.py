"""Waves of scale-down on a real control plane: disruption budgets allow only some nodes to go at once, and the rest go
as the evicted pods run again, although these could fill every other node above the threshold.

The scenario is that of `tests.builders.after_burst`, on virtual time, beside its simulation. The Cluster Autoscaler's
figures for the large one, measured once on this control plane: 54 nodes at the end, 7.4 evictions for each node that
went. Which pods a ReplicaSet removes is drawn there by their uids, so nodes at the end may differ by 10 %.
"""

import pytest

from tests.builders.after_burst import after_burst, patient
from tests.e2e.control_plane.control_plane import ControlPlane
from tests.e2e.plane_on_virtual_time import scenario_on
from trimtab.clients.simulation import ClusterSimulation
from trimtab.clients.simulation.scenario import Scenario

pytestmark = pytest.mark.e2e
AUTOSCALER_NODES = 54
AUTOSCALER_EVICTIONS = 7.4


def nodes_at_end(plane: ControlPlane, scenario: Scenario) -> tuple[int, int]:
    """Run a scenario in the simulator and on the control plane; return how many nodes each has at the end."""
    simulation = ClusterSimulation(scenario, settings=patient())
    simulated = simulation.run().node_count()
    with scenario_on(plane, simulation) as reality:
        trace = [len(reality.run_for(60).load) for _ in range(int(scenario.duration) // 60)]
        assert reality.pending == 0
        print("nodes by minute, real:", *trace)
    print(f"at the end: {simulated} nodes simulated, {trace[-1]} real; {simulation.summary()['evictions']} evictions")
    return simulated, trace[-1]


@pytest.mark.timeout(1800)
def test_nodes_whose_budgets_allow_no_more_evictions_now_go_in_later_waves_in_reality_as_simulated(
    plane: ControlPlane,
) -> None:
    scenario = after_burst(10, disruptions=3, nodes=9, duration="8m", pod_start=0)
    simulated, real = nodes_at_end(plane, scenario)
    assert abs(simulated - real) <= 2
