"""PodTopologySpread, case by case."""

import numpy as np
import pytest

from tests.builders.columns import snapshot
from tests.builders.fitting import HOST, ZONE, equals, fitting, node, pending, reasons, requires
from tests.builders.rows import Labels, NodeRow, PodRow
from trimtab.planner.model.values import NodeAffinityTerm, PodRequirements, SpreadConstraint, TaintSpec, TolerationSpec
from trimtab.planner.simulation.build import SimulationSettings, build_simulation
from trimtab.planner.simulation.kernels import cordon, failing, fits, place, remove, remove_from_topology
from trimtab.v1.snapshot_pb2 import PodPhase, TaintEffect, TolerationOperator

EVEN = SpreadConstraint(1, ZONE, equals(app="web"), 1, True, False, ())
NODES = [node("n1", "a"), node("n2", "b"), node("n3", "c"), node("n4")]
WEB = {"app": "web"}


def running(*at: str, labels: Labels | None = None, **fields: object) -> list[PodRow]:
    return [PodRow(f"r{i}", labels=labels or WEB, node=name)._replace(**fields) for i, name in enumerate(at)]


def web(**fields: object) -> PodRow:
    return pending(PodRequirements(topology_spread=(EVEN._replace(**fields),)), WEB)


def test_a_pod_goes_where_fewest_are_and_never_where_the_key_is_missing() -> None:
    assert fitting(web(), NODES, running("n1", "n2")) == {"n3"}
    assert reasons(web(), NODES, running("n1"))["n4"] == ["TOPOLOGY_SPREAD_VIOLATED"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"max_skew": 2}, {"n1", "n2", "n3"}, id="a larger skew"),
        pytest.param({"min_domains": 4}, {"n2", "n3"}, id="too few domains count as an empty one"),
        pytest.param({"selector": ()}, {"n1", "n2", "n3"}, id="an empty selector counts nobody but the pod itself"),
        pytest.param({"selector": None}, {"n1", "n2", "n3"}, id="no selector counts nobody"),
        pytest.param({"selector": equals(app="db")}, {"n1", "n2", "n3"}, id="others are not counted"),
    ],
)
def test_a_constraint_admits_nodes(fields: dict[str, object], expected: set[str]) -> None:
    others = running("n1") if "min_domains" in fields else running("n1", "n1", "n2", "n3")
    assert fitting(web(**fields), NODES, others) == expected


def test_a_pod_that_does_not_match_itself_adds_nothing() -> None:
    pod = pending(PodRequirements(topology_spread=(EVEN,)), {"app": "db"})
    assert fitting(pod, NODES, running("n1")) == {"n1", "n2", "n3"}
    assert fitting(pod, NODES, running("n1", "n1")) == {"n2", "n3"}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"deletion_s": 1}, id="terminating"),
        pytest.param({"phase": PodPhase.SUCCEEDED}, id="ended"),
        pytest.param({"namespace": "other"}, id="of another namespace"),
        pytest.param({"node": "unknown"}, id="on an unknown node"),
    ],
)
def test_pods_that_are_not_counted(fields: dict[str, object]) -> None:
    assert fitting(web(), NODES, running("n1", "n2", **fields)) == {"n1", "n2", "n3"}


def test_all_constraints_hold_and_only_nodes_with_all_keys_are_domains() -> None:
    spec = PodRequirements(topology_spread=(EVEN, EVEN._replace(topology_key="rack", max_skew=9)))
    nodes = [node("n1", "a", {"rack": "r"}), node("n2", "b", {"rack": "r"}), node("n3", "c")]
    assert fitting(pending(spec, WEB), nodes, running("n1", "n2")) == {"n1", "n2"}


def test_node_affinity_limits_the_domains_unless_ignored() -> None:
    nodes = [node("n1", "a", {"pool": "x"}), node("n2", "b", {"pool": "x"}), node("n3", "c")]
    affinity = (NodeAffinityTerm((requires("pool", "In", "x"),), ()),)
    spec = PodRequirements(topology_spread=(EVEN,), node_affinity=affinity)
    assert fitting(pending(spec, WEB), nodes, running("n1", "n2")) == {"n1", "n2"}
    ignoring = spec._replace(topology_spread=(EVEN._replace(honor_node_affinity=False),))
    assert fitting(pending(ignoring, WEB), nodes, running("n1", "n2")) == set()


def test_taints_limit_the_domains_only_if_honoured() -> None:
    nodes = [node("n1", "a"), node("n2", "b", taints=(TaintSpec("t", "", TaintEffect.NO_SCHEDULE),))]
    assert fitting(web(), nodes, running("n1")) == set()
    assert fitting(web(honor_node_taints=True), nodes, running("n1")) == {"n1"}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param(WEB | {"version": "2"}, {"n1", "n2", "n3"}, id="only pods of the same version count"),
        pytest.param(WEB | {"version": "1"}, {"n2", "n3"}, id="and those do"),
        pytest.param(WEB, {"n2", "n3"}, id="a label that the pod lacks is passed over"),
    ],
)
def test_match_label_keys_add_the_pods_own_values(labels: Labels, expected: set[str]) -> None:
    spec = PodRequirements(topology_spread=(EVEN._replace(match_label_keys=("version",)),))
    others = running("n1", labels=WEB | {"version": "1"})
    assert fitting(pending(spec, labels), NODES, others) == expected


def test_a_pinned_pod_is_spread_over_its_one_node() -> None:
    pod = web()._replace(pinned="n1")
    assert fitting(pod, NODES, running("n1", "n1")) == {"n1"}


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


def test_hostnames_are_domains_too() -> None:
    pod = web(topology_key=HOST)
    assert fitting(pod, NODES, running("n1", "n2", "n4")) == {"n3"}
