"""Computes the bounds in `bounds.json` again, which takes hours.

Usage: python -m tests.unit.planner.cheapest.record_bounds [FIRST COUNT] Prints one line of `bounds.json` for
each problem: the best proven bound of the linear relaxation, of the relaxation with whole nodes, of that with value
rows, and for very few pods the optimum; the later ones only if the plan is not within 1 % of the earlier. HiGHS stops
at a number of nodes, so another version may prove more or less (`tests/reference/scale_up/bound.py`).
"""

import sys

import numpy as np

from tests.reference.scale_up.bound import bound, optimum
from tests.unit.planner.cheapest.pending_problems import random_problem
from trimtab.planner.cheapest.plan import cheapest_plan, prepared
from trimtab.planner.cheapest.portfolio import SearchInputs, candidates, fill_state_for, make_plans
from trimtab.planner.cheapest.problem import PlanBounds, Problem
from trimtab.planner.model.settings.scale_up import USUAL

NEAR = 1.01
MOST_FILLS = 1 << 14
"""Number of ways to fill a node up to which the optimum is found by enumeration."""


def strongest(asked: Problem) -> float:
    """Return the highest computed bound of a problem."""
    price, least = cheapest_plan(asked).price, prepared(asked)[0]
    best = bound(least, least.pods, whole=False)
    if price > NEAR * best:
        best = max(best, bound(least, least.pods, whole=True))
    if price > NEAR * best:
        cost, groups = least.price + least.price.max() * 1e-6, np.arange(len(least.price), dtype=np.int32)
        inputs = SearchInputs(
            least, fill_state_for(least, cost), candidates(least, cost, groups, USUAL.detailed_groups), 0.0
        )
        worths = [np.minimum(one.value, least.price.max()) for one in make_plans(inputs, PlanBounds())[-3:]]
        best = max(best, bound(least, least.pods, whole=True, values=worths))
    if price > NEAR * best and np.prod(least.pods + 1.0) <= MOST_FILLS:
        best = max(best, optimum(least))
    return best


if __name__ == "__main__":
    first, count = (int(one) for one in sys.argv[1:]) if len(sys.argv) > 1 else (0, 205)
    for seed in range(first, first + count):
        print(f'"{seed}": {strongest(random_problem(seed)):.6f},', flush=True)
