"""Nodes by which groups grow count like real ones: the kernels agree with the naive cluster with real nodes."""

from random import Random

import numpy as np
from hypothesis import given

from tests.builders.columns import snapshot
from tests.builders.examples import examples
from tests.builders.fitting import HOST, node
from tests.builders.growing import GrowingCluster, growing_cluster, node_group, random_growing_cluster
from tests.builders.rows import NodeRow, PodRow
from tests.builders.simulation_walks import SEEDS, Walk, assert_agree, assert_same, copied, walk_and_undo
from trimtab.planner.model.values import PodRequirements
from trimtab.planner.simulation.build import to_keep, with_virtual
from trimtab.planner.simulation.growth import growth_rows
from trimtab.planner.simulation.kernels import (
    close_node,
    open_from_template,
    open_node,
    place,
    place_several,
    remove,
    revert,
)
from trimtab.planner.simulation.state import CLOSED, OPEN
from trimtab.planner.simulation.virtual_rows import GroupTemplate, NodeTemplate, VirtualPod


class GrowthWalk(Walk):
    """Random moves that also open spare nodes of a group and close them."""

    def __init__(self, made: GrowingCluster, random: Random) -> None:
        super().__init__(made.simulation, made.cluster, random)
        self.growth = made.growth
        self.blank = {self.names[at]: made.cluster.nodes[self.names[at]] for at in made.growth.spare_nodes.tolist()}

    def step(self) -> None:
        self.random.choice((super().step, super().step, self.grow, self.grow, self.close))()

    def grow(self) -> None:
        state = self.simulation.state
        at = self._any([at for at in self.growth.spare_nodes.tolist() if state.node_state[at] == CLOSED])
        template_node = self._any(self.growth.template_node.tolist())
        if at is not None and template_node is not None:
            assert open_from_template(state, at, template_node) == 0
            self.cluster.open_from_template(self.names[at], self.names[template_node])

    def close(self) -> None:
        state = self.simulation.state
        at = self._any([at for at in self.growth.spare_nodes.tolist() if state.node_state[at] == OPEN])
        if at is None or self.names[at] in self.cluster.at:
            return
        assert close_node(state, at) == 0
        name = self.names[at]
        self.cluster.remove_from_topology(name)
        self.cluster.nodes[name] = self.blank[name]
        del self.cluster.residents[name]


@given(SEEDS)
@examples(250)
def test_after_any_moves_new_nodes_answer_as_real_ones_and_what_is_undone_was_never_done(seed: int) -> None:
    made = random_growing_cluster(seed, most_pending=6)
    assert_agree(made.simulation, made.cluster)
    walk_and_undo(GrowthWalk(made, Random(seed + 1)), 8, 8)


@given(SEEDS)
@examples(80)
def test_pods_that_join_later_see_the_nodes_that_were_opened(seed: int) -> None:
    made = random_growing_cluster(seed, most_pending=3)
    walk = GrowthWalk(made, Random(seed + 2))
    for _ in range(8):
        walk.step()
    before = copied(made.simulation.state)
    spec = Random(seed).choice([pod.spec for pod in made.cluster.pods])
    for later in (PodRow("z", spec, "a", {"app": "x"}), PodRow("z", PodRequirements(requests=(("x/new", 1),)), "a")):
        pods = (VirtualPod(later.namespace, later.spec, tuple(later.labels.items())),)
        more = with_virtual(made.simulation, pods)
        assert_same(made.simulation.state, before)
        made.cluster.pods.append(later)
        made.cluster.at.append("")
        assert_agree(more, made.cluster)
        made.cluster.pods.pop()
        made.cluster.at.pop()


@given(SEEDS)
@examples(80)
def test_several_pods_of_a_class_count_as_they_do_one_by_one(seed: int) -> None:
    made = random_growing_cluster(seed)
    state, random = made.simulation.state, Random(seed + 3)
    alike: dict[int, list[int]] = {}
    for pod in made.pending:
        if state.counters.volumes.row[pod] < 0:
            alike.setdefault(int(state.pod_class[pod]), []).append(pod)
    if not alike:
        return
    before = copied(state)
    pod_class = random.choice(sorted(alike))
    at = random.choice([at for at, one in enumerate(made.names) if made.cluster.state[one] == "open"])
    for pod in alike[pod_class]:
        assert place(state, pod, at) == 0
    expected = copied(state)
    revert(state, 0)
    assert place_several(state, pod_class, at, len(alike[pod_class])) == 0
    state.pod_node[alike[pod_class]] = at
    assert_same(state, expected)
    state.pod_node[alike[pod_class]] = -1
    assert revert(state, 0) == 1
    assert_same(state, before)


def small() -> GrowingCluster:
    zone = NodeRow("t", {HOST: "t", "zone": "z"}, {"cpu": 4, "pods": 9})
    daemon = PodRow("daemon", PodRequirements(requests=(("cpu", 1),)))
    return growing_cluster([node("n1")], [PodRow("a")], [(zone, [daemon], 2), (zone, [], 0)], 2)


def test_prototypes_are_closed_upcoming_nodes_open_and_blank_ones_wait() -> None:
    made = small()
    state = made.simulation.state
    assert made.names == ["n1", "g0-template-1", "g1-template-1", "g0-upcoming-1", "g0-upcoming-2", "new-1", "new-2",
                          "new-3"]  # fmt: skip
    assert state.node_state.tolist() == [OPEN, CLOSED, CLOSED, OPEN, OPEN, CLOSED, CLOSED, CLOSED]
    assert made.growth.template_node.tolist() == [1, 2]
    assert made.growth.upcoming_of(0).tolist() == [3, 4]
    assert made.growth.upcoming_of(1).tolist() == []
    assert [made.names[at] for at in made.growth.spare_nodes] == list(made.growth.spare_names) == ["new-2", "new-3"]
    assert state.resources.free[3].tolist()[0] == 3, "its DaemonSet pod is on it"


def test_a_node_is_opened_once_like_a_closed_prototype_and_one_blank_node_never() -> None:
    made = small()
    state = made.simulation.state
    assert [open_from_template(state, 5, 1), open_node(state, 5)] == [-1, -1]
    assert [
        open_from_template(state, 6, 1),
        open_from_template(state, 6, 1),
        open_from_template(state, 7, 3),
        open_from_template(state, 0, 1),
    ] == [0, -1, -1, -1]
    assert state.resources.free[6].tolist()[::2] == [3, 8]
    assert [place(state, 0, 6), remove(state, 0), close_node(state, 6)] == [0, 0, 0]
    assert state.resources.free[6].tolist()[::2] == [0, 0]


def test_a_copy_of_a_kept_simulation_grows_independently() -> None:
    kept = to_keep(small().simulation)
    before = copied(kept.state)
    own = with_virtual(kept, ())
    assert open_from_template(own.state, 6, 1) == 0
    assert_same(kept.state, before)


def test_names_that_are_taken_are_left_out() -> None:
    made = snapshot([node("new-1"), node("g-template-1")], [PodRow("a", labels={"app": "new-2"})])
    rows = growth_rows([GroupTemplate(NodeTemplate()), None], [1, 7], 1, made._replace(groups=(node_group("g"),) * 2))
    assert [one.names for one in rows.nodes] == [("g-template-2",), ("g-upcoming-1",), ("new-3", "new-4")]
    assert rows.growth.template_node.tolist() == [2, -1]
    assert rows.growth.upcoming_offsets.tolist() == [0, 1, 1]
    assert np.array_equal(rows.growth.spare_nodes, [5])
