"""The kernels agree with the naive cluster, on random clusters, after any moves; undone moves leave no trace."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.columns import snapshot
from tests.builders.examples import examples
from tests.builders.random_rows import rows
from tests.reference.predicates import resources
from tests.reference.simulation import checks
from tests.reference.simulation.moves import Cluster
from trimtab.planner.predicates.order import reasons_of
from trimtab.planner.simulation.build import Simulation, build_simulation
from trimtab.planner.simulation.explain import explain, masks
from trimtab.planner.simulation.kernels import (
    drop,
    failing,
    fits,
    mark,
    place,
    remove,
    retire,
    revert,
)
from trimtab.planner.simulation.log import MoveLogFullError, check_log
from trimtab.planner.simulation.state import SimulationState

SEEDS = st.integers(0, 2**48)


def both(seed: int) -> tuple[Simulation, Cluster]:
    nodes, pods, namespaces = rows(seed)
    return build_simulation(snapshot(nodes, pods, namespaces)), Cluster(nodes, pods, namespaces)


def arrays(value: Any, path: str = "") -> dict[str, np.ndarray]:
    """Yield all arrays of a state by path, except for the log."""
    if isinstance(value, np.ndarray):
        return {path: value}
    out: dict[str, np.ndarray] = {}
    for name in value._fields:
        if name != "log":
            out |= arrays(getattr(value, name), f"{path}.{name}")
    return out


def copied(state: SimulationState) -> dict[str, np.ndarray]:
    return {path: array.copy() for path, array in arrays(state).items()}


def assert_same(state: SimulationState, expected: dict[str, np.ndarray]) -> None:
    for path, array in arrays(state).items():
        assert array.tobytes() == expected[path].tobytes(), path


def assert_agree(simulation: Simulation, cluster: Cluster) -> None:
    """Check that both agree on every unplaced pod and every node."""
    for at, pod in enumerate(cluster.pods):
        if cluster.at[at]:
            continue
        everywhere = masks(simulation, at)
        for number, name in enumerate(cluster.nodes):
            expected = sorted(checks.failing(cluster, pod, name))
            assert reasons_of(int(everywhere[number])) == expected, (pod, name)
            assert int(failing(simulation.state, at, number)) == int(everywhere[number])
            assert bool(fits(simulation.state, at, number)) == (not expected), (pod, name)
            refusal = explain(simulation, at, number)
            assert refusal.reasons == expected
            assert refusal.insufficient == resources.short(pod, cluster.nodes[name], cluster.pods_on(name))


class Walk:
    """Random moves, made on both sides."""

    def __init__(self, simulation: Simulation, cluster: Cluster, random: Random) -> None:
        self.simulation, self.cluster, self.random = simulation, cluster, random
        self.names = list(cluster.nodes)

    def step(self) -> None:
        self.random.choice((self.place_somewhere, self.place_where_it_fits, self.remove, self.remove, self.retire))()

    def _unplaced(self) -> int | None:
        return self._any([at for at, node in enumerate(self.cluster.at) if not node])

    def _any(self, options: list[int]) -> int | None:
        return self.random.choice(options) if options else None

    def place_somewhere(self) -> None:
        pod, node = self._unplaced(), self._any(self._nodes("open", "retired"))
        if pod is not None and node is not None:
            assert place(self.simulation.state, pod, node) == 0
            self.cluster.place(pod, self.names[node])

    def place_where_it_fits(self) -> None:
        pod = self._unplaced()
        if pod is None:
            return
        node = self._any(np.flatnonzero(masks(self.simulation, pod) == 0).tolist())
        if node is not None:
            assert place(self.simulation.state, pod, node) == 0
            self.cluster.place(pod, self.names[node])

    def remove(self) -> None:
        pod = self._any([at for at, node in enumerate(self.cluster.at) if node])
        if pod is not None:
            assert remove(self.simulation.state, pod) == 0
            self.cluster.remove(pod)

    def _nodes(self, *states: str) -> list[int]:
        return [at for at, name in enumerate(self.names) if self.cluster.state[name] in states]

    def retire(self) -> None:
        """Retire a node, or drop a retired one that is empty."""
        node = self._any(self._nodes("open", "retired"))
        if node is None:
            return
        name = self.names[node]
        if self.cluster.state[name] == "open":
            assert retire(self.simulation.state, node) == 0
            self.cluster.retire(name)
        elif not self.cluster.pods_on(name):
            assert drop(self.simulation.state, node) == 0
            self.cluster.drop(name)


@given(SEEDS)
@examples(250)
def test_a_fresh_simulation_agrees_with_the_naive_cluster(seed: int) -> None:
    simulation, cluster = both(seed)
    assert_agree(simulation, cluster)


def walk_and_undo(walk: Walk, before: int, after: int) -> None:
    """Make fewer than `before` steps and fewer than `after` more, and mostly undo the latter; check that both sides
    always agree.
    """
    simulation, cluster, random = walk.simulation, walk.cluster, walk.random
    for _ in range(3):
        for _ in range(random.randrange(before)):
            walk.step()
        marks = int(mark(simulation.state)), cluster.mark(), copied(simulation.state)
        for _ in range(random.randrange(after)):
            walk.step()
        if random.random() < 0.7:
            revert(simulation.state, marks[0])
            cluster.revert(marks[1])
            assert_same(simulation.state, marks[2])
        assert_agree(simulation, cluster)


@given(SEEDS)
@examples(150)
def test_after_any_moves_both_agree_and_what_is_undone_was_never_done(seed: int) -> None:
    simulation, cluster = both(seed)
    random = Random(seed + 1)
    walk_and_undo(Walk(simulation, cluster, random), 6, 10)


@given(SEEDS)
@examples(150)
def test_moves_lead_to_the_same_counters_as_a_snapshot_of_where_they_lead(seed: int) -> None:
    nodes, _, namespaces = rows(seed)
    simulation, cluster = both(seed)
    walk = Walk(simulation, cluster, Random(seed + 2))
    for _ in range(12):
        walk.random.choice((walk.place_somewhere, walk.place_where_it_fits, walk.remove))()
    kept = [p if p.ended or p.node == "unknown" else p._replace(node=at)
            for p, at in zip(cluster.pods, cluster.at, strict=True)]  # fmt: skip
    moved = [p._replace(node=at, ended=False) if at else p for p, at in zip(kept, cluster.at, strict=True)]
    expected = build_simulation(snapshot(nodes, moved, namespaces))
    assert_same(simulation.state, copied(expected.state))


def test_moves_that_are_not_possible_change_nothing_and_say_so() -> None:
    simulation, cluster = both(7)
    state = simulation.state
    somewhere = next(at for at, node in enumerate(cluster.at) if node)
    before = copied(state)
    assert place(state, somewhere, 0) == -1
    assert drop(state, 0) == -1
    assert remove(state, next(at for at, node in enumerate(cluster.at) if not node)) == -1
    assert_same(state, before)


def test_a_full_log_is_reported_and_nothing_is_done() -> None:
    simulation, cluster = both(7)
    state = simulation.state
    state.log.length[0] = len(state.log.moves)
    before = copied(state)
    somewhere = next(at for at, node in enumerate(cluster.at) if node)
    nowhere = next(at for at, node in enumerate(cluster.at) if not node)
    assert [remove(state, somewhere), place(state, nowhere, 0), retire(state, 0)] == [-2, -2, -2]
    assert_same(state, before)
    assert int(state.log.refused[0]) == 3
    with pytest.raises(MoveLogFullError, match="3 were refused"):
        check_log(state)


@pytest.mark.parametrize("seed", [3, 11])
def test_only_the_inner_fork_is_undone(seed: int) -> None:
    simulation, cluster = both(seed)
    walk = Walk(simulation, cluster, Random(seed))
    outer, outer_state = int(mark(simulation.state)), copied(simulation.state)
    for _ in range(5):
        walk.step()
    inner, inner_state = int(mark(simulation.state)), copied(simulation.state)
    for _ in range(5):
        walk.step()
    revert(simulation.state, inner)
    assert_same(simulation.state, inner_state)
    revert(simulation.state, outer)
    assert_same(simulation.state, outer_state)
