"""The kernels agree with the naive cluster, on random clusters, after any moves; undone moves leave no trace."""

from random import Random

import numpy as np
import pytest
from hypothesis import given

from tests.builders.columns import snapshot
from tests.builders.examples import examples
from tests.builders.random_rows import rows
from tests.builders.simulation_walks import SEEDS, Walk, assert_agree, assert_same, copied, walk_and_undo
from tests.reference.simulation.moves import Cluster
from trimtab.planner.simulation.build import Simulation, build_simulation
from trimtab.planner.simulation.kernels import (
    cordon,
    count_domains_of,
    fits,
    mark,
    place,
    remove,
    remove_from_topology,
    revert,
)
from trimtab.planner.simulation.log import MoveLogFullError, check_log
from trimtab.planner.snapshot.columns import NO_NODE
from trimtab.v1.snapshot_pb2 import PodPhase


def both(seed: int) -> tuple[Simulation, Cluster]:
    nodes, pods, namespaces = rows(seed)
    return build_simulation(snapshot(nodes, pods, namespaces)), Cluster(nodes, pods, namespaces)


@given(SEEDS)
@examples(250)
def test_a_fresh_simulation_agrees_with_the_naive_cluster(seed: int) -> None:
    simulation, cluster = both(seed)
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
    moved = [p._replace(node=at, phase=PodPhase.RUNNING) if at else p for p, at in zip(kept, cluster.at, strict=True)]
    expected = build_simulation(snapshot(nodes, moved, namespaces))
    assert_same(simulation.state, copied(expected.state))


def test_moves_that_are_not_possible_change_nothing_and_say_so() -> None:
    simulation, cluster = both(7)
    state = simulation.state
    somewhere = next(at for at, node in enumerate(cluster.at) if node)
    before = copied(state)
    assert place(state, somewhere, 0) == -1
    assert remove_from_topology(state, 0) == -1
    assert remove(state, next(at for at, node in enumerate(cluster.at) if not node)) == -1
    assert_same(state, before)


def test_a_full_log_is_reported_and_nothing_is_done() -> None:
    simulation, cluster = both(7)
    state = simulation.state
    state.log.length[0] = len(state.log.moves)
    before = copied(state)
    somewhere = next(at for at, node in enumerate(cluster.at) if node)
    nowhere = next(at for at, node in enumerate(cluster.at) if not node)
    assert [remove(state, somewhere), place(state, nowhere, 0), cordon(state, 0)] == [-2, -2, -2]
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


@given(SEEDS)
@examples(100)
def test_domains_counted_and_no_longer_leave_the_simulation_as_it_was(seed: int) -> None:
    nodes, pods, namespaces = rows(seed)
    state = build_simulation(snapshot(nodes, pods, namespaces)).state
    counters = state.counters.spread
    written = (counters.nodes_in, counters.domains_in, counters.counts, counters.histogram, counters.lowest)
    before = [one.copy() for one in written]
    random = np.random.default_rng(seed % 2**32)
    these = random.integers(0, len(nodes), min(3, len(nodes)))
    start = mark(state)
    count_domains_of(state, these, 1)
    for one in np.flatnonzero(state.pod_node != NO_NODE)[:5].tolist():
        remove(state, one)
        at = int(random.integers(0, len(nodes)))
        admitted = fits(state, one, at)
        count_domains_of(state, these, -1)
        # With more domains the smallest count is never larger.
        assert fits(state, one, at) or not admitted
        count_domains_of(state, these, 1)
        place(state, one, at)
    for part in (revert, None) if seed % 2 else (None, revert):
        if part is not None:
            part(state, start)
        else:
            count_domains_of(state, these, -1)
    assert all((one == other).all() for one, other in zip(before, written, strict=True))
