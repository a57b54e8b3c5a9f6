"""The attempts of a search for the largest set of nodes that can go, and the choice among them.

First the last plan is continued; other orders are tried if they could do better, and so are attempts that take
candidates as listed, as upstream. All compete under one objective: the hourly saving, then the number of nodes freed;
or the other way round (`objective_of`). If money decides, the best plan is improved by an exchange of nodes
(`improvement`): in the first wave, then in all waves of what saves most in all of them. The last plan is replaced only
by one that is better by `STABILITY_MARGIN`. If the settings name orders, only these are tried, and nothing is
exchanged.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.drainability.kernels.limits import BLOCKED
from trimtab.planner.facts.nodes import savings, total
from trimtab.planner.model.tuning import NARROWER_THRESHOLDS, SHUFFLES, STABILITY_MARGIN, TOLERANCE, WORTH_PODS
from trimtab.planner.placement.attempts import Attempt, Attempts, best_of
from trimtab.planner.scale_down.balance import level
from trimtab.planner.scale_down.search.drain_sets import DrainOptions, DrainSet, DrainTask, run
from trimtab.planner.scale_down.search.exchange import Improved, carried_out, improved, is_worth_exchanging
from trimtab.planner.scale_down.search.headroom import (
    CandidateOrder,
    arrange,
    saving_bound,
    shares_of_budgets,
    shuffled,
)
from trimtab.planner.scale_down.search.waves import add_waves
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import current_mark
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Float64, Int32

USUAL_ORDERS: Final = (CandidateOrder.UTILIZATION, CandidateOrder.EVICTION_COST, CandidateOrder.PRICE)
"""Orders that are tried if the settings name none. Three, because each costs one simulation."""


class PlannedAttempt(NamedTuple):
    """An attempt to make. staying : int32 nodes that are not candidates, in search order; candidates : int32[E] to try;
    order : `CandidateOrder`."""

    staying: Int32
    candidates: Int32
    order: int

    def make(self, task: DrainTask, state: SimulationState) -> DrainSet:
        """Make it in a simulation."""
        return run(task.searching(self.staying, state), self.candidates, DrainOptions(self.order))


class ChosenDrainSet(NamedTuple):
    """The chosen set of nodes, how many attempts were made, and how much more any plan could save when orders were
    compared.

    headroom : upper bound of the saving over what the plan saved, at the last comparison of orders; 0 = unknown.
    by_money : whether the saving decided before the number of nodes; saving_bound : per hour, 0 = not computed.
    """

    drain_set: DrainSet
    tried: int
    headroom: float
    by_money: bool
    saving_bound: float


def choose(task: DrainTask) -> ChosenDrainSet:
    """Return the best set of nodes; the simulation contains its moves.

    Where money decides, attempts and the exchange are judged by what all waves together save.
    """
    attempts = Attempts(task.state, current_mark(task.state), partial(_repeat, task), task.in_time, task.parallel)
    first_order = task.previous.order or (task.settings.candidate_orders or USUAL_ORDERS)[0]
    candidates, repeated = _continued(task, first_order)
    options = DrainOptions(first_order, repeated=repeated, hinted=True)
    first = attempts.make(lambda state: run(task.searching(task.nodes.staying, state), candidates, options))
    if not _worth_more(task, first.plan):
        return _chosen(task, first.plan, 1, task.previous.headroom)
    planned = [*_other_orders(task, first.plan), *_in_list_order(task)]
    makers = [partial(plan.make, task) for plan in planned]
    made_attempts = [first, *attempts.make_all(makers, in_branches=len(task.problem.pods) >= WORTH_PODS)]
    best = _best_of(task, first, made_attempts[1:])
    if not task.settings.candidate_orders and task.is_money:
        best = _exchanged(task, attempts, best, made_attempts)
    narrower = _narrower(task)
    if narrower is not None and task.in_time() and _headroom(task, best.plan) > 1.0 + TOLERANCE:
        best = _better_of(task, attempts, best, attempts.make(partial(_widened, task, narrower)), first)
    adopted = attempts.adopt(best).plan
    return _chosen(task, adopted, len(made_attempts), _headroom(task, adopted))


def _narrower(task: DrainTask) -> DrainTask | None:
    """Return the task with the candidates of the next lower threshold alone; None if those are all or none of them, or
    if a bound counts candidates."""
    nodes = task.nodes
    used, later = nodes.scores.utilization, nodes.later
    if task.settings.max_evaluated:
        return None
    for threshold in NARROWER_THRESHOLDS:
        above = used > threshold
        if above[nodes.may_go].any() and not above[nodes.eligible].all():
            eligible = nodes.eligible[~above[nodes.eligible]]
            later = later._replace(nodes=later.nodes[~above[later.nodes]], wave=later.wave[~above[later.nodes]])
            # In an order that ascends from its first, with those above in their places.
            staying = np.sort(np.concatenate([nodes.staying, nodes.eligible[above[nodes.eligible]]]))
            start = np.searchsorted(staying, nodes.staying[0]) if len(nodes.staying) else 0
            staying = np.roll(staying, -int(start)).astype(np.int32)
            may_go = nodes.may_go[~above[nodes.may_go]]
            return task._replace(nodes=nodes._replace(staying=staying, eligible=eligible, may_go=may_go, later=later))
    return None


def _widened(task: DrainTask, narrower: DrainTask, state: SimulationState) -> DrainSet:
    """Return the best plan of a task with fewer candidates, extended by the others; its moves are in the simulation."""
    start = current_mark(state)
    narrower = narrower.searching(narrower.nodes.staying, state)
    plan = choose(narrower).drain_set
    waves = add_waves(narrower, plan)
    revert(state, start)
    better = Improved(waves.drain_set.accepted, waves.wave, waves.drain_set.problem.destination)
    every = np.union1d(task.nodes.eligible, task.nodes.later.nodes).astype(np.int32)
    order = plan.options.order
    rest = _arranged(task, every[~np.isin(every, better.nodes)], order, better.nodes[better.wave == 1])
    task = task.searching(task.nodes.staying, state)
    return carried_out(task, better, rest, DrainOptions(order, hinted=True))


def _exchanged(
    task: DrainTask, attempts: Attempts[DrainSet], best: Attempt[DrainSet], made_attempts: Sequence[Attempt[DrainSet]]
) -> Attempt[DrainSet]:
    """Return the attempt that saves most in all waves, or one with other nodes that saves more.

    best : in the first wave; made_attempts : all, the first of which continues the last plan, if there was one.
    """
    first = made_attempts[0]
    before, best = best, _exchanged_in(task, attempts, best, first, None)
    if not is_worth_exchanging(task, len(task.problem.pods)):
        return _better_of(task, attempts, best, attempts.make(partial(_by_mix, task, before.plan)), first)
    best = _best_in_all_waves(task, attempts, [best, *made_attempts], first)
    budgets_bind = task.settings.max_waves > 1 and len(shares_of_budgets(task.problem, task.nodes.eligible)) > 0
    if not budgets_bind and not _has_waves(task, best.plan):
        return best
    return _exchanged_in(task, attempts, best, first, attempts.make(partial(_in_all_waves, task, best.plan)).plan)


def _exchanged_in(
    task: DrainTask,
    attempts: Attempts[DrainSet],
    best: Attempt[DrainSet],
    first: Attempt[DrainSet],
    all_waves: DrainSet | None,
) -> Attempt[DrainSet]:
    """Return the attempt, or one with other nodes in the first wave, or in all of them, that saves more in all."""
    better = attempts.make(partial(improved, task, best.plan, all_waves))
    return best if better.plan is best.plan else _better_of(task, attempts, best, better, first)


def _better_of(
    task: DrainTask,
    attempts: Attempts[DrainSet],
    best: Attempt[DrainSet],
    other: Attempt[DrainSet],
    first: Attempt[DrainSet],
) -> Attempt[DrainSet]:
    better = _best_of(task, first, [*([] if best is first else [best]), other])
    return _best_in_all_waves(task, attempts, [better, best, other], first)


def _best_in_all_waves(
    task: DrainTask, attempts: Attempts[DrainSet], made_attempts: Sequence[Attempt[DrainSet]], first: Attempt[DrainSet]
) -> Attempt[DrainSet]:
    """Return the attempt that saves most in all waves together, the earliest among equals.

    first : continues the last plan, if there was one; another one has to save more by a margin.
    """
    if not any(_has_waves(task, attempt.plan) for attempt in made_attempts):
        return made_attempts[0]
    saving: dict[tuple[bool, bytes], float] = {}
    ranked = []
    for attempt in made_attempts:
        if attempt.plan.stopped_at >= 0:
            continue
        nodes = np.concatenate([np.sort(attempt.plan.accepted), attempt.plan.later.nodes])
        key = attempt.plan.options.by_mix, nodes.tobytes()
        if key not in saving:
            whole = attempts.make(partial(_in_all_waves, task, attempt.plan)).plan
            saving[key] = _saving(task, whole) * (1.0 if attempt is first else 1.0 / _margin(task))
        ranked.append((saving[key], attempt))
    return best_of(ranked, lambda attempt, other: attempt[0] > other[0] + TOLERANCE)[1] if ranked else made_attempts[0]


def _has_waves(task: DrainTask, plan: DrainSet) -> bool:
    blocked = plan.problem.outcome[plan.candidates] == BLOCKED
    return task.settings.max_waves > 1 and (len(plan.later.nodes) > 0 or bool(blocked.any()))


def _in_all_waves(task: DrainTask, plan: DrainSet, state: SimulationState) -> DrainSet:
    """Make a set's attempt again, and return it extended by its later waves."""
    return add_waves(_searching_as(task, plan, state), _repeat(task, state, plan)).drain_set


def _chosen(task: DrainTask, plan: DrainSet, tried: int, headroom: float) -> ChosenDrainSet:
    by_money = task.is_money
    if by_money and not headroom:
        headroom = _headroom(task, plan)
    # With later waves, what the first one saves changes from loop to loop, unlike the bound of all of them.
    has_later = len(task.nodes.may_go) > len(task.nodes.eligible)
    bound = (_headroom(task, plan) if has_later else headroom) * _saving(task, plan) if by_money else 0.0
    return ChosenDrainSet(plan, tried, headroom, by_money, bound)


def _repeat(task: DrainTask, state: SimulationState, plan: DrainSet) -> DrainSet:
    """Make a set's attempt again, with as many candidates as it had time for."""
    options = plan.options._replace(at_most=plan.reached)
    return run(_searching_as(task, plan, state), plan.candidates, options)


def _by_mix(task: DrainTask, plan: DrainSet, state: SimulationState) -> DrainSet:
    """Make a set's attempt again, in which pods rather go to nodes with their mix of cpu and memory.

    Nodes with little memory for their cores would else fill up with the first pods that come, and their cores be lost:
    of a cluster with 1,000 nodes, 567 go in place of 544. An exchange finds such places by itself, in small clusters.
    """
    options = plan.options._replace(by_mix=True)
    return run(_searching_as(task, plan, state), plan.candidates, options)


def _searching_as(task: DrainTask, plan: DrainSet, state: SimulationState) -> DrainTask:
    return task.keeping(plan.later).searching(plan.staying, state)


def _other_orders(task: DrainTask, first: DrainSet) -> list[PlannedAttempt]:
    """Return an attempt for each of the orders, without those that give the same candidates as an earlier one."""
    distinct: list[Int32] = [first.candidates]
    planned = []
    for order in task.settings.candidate_orders or USUAL_ORDERS:
        candidates = _arranged(task, task.nodes.eligible, order, task.nodes.eligible[:0])
        if not any(np.array_equal(candidates, other) for other in distinct):
            distinct.append(candidates)
            planned.append(PlannedAttempt(task.nodes.staying, candidates, order))
    return planned


def _in_list_order(task: DrainTask) -> list[PlannedAttempt]:
    """Return attempts of an autoscaler that takes candidates as listed.

    That is by name, empty nodes first; in some arbitrary orders, as in small clusters much depends on chance; and in
    one that is economical with budgets, which frees a few per cent more nodes if there are many budgets. The order in
    which places are searched varies, too: as usual, fullest node first, or reversed.
    """
    if task.settings.candidate_orders:
        return []
    eligible, staying = task.nodes.eligible, task.nodes.staying
    by_name = arrange(task.nodes.scores, eligible, CandidateOrder.NAME)
    has_budgets = bool(task.nodes.scores.budget_use()[eligible].any())
    fullest_first = staying[np.argsort(-task.nodes.scores.utilization[staying], kind="stable")]
    searches = (fullest_first, staying, staying[::-1].copy())
    planned = [(staying, CandidateOrder.NAME, by_name)]
    arbitrary = min(SHUFFLES, task.settings.search.shuffled_candidates // max(len(eligible), 1))
    if arbitrary:
        planned.append((fullest_first, CandidateOrder.NAME, by_name))
    more = [(searches[(number + 1) % len(searches)], shuffled(eligible, number)) for number in range(arbitrary)]
    planned += [(search, CandidateOrder.SHUFFLED, candidates) for search, candidates in more]
    if has_budgets:
        sparing = arrange(task.nodes.scores, eligible, CandidateOrder.BUDGETS)
        planned.append((staying, CandidateOrder.BUDGETS, sparing))
    return [
        PlannedAttempt(search, _level(task, candidates, staying[:0]), order) for search, order, candidates in planned
    ]


def _best_of(task: DrainTask, first: Attempt[DrainSet], others: Sequence[Attempt[DrainSet]]) -> Attempt[DrainSet]:
    """Return the best complete attempt, the earliest among equals.

    first : continues the last plan, if there was one; another one has to be better by a margin.
    """
    margin = _margin(task)
    enough = [
        other
        for other in others
        if other.plan.stopped_at < 0 and (margin == 1.0 or _is_better(task, other.plan, first.plan, margin))
    ]
    return best_of([first, *enough], lambda attempt, other: _is_better(task, attempt.plan, other.plan))


def _margin(task: DrainTask) -> float:
    """Return the factor by which another attempt must be better than the continuation of the last plan."""
    return 1.0 + _tolerance(task) if len(task.previous.unneeded) else 1.0


def _tolerance(task: DrainTask) -> float:
    """Return the share by which another plan must be better than the continuation of the last one."""
    return 0.0 if task.settings.candidate_orders else STABILITY_MARGIN


def _continued(task: DrainTask, order: int) -> tuple[Int32, int]:
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


def _arranged(task: DrainTask, candidates: Int32, order: int, gone: Int32) -> Int32:
    """Return candidates : int32 in an order, with similar groups balanced if required. gone : int32 that go before."""
    return _level(task, arrange(task.nodes.scores, candidates, order), gone)


def _level(task: DrainTask, arranged: Int32, gone: Int32) -> Int32:
    """Return the arranged candidates, with nodes that have to wait for a pod's completion last, and similar groups
    balanced.
    """
    arranged = arranged[np.argsort(task.nodes.waits[arranged], kind="stable")]
    if task.balance:
        return level(task.balance, arranged, gone)
    return arranged


def _worth_more(task: DrainTask, attempt: DrainSet) -> bool:
    """Return whether another order could do better: a candidate stays, and the loop did more than repeat its plan."""
    search = task.settings.search
    if not search.compares or attempt.stopped_at >= 0 or len(attempt.accepted) == len(task.nodes.eligible):
        return False
    unneeded_before = task.nodes.unneeded_before
    again = unneeded_before[task.nodes.eligible].sum()
    if not (task.basis_changed or attempt.fresh > 0 or int(unneeded_before[attempt.accepted].sum()) < int(again)):
        return False
    at_any_rate = task.basis_changed or len(task.nodes.eligible) <= search.recompared_candidates
    # As near to the bound as the plan that was compared: comparing again costs several times the rest of a loop.
    limit = task.previous.headroom * (1.0 + _tolerance(task))
    return at_any_rate or not 0.0 < _headroom(task, attempt) <= limit


def _headroom(task: DrainTask, attempt: DrainSet) -> float:
    """Return the upper bound of any plan's saving, in all waves, as a multiple of an attempt's; 0 if the attempt saves
    nothing."""
    saved = _saving(task, attempt)
    nodes = task.nodes
    return saving_bound(task.capacity_use(), nodes.may_go, savings(nodes.scores.price)) / saved if saved > 0 else 0.0


def _is_better(task: DrainTask, attempt: DrainSet, other: DrainSet, margin: float = 1.0) -> bool:
    """Return whether an attempt is better than another by a margin; at equal amounts, for less eviction cost."""
    for mine, its in zip(_amounts(task, attempt), _amounts(task, other), strict=True):
        if mine > its * margin + TOLERANCE:
            return True
        if mine < its - TOLERANCE:
            return False
    if margin > 1.0:
        return False
    cost = task.nodes.scores.eviction_cost
    return _total(cost, attempt) < _total(cost, other) - TOLERANCE


def _amounts(task: DrainTask, attempt: DrainSet) -> tuple[float, float]:
    """Return what the objective compares, the first amount before the second."""
    freed, saving = float(np.count_nonzero(~task.nodes.waits[attempt.accepted])), _saving(task, attempt)
    return (saving, freed) if task.is_money else (freed, saving)


def _saving(task: DrainTask, attempt: DrainSet) -> float:
    return _total(savings(task.nodes.scores.price), attempt)


def _total(by_node: Float64, attempt: DrainSet) -> float:
    """Return the sum of the numbers of the nodes that an attempt frees, added by name of the node."""
    return total(by_node[np.sort(attempt.accepted)])
