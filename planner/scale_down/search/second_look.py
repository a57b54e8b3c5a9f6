"""Retries nodes without a place for a pod: moves of later nodes may have made one. Room only shrinks while nodes are
removed, but a moved pod can even out a spread, satisfy another pod's affinity or resolve its anti-affinity. A node left
out in favour of others may also have a place after them. Rarely so: on none of 182 recorded clusters and 573 generated
ones, but on one in some hundred with every constraint (tests/stateful/test_scale_down_all_features.py).
Source: own.
"""

import numpy as np

from trimtab.planner.placement.kernels.failures import mark_placeable
from trimtab.planner.placement.kernels.search import HINT_HITS, NO_MOST, SEARCHES
from trimtab.planner.scale_down.search.drain_sets import PATIENCE, Attempt, Task, ask_again, to_stay_even
from trimtab.planner.scale_down.search.kernels.drain_sets import (
    ACCEPTED,
    DESTINATION,
    NO_PLACE,
    TAKEN,
    Problem,
    drain_candidates,
)
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log, current_mark
from trimtab.planner.snapshot.columns import Int32

MOST_CHECKS = 2_000_000
"""Limit of one pass, in checks of a pod against a node: some 50 ms."""


def second_pass(task: Task, attempt: Attempt) -> Attempt:
    """Return the attempt extended by nodes that can go after all. The simulation has to contain the attempt's moves;
    those of the nodes are added.

    Each is tried after all others; one that takes the place of a pod of another node, or leaves groups unbalanced,
    stays. Ends with a pass that finds none, or after `PATIENCE` failures. Nothing is tried if a bound stopped the loop.
    Raises MoveLogFullError.
    """
    if attempt.stopped_at >= 0 or task.state.local_class.all():
        return attempt
    patience, problem, found = PATIENCE, attempt.problem, True
    while found:
        found = False
        for node in _placeable(task, problem).tolist():
            if patience == 0 or not goes_on(task, problem):
                break
            problem, went = try_node(task, problem, node)
            found |= went
            patience -= not went
    return continued(attempt, problem)


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


def _placeable(task: Task, problem: Problem) -> Int32:
    """Return the nodes without a place for a pod that has one now. int32, without nodes of all-or-nothing groups."""
    stuck = np.flatnonzero((problem.outcome == NO_PLACE) & (task.nodes.atomic_size == 0) & (problem.blocking_pod >= 0))
    nodes = stuck[: max(1, MOST_CHECKS // max(len(problem.outcome), 1))].astype(np.int32)
    pods = problem.blocking_pod[nodes]
    # For a pod that depends only on its node, the number of places only decreases.
    moved_to_none = task.state.local_class[task.state.pod_class[pods]] == 0
    nodes, pods = nodes[moved_to_none], pods[moved_to_none]
    placeable = np.zeros(len(nodes), bool)
    mark_placeable(task.state, pods, nodes, problem.search.allowed, placeable)
    check_log(task.state)
    found: Int32 = nodes[placeable]
    return found


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
