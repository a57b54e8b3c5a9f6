"""Building a simulation: virtual pods, empty clusters."""

import numpy as np

from tests.builders.columns import snapshot
from tests.builders.fitting import HOST, equals, node
from tests.builders.refusals import masks
from tests.builders.rows import PodRow
from trimtab.planner.model.values import AffinityTerm, HostPort, LabelRequirement, PodRequirements, RecentEviction
from trimtab.planner.simulation import kernels
from trimtab.planner.simulation.build import build_simulation
from trimtab.planner.simulation.kernels import fits, place
from trimtab.planner.simulation.virtual_rows import VirtualPod, VirtualRows, evicted_pods
from trimtab.v1.snapshot_pb2 import LabelOperator

AWAY = PodRequirements(pod_anti_affinity=(AffinityTerm(equals(app="new"), (), None, HOST),))


def test_an_empty_cluster_has_no_place() -> None:
    simulation = build_simulation(snapshot([], [PodRow("p")]))
    assert masks(simulation, 0).tolist() == []
    assert build_simulation(snapshot()).pods.size == 0


def test_nodes_without_pods_are_a_simulation() -> None:
    assert len(build_simulation(snapshot([node()])).state.node_state) == 1


def test_virtual_pods_follow_and_meet_the_others_selectors() -> None:
    made = snapshot([node("n1"), node("n2")], [PodRow("a", AWAY, node="n1")])
    virtual = (
        VirtualPod("default", PodRequirements(), (("app", "new"),)),
        VirtualPod("elsewhere", PodRequirements(), (("app", "new"),)),
        VirtualPod("default", PodRequirements(host_ports=(HostPort("TCP", "0.0.0.0", 1),))),
    )
    state = build_simulation(made, VirtualRows(virtual)).state
    assert [bool(fits(state, pod, 0)) for pod in (1, 2, 3)] == [False, True, True]
    assert place(state, 3, 0) == 0
    assert int(state.pod_node[3]) == 0


def test_evicted_pods_come_back_with_spec_and_labels() -> None:
    made = snapshot([node()], [PodRow("a", AWAY, labels={"app": "new"})])
    label_set = int(made.pods.label_set[0])
    eviction = RecentEviction("default", "gone", "uid", 0, label_set, "", 0)
    (pod,) = evicted_pods(made, (eviction,))
    assert pod == VirtualPod("default", AWAY, (("app", "new"),))
    simulation = build_simulation(made, VirtualRows((pod,)))
    assert simulation.pods.of.tolist() == [0, 0]
    assert int(simulation.state.pod_node[1]) == -1


def test_the_snapshot_is_left_as_it_was() -> None:
    made = snapshot([node()], [PodRow("a", AWAY, node="n1")])
    before = made.nodes.allocatable.copy(), made.pods.pinned.copy()
    simulation = build_simulation(made)
    kernels.remove(simulation.state, 0)
    kernels.cordon(simulation.state, 0)
    assert np.array_equal(made.nodes.allocatable, before[0])
    assert np.array_equal(made.pods.pinned, before[1])


def test_a_requirement_on_a_label_that_no_node_has_matches_as_missing() -> None:
    spec = PodRequirements(node_selector=(("nowhere", "x"),))
    term = LabelRequirement("nowhere", LabelOperator.DOES_NOT_EXIST, ())
    simulation = build_simulation(snapshot([node()], [PodRow("a", spec), PodRow("b", AWAY)]))
    assert not fits(simulation.state, 0, 0)
    assert term.key not in simulation.snapshot.strings
