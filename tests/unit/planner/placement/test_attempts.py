"""Attempts start from the same simulation, and only the adopted one leaves its moves."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import pytest

from tests.builders.columns import snapshot
from tests.builders.rows import NodeRow, PodRow
from trimtab.planner.model.execution import SEQUENTIAL, Parallel
from trimtab.planner.placement.attempts import Attempts, best_of
from trimtab.planner.simulation.build import build_simulation
from trimtab.planner.simulation.kernels import place
from trimtab.planner.simulation.log import current_mark
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import NO_NODE

T = TypeVar("T")
NODES = [NodeRow(f"n{number}") for number in range(4)]
PODS = [PodRow("a"), PodRow("b")]


class Backwards:
    """Runs tasks in reverse, as threads may."""

    def __init__(self, width: int) -> None:
        self.width = width

    def __call__(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        return [task() for task in tasks[::-1]][::-1]


def pods_to(node: int, state: SimulationState) -> int:
    """Make a plan: every pod on one node. It must start from pods on no node."""
    assert (state.pod_node == NO_NODE).all()
    for pod in range(len(state.pod_node)):
        place(state, pod, node)
    return node


def attempts_at(state: SimulationState, together: Parallel, made: list[int], most: int = 9) -> Attempts[int]:
    def repeat(where: SimulationState, plan: int) -> int:
        made.append(plan)
        return pods_to(plan, where)

    looks = iter([True] * most)
    return Attempts(state, current_mark(state), repeat, lambda: next(looks, False), together)


@pytest.mark.parametrize("together", [SEQUENTIAL, Backwards(2), Backwards(3), Backwards(9)], ids=["1", "2", "3", "9"])
@pytest.mark.parametrize("chosen", range(4))
def test_the_adopted_attempt_alone_leaves_its_moves(together: Parallel, chosen: int) -> None:
    state = build_simulation(snapshot(NODES, PODS)).state
    again: list[int] = []
    attempts = attempts_at(state, together, again)
    first = attempts.make(partial(pods_to, 0))
    made = [first, *attempts.make_all([partial(pods_to, node) for node in (1, 2, 3)], in_branches=True)]
    assert [attempt.plan for attempt in made] == [0, 1, 2, 3]
    adopted = attempts.adopt(made[chosen])
    assert adopted.plan == chosen
    assert state.pod_node.tolist() == [chosen] * len(PODS)
    assert again in ([], [chosen])
    assert attempts.adopt(adopted) == adopted, "it is there"
    assert state.pod_node.tolist() == [chosen] * len(PODS)


def test_without_branches_every_attempt_but_the_last_is_made_again_to_adopt_it() -> None:
    again: list[int] = []
    state = build_simulation(snapshot(NODES, PODS)).state
    attempts = attempts_at(state, Backwards(4), again)
    made = attempts.make_all([partial(pods_to, node) for node in (1, 2)], in_branches=False)
    assert attempts.adopt(made[1]).plan == 2
    assert again == []
    assert attempts.adopt(made[0]).plan == 1
    assert again == [1]


def test_no_attempt_is_made_once_the_time_is_over() -> None:
    attempts = attempts_at(build_simulation(snapshot(NODES, PODS)).state, SEQUENTIAL, [], most=2)
    made = attempts.make_all([partial(pods_to, node) for node in range(4)], in_branches=True)
    assert [attempt.plan for attempt in made] == [0, 1]


def test_the_best_is_the_earliest_of_equals() -> None:
    attempts = attempts_at(build_simulation(snapshot(NODES, PODS)).state, SEQUENTIAL, [])
    made = attempts.make_all([partial(pods_to, node) for node in (1, 3, 2, 3)], in_branches=False)
    assert best_of(made, lambda one, other: one.plan > other.plan) is made[1]


def test_an_attempt_that_would_make_an_equal_plan_again_is_left_out() -> None:
    attempts = attempts_at(build_simulation(snapshot(NODES, PODS)).state, SEQUENTIAL, [])
    made = attempts.make_all([partial(pods_to, 2), lambda state: None, partial(pods_to, 1)])
    assert [attempt.plan for attempt in made] == [2, 1]
    assert [attempt.has_moves for attempt in made] == [False, True]
