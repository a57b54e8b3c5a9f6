"""Tries single nodes after an attempt: one that was left out in favour of others may still go after them.
Source: own.
"""

import numpy as np

from planner.placement.kernels.search import HINT_HITS, NO_MOST, SEARCHES
from planner.scale_down.search.drain_sets import Attempt, Task, ask_again, to_stay_even
from planner.scale_down.search.kernels.drain_sets import (
    ACCEPTED,
    DESTINATION,
    TAKEN,
    Problem,
    drain_candidates,
)
from planner.simulation.kernels import revert
from planner.simulation.log import check_log, current_mark


def continued(attempt: Attempt, problem: Problem) -> Attempt:
    """Return an attempt in the current state of a problem."""
    return attempt._replace(
        accepted=problem.accepted[: problem.counts[TAKEN]].copy(),
        hint_hits=int(problem.counts[HINT_HITS]),
        searches=int(problem.counts[SEARCHES]),
        problem=problem,
    )


def goes_on(task: Task, problem: Problem) -> bool:
    """Return whether time and the bound on new nodes allow one more."""
    accepted = problem.accepted[: problem.counts[TAKEN]]
    most = task.settings.max_new_unneeded
    full = most and int((~task.nodes.unneeded_before[accepted]).sum()) >= most
    return not full and task.in_time()


def try_node(task: Task, problem: Problem, node: int) -> tuple[Problem, bool]:
    """Try one node; return the problem to continue with, and whether the node goes."""
    fork, tried = current_mark(task.state), copied(problem)
    has_incoming = tried.incoming_count[node] > 0
    if has_incoming:
        tried.outcome[node] = DESTINATION
    one, bounds = np.array([node], np.int32), np.ones(2, np.int64)
    known = np.zeros(len(task.nodes.unneeded_before), bool)
    drain_candidates(task.state, tried, one, 0, 1, known, bounds, int(has_incoming))
    check_log(task.state)
    if tried.outcome[node] != ACCEPTED:
        return tried, False
    if ask_again(task, tried).any() or len(to_stay_even(task, tried.accepted[: tried.counts[TAKEN]])):
        revert(task.state, fork)
        return problem, False
    check_log(task.state)
    return tried, True


def copied(problem: Problem) -> Problem:
    """Copy the arrays that a try writes."""
    search, budgets, limits = problem.search, problem.budgets, problem.limits
    return problem._replace(
        # Placeholders may be taken off nodes before the try, so that room grows.
        search=search._replace(allowed=search.allowed.copy(), cursor=np.zeros_like(search.cursor), most=NO_MOST),
        budgets=budgets._replace(left=budgets.left.copy()),
        limits=limits._replace(group_left=limits.group_left.copy(), amount_left=limits.amount_left.copy()),
        incoming_count=problem.incoming_count.copy(),
        first_incoming=problem.first_incoming.copy(),
        next_incoming=problem.next_incoming.copy(),
        outcome=problem.outcome.copy(),
        blocking_pod=problem.blocking_pod.copy(),
        destination=problem.destination.copy(),
        counts=problem.counts.copy(),
        accepted=problem.accepted.copy(),
    )
