"""PodTopologySpread while nodes leave, and beyond what a scheduler is asked; the rest is held against the scheduler."""

import numpy as np
import pytest

from tests.builders.columns import snapshot
from tests.builders.fitting import ZONE, equals, fitting, node, pending
from tests.builders.rows import Labels, NodeRow, PodRow
from trimtab.planner.model.values import PodRequirements, SpreadConstraint, TolerationSpec
from trimtab.planner.simulation.build import SimulationSettings, build_simulation
from trimtab.planner.simulation.kernels import cordon, failing, fits, place, remove, remove_from_topology
from trimtab.v1.snapshot_pb2 import TolerationOperator

EVEN = SpreadConstraint(1, ZONE, equals(app="web"), 1, True, False, ())
NODES = [node("n1", "a"), node("n2", "b"), node("n3", "c"), node("n4")]
WEB = {"app": "web"}


def running(*at: str, labels: Labels | None = None, **fields: object) -> list[PodRow]:
    return [PodRow(f"r{i}", labels=labels or WEB, node=name)._replace(**fields) for i, name in enumerate(at)]


def test_the_timeout_annotation_ends_constraints_only_where_it_is_honoured() -> None:
    pod = pending(PodRequirements(topology_spread=(EVEN,), topology_spread_timeout_s=60), WEB, created_s=1000)
    full = running("n1", "n2")
    honoured = SimulationSettings(honor_spread_timeout=True)
    assert fitting(pod, NODES, full, now_s=2000) == {"n3"}
    assert fitting(pod, NODES, full, now_s=1060, settings=honoured) == {"n3"}
    assert fitting(pod, NODES, full, now_s=1061, settings=honoured) == {"n1", "n2", "n3", "n4"}


def _state(constraint: SpreadConstraint, *tolerations: TolerationSpec) -> tuple:
    """Return a state: n1 in zone a has the only other pod; pod 0 is checked; zone c has only n3."""
    spec = PodRequirements(topology_spread=(constraint,), tolerations=tolerations)
    made = snapshot(NODES[:3], [pending(spec, WEB), *running("n1", "n2")])
    return build_simulation(made).state, made.nodes.name.index("n3"), made.nodes.name.index("n1")


def test_a_retired_node_keeps_its_domain_and_a_dropped_one_does_not() -> None:
    state, alone, other = _state(EVEN)
    assert not fits(state, 0, other)
    cordon(state, alone)
    assert not fits(state, 0, other)
    assert not fits(state, 0, alone)
    remove_from_topology(state, alone)
    assert fits(state, 0, other)


@pytest.mark.parametrize(
    ("tolerations", "kept"),
    [
        pytest.param((), False, id="the taint of a drained node takes the domain away"),
        pytest.param((TolerationSpec("", TolerationOperator.EXISTS, "", 0),), True, id="unless it is tolerated"),
    ],
)
def test_with_taints_honoured_a_retired_node_is_tainted(tolerations: tuple[TolerationSpec, ...], kept: bool) -> None:
    state, alone, other = _state(EVEN._replace(honor_node_taints=True), *tolerations)
    cordon(state, alone)
    assert bool(fits(state, 0, other)) == (not kept)


@pytest.mark.parametrize("domains", [3, 200], ids=["few domains", "many domains"])
def test_the_smallest_count_is_right_far_beyond_the_histogram(domains: int) -> None:
    nodes: list[NodeRow] = [node(f"n{i:03}", f"z{i}") for i in range(domains)]
    pods = [PodRow(f"p{i:05}", PodRequirements(topology_spread=(EVEN,)), labels=WEB) for i in range(5000 * 3)]
    state = build_simulation(snapshot(nodes, pods)).state
    counter_count = np.zeros(domains, np.int64)
    steps = [(i, i % domains) for i in range(len(pods))]
    for pod, at in steps:
        place(state, pod, at)
        counter_count[at] += 1
    assert int(state.counters.spread.lowest[0]) == int(counter_count.min())
    for pod, at in steps[::2]:
        remove(state, pod)
        counter_count[at] -= 1
    assert int(state.counters.spread.lowest[0]) == int(counter_count.min())
    assert failing(state, steps[0][0], 0) >> 12 & 1 == int(counter_count[0] + 1 - counter_count.min() > 1)
