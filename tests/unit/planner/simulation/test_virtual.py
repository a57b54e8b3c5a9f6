"""Virtual pods and nodes count like real ones: the kernels agree with a naive cluster in which they are real."""

from random import Random

import numpy as np
import pytest
from hypothesis import given

from tests.builders.columns import snapshot
from tests.builders.examples import examples
from tests.builders.fitting import HOST, equals, node
from tests.builders.random_rows import rows
from tests.builders.refusals import masks
from tests.builders.rows import NodeRow, PodRow
from tests.builders.simulation_walks import (
    SEEDS,
    Split,
    Walk,
    arrays,
    assert_agree,
    assert_same,
    by_key,
    copied,
    naive,
    virtual_pods,
    walk_and_undo,
)
from tests.reference.simulation.moves import Cluster
from trimtab.planner.model.values import AffinityTerm, PodRequirements
from trimtab.planner.simulation.build import Simulation, build_simulation, to_keep, with_virtual
from trimtab.planner.simulation.kernels import close_node, open_node, place, remove, revert
from trimtab.planner.simulation.state import CLOSED, OPEN
from trimtab.planner.simulation.virtual_rows import (
    NodeTemplate,
    VirtualNodes,
    VirtualPod,
    VirtualRows,
    kinds_of,
    template_of,
)
from trimtab.v1.snapshot_pb2 import PodPhase


def split(seed: int) -> Split:
    """Make half of the nodes and of the possible pods virtual: a virtual pod is on no node, runs, and has no
    volumes.
    """
    nodes, pods, namespaces = rows(seed)
    random = Random(seed + 5)
    nodes.sort(key=lambda one: one.name.encode())
    later = {one.name for one in nodes if one.labels.get(HOST) == one.name and random.random() < 0.5}
    real, virtual = [], []
    for pod in by_key(pods):
        movable = not (pod.ended or pod.terminating or pod.gated or pod.volumes)
        if movable and random.random() < 0.5:
            virtual.append(pod._replace(node=""))
        else:
            at, pinned = ("" if name in later else name for name in (pod.node, pod.pinned))
            real.append(pod._replace(node=at, pinned=pinned))
    return Split([n for n in nodes if n.name not in later], [n for n in nodes if n.name in later],
                 real, virtual, namespaces)  # fmt: skip


def template(row: NodeRow) -> NodeTemplate:
    labels = tuple(sorted(row.labels.items()))
    return NodeTemplate(labels, tuple(sorted(row.allocatable.items())), row.taints, row.unschedulable, row.traits)


def virtual_nodes(nodes: list[NodeRow]) -> tuple[VirtualNodes, ...]:
    return tuple(VirtualNodes(template(one), (one.name,)) for one in nodes)


def both(rows: Split) -> tuple[Simulation, Cluster]:
    kept = to_keep(build_simulation(snapshot(rows.nodes, rows.pods, rows.namespaces)))
    before = copied(kept.state)
    numbers = {one.name: at for at, one in enumerate([*rows.nodes, *rows.later_nodes])}
    made = with_virtual(kept, virtual_pods(rows.later_pods, numbers), virtual_nodes(rows.later_nodes))
    assert_same(kept.state, before)
    return made, naive(rows)


class VirtualWalk(Walk):
    """Random moves that also open and close nodes."""

    def step(self) -> None:
        self.random.choice((super().step, super().step, self.open_or_close))()

    def open_or_close(self) -> None:
        state = self.simulation.state
        first = self.simulation.node_count
        options = [at for at in range(first, len(self.names)) if state.node_state[at] in (OPEN, CLOSED)]
        at = self._any(options)
        if at is None or self.cluster.pods_on(self.names[at]):
            return
        if state.node_state[at] == CLOSED:
            assert open_node(state, at) == 0
            self.cluster.state[self.names[at]] = "open"
        else:
            assert close_node(state, at) == 0
            self.cluster.remove_from_topology(self.names[at])


@given(SEEDS)
@examples(250)
def test_after_any_moves_virtual_rows_answer_as_real_ones_and_what_is_undone_was_never_done(seed: int) -> None:
    simulation, cluster = both(split(seed))
    assert_agree(simulation, cluster)
    random = Random(seed + 1)
    walk_and_undo(VirtualWalk(simulation, cluster, random), 8, 8)


@given(SEEDS)
@examples(100)
def test_rows_added_to_a_simulation_in_use_leave_pods_and_nodes_as_they_are(seed: int) -> None:
    whole = split(seed)
    # A pod cannot be pinned to a node that comes after it.
    names = {one.name for one in whole.later_nodes[1:]}
    early = [p._replace(pinned="" if p.pinned in names else p.pinned) for p in whole.later_pods[:2]]
    whole = whole._replace(later_pods=[*early, *whole.later_pods[2:]])
    first = whole._replace(later_nodes=whole.later_nodes[:1], later_pods=whole.later_pods[:2])
    simulation, cluster = both(first)
    walk = VirtualWalk(simulation, cluster, Random(seed + 3))
    for _ in range(10):
        walk.step()
    before = copied(simulation.state)
    later_nodes, later_pods = whole.later_nodes[1:], whole.later_pods[2:]
    numbers = {one.name: at for at, one in enumerate([*whole.nodes, *whole.later_nodes])}
    more = with_virtual(simulation, virtual_pods(later_pods, numbers), virtual_nodes(later_nodes))
    assert_same(simulation.state, before)
    twin = naive(whole)
    twin.at[: len(whole.pods)] = cluster.at[: len(whole.pods)]
    twin.at[len(whole.pods) : len(cluster.at)] = cluster.at[len(whole.pods) :]
    twin.state |= cluster.state
    assert_agree(more, twin)
    VirtualWalk(more, twin, Random(seed + 4)).open_or_close()
    assert_agree(more, twin)


@given(SEEDS)
@examples(100)
def test_pods_of_known_classes_share_all_that_the_snapshot_decides(seed: int) -> None:
    """Each virtual pod equals a pod of the snapshot."""
    nodes, pods, namespaces = rows(seed)
    alone = [p._replace(volumes=(), deletion_s=0, flags=0, phase=PodPhase.RUNNING) for p in by_key(pods)]
    brothers = [p._replace(name=f"z{p.name}", node="") for p in alone]
    nodes.sort(key=lambda one: one.name.encode())
    whole = Split(nodes, [], alone, brothers, namespaces)
    kept = to_keep(build_simulation(snapshot(nodes, alone, namespaces)))
    numbers = {one.name: at for at, one in enumerate(nodes)}
    made = with_virtual(kept, virtual_pods(brothers, numbers))
    assert made.state.blocked is kept.state.blocked
    assert made.pods.of.tolist() == 2 * kept.pods.of.tolist()
    assert_agree(made, naive(whole))


@given(SEEDS)
@examples(50)
def test_pods_that_are_kinds_have_the_classes_that_equal_pods_have(seed: int) -> None:
    nodes, pods, namespaces = rows(seed)
    nodes.sort(key=lambda one: one.name.encode())
    movable = [p for p in by_key(pods) if not (p.ended or p.terminating or p.gated or p.volumes)]
    numbers = {one.name: at for at, one in enumerate(nodes)}
    virtual, equal = (virtual_pods([p._replace(node="") for p in movable], numbers) for _ in range(2))
    kinds = kinds_of(virtual[: len(virtual) // 2])
    kept = to_keep(build_simulation(snapshot(nodes, by_key(pods), namespaces), VirtualRows(kinds=kinds)))
    made, expected = with_virtual(kept, virtual * 2, kinds=kinds), with_virtual(kept, equal * 2)
    assert made.pods.of.tolist() == expected.pods.of.tolist()
    assert_same(made.state, arrays(expected.state))


def test_without_virtual_rows_a_simulation_of_its_own_comes_back() -> None:
    kept = to_keep(build_simulation(snapshot([node("n1")], [PodRow("a")])))
    own = with_virtual(kept, ())
    assert place(own.state, 0, 0) == 0
    assert int(kept.state.pod_node[0]) == -1
    assert_same(with_virtual(kept, ()).state, arrays(kept.state))


def test_a_closed_node_takes_no_pods_and_an_open_one_is_not_opened_twice() -> None:
    simulation = with_virtual(
        build_simulation(snapshot([node("n1")], [PodRow("a")])), (), (VirtualNodes(template(node("t")), ("v1", "v2")),)
    )
    state = simulation.state
    assert state.node_state.tolist() == [OPEN, CLOSED, CLOSED]
    assert place(state, 0, 1) == -1
    assert close_node(state, 1) == -1
    assert [open_node(state, 1), open_node(state, 1), open_node(state, 0)] == [0, -1, -1]
    assert [place(state, 0, 1), remove(state, 0), close_node(state, 1)] == [0, 0, 0]
    revert(state, 0)
    assert state.node_state.tolist() == [OPEN, CLOSED, CLOSED]


def test_each_node_of_a_template_has_a_hostname_of_its_own() -> None:
    nodes = VirtualNodes(NodeTemplate(((HOST, "t"), ("zone", "z"))), ("v1", "v2"))
    assert nodes.labels_of(nodes.names) == [((HOST, "v1"), ("zone", "z")), ((HOST, "v2"), ("zone", "z"))]


@pytest.mark.parametrize("seed", range(5))
def test_a_template_of_a_node_looks_as_the_node_does(seed: int) -> None:
    nodes, pods, _ = rows(seed)
    made = snapshot(nodes, pods)
    found = {name: template_of(made, made.nodes, at) for at, name in enumerate(made.nodes.name)}
    for row in nodes:
        expected = template(row)
        offered = tuple(sorted(pair for pair in expected.allocatable if pair[1]))
        assert found[row.name]._replace(allocatable=tuple(sorted(found[row.name].allocatable))) == expected._replace(
            allocatable=offered
        )


def test_a_pod_with_a_new_constraint_is_met_by_the_pods_that_are_there() -> None:
    spec = PodRequirements(pod_anti_affinity=(AffinityTerm(equals(app="old"), (), None, HOST),))
    made = snapshot([node("n1"), node("n2")], [PodRow("a", labels={"app": "old"}, node="n1")])
    simulation = with_virtual(build_simulation(made), (VirtualPod("default", spec, (("app", "new"),)),))
    assert (masks(simulation, 1) == 0).tolist() == [False, True]
    assert np.flatnonzero(simulation.state.pod_node >= 0).tolist() == [0]
