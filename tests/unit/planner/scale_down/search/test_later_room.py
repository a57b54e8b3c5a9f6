"""Room for later waves: the waves of a set and the room that is held agree with naive twins; a node that would take the
room of a later wave stays, in the loop that plans and in the next one."""

from collections.abc import Callable
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.columns import snapshot
from tests.builders.drain_sets import SomeRows, problem_of, random_loop, some_rows, tight_rows
from tests.builders.examples import examples
from tests.reference.scale_down.search.drain_sets import Loop
from tests.reference.scale_down.search.waves import hold, wave_numbers
from trimtab.planner.drainability.kernels.limits import WaveBudgets, number_waves
from trimtab.planner.scale_down.search.kernels.drain_sets import DrainProblem
from trimtab.planner.scale_down.search.kernels.waves import give_back_places, hold_places
from trimtab.planner.simulation.build import build_simulation


def numbered_by_both(seed: int) -> list[int]:
    """Return the waves of a random set, which kernel and twin agree on."""
    random, loop = Random(seed), random_loop(seed, tight_rows)
    problem = problem_of(loop, 1)
    nodes = random.sample(range(len(loop.moving)), random.randint(0, len(loop.moving)))
    now, later = ([random.randint(0, most) for _ in loop.left] for most in (3, 5))
    budgets, most = WaveBudgets(np.array(now, np.int64), np.array(later, np.int64)), random.randint(1, 4)
    wave = np.full(len(nodes), -1, np.int32)
    suffices = number_waves(problem.limits, np.array(nodes, np.int32), budgets, most, wave)
    expected = wave_numbers(loop, nodes, now, later, most)
    assert wave.tolist() == expected
    assert suffices == all(expected)
    return expected


@given(st.integers(0, 2**40))
@examples(200)
def test_the_kernel_and_its_twin_divide_a_set_into_the_same_waves(seed: int) -> None:
    numbered_by_both(seed)


def test_random_sets_are_divided_into_several_waves_or_into_none() -> None:
    found = [numbered_by_both(seed) for seed in range(200)]
    assert sum(len({*waves}) > 1 and all(waves) for waves in found) > 10
    assert sum(not all(waves) for waves in found) > 10


def written(problem: DrainProblem) -> list[list[int]]:
    """Return what holding room writes."""
    return [one.tolist() for one in (problem.incoming_count, problem.first_incoming, problem.destination)]


def held_by_both(seed: int, rows_of: Callable[[int], SomeRows], *, with_twin: bool) -> bool:
    """Hold room for the pods of random nodes and give it back; return whether it could be held."""
    random, loop = Random(seed), random_loop(seed, rows_of)
    simulation = build_simulation(snapshot(*rows_of(seed)))
    state = simulation.state
    nodes = random.sample(range(len(loop.moving)), random.randint(1, 3) if len(loop.moving) > 3 else 1)
    others = [node for node in range(len(loop.moving)) if node not in nodes and loop.allowed[node]]
    for node in nodes:
        loop.allowed[node] = False
        loop.hint |= {pod: random.choice(others) for pod in loop.moving[node]} if others else {}
    problem = problem_of(loop, len(state.local_class))
    before, at, free = written(problem), state.pod_node.copy(), state.resources.free.copy()
    rows = np.array(nodes, np.int32)
    is_held = hold_places(state, problem, rows)
    if with_twin:
        assert is_held == hold(loop, nodes)
    if is_held:
        assert_held(loop, problem, state.pod_node, nodes)
        assert give_back_places(state, problem, rows) == sum(len(loop.moving[node]) for node in nodes)
    assert (state.pod_node == at).all()
    assert (state.resources.free == free).all()
    assert written(problem) == before
    return is_held


def assert_held(loop: Loop, problem: DrainProblem, at: np.ndarray, nodes: list[int]) -> None:
    """Check that the pods of nodes are at their hints, and recorded there."""
    pods = [pod for node in nodes for pod in loop.moving[node]]
    assert [int(at[pod]) for pod in pods] == [loop.hint[pod] for pod in pods]
    assert int(problem.incoming_count.sum()) == len(pods)


@given(st.integers(0, 2**40))
@examples(200)
def test_room_is_held_where_the_twin_holds_it_and_given_back_whole(seed: int) -> None:
    held_by_both(2 * seed + 1, some_rows, with_twin=True)
    held_by_both(seed, tight_rows, with_twin=True)
    held_by_both(2 * seed, some_rows, with_twin=False)


def test_room_can_be_held_for_some_random_nodes_and_not_for_others() -> None:
    found = [held_by_both(seed, tight_rows, with_twin=True) for seed in range(200)]
    assert 20 < sum(found) < 180
