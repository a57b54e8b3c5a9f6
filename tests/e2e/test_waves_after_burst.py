"""The large cluster of `tests.builders.after_burst` on a real control plane, beside its simulation.

What the Cluster Autoscaler makes of it was measured on this control plane: 54 nodes at the end, 7.4 evictions for each
node that went. Nodes at the end may differ by a tenth between simulation and reality: uids decide which pods a
ReplicaSet removes.
"""

import pytest

from tests.builders.after_burst import after_burst
from tests.e2e.control_plane.control_plane import ControlPlane
from tests.e2e.simulated_and_real import simulated_and_real

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
AUTOSCALER_NODES = 54
AUTOSCALER_EVICTIONS = 7.4
"""For each node that went."""


@pytest.mark.timeout(3600)
def test_fewer_nodes_stay_after_a_burst_than_with_the_cluster_autoscaler_for_fewer_evictions(
    plane: ControlPlane,
) -> None:
    ours, theirs = simulated_and_real(plane, after_burst(duration="10m", pod_start=0))
    assert max(ours.nodes, theirs.nodes) < AUTOSCALER_NODES
    assert max(ours.evictions, theirs.evictions) < AUTOSCALER_EVICTIONS
    assert abs(ours.nodes - theirs.nodes) <= 0.1 * theirs.nodes
