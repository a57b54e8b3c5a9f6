"""The cheapest plan keeps every limit, places all pods that can be placed, and does not depend on the numbering of
rows.
"""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.certificates.cheapest_plan import offences
from tests.reference.cheapest.fill import Market
from tests.unit.planner.cheapest.problems import small_problem
from trimtab.planner.cheapest.plan import cheapest_plan
from trimtab.planner.cheapest.problem import Plan, Problem, problem, with_node_limit


def asked_for(demand: list[list[int]], count: list[int], capacity: list[list[int]], price: list[float]) -> Problem:
    allowed = np.ones((len(demand), len(capacity)), bool)
    return problem(np.array(demand), np.array(count), allowed, np.array(capacity), np.array(price))


def nodes_by_group(plan: Plan) -> dict[int, int]:
    return {int(group): int(plan.nodes[plan.group == group].sum()) for group in plan.group}


@given(st.integers(0, 2**40))
@examples(300)
def test_a_plan_keeps_limits_accounts_for_every_pod_and_leaves_one_only_where_no_further_node_takes_it(
    seed: int,
) -> None:
    asked = small_problem(seed)
    plan = cheapest_plan(asked)
    assert offences(asked, plan) == []
    used = np.bincount(plan.group, plan.nodes, len(asked.capacity)).astype(int)
    zone_pods = asked.zone_most.copy()
    for at, group in enumerate(plan.group):
        for entry in range(plan.offsets[at], plan.offsets[at + 1]):
            if asked.zone[group] >= 0:
                zone_pods[plan.classes[entry], asked.zone[group]] -= plan.pods[entry] * plan.nodes[at]
    market = Market(
        asked.demand.tolist(), asked.capacity.tolist(), asked.allowed.tolist(), asked.per_node.tolist(),
        asked.zone.tolist(), asked.price.tolist(), plan.unplaced.tolist(),
        (asked.max_nodes - used).tolist(), zone_pods.tolist(),
    )  # fmt: skip
    for group in np.flatnonzero(asked.max_nodes > used).tolist():
        for of_class in np.flatnonzero(asked.allowed[:, group]).tolist():
            assert market.pods_that_fit(group, of_class, {}) <= 0


@given(st.integers(0, 2**40))
@examples(200)
def test_classes_and_groups_numbered_otherwise_have_a_plan_of_the_same_price(seed: int) -> None:
    asked, random = small_problem(seed), Random(seed)
    classes = random.sample(range(len(asked.pods)), len(asked.pods))
    groups = random.sample(range(len(asked.capacity)), len(asked.capacity))
    other = Problem(
        asked.demand[classes], asked.pods[classes], asked.allowed[np.ix_(classes, groups)], asked.capacity[groups],
        asked.price[groups], asked.max_nodes[groups], asked.per_node[classes], asked.zone[groups],
        asked.zone_most[classes],
    )  # fmt: skip
    first, second = cheapest_plan(asked), cheapest_plan(other)
    assert first.price == pytest.approx(second.price, abs=1e-12)
    assert first.unplaced.sum() == second.unplaced.sum()


def test_the_group_cheapest_for_what_it_holds_is_taken() -> None:
    plan = cheapest_plan(asked_for([[2, 2]], [8], [[4, 4], [8, 8]], [1.0, 1.5]))
    assert (nodes_by_group(plan), plan.price) == ({1: 2}, 3.0)


def test_the_tail_goes_on_a_small_node() -> None:
    plan = cheapest_plan(asked_for([[2, 2]], [9], [[4, 4], [8, 8]], [1.0, 1.5]))
    assert (nodes_by_group(plan), plan.price) == ({0: 1, 1: 2}, 4.0)


def test_of_plans_of_equal_price_fewer_nodes_win() -> None:
    assert nodes_by_group(cheapest_plan(asked_for([[1, 1]], [8], [[4, 4], [8, 8]], [1.0, 2.0]))) == {1: 1}


def test_a_group_without_price_is_used_only_for_pods_that_no_group_with_a_price_takes() -> None:
    plan = cheapest_plan(asked_for([[2, 2], [9, 9]], [2, 1], [[4, 4], [10, 10]], [1.0, np.nan]))
    assert (nodes_by_group(plan), plan.price) == ({0: 1, 1: 1}, 1.0)


def test_a_group_without_price_takes_what_the_limit_of_the_others_leaves() -> None:
    asked = asked_for([[2, 2]], [5], [[4, 4], [10, 10]], [1.0, np.nan])._replace(max_nodes=np.array([2, 9]))
    plan = cheapest_plan(asked)
    assert (nodes_by_group(plan), int(plan.unplaced.sum())) == ({0: 2, 1: 1}, 0)


def test_without_any_price_the_fewest_nodes_win() -> None:
    plan = cheapest_plan(asked_for([[2, 2]], [10], [[4, 4], [10, 10]], [np.nan, np.nan]))
    assert (nodes_by_group(plan), plan.price) == ({1: 2}, 0.0)


def test_nodes_that_cost_nothing_are_planned() -> None:
    assert nodes_by_group(cheapest_plan(asked_for([[2, 2]], [4], [[4, 4], [8, 8]], [0.0, 0.0]))) == {1: 1}


def test_pods_that_repel_each_other_across_classes_go_on_separate_nodes() -> None:
    asked = asked_for([[1, 1], [2, 2], [1, 1]], [2, 2, 4], [[4, 4], [8, 8]], [1.0, 1.9])
    plan = cheapest_plan(with_node_limit(asked, np.array([True, True, False]), 1))
    assert (nodes_by_group(plan), int(plan.unplaced.sum())) == ({0: 4}, 0)


def test_pods_stay_within_what_is_planned_for_a_zone() -> None:
    asked = asked_for([[2, 2]], [4], [[8, 8], [8, 8]], [1.0, 5.0])
    asked = asked._replace(zone=np.array([0, 1], np.int32), zone_most=np.array([[2, 2]]))
    assert nodes_by_group(cheapest_plan(asked)) == {0: 1, 1: 1}


def test_no_pods_and_no_groups_have_an_empty_plan() -> None:
    empty = cheapest_plan(asked_for([[1, 1]], [0], [[4, 4]], [1.0]))
    nowhere = cheapest_plan(problem(np.ones((1, 2), int), np.array([3]), np.ones((1, 0), bool), np.ones((0, 2), int),
                                    np.ones(0)))  # fmt: skip
    assert (len(empty.group), empty.unplaced.tolist()) == (0, [0])
    assert (len(nowhere.group), nowhere.unplaced.tolist()) == (0, [3])


def test_the_largest_possible_amounts_do_not_overflow() -> None:
    huge = 2**62
    plan = cheapest_plan(asked_for([[1, huge], [1, huge // 2]], [100_000, 10], [[4, huge]], [1.0]))
    assert int(plan.unplaced.sum()) == 0
