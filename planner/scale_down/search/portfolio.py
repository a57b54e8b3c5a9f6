"""Choice of the attempt: first the last plan is continued; other orders are tried if they could do better, and so are
attempts that take candidates as listed, as upstream. All compete under one objective: the number of nodes freed, then
the hourly saving; with `saving_before_count` the other way round. A plan whose pods have to be evicted in turn is taken
only if it is better in the first of the two. The last plan is replaced only by one that is better by the stability
margin. Never places a pod itself.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.prices import savings, total
from trimtab.planner.scale_down.balance import level
from trimtab.planner.scale_down.search.drain_sets import Attempt, AttemptOptions, Rule, Task, run
from trimtab.planner.scale_down.search.headroom import saving_bound
from trimtab.planner.scale_down.search.lanes import PlannedAttempt, from_start, make
from trimtab.planner.scale_down.search.orders import arrange, shuffled
from trimtab.planner.simulation.fresh import go_over_to
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import current_mark
from trimtab.planner.snapshot.columns import Float64, Int32
from trimtab.v1 import plan_pb2 as pb

SMALL: Final = 100
"""Up to this many candidates a cluster is small: there, the choice of the order makes a difference of a node or so."""
SHUFFLES: Final = 8
"""Arbitrary orders tried in a small cluster; four times as many gave no improvement in measurements. With them, three
of 40 and three of 120 recorded clusters lose one node more, and one each fewer falls behind upstream's best order.
"""
NOISE: Final = 1e-9
"""Difference of two amounts that may be rounding."""


class Choice(NamedTuple):
    """The chosen attempt, how many were made, and how much more any plan could save when orders were compared.

    headroom : upper bound of the saving over what the plan saved, at the last comparison of orders; 0 = unknown.
    """

    attempt: Attempt
    tried: int
    headroom: float


def choose(task: Task) -> Choice:
    """Return the best attempt; the simulation contains its moves.

    It is the best of those whose pods are evicted at once. If one that evicts them in turn is better in the first of
    the objective's two amounts, it is that one, or the best extended by nodes whose pods are evicted in turn.
    """
    start = current_mark(task.state)
    first_order = task.previous.order or task.settings.orders[0]
    candidates, again = _continued(task, first_order)
    first = run(task, candidates, AttemptOptions(first_order, again=again, hinted=True))
    if not _worth_more(task, first):
        return Choice(first, 1, task.previous.headroom)
    lanes = make(task, start, [*_other_orders(task, first), *_in_list_order(task)], first)
    attempts = [first, *(one for one in lanes.attempts if one is not None)]
    best, in_place = _best_of(task, [one for one in attempts if not _is_in_turn(one)], first), lanes.in_place
    in_turn = [one for one in attempts if _is_in_turn(one) and _has_more(task, one, best, _margin(task, best, first))]
    if in_turn:
        extended = PlannedAttempt(best.staying, best.candidates, best.options.order, Rule.IN_TURN_LAST)
        in_place, most = from_start(task, start, extended), _best_of(task, in_turn, in_turn[0])
        best = most if _has_more(task, most, in_place) else in_place
    other = lanes.with_moves_of(best)
    if other is not None:
        go_over_to(task.state, other)
    elif best is not in_place:
        revert(task.state, start)
        best = run(task.searching(best.staying), best.candidates, best.options._replace(at_most=best.reached))
    return Choice(best, len(attempts), _headroom(task, best))


def _orders(task: Task) -> tuple[int, ...]:
    """Return the requested orders and, if resource minimums keep nodes, one that is economical with them."""
    more = (pb.CandidateOrder.MINIMUMS,) if task.nodes.scores.minimum_use[task.nodes.eligible].any() else ()
    return (*task.settings.orders, *more)


def _other_orders(task: Task, first: Attempt) -> list[PlannedAttempt]:
    """Return an attempt for each of the orders, without those that give the same candidates as an earlier one."""
    found: list[Int32] = [first.candidates]
    planned = []
    for order in _orders(task):
        candidates = _arranged(task, task.nodes.eligible, order, task.nodes.eligible[:0])
        if not any(np.array_equal(candidates, other) for other in found):
            found.append(candidates)
            planned.append(PlannedAttempt(task.nodes.staying, candidates, order))
    return planned


def _in_list_order(task: Task) -> list[PlannedAttempt]:
    """Return attempts of an autoscaler that takes candidates as listed.

    That is by name, empty nodes first, and again under upstream's rule for budgets; in a small cluster, where much
    depends on chance, in some further orders; and in one that is economical with budgets, which frees a few per cent
    more nodes if there are many budgets. The order in which places are searched varies, too: as usual, fullest node
    first, or reversed.
    """
    if not task.settings.try_list_order:
        return []
    eligible, staying = task.nodes.eligible, task.nodes.staying
    by_name = arrange(task.nodes.scores, eligible, pb.CandidateOrder.NAME)
    has_budgets = bool(task.nodes.scores.budget_use()[eligible].any())
    rule = Rule.IN_TURN if task.settings.evict_in_turn and has_budgets else Rule.AT_ONCE
    fullest_first = staying[np.argsort(-task.nodes.scores.utilization[staying], kind="stable")]
    searches = (fullest_first, staying, staying[::-1].copy())
    planned = [(staying, pb.CandidateOrder.NAME, by_name, Rule.AT_ONCE)]
    if len(eligible) <= SMALL or rule is Rule.IN_TURN:
        planned.append((fullest_first, pb.CandidateOrder.NAME, by_name, rule))
    if len(eligible) <= SMALL:
        more = [(searches[(number + 1) % len(searches)], shuffled(eligible, number)) for number in range(SHUFFLES)]
        planned += [(search, pb.CandidateOrder.SHUFFLED, candidates, rule) for search, candidates in more]
    if has_budgets:
        sparing = arrange(task.nodes.scores, eligible, pb.CandidateOrder.BUDGETS)
        planned.append((staying, pb.CandidateOrder.BUDGETS, sparing, Rule.AT_ONCE))
    return [
        PlannedAttempt(search, _level(task, candidates, order, staying[:0]), order, its_rule)
        for search, order, candidates, its_rule in planned
    ]


def _is_in_turn(attempt: Attempt) -> bool:
    """Return whether an attempt under upstream's rule evicts pods in turn."""
    return attempt.options.rule is not Rule.AT_ONCE and bool((attempt.problem.budgets.left < 0).any())


def _best_of(task: Task, attempts: Sequence[Attempt], first: Attempt) -> Attempt:
    """Return the best complete attempt, the earliest among equals.

    first : continues the last plan, if there was one; another one has to be better by a margin.
    """
    margin = _margin(task, first, first)
    best = first
    for one in attempts:
        is_enough = margin == 1.0 or _is_better(task, one, first, margin)
        if one.stopped_at < 0 and is_enough and _is_better(task, one, best):
            best = one
    return best


def _margin(task: Task, attempt: Attempt, first: Attempt) -> float:
    """Return the factor by which another attempt must be better."""
    return 1.0 + task.settings.stability_margin if attempt is first and len(task.previous.unneeded) else 1.0


def _continued(task: Task, order: int) -> tuple[Int32, int]:
    """Return the candidates, and how many of them are from the last plan.

    Those come first, in its order; the others follow, starting where a bound stopped the last loop.
    """
    is_eligible = np.zeros(len(task.nodes.unneeded_before), bool)
    is_eligible[task.nodes.eligible] = True
    again = task.previous.unneeded[is_eligible[task.previous.unneeded]]
    fresh = _arranged(task, task.nodes.eligible[~task.nodes.unneeded_before[task.nodes.eligible]], order, again)
    stopped = np.flatnonzero(fresh == task.previous.resume_at)
    if len(stopped):
        fresh = np.roll(fresh, -int(stopped[0]))
    # Candidates evaluated in an earlier loop come after the others, so none starves when candidates come and go.
    looked_at = np.zeros(len(task.nodes.unneeded_before), np.int64)
    looked_at[task.previous.failed.node] = task.previous.failed.time_ns
    fresh = fresh[np.argsort(looked_at[fresh], kind="stable")]
    return np.concatenate([again, fresh]).astype(np.int32), len(again)


def _arranged(task: Task, candidates: Int32, order: int, gone: Int32) -> Int32:
    """Return candidates : int32 in an order, with similar groups balanced if required. gone : int32 that go before."""
    return _level(task, arrange(task.nodes.scores, candidates, order), order, gone)


def _level(task: Task, arranged: Int32, order: int, gone: Int32) -> Int32:
    """Return the arranged candidates, with nodes that have to wait for a pod's completion last, and similar groups
    balanced.
    """
    arranged = arranged[np.argsort(task.nodes.waits[arranged], kind="stable")]
    if task.balance and (task.settings.balance or order == pb.CandidateOrder.BALANCE):
        return level(task.balance, arranged, gone)
    return arranged


def _worth_more(task: Task, attempt: Attempt) -> bool:
    """Return whether another order could do better: a candidate stays, and the loop did more than repeat its plan."""
    if attempt.stopped_at >= 0 or len(attempt.accepted) == len(task.nodes.eligible):
        return False
    unneeded_before = task.nodes.unneeded_before
    again = unneeded_before[task.nodes.eligible].sum()
    if not (task.basis_changed or attempt.fresh > 0 or int(unneeded_before[attempt.accepted].sum()) < int(again)):
        return False
    return task.basis_changed or len(task.nodes.eligible) <= SMALL or not _is_as_good_as_compared(task, attempt)


def _is_as_good_as_compared(task: Task, attempt: Attempt) -> bool:
    """Return whether an attempt that continues the last plan is as near to the upper bound of the saving as that plan
    was.

    The tolerance is the margin by which another plan would have to be better: within it, comparing orders again, which
    costs several times the rest of a loop, is not worth it.
    """
    limit = task.previous.headroom * (1.0 + task.settings.stability_margin)
    return 0.0 < _headroom(task, attempt) <= limit


def _headroom(task: Task, attempt: Attempt) -> float:
    """Return the upper bound of any plan's saving as a multiple of an attempt's; 0 if the attempt saves nothing."""
    saved = _saving(task, attempt)
    nodes = task.nodes
    return saving_bound(task.volume(), nodes.eligible, savings(nodes.scores.price)) / saved if saved > 0 else 0.0


def _has_more(task: Task, one: Attempt, other: Attempt, margin: float = 1.0) -> bool:
    """Return whether an attempt has more of the objective's first amount than another, by a margin."""
    return _amounts(task, one)[0] > _amounts(task, other)[0] * margin + NOISE


def _is_better(task: Task, one: Attempt, other: Attempt, margin: float = 1.0) -> bool:
    """Return whether an attempt is better than another by a margin; at equal amounts, for less eviction cost."""
    for mine, its in zip(_amounts(task, one), _amounts(task, other), strict=True):
        if mine > its * margin + NOISE:
            return True
        if mine < its - NOISE:
            return False
    if margin > 1.0:
        return False
    cost = task.nodes.scores.eviction_cost
    return _total(cost, one) < _total(cost, other) - NOISE


def _amounts(task: Task, attempt: Attempt) -> tuple[float, float]:
    """Return what the objective compares, the first amount before the second."""
    freed, saving = float(_freed(task, attempt)), _saving(task, attempt)
    return (saving, freed) if task.settings.saving_before_count else (freed, saving)


def _freed(task: Task, attempt: Attempt) -> int:
    """Return how many nodes an attempt frees, excluding those that wait for a pod to complete."""
    return int(np.count_nonzero(~task.nodes.waits[attempt.accepted]))


def _saving(task: Task, attempt: Attempt) -> float:
    return _total(savings(task.nodes.scores.price), attempt)


def _total(by_node: Float64, attempt: Attempt) -> float:
    """Return the sum of the numbers of the nodes that an attempt frees, added by name of the node."""
    return total(by_node[np.sort(attempt.accepted)])
