"""Building a simulation: injected pods, empty clusters, warm-up."""

import numpy as np
import pytest
from trimtab.v1.snapshot_pb2 import LabelOperator

from planner.model.values import HostPort, LabelRequirement, PodAffinityTerm, PodSpec, RecentEviction
from planner.simulation import kernels
from planner.simulation.build import build_simulation
from planner.simulation.injected_pods import InjectedPod, evicted_pods
from planner.simulation.kernels import find, fits, place
from planner.simulation.warm_up import warm_up
from tests.builders.columns import snapshot
from tests.builders.fitting import HOST, equals, node
from tests.builders.rows import PodRow

AWAY = PodSpec(pod_anti_affinity=(PodAffinityTerm(equals(app="new"), (), None, HOST),))


def test_an_empty_cluster_has_no_place() -> None:
    simulation = build_simulation(snapshot([], [PodRow("p")]))
    assert find(simulation.state, 0, np.zeros(0, np.bool_), 0) == -1
    assert build_simulation(snapshot()).pods.size == 0


def test_nodes_without_pods_are_a_simulation() -> None:
    assert len(build_simulation(snapshot([node()])).state.node_state) == 1


def test_injected_pods_follow_and_meet_the_others_selectors() -> None:
    made = snapshot([node("n1"), node("n2")], [PodRow("a", AWAY, node="n1")])
    injected = (
        InjectedPod("default", PodSpec(), (("app", "new"),)),
        InjectedPod("elsewhere", PodSpec(), (("app", "new"),)),
        InjectedPod("default", PodSpec(host_ports=(HostPort("TCP", "0.0.0.0", 1),))),
    )
    state = build_simulation(made, injected).state
    assert [bool(fits(state, pod, 0)) for pod in (1, 2, 3)] == [False, True, True]
    assert place(state, 3, 0) == 0
    assert int(state.pod_node[3]) == 0


def test_evicted_pods_come_back_with_spec_and_labels() -> None:
    made = snapshot([node()], [PodRow("a", AWAY, labels={"app": "new"})])
    label_set = int(made.pods.label_set[0])
    eviction = RecentEviction("default", "gone", "uid", 0, label_set, "", 0)
    (pod,) = evicted_pods(made, (eviction,))
    assert pod == InjectedPod("default", AWAY, (("app", "new"),))
    simulation = build_simulation(made, (pod,))
    assert simulation.pods.of.tolist() == [0, 0]
    assert int(simulation.state.pod_node[1]) == -1


def test_the_snapshot_is_left_as_it_was() -> None:
    made = snapshot([node()], [PodRow("a", AWAY, node="n1")])
    before = made.nodes.allocatable.copy(), made.pods.pinned.copy()
    simulation = build_simulation(made)
    kernels.remove(simulation.state, 0)
    kernels.retire(simulation.state, 0)
    assert np.array_equal(made.nodes.allocatable, before[0])
    assert np.array_equal(made.pods.pinned, before[1])


def test_warm_up_leaves_nothing_to_compile() -> None:
    warm_up()
    dispatchers = {name: getattr(kernels, name) for name in kernels.__all__}
    compiled = {name: len(one.signatures) for name, one in dispatchers.items() if hasattr(one, "signatures")}
    if not compiled:
        pytest.skip("kernels run as plain Python")
    simulation = build_simulation(snapshot([node("n1"), node("n2")], [PodRow("a", AWAY, node="n1"), PodRow("b", AWAY)]))
    state, allowed = simulation.state, np.ones(2, np.bool_)
    kernels.find(state, 1, allowed, 0)
    kernels.find_all(state, 1, allowed, np.zeros(2, np.bool_))
    kernels.failing(state, 1, 0)
    kernels.failing_everywhere(state, 1, np.zeros(2, np.int64))
    kernels.fits(state, 1, 0)
    at = kernels.mark(state)
    kernels.remove(state, 0)
    kernels.place(state, 1, 0)
    kernels.retire(state, 1)
    kernels.drop(state, 1)
    kernels.revert(state, at)
    kernels.commit(state, at)
    assert {name: len(getattr(kernels, name).signatures) for name in compiled} == compiled


def test_a_failed_search_is_remembered_until_room_appears() -> None:
    big = PodSpec(requests=(("cpu", 3000),))
    nodes = [node("n1"), node("n2")]
    pods = [PodRow("a", big, node="n1"), PodRow("b", big, node="n2"), PodRow("c", big), PodRow("d", big)]
    state = build_simulation(snapshot(nodes, pods)).state
    allowed = np.ones(2, np.bool_)
    assert find(state, 2, allowed, 0) == -1
    assert int(state.memory.failed_at[state.pod_class[2]]) == int(state.memory.gain_count[0])
    kernels.remove(state, 1)
    assert find(state, 2, np.array([True, False]), 0) == -1
    assert find(state, 2, allowed, 0) == 1
    assert place(state, 2, 1) == 0
    assert find(state, 3, allowed, 0) == -1


def test_a_requirement_on_a_label_that_no_node_has_matches_as_missing() -> None:
    spec = PodSpec(node_selector=(("nowhere", "x"),))
    term = LabelRequirement("nowhere", LabelOperator.DOES_NOT_EXIST, ())
    simulation = build_simulation(snapshot([node()], [PodRow("a", spec), PodRow("b", AWAY)]))
    assert not fits(simulation.state, 0, 0)
    assert term.key not in simulation.snapshot.strings
