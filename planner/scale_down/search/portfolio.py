"""Choice of the attempt: first the last plan is continued; other orders are tried if they could do better. Upstream's
order under its own rule for disruption budgets is the baseline: a plan that frees fewer nodes is not taken; among the
others the hourly saving decides. The last plan is replaced only by one that is better by the stability margin. Never
places a pod itself.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from trimtab.v1 import plan_pb2 as pb

from planner.facts.prices import savings, total
from planner.scale_down.balance import level
from planner.scale_down.search.drain_sets import Attempt, AttemptOptions, Rule, Task, run
from planner.scale_down.search.headroom import saving_bound
from planner.scale_down.search.lanes import PlannedAttempt, from_start, make
from planner.scale_down.search.orders import arrange, shuffled
from planner.simulation.fresh import go_over_to
from planner.simulation.kernels import revert
from planner.simulation.log import current_mark
from planner.snapshot.columns import Float64, Int32

SMALL: Final = 100
"""Up to this many candidates a cluster is small: there, the choice of the order makes a difference of a node or so."""
SHUFFLES: Final = 8
"""Arbitrary orders tried in a small cluster; four times as many gave no improvement in measurements. With them, three
of 40 and three of 120 recorded clusters lose one node more, and one each fewer falls behind upstream's best order.
"""


class Choice(NamedTuple):
    """The chosen attempt, how many were made, and how much more any plan could save when orders were compared.

    headroom : upper bound of the saving over what the plan saved, at the last comparison of orders; 0 = unknown.
    """

    attempt: Attempt
    tried: int
    headroom: float


def choose(task: Task) -> Choice:
    """Return the best attempt; the simulation contains its moves.

    It is the one that saves most among the requested orders. If the baselines free more nodes, it is one of them, or
    the best extended by nodes whose pods have to be evicted in turn.
    """
    start = current_mark(task.state)
    first_order = task.previous.order or task.settings.orders[0]
    candidates, again = _continued(task, first_order)
    attempts = [run(task, candidates, AttemptOptions(first_order, again=again, hinted=True))]
    if not _worth_more(task, attempts[0]):
        return Choice(attempts[0], 1, task.previous.headroom)
    orders = _other_orders(task, attempts[0])
    lanes = make(task, start, [*orders, *_baselines(task)], attempts[0])
    attempts += [one for one in lanes.attempts[: len(orders)] if one is not None]
    made = [one for one in lanes.attempts[len(orders) :] if one is not None]
    baselines = [one for one in made if one.stopped_at < 0]
    least = max((_freed(task, one) for one in baselines), default=0)
    best = _best_of(task, attempts, least)
    in_place = lanes.in_place
    if _freed(task, best) * _margin(task, best, attempts[0]) < least:
        best, in_place = _with_more(
            task, start, best, [one for one in baselines if _freed(task, one) == least], in_place
        )
    other = lanes.with_moves_of(best)
    if other is not None:
        go_over_to(task.state, other)
    elif best is not in_place:
        revert(task.state, start)
        best = run(task.searching(best.staying), best.candidates, best.options._replace(at_most=best.reached))
    return Choice(best, len(attempts) + len(made), _headroom(task, best))


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


def _baselines(task: Task) -> list[PlannedAttempt]:
    """Return the baselines, with which a plan is compared: attempts of an autoscaler that takes candidates as listed.

    That is by name, empty nodes first; in a small cluster, where much depends on chance, in some further orders; and in
    one that is economical with budgets, which frees a few per cent more nodes if there are many budgets. The order in
    which places are searched varies, too: fullest node first, reversed, or as usual. There are none if only the saving
    decides.
    """
    if task.settings.saving_before_count:
        return []
    rule = Rule.IN_TURN if task.settings.evict_in_turn else Rule.AT_ONCE
    by_name = arrange(task.nodes.scores, task.nodes.eligible, pb.CandidateOrder.NAME)
    baselines = [(pb.CandidateOrder.NAME, by_name, rule)]
    if len(task.nodes.eligible) <= SMALL:
        more = [shuffled(task.nodes.eligible, number) for number in range(SHUFFLES)]
        baselines += [(pb.CandidateOrder.SHUFFLED, candidates, rule) for candidates in more]
    if task.nodes.scores.budget_use()[task.nodes.eligible].any():
        sparing = arrange(task.nodes.scores, task.nodes.eligible, pb.CandidateOrder.BUDGETS)
        baselines.append((pb.CandidateOrder.BUDGETS, sparing, Rule.AT_ONCE))
    staying = task.nodes.staying
    fullest_first = staying[np.argsort(-task.nodes.scores.utilization[staying], kind="stable")]
    searches = (fullest_first, staying, staying[::-1].copy())
    return [
        PlannedAttempt(searches[number % len(searches)], _level(task, candidates, order, staying[:0]), order, its_rule)
        for number, (order, candidates, its_rule) in enumerate(baselines)
    ]


def _with_more(
    task: Task, start: int, best: Attempt, largest: Sequence[Attempt], in_place: Attempt | None
) -> tuple[Attempt, Attempt | None]:
    """Return the attempt to choose if the best one frees fewer nodes than the largest baselines, and the one in place.

    It is a baseline that stays within all budgets; or the best, with nodes whose pods are evicted in turn; or a
    baseline with such nodes. in_place : the attempt whose moves the simulation contains.
    """
    within = [one for one in largest if not (one.problem.budgets.left < 0).any()]
    if within:
        return max(within, key=lambda one: _saving(task, one)), in_place
    more = from_start(task, start, PlannedAttempt(best.staying, best.candidates, best.options.order, Rule.IN_TURN_LAST))
    return (more if _freed(task, more) >= _freed(task, largest[0]) else largest[0]), more


def _best_of(task: Task, attempts: Sequence[Attempt], least: int) -> Attempt:
    """Return the attempt that saves most among those with at least this many nodes; if there is none, the largest.

    The first attempt continues the last plan, if there was one: another one has to be better by a margin.
    """
    first = attempts[0]
    whole = [one for one in attempts if one.stopped_at < 0]
    enough = [one for one in whole if _freed(task, one) * _margin(task, one, first) >= least]
    if not enough:
        return max(whole, key=lambda one: (_freed(task, one) * _margin(task, one, first), one is first))
    best = enough[0]
    for one in enough[1:]:
        if _is_better(task, one, best, _margin(task, best, first)):
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


def _is_better(task: Task, one: Attempt, other: Attempt, margin: float) -> bool:
    """Return whether an attempt saves more than another by a margin; at equal saving, for less eviction cost."""
    mine, its = _saving(task, one), _saving(task, other)
    if mine > its * margin + 1e-9:
        return True
    if margin > 1.0 or mine < its - 1e-9:
        return False
    cost = task.nodes.scores.eviction_cost
    return _total(cost, one) < _total(cost, other) - 1e-9


def _freed(task: Task, attempt: Attempt) -> int:
    """Return how many nodes an attempt frees, excluding those that wait for a pod to complete."""
    return int(np.count_nonzero(~task.nodes.waits[attempt.accepted]))


def _saving(task: Task, attempt: Attempt) -> float:
    return _total(savings(task.nodes.scores.price), attempt)


def _total(by_node: Float64, attempt: Attempt) -> float:
    """Return the sum of the numbers of the nodes that an attempt frees, added by name of the node."""
    return total(by_node[np.sort(attempt.accepted)])
