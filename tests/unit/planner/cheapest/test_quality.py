"""How close the cheapest plan comes to the lower bound of the cost, on 200 random problems.

Strong bounds of `tests/reference/scale_up/bound.py` take minutes, so they are kept in `bounds.json` by the problem's
number; a few are computed again here.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.builders.examples import ALL
from tests.builders.scale_up import NOW_S
from tests.builders.snapshots import write
from tests.certificates.cheapest_plan import offences
from tests.certificates.scale_up import offences as broken_rules
from tests.reference.scale_up.bound import bound, optimum
from tests.unit.planner.cheapest.pending_problems import karpenter_problem, random_problem
from tests.unit.planner.cheapest.problems import cluster_of
from trimtab.planner.cheapest.plan import cheapest_plan, prepared
from trimtab.planner.cheapest.portfolio import least_cost
from trimtab.planner.cheapest.problem import Problem, problem
from trimtab.planner.decisions.plan import plan as decide
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2

MOST_PROVEN = 60
"""Number of pods up to which the certificate, which checks every pod and node, is fast enough."""
PLANNED, DECIDED = (slice(None), slice(None)) if ALL else (slice(0, None, 10), slice(1, None, 20))
"""Problems that are planned alone, and others that are decided as a whole cluster; with TRIMTAB_ALL_EXAMPLES each of
the 200 is both.
"""
BOUNDS = {int(seed): price for seed, price in json.loads(Path(__file__).with_name("bounds.json").read_text()).items()}


def test_plans_of_random_problems_cost_little_more_than_the_bound() -> None:
    ratios = []
    for seed, price in list(BOUNDS.items())[PLANNED]:
        asked = random_problem(seed)
        plan = cheapest_plan(asked)
        assert (offences(asked, plan), plan.unplaced.sum()) == ([], 0)
        ratios.append(plan.price / price)
    assert len(BOUNDS) >= 200
    assert min(ratios) >= 1 - 1e-3, "nothing is cheaper than its bound"
    assert np.mean(ratios) <= 1.03, np.mean(ratios)
    assert max(ratios) <= 1.10, max(ratios)


def test_no_plan_costs_less_than_the_least_cost_which_ends_the_search() -> None:
    for seed in list(BOUNDS)[PLANNED]:
        least = prepared(random_problem(seed))[0]
        of_all = least_cost(least, least.price, np.arange(len(least.price), dtype=np.int32))
        assert 0 < of_all <= cheapest_plan(random_problem(seed)).price * (1 + 1e-9)
    # Each class has a group of its own: 15 of 4 GiB are four whole nodes, 6 of 4 cores two.
    asked = problem(
        np.array([[1, 3], [2, 1]]), np.array([5, 3]), np.array([[True, False], [False, True]]),
        np.array([[4, 4], [4, 4]]), np.array([1.0, 2.0]),
    )  # fmt: skip
    groups = np.arange(2, dtype=np.int32)
    assert least_cost(asked, asked.price, groups) == 4 + 2 * 2
    assert least_cost(asked._replace(per_node=np.array([1, 9])), asked.price, groups) == 5 + 2 * 2
    mixed = asked._replace(allowed=np.ones((2, 2), bool))
    assert least_cost(mixed, asked.price, groups) == (5 * 3 + 3 * 1) / 4


@pytest.mark.ci
def test_decisions_about_clusters_of_these_problems_cost_little_more_than_the_bound() -> None:
    ratios = []
    for seed, price in list(BOUNDS.items())[DECIDED]:
        asked = random_problem(seed)
        found, broken = decided(asked)
        assert (broken, len(found.unschedulable)) == ([], 0), seed
        ratios.append(found.price_per_hour / price)
    assert min(ratios) >= 1 - 1e-3, "nothing is cheaper than its bound"
    assert np.mean(ratios) <= 1.03, np.mean(ratios)
    assert max(ratios) <= 1.10, max(ratios)


def decided(asked: Problem) -> tuple[plan_pb2.ScaleUpDecision, list[str]]:
    """Take the whole decision with CHEAPEST_PLAN; return it, and its violations if there are few pods."""
    message = write(cluster_of(asked), in_order=True)
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_UP])
    request.now.seconds = NOW_S
    request.settings.scale_up.expanders.append(plan_pb2.Expander.CHEAPEST_PLAN)
    request.settings.scale_up.max_new_nodes = 10_000
    found = decide(canonicalize(message), request, None, Work()).scale_up
    few = asked.pods.sum() <= MOST_PROVEN
    return found, broken_rules(message, request.settings, found, NOW_S) if few else []


@pytest.mark.parametrize("seed", [1, 3, 7, 16, 21, 33, 52])
def test_kept_bounds_do_not_exceed_the_relaxation_with_whole_nodes(seed: int) -> None:
    asked = random_problem(seed)
    assert max(bound(asked, asked.pods, whole) for whole in (False, True)) >= BOUNDS[seed] * (1 - 1e-3)


@pytest.mark.ci
def test_all_pods_of_the_shape_of_karpenters_benchmark_are_placed() -> None:
    asked = karpenter_problem(1000, 40) if ALL else karpenter_problem(300, 30)
    plan = cheapest_plan(asked)
    assert (offences(asked, plan), plan.unplaced.sum()) == ([], 0)
    assert plan.price <= 1.12 * bound(asked, asked.pods, whole=False)


@pytest.mark.parametrize("seed", [55, 121, 125])
def test_small_problems_are_solved_at_the_least_price_there_is(seed: int) -> None:
    asked = random_problem(seed)
    assert cheapest_plan(asked).price == pytest.approx(optimum(prepared(asked)[0]), rel=1e-6)
