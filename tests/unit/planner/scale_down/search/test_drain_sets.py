"""The greedy loop agrees with its naive twin, node for node and pod for pod, on random clusters."""

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.columns import snapshot
from tests.builders.examples import examples
from tests.builders.random_rows import rows
from tests.builders.rows import Labels, NodeRow, PodRow
from tests.reference.scale_down.search.drain_sets import Loop
from tests.reference.simulation.moves import Cluster
from trimtab.planner.model.values import PodSpec
from trimtab.planner.placement.kernels.search import NO_MOST, SEARCHES, Search, unknown_room
from trimtab.planner.scale_down.search.kernels.drain_sets import (
    COUNTS,
    TAKEN,
    Budgets,
    Minimums,
    Problem,
    drain_candidates,
    mark_unplaceable,
    repeat,
)
from trimtab.planner.simulation.build import build_simulation
from trimtab.planner.simulation.kernels import mark, revert

NOT_TRIED = 99


def some_rows(seed: int) -> tuple[list[NodeRow], list[PodRow], dict[str, Labels]]:
    """Return a cluster with every constraint, or (odd seeds) a large one with only cpu requests."""
    if seed % 2 == 0:
        return rows(seed)
    random = Random(seed)
    specs = [PodSpec(requests=(("cpu", amount),)) for amount in (1, 2, 3)]
    nodes = [NodeRow(f"n{i}", {}, {"cpu": 10, "memory": 9, "pods": 20}) for i in range(random.randint(2, 7))]
    where = [node.name for node in nodes]
    pods = [PodRow(f"p{i:02}", random.choice(specs), node=random.choice(where)) for i in range(random.randint(1, 14))]
    return nodes, pods, {}


def random_loop(seed: int) -> Loop:
    random = Random(seed)
    nodes, pods, namespaces = some_rows(seed)
    cluster = Cluster(nodes, pods, namespaces)
    names = list(cluster.nodes)
    on = {i: [p for p, at in enumerate(cluster.at) if at == name] for i, name in enumerate(names)}
    budgets, chance = random.randint(0, 2), Random(seed + 3)
    return Loop(
        cluster=cluster,
        moving={node: [pod for pod in there if random.random() < 0.8] for node, there in on.items()},
        order=random.sample(range(len(names)), len(names)),
        allowed=[random.random() < 0.9 for _ in names],
        hint={pod: random.randrange(-1, len(names)) for pod in range(len(cluster.pods)) if random.random() < 0.4},
        needs={
            pod: [(b, random.choice((0, 1, 1))) for b in range(budgets) if random.random() < 0.5]
            for pod in range(len(cluster.pods))
        },
        left=[random.randint(0, 3) for _ in range(budgets)],
        in_turn=[chance.random() < 0.3 for _ in names],
        group=[random.randrange(2) for _ in names],
        group_left=[random.randint(0, 3), random.randint(0, 9)],
        amount=[[random.randint(0, 3)] for _ in names],
        amount_left=[random.randint(0, 6)],
    )


def compressed(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    return offsets, np.array([one for row in lists for one in row], np.int32)


def problem_of(loop: Loop, classes: int, bounded: bool = True) -> Problem:
    """Return the input of the loop. bounded : with upper bounds of the nodes' room, as attempts have them."""
    node_count, pod_count = len(loop.cluster.nodes), len(loop.cluster.pods)
    offsets, pods = compressed([loop.moving[node] for node in range(node_count)])
    pairs, budgets = compressed([[b for b, _ in loop.needs[pod]] for pod in range(pod_count)])
    needs = np.array([need for pod in range(pod_count) for _, need in loop.needs[pod]], np.uint8)
    order = np.array(loop.order, np.int32)
    most = unknown_room(order) if bounded else NO_MOST
    return Problem(
        offsets,
        pods,
        np.array([loop.hint.get(pod, -1) for pod in range(pod_count)], np.int32),
        Search(order, np.array(loop.allowed), *np.zeros((2, classes), np.int64), most=most),
        Budgets(pairs, budgets, needs, np.array(loop.left, np.int64), np.array(loop.in_turn)),
        Minimums(
            np.array(loop.group, np.int32),
            np.array(loop.group_left, np.int64),
            np.array(loop.amount, np.int64),
            np.array(loop.amount_left, np.int64),
        ),
        np.zeros(node_count, np.int32),
        np.full(node_count, -1, np.int32),
        np.full(pod_count, -1, np.int32),
        np.full(node_count, NOT_TRIED, np.uint8),
        np.full(node_count, -1, np.int32),
        np.full(pod_count, -1, np.int32),
        np.zeros(COUNTS, np.int64),
        np.zeros(node_count, np.int32),
    )


def run_both(seed: int, bounded: bool = True) -> tuple[Loop, Problem, list[int]]:
    loop = random_loop(seed)
    nodes, pods, namespaces = some_rows(seed)
    simulation = build_simulation(snapshot(nodes, pods, namespaces))
    problem = problem_of(loop, len(simulation.state.local_class), bounded)
    count = len(nodes)
    candidates = Random(seed).sample(range(count), Random(seed + 1).randint(0, count))
    start = mark(simulation.state)
    rows, known, bounds = np.array(candidates, np.int32), np.zeros(count, bool), np.array([99, 99], np.int64)
    assert drain_candidates(simulation.state, problem, rows, 0, len(rows), known, bounds, 0) == len(rows)
    loop.run(candidates)
    taken = problem.counts[TAKEN]
    patience = Random(seed + 2).randint(0, 3)
    if patience:
        drain_candidates(simulation.state, problem, rows, 0, len(rows), known, bounds, patience)
    assert problem.counts[TAKEN] - taken == loop.empty_destinations(candidates, patience)
    assert bounds[1] == 99 - problem.counts[TAKEN]
    at = [int(node) for node in simulation.state.pod_node]
    names = list(loop.cluster.nodes)
    assert at == [names.index(one) if one else -1 for one in loop.cluster.at]
    revert(simulation.state, start)
    return loop, problem, candidates


@given(st.integers(0, 2**48))
@examples(150)
def test_the_loop_and_its_twin_agree_on_every_outcome(seed: int) -> None:
    loop, problem, candidates = run_both(seed)
    taken = problem.counts[4]
    assert problem.accepted[:taken].tolist() == loop.accepted
    assert {n: int(problem.outcome[n]) for n in candidates} == loop.outcome
    moved = [pod for node in loop.accepted for pod in loop.moving[node]]
    assert {pod: int(problem.destination[pod]) for pod in moved} == {pod: loop.destination[pod] for pod in moved}
    assert problem.budgets.left.tolist() == loop.left
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


def repeat_both(seed: int) -> tuple[bool, Loop, Problem]:
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
    repeated = repeat(state, problem, np.array(nodes, np.int32))
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
        assert problem.budgets.left.tolist() == loop.left
        assert problem.limits.group_left.tolist() == loop.group_left
        assert problem.limits.amount_left.tolist() == loop.amount_left
        assert {pod: int(problem.destination[pod]) for pod in loop.hint} == loop.hint
        assert problem.counts[SEARCHES] == 0


def test_random_plans_are_repeated_and_refused() -> None:
    found = [repeat_both(seed) for seed in range(200)]
    assert sum(repeated and len(loop.hint) > 0 for repeated, loop, _ in found) > 30
    assert sum(not repeated for repeated, _, _ in found) > 5


def test_random_loops_reach_every_kind_of_outcome() -> None:
    loops = [run_both(seed)[0] for seed in range(500)]
    assert {outcome for loop in loops for outcome in loop.outcome.values()} == {0, 6, 9, 14, 15, 19}
    assert sum(loop.freed for loop in loops) > 5
