"""Which nodes can go all together: one attempt of the greedy loop over candidates in a given order.

Everything an attempt did to the simulation is undone by whoever asked for it, unless it is the one taken.
Never chooses among orders.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

import numpy as np
from trimtab.v1 import reason_pb2

from planner.model.settings import ScaleDownSettings
from planner.scale_down.balance import Balance, uneven
from planner.scale_down.kernels.drain_sets import (
    BLOCKED,
    EVALUATED,
    HINT_HITS,
    NO_PLACE,
    NOT_EVALUATED,
    SEARCHES,
    TAKEN,
    Problem,
    drain_candidates,
    mark_misplaced,
    repeat,
)
from planner.scale_down.orders import NodeMeasures
from planner.scale_down.state import Memory, PodGroups
from planner.simulation.kernels import mark, revert
from planner.simulation.state import SimulationState
from planner.snapshot.columns import Bool, Int32

BATCH: Final = 256
"""Candidates between two looks at the clock: a few milliseconds; handing over the arrays takes a third of one."""
BALANCE: Final = reason_pb2.UnremovableReason.BALANCE
PATIENCE: Final = 32
"""Destinations in a row that cannot be emptied either before the others are left alone."""
UNBOUNDED: Final = np.iinfo(np.int64).max


class Rule(Enum):
    """What disruption budgets let go. In turn: pods of a node, or of the last node under a budget, one by one.

    AT_ONCE: only what all budgets allow at the same time; IN_TURN: every node whose budgets have one disruption left
    each, as upstream; IN_TURN_LAST: first what goes at once, then what goes in turn.
    """

    AT_ONCE = 0
    IN_TURN = 1
    IN_TURN_LAST = 2


class Task(NamedTuple):
    """What attempts share.

    staying : int32 nodes that are no candidates, in search order; eligible : int32[E] candidates ascending;
    known : bool[N], unneeded in the last loop; residents : pods by node; loose : int32 pods for which room is kept, but
    which are on no node; waits : bool[N], some pod has to complete before the node goes; anew : what the choice among
    orders rests on has changed since.
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
    loose: Int32
    waits: Bool
    balance: Balance | None
    anew: bool
    time_left: Callable[[], bool] | None


class Attempt(NamedTuple):
    """One run of the greedy loop.

    order : `CandidateOrder.Code`; rule : for budgets; staying : int32 nodes that are no candidates, as searched;
    candidates : int32[E] as tried; reached : how many were looked at; accepted : int32[U] in order; stopped_at : node
    where a bound stopped the loop, -1 = complete; fresh : simulated nodes that were not unneeded in the last loop;
    problem : outcomes, culprits and destinations; again : how many of the first candidates the last plan let go;
    proven : how many of the accepted went all together as before, and fit so.
    """

    order: int
    rule: Rule
    staying: Int32
    candidates: Int32
    reached: int
    accepted: Int32
    evaluated: int
    hint_hits: int
    searches: int
    stopped_at: int
    fresh: int
    problem: Problem
    again: int
    proven: int


class Way(NamedTuple):
    """How an attempt is made.

    at_most : candidates to look at, -1 = all; again : how many of the first candidates the last plan let go.
    """

    order: int
    rule: Rule = Rule.AT_ONCE
    at_most: int = -1
    again: int = 0


def run(task: Task, candidates: Int32, way: Way) -> Attempt:
    """Run the greedy loop over candidates : int32[E] from the situation as it is.

    Nodes whose pods would be misplaced once all are gone are left out and the loop run again, until none is; so are
    nodes that have to stay for balance.
    """
    start = mark(task.state)
    left_out = np.zeros(len(task.known), np.uint8)
    culprit = np.full(len(task.known), -1, np.int32)
    while True:
        attempt = _pass(task, candidates, left_out > 0, way)
        misplaced, stays = _misplaced(task, attempt), _to_stay_even(task, attempt.accepted)
        if misplaced.any():
            culprit[misplaced] = attempt.problem.culprit[misplaced]
            left_out[misplaced] = NO_PLACE
        elif len(stays):
            left_out[stays] = BALANCE
        else:
            break
        revert(task.state, start)
    out = left_out > 0
    attempt.problem.outcome[out] = left_out[out]
    attempt.problem.culprit[out] = culprit[out]
    return attempt._replace(evaluated=attempt.evaluated + int(out.sum()))


def _to_stay_even(task: Task, accepted: Int32) -> Int32:
    """Return the accepted nodes that have to stay so that similar groups and zones keep the limit."""
    return accepted[uneven(task.balance, accepted)] if task.balance else accepted[:0]


def _misplaced(task: Task, attempt: Attempt) -> Bool:
    """Mark accepted nodes of which a pod would be misplaced once all are gone. bool[N]."""
    if attempt.proven == len(attempt.accepted):
        return np.zeros(len(task.known), bool)
    return _ask_again(task, attempt.problem)


def _ask_again(task: Task, problem: Problem) -> Bool:
    """Ask of all moved pods once more whether they fit where they are, pending pods placed or not. bool[N]."""
    misplaced = np.zeros(len(task.known), bool)
    if not task.state.local_class.all():
        groups = task.residents
        mark_misplaced(task.state, problem, groups.offsets, groups.members, task.loose[:0], misplaced)
        if len(task.loose):
            mark_misplaced(task.state, problem, groups.offsets, groups.members, task.loose, misplaced)
    return misplaced


def _pass(task: Task, every: Int32, left_out: Bool, way: Way) -> Attempt:
    """Go over the candidates once, in batches as far as time and bounds allow.

    every : int32[E] candidates; left_out : bool[N], those that stay all the same. Destinations are searched among the
    nodes that stay anyway, then among the candidates, last first.
    """
    candidates = every[~left_out[every]]
    order, rule, at_most, again = way
    search_order = np.concatenate([task.staying, every[left_out[every]], candidates[::-1]])
    before = candidates[: int((~left_out[every[:again]]).sum())]
    problem, position = _begin(task, search_order, before, rule)
    proven = position
    limits = (task.settings.max_evaluated or UNBOUNDED, task.settings.max_new_unneeded or UNBOUNDED)
    bounds = np.array(limits, np.int64)
    end = len(candidates) if at_most < 0 else int((~left_out[every[:at_most]]).sum())
    while position < end:
        last = _batch_end(task, candidates, position, end, limits[0] - int(bounds[0])) if at_most < 0 else end
        if last == position:
            break
        reached = int(drain_candidates(task.state, problem, candidates, position, last, task.known, bounds, 0))
        position = reached
        if reached < last:
            break
    if _is_more_than_a_repetition(task, problem, limits[0] - int(bounds[0])):
        drain_candidates(task.state, problem, candidates, 0, position, task.known, bounds, PATIENCE)
    if rule == Rule.IN_TURN_LAST:
        blocked = candidates[:position][problem.outcome[candidates[:position]] == BLOCKED]
        problem.budgets.in_turn[:] = True
        problem.culprit[blocked] = -1
        drain_candidates(task.state, problem, blocked, 0, len(blocked), task.known, bounds, 0)
    stopped_at = int(candidates[position]) if position < len(candidates) else -1
    return Attempt(
        order=order,
        rule=rule,
        staying=task.staying,
        candidates=every,
        reached=len(every) if stopped_at < 0 else int(np.flatnonzero(every == stopped_at)[0]),
        accepted=problem.accepted[: problem.counts[TAKEN]].copy(),
        evaluated=int(problem.counts[EVALUATED]),
        hint_hits=int(problem.counts[HINT_HITS]),
        searches=int(problem.counts[SEARCHES]),
        stopped_at=stopped_at,
        fresh=limits[0] - int(bounds[0]),
        problem=problem,
        again=again,
        proven=proven,
    )


def _begin(task: Task, search_order: Int32, before: Int32, rule: Rule) -> tuple[Problem, int]:
    """Return the problem to go on with, and how many nodes of the last plan are gone in it already: all, or none.

    before : int32 nodes of the last plan. They go all together: one after the other, pods that nodes passed on could be
    in each other's way, though in the end they are not.
    """
    problem = _prepared(task, search_order, rule)
    if len(before) == 0:
        return problem, 0
    start = mark(task.state)
    if repeat(task.state, problem, before) and not _ask_again(task, problem).any():
        return problem, len(before)
    revert(task.state, start)
    return _prepared(task, search_order, rule), 0


def _prepared(task: Task, search_order: Int32, rule: Rule) -> Problem:
    problem = _fresh(task.problem, search_order)
    # A node that was unneeded last time may have been so because its pods go in turn.
    np.logical_or(task.known, rule == Rule.IN_TURN, out=problem.budgets.in_turn)
    return problem


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
        budgets=budgets._replace(left=budgets.left.copy(), in_turn=budgets.in_turn.copy()),
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
