"""Which nodes can go all together: attempts of the greedy loop in several orders, the best of which is taken.

The last plan goes on first: its nodes in its order, then new ones. Other orders are tried only if that leaves anything
to be gained, and take its place only if they save more by the margin of stability. Everything an attempt does to the
simulation is undone, except the last, which is the one taken.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from planner.model.settings import ScaleDownSettings
from planner.scale_down.kernels.drain_sets import (
    EVALUATED,
    HINT_HITS,
    NO_PLACE,
    NOT_EVALUATED,
    SEARCHES,
    TAKEN,
    Problem,
    drain_candidates,
    empty_destinations,
    mark_misplaced,
)
from planner.scale_down.orders import NodeMeasures, arrange, savings
from planner.scale_down.state import Memory, PodGroups
from planner.simulation.kernels import mark, revert
from planner.simulation.state import SimulationState
from planner.snapshot.columns import Bool, Int32

BATCH: Final = 256
"""Candidates between two looks at the clock: a few milliseconds; handing over the arrays takes a third of one."""
PATIENCE: Final = 32
"""Destinations in a row that cannot be emptied either before the others are left alone."""
UNBOUNDED: Final = np.iinfo(np.int64).max


class Task(NamedTuple):
    """What attempts share.

    staying : int32 nodes that are no candidates, in search order; eligible : int32[E] candidates ascending;
    known : bool[N], unneeded in the last loop; residents : pods by node.
    """

    state: SimulationState
    problem: Problem
    settings: ScaleDownSettings
    measures: NodeMeasures
    memory: Memory
    staying: Int32
    eligible: Int32
    known: Bool
    residents: PodGroups
    time_left: Callable[[], bool] | None


class Attempt(NamedTuple):
    """One run of the greedy loop.

    order : `CandidateOrder.Code`; candidates : int32[E] as tried; reached : how many were looked at; accepted :
    int32[U] in order; stopped_at : node where a bound stopped the loop, -1 = complete; fresh : simulated nodes that
    were not unneeded in the last loop; problem : outcomes, culprits and destinations.
    """

    order: int
    candidates: Int32
    reached: int
    accepted: Int32
    evaluated: int
    hint_hits: int
    searches: int
    stopped_at: int
    fresh: int
    problem: Problem


class Choice(NamedTuple):
    """The attempt taken, and how many were made."""

    attempt: Attempt
    tried: int


def choose(task: Task) -> Choice:
    """Return the best attempt; the simulation is left as it left it."""
    start = mark(task.state)
    first_order = task.memory.order or task.settings.orders[0]
    best = run(task, _continued(task, first_order), first_order)
    others = [order for order in task.settings.orders if order != first_order or len(task.memory.unneeded)]
    if not _worth_more(task, best):
        return Choice(best, 1)
    tried = 1
    last = best
    margin = 1.0 + task.settings.stability_margin if len(task.memory.unneeded) else 1.0
    for order in others:
        if task.time_left is not None and not task.time_left():
            break
        revert(task.state, start)
        last = run(task, arrange(task.measures, task.eligible, order, task.settings.balance), order)
        tried += 1
        if _is_better(task, last, best, margin):
            best, margin = last, 1.0
    if last is not best:
        revert(task.state, start)
        best = run(task, best.candidates, best.order, best.reached)
    return Choice(best, tried)


def _continued(task: Task, order: int) -> Int32:
    """Return the candidates: those of the last plan in its order, then the others from where a bound stopped it."""
    is_eligible = np.zeros(len(task.known), bool)
    is_eligible[task.eligible] = True
    again = task.memory.unneeded[is_eligible[task.memory.unneeded]]
    fresh = arrange(task.measures, task.eligible[~task.known[task.eligible]], order, task.settings.balance)
    stopped = np.flatnonzero(fresh == task.memory.resume_at)
    if len(stopped):
        fresh = np.roll(fresh, -int(stopped[0]))
    return np.concatenate([again, fresh]).astype(np.int32)


def _worth_more(task: Task, attempt: Attempt) -> bool:
    """Say whether another order could do better: a candidate stays, and the loop did more than repeat itself."""
    if attempt.stopped_at >= 0 or len(attempt.accepted) == len(task.eligible):
        return False
    again = task.known[task.eligible].sum()
    return attempt.fresh > 0 or int(task.known[attempt.accepted].sum()) < int(again)


def _is_better(task: Task, one: Attempt, other: Attempt, margin: float) -> bool:
    """Say whether an attempt saves more than another by a margin; at equal saving, for less eviction cost."""
    if one.stopped_at >= 0:
        return False
    worth = savings(task.measures.price)
    mine, its = float(worth[one.accepted].sum()), float(worth[other.accepted].sum())
    if mine > its * margin + 1e-9:
        return True
    if margin > 1.0 or mine < its - 1e-9:
        return False
    cost = task.measures.eviction_cost
    return float(cost[one.accepted].sum()) < float(cost[other.accepted].sum()) - 1e-9


def run(task: Task, candidates: Int32, order: int, at_most: int = -1) -> Attempt:
    """Run the greedy loop over candidates : int32[E] from the situation as it is; at_most : candidates, -1 = all.

    Nodes whose pods would be misplaced once all are gone are left out and the loop run again, until none is.
    """
    start = mark(task.state)
    left_out = np.zeros(len(task.known), bool)
    culprit = np.full(len(task.known), -1, np.int32)
    while True:
        attempt = _pass(task, candidates[~left_out[candidates]], order, at_most)
        misplaced = np.zeros(len(task.known), bool)
        if not task.state.local_class.all():
            problem = attempt.problem
            groups = task.residents
            mark_misplaced(task.state, problem, groups.offsets, groups.members, misplaced)
        if not misplaced.any():
            break
        culprit[misplaced] = attempt.problem.culprit[misplaced]
        left_out |= misplaced
        at_most = -1 if at_most < 0 else max(at_most - int(misplaced.sum()), 0)
        revert(task.state, start)
    attempt.problem.outcome[left_out] = NO_PLACE
    attempt.problem.culprit[left_out] = culprit[left_out]
    return attempt._replace(evaluated=attempt.evaluated + int(left_out.sum()))


def _pass(task: Task, candidates: Int32, order: int, at_most: int) -> Attempt:
    """Go over the candidates once, in batches as far as time and bounds allow.

    Destinations are searched among the nodes that stay anyway, then among the candidates, last first.
    """
    problem = _fresh(task.problem, np.concatenate([task.staying, candidates[::-1]]))
    limits = (task.settings.max_evaluated or UNBOUNDED, task.settings.max_new_unneeded or UNBOUNDED)
    bounds = np.array(limits, np.int64)
    end = len(candidates) if at_most < 0 else at_most
    position = 0
    while position < end:
        last = _batch_end(task, candidates, position, end, limits[0] - int(bounds[0])) if at_most < 0 else end
        if last == position:
            break
        reached = int(drain_candidates(task.state, problem, candidates, position, last, task.known, bounds))
        position = reached
        if reached < last:
            break
    if _is_more_than_a_repetition(task, problem, limits[0] - int(bounds[0])):
        empty_destinations(task.state, problem, candidates[:position], PATIENCE, int(bounds[1]))
    return Attempt(
        order=order,
        candidates=candidates,
        reached=position,
        accepted=problem.accepted[: problem.counts[TAKEN]].copy(),
        evaluated=int(problem.counts[EVALUATED]),
        hint_hits=int(problem.counts[HINT_HITS]),
        searches=int(problem.counts[SEARCHES]),
        stopped_at=int(candidates[position]) if position < len(candidates) else -1,
        fresh=limits[0] - int(bounds[0]),
        problem=problem,
    )


def _is_more_than_a_repetition(task: Task, problem: Problem, fresh: int) -> bool:
    """Say whether a pass has found anything that the last loop had not: new candidates, or lost ones."""
    again = problem.accepted[: problem.counts[TAKEN]]
    return fresh > 0 or int(task.known[again].sum()) < int(task.known[task.eligible].sum())


def _batch_end(task: Task, candidates: Int32, position: int, end: int, fresh: int) -> int:
    """Return how far to go before the clock is asked again; `position` itself when time is up."""
    if task.time_left is None:
        return end
    if task.time_left():
        return min(position + BATCH, end)
    owing = task.settings.min_evaluated - fresh
    if owing <= 0 and not task.known[candidates[position]]:
        return position
    return min(position + max(owing, 1), end)


def _fresh(problem: Problem, order: Int32) -> Problem:
    """Copy what an attempt writes, so that the next one starts from the same. order : int32[N] destinations."""
    search, budgets, limits = problem.search, problem.budgets, problem.limits
    return problem._replace(
        search=search._replace(order=order, allowed=search.allowed.copy(), cursor=np.zeros_like(search.cursor)),
        budgets=budgets._replace(left=budgets.left.copy()),
        limits=limits._replace(group_left=limits.group_left.copy(), amount_left=limits.amount_left.copy()),
        received=problem.received.copy(),
        first_held=problem.first_held.copy(),
        next_held=problem.next_held.copy(),
        outcome=np.full(len(problem.outcome), NOT_EVALUATED, np.uint8),
        culprit=np.full(len(problem.culprit), -1, np.int32),
        destination=problem.destination.copy(),
        counts=problem.counts.copy(),
        accepted=np.empty(len(problem.accepted), np.int32),
    )
