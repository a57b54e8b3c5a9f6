"""The greedy loop agrees with its naive twin, node for node and pod for pod, on random clusters."""

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.columns import snapshot
from tests.builders.drain_sets import SomeRows, compressed, problem_of, random_loop, some_rows, tight_rows
from tests.builders.examples import examples
from tests.reference.scale_down.search.drain_sets import Loop
from trimtab.planner.placement.kernels.search import SEARCHES
from trimtab.planner.scale_down.search.kernels.drain_sets import (
    EVALUATED,
    TAKEN,
    DrainProblem,
    drain_candidates,
    mark_unplaceable,
    repeat_plan,
)
from trimtab.planner.simulation.build import build_simulation
from trimtab.planner.simulation.kernels import mark, revert


def run_both(
    seed: int, bounded: bool = True, rows_of: Callable[[int], SomeRows] = some_rows
) -> tuple[Loop, DrainProblem, list[int]]:
    """Run both on one cluster. Pods go by their mix of cpu and memory in two of three."""
    loop = random_loop(seed, rows_of)
    nodes, pods, namespaces = rows_of(seed)
    simulation = build_simulation(snapshot(nodes, pods, namespaces))
    loop.mix = Random(seed + 5).choice([None, ("cpu", "memory"), ("memory", "cpu")])
    loop.kind = simulation.state.pod_class.tolist()
    problem = problem_of(loop, len(simulation.state.local_class), bounded)
    count = len(nodes)
    candidates = Random(seed).sample(range(count), Random(seed + 1).randint(0, count))
    start = mark(simulation.state)
    rows, known, bounds = np.array(candidates, np.int32), np.zeros(count, bool), np.array([99], np.int64)
    assert drain_candidates(simulation.state, problem, rows, 0, len(rows), known, bounds, 0) == len(rows)
    loop.run(candidates)
    taken, evaluated = problem.counts[TAKEN], problem.counts[EVALUATED]
    patience = Random(seed + 2).randint(0, 3)
    if patience:
        drain_candidates(simulation.state, problem, rows, 0, len(rows), known, bounds, patience)
    assert problem.counts[TAKEN] - taken == loop.empty_destinations(candidates, patience)
    assert bounds[0] == 99 - evaluated
    at = [int(node) for node in simulation.state.pod_node]
    names = list(loop.cluster.nodes)
    assert at == [names.index(one) if one else -1 for one in loop.cluster.at]
    revert(simulation.state, start)
    return loop, problem, candidates


@given(st.integers(0, 2**48))
@examples(150)
def test_the_loop_and_its_twin_agree_on_every_outcome(seed: int) -> None:
    assert_agree(seed, some_rows)


@given(st.integers(0, 2**48))
@examples(150)
def test_they_agree_where_nodes_are_nearly_full_of_pods_of_a_few_mixes(seed: int) -> None:
    assert_agree(seed, tight_rows)


def assert_agree(seed: int, rows_of: Callable[[int], SomeRows]) -> None:
    """Check every outcome of both."""
    loop, problem, candidates = run_both(seed, rows_of=rows_of)
    taken = problem.counts[4]
    assert problem.accepted[:taken].tolist() == loop.accepted
    assert {n: int(problem.outcome[n]) for n in candidates} == loop.outcome
    moved = [pod for node in loop.accepted for pod in loop.moving[node]]
    assert {pod: int(problem.destination[pod]) for pod in moved} == {pod: loop.destination[pod] for pod in moved}
    assert problem.limits.disruptions.tolist() == loop.left
    assert problem.limits.group_left.tolist() == loop.group_left
    assert problem.limits.amount_left.tolist() == loop.amount_left


@given(st.integers(0, 2**48))
@examples(60)
def test_the_pod_in_the_way_is_one_that_has_no_place(seed: int) -> None:
    loop, problem, candidates = run_both(seed)
    for node in candidates:
        if loop.outcome[node] in {14, 15}:
            assert problem.blocking_pod[node] in loop.moving[node]


@given(st.integers(0, 2**48))
@examples(60)
def test_upper_bounds_of_the_room_change_nothing(seed: int) -> None:
    (_, with_bounds, _), (_, without, _) = run_both(seed), run_both(seed, bounded=False)
    for field in (
        "outcome",
        "blocking_pod",
        "destination",
        "counts",
        "incoming_count",
        "first_incoming",
        "next_incoming",
    ):
        assert getattr(with_bounds, field).tolist() == getattr(without, field).tolist()
    taken = with_bounds.counts[TAKEN]
    assert with_bounds.accepted[:taken].tolist() == without.accepted[:taken].tolist()


def repeat_both(seed: int) -> tuple[bool, Loop, DrainProblem]:
    """Repeat a plan of the twin, sometimes an invalid one, with both."""
    plan = random_loop(seed)
    count, random = len(plan.cluster.nodes), Random(seed + 4)
    plan.run(random.sample(range(count), count))
    plan.empty_destinations(list(range(count)), 3)
    loop = random_loop(seed)
    loop.hint = {pod: plan.destination[pod] for node in plan.accepted for pod in plan.moving[node]}
    if loop.hint and random.random() < 0.3:
        loop.hint[random.choice(sorted(loop.hint))] = random.randrange(-1, count)
    rows, pods, namespaces = some_rows(seed)
    simulation = build_simulation(snapshot(rows, pods, namespaces))
    state, problem = simulation.state, problem_of(loop, len(simulation.state.local_class))
    names = list(loop.cluster.nodes)
    residents = {node: [p for p, at in enumerate(loop.cluster.at) if at == names[node]] for node in range(count)}
    offsets, members = compressed([residents[node] for node in range(count)])
    nodes = random.sample(plan.accepted, len(plan.accepted))
    if nodes and random.random() < 0.1:
        loop.incoming[nodes[0]] = [0]
        problem.incoming_count[nodes[0]] = 1
    start, unplaceable = mark(state), np.zeros(count, bool)
    repeated = repeat_plan(state, problem, np.array(nodes, np.int32))
    repeated = repeated and mark_unplaceable(state, problem, offsets, members, np.zeros(0, np.int32), unplaceable) == 0
    assert repeated == loop.repeat(nodes, residents)
    if repeated:
        assert [int(node) for node in state.pod_node] == [names.index(one) if one else -1 for one in loop.cluster.at]
    revert(state, start)
    assert state.log.length[0] == start
    return repeated, loop, problem


@given(st.integers(0, 2**48))
@examples(150)
def test_a_plan_is_repeated_as_a_whole_or_not_at_all(seed: int) -> None:
    repeated, loop, problem = repeat_both(seed)
    assert not (repeated and loop.incoming), "a destination stays"
    if repeated:
        assert problem.accepted[: problem.counts[TAKEN]].tolist() == loop.accepted
        assert problem.limits.disruptions.tolist() == loop.left
        assert problem.limits.group_left.tolist() == loop.group_left
        assert problem.limits.amount_left.tolist() == loop.amount_left
        assert {pod: int(problem.destination[pod]) for pod in loop.hint} == loop.hint
        assert problem.counts[SEARCHES] == 0


@pytest.mark.ci
def test_random_plans_are_repeated_and_refused() -> None:
    found = [repeat_both(seed) for seed in range(200)]
    assert sum(repeated and len(loop.hint) > 0 for repeated, loop, _ in found) > 30
    assert sum(not repeated for repeated, _, _ in found) > 5


@pytest.mark.ci
def test_random_loops_reach_every_kind_of_outcome() -> None:
    loops = [run_both(seed)[0] for seed in range(500)]
    assert {outcome for loop in loops for outcome in loop.outcome.values()} == {0, 6, 9, 14, 15, 19}
    assert sum(loop.freed for loop in loops) > 5
