"""Waves of scale-down on a real control plane: disruption budgets allow only some nodes to go at once, and the rest go
as the evicted pods run again, although these could fill every other node above the threshold.

A small cluster of `tests.builders.after_burst`, on virtual time, beside its simulation; `test_waves_after_burst` has
the large one. Nodes at the end may differ by two: uids decide which pods a ReplicaSet removes.
"""

import pytest

from tests.builders.after_burst import after_burst
from tests.e2e.control_plane.control_plane import ControlPlane
from tests.e2e.simulated_and_real import simulated_and_real

pytestmark = pytest.mark.e2e


@pytest.mark.timeout(1800)
def test_nodes_that_budgets_keep_at_first_go_in_later_waves_in_reality_as_simulated(plane: ControlPlane) -> None:
    ours, theirs = simulated_and_real(plane, after_burst(10, disruptions=3, nodes=9, duration="8m", pod_start=0))
    # A single wave leaves 19 of 27 by then.
    assert abs(ours.nodes - theirs.nodes) <= 2
    assert max(ours.nodes, theirs.nodes) <= 13
