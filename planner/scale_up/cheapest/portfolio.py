"""Make several plans with some groups and keep the cheapest, then improve it.

The first plan uses the minimum cost of pods on full nodes. Its fills start a linear programme, whose duals are better
estimates of the worth of pods; plans made with these add more fills. Finally, its fractions are rounded to whole nodes.
All work is bounded by the numbers of classes and groups; the caller's bounds are checked between plans.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.prices import total
from trimtab.planner.scale_up.cheapest.candidates import candidates, least_value, share_cost
from trimtab.planner.scale_up.cheapest.kernels.build import Batches, build
from trimtab.planner.scale_up.cheapest.kernels.dive import dive
from trimtab.planner.scale_up.cheapest.kernels.fill import Bench, Rest, Shapes, look_at_left
from trimtab.planner.scale_up.cheapest.kernels.generate import Watch, add_fill, generate
from trimtab.planner.scale_up.cheapest.kernels.improve import MANY, Trial, improve
from trimtab.planner.scale_up.cheapest.kernels.master import Master, begin
from trimtab.planner.scale_up.cheapest.problem import Float64, PlanBounds, Problem
from trimtab.planner.scale_up.cheapest.work import (
    append_batches,
    batches_for,
    bench_for,
    master_for,
    shapes_of,
    watch_for,
)
from trimtab.planner.snapshot.columns import Int32, Int64

FIRST_WAYS: Final = 3
"""Number of ways in which nodes are filled for the first plan."""
TURNS: Final = 6
"""Most plans by duals; each takes about as long as the linear programme between two of them."""
GENERATED: Final = 200_000
"""Nodes filled for the linear programme, times classes."""
TURN_WORK: Final = 120_000
"""Plans by duals, times the square of the programme's rows."""
DIVE_WORK: Final = 80_000
"""Solutions of the programme while it is rounded, times the square of its rows."""
NEARLY: Final = (0.5, 0.9)
"""Levels of the linear programme from which nodes are planned immediately."""
LIMIT_ROUNDS: Final = 4
"""How often the programme is restarted because it has more nodes of a group than allowed."""
IMPROVED: Final = 20_000
"""Nodes filled to improve a plan, fewer if there are more classes than FEW_CLASSES."""
FINALISTS: Final = 3
"""Number of plans that are improved if classes are few."""
FEW_CLASSES: Final = 100
MOST_CLASSES: Final = 300
"""Number of classes up to which a linear programme is used: its work grows with their square or worse."""
TRIES: Final = 1 << 40
"""A number of tries to improve a plan that is never reached."""
CHUNKS: Final = 4
"""Parts of that work, between which batches without nodes are dropped."""
FEW_GROUPS: Final = 96
"""Number of groups up to which all are used while a plan is improved; otherwise only those in the plan."""


class Tools(NamedTuple):
    """A problem, the cost of a node of each group, float64[G] > 0, and the groups evaluated in detail, int32[H]."""

    problem: Problem
    cost: Float64
    shapes: Shapes
    bench: Bench
    groups: Int32


class TriedPlan(NamedTuple):
    """Planned nodes, what is left afterwards, and the assumed worth of a pod of each class, float64[C]."""

    rest: Rest
    made: Batches
    value: Float64

    def rank(self, cost: Float64) -> tuple[int, float]:
        """Return the key by which attempts are compared: pods left, then cost."""
        count = int(self.made.counts[0])
        return int(self.rest.pods.sum()), total(cost[self.made.group[:count]] * self.made.nodes[:count])


def best_attempt(problem: Problem, cost: Float64, groups: Int32, rest: Rest, bounds: PlanBounds) -> TriedPlan:
    """Return the cheapest of the plans found with nodes of `groups` that leave the fewest pods."""
    tools = tools_for(problem, cost, groups)
    found = sorted(attempts(tools, rest, bounds), key=lambda one: one.rank(cost))
    best = _best_improved(tools, found, bounds)
    if best.rest.pods.any():
        # With groups not evaluated in detail, and with nodes that the improvement has freed.
        tools = tools._replace(groups=groups)
        _build_more(tools, best, 1)
    return best


def attempts(tools: Tools, rest: Rest, bounds: PlanBounds) -> list[TriedPlan]:
    """Return several plans, the first by the minimum cost of pods."""
    value = least_value(share_cost(tools.problem, tools.cost, tools.groups))
    first = _built(tools, rest, value, FIRST_WAYS)
    if not first.made.counts[0] or len(value) > MOST_CLASSES or not bounds.may_go_on():
        return [first]
    return [first, *_relaxed(tools, rest, first, bounds)]


def _best_improved(tools: Tools, found: list[TriedPlan], bounds: PlanBounds) -> TriedPlan:
    """Improve the best plans and return the best result. found : best first."""
    best: TriedPlan | None = None
    few = len(tools.problem.pods) <= FEW_CLASSES
    finalists = found[: FINALISTS if few else 1] if found[0].made.counts[0] else []
    tries = TRIES if bounds.improvements is None else bounds.improvements
    for number, one in enumerate(finalists):
        share = -(-tries // (len(finalists) - number))
        if share == 0 or not bounds.may_go_on():
            break
        tries -= share
        better = _improved(tools, one, share)
        if best is None or better.rank(tools.cost) < best.rank(tools.cost):
            best = better
    return best or found[0]


def tools_for(problem: Problem, cost: Float64, groups: Int32) -> Tools:
    """Return the data for attempts."""
    return Tools(problem, cost, shapes_of(problem, cost), bench_for(problem), candidates(problem, cost, groups))


def _copied(rest: Rest) -> Rest:
    return Rest(*(one.copy() for one in rest))


def _built(tools: Tools, rest: Rest, value: Float64, ways: int) -> TriedPlan:
    attempt = TriedPlan(_copied(rest), batches_for(tools.problem), value)
    _build_more(tools, attempt, ways)
    return attempt


def _build_more(tools: Tools, attempt: TriedPlan, ways: int) -> None:
    ratio = np.zeros(len(tools.groups))
    build(tools.shapes, attempt.rest, attempt.value, tools.bench, tools.groups, ratio, ways, attempt.made)


def _relaxed(tools: Tools, rest: Rest, first: TriedPlan, bounds: PlanBounds) -> list[TriedPlan]:
    """Return plans by the linear programme for the pods placed by the first plan."""
    left = first.rest.pods
    to_plan = rest._replace(pods=rest.pods - left)
    found, limited = [first], np.zeros(0, np.int64)
    for _ in range(LIMIT_ROUNDS):
        master, watch = _programme(tools, to_plan, limited, found, bounds)
        more = np.setdiff1d(_over_limit(rest, master), limited)
        if not len(more) or not bounds.may_go_on():
            break
        limited = np.union1d(limited, more)
    if bounds.may_go_on():
        found += _dived(tools, to_plan, master, watch)
    for one in found[1:]:
        one.rest.pods[:] += left
        _build_more(tools, one, 2)
    return found[1:]


def _dived(tools: Tools, to_plan: Rest, master: Master, watch: Watch) -> list[TriedPlan]:
    """Return plans by rounding the programme's fractions, once quickly and once carefully."""
    solutions = max(1, DIVE_WORK // len(master.bound) ** 2)
    value, bound = watch.value.copy(), master.bound.copy()
    found: list[TriedPlan] = []
    for nearly in NEARLY[:solutions]:
        if found:
            master.bound[:] = bound
            begin(master)
            generate(tools.shapes, to_plan, master, tools.bench, watch, 0)
        dived = TriedPlan(_copied(to_plan), batches_for(tools.problem), value)
        dive(tools.shapes, dived.rest, master, tools.bench, watch, nearly, solutions, dived.made)
        found.append(dived)
    return found


def _programme(
    tools: Tools, to_plan: Rest, limited: Int64, found: list[TriedPlan], bounds: PlanBounds
) -> tuple[Master, Watch]:
    """Return the linear programme with the fills of all plans found, at its minimum; append more plans by its duals."""
    problem = tools.problem._replace(pods=to_plan.pods, most=to_plan.nodes)
    master, watch = master_for(problem, tools.cost, limited), watch_for(problem, tools.groups, limited)
    for one in found:
        _seed(tools, to_plan, watch, master, one.made)
    turns = min(TURNS, max(2, TURN_WORK // len(master.bound) ** 2))
    pours = GENERATED // TURNS // len(problem.pods)
    generate(tools.shapes, to_plan, master, tools.bench, watch, pours)
    for turn in range(turns - 1):
        if not bounds.may_go_on():
            break
        found.append(_built(tools, to_plan, watch.value.copy(), 1 + turn % 2))
        _seed(tools, to_plan, watch, master, found[-1].made)
        watch.turn[:] = 0
        generate(tools.shapes, to_plan, master, tools.bench, watch, pours)
    return master, watch


def _seed(tools: Tools, to_plan: Rest, watch: Watch, master: Master, made: Batches) -> None:
    """Add the fills of a plan to the programme."""
    bench = tools.bench
    look_at_left(to_plan, bench)
    for at in range(int(made.counts[0])):
        entries = slice(made.offsets[at], made.offsets[at + 1])
        bench.best[:] = 0
        bench.best[made.classes[entries]] = made.pods[entries]
        add_fill(tools.shapes, bench, watch, int(made.group[at]), master)


def _over_limit(rest: Rest, master: Master) -> Int64:
    """Return the groups of which the programme has more nodes than allowed."""
    fill = master.basis - len(master.bound) - int(master.classes[0])
    nodes = np.zeros(len(rest.nodes))
    np.add.at(nodes, master.group[fill[fill >= 0]], master.level[fill >= 0])
    return np.flatnonzero(nodes > rest.nodes + 1e-2)


def _improved(tools: Tools, best: TriedPlan, tries: int) -> TriedPlan:
    """Return a plan for the same pods that is not more expensive, after at most the given number of tries. The given
    one is overwritten.
    """
    left = best.rest.pods.copy()
    best.rest.pods[:] = 0
    watch = watch_for(tools.problem, tools.groups, np.zeros(0, np.int64))
    watch.value[:] = best.value
    used = np.unique(best.made.group[: int(best.made.counts[0])])
    groups = tools.groups if len(tools.groups) <= FEW_GROUPS else used
    ratio = np.zeros(len(groups))
    trial = Trial(np.zeros(len(left)), ratio.copy(), ratio, np.zeros(MANY, np.int64), np.array([1, tries]))
    pours = IMPROVED * FEW_CLASSES // max(FEW_CLASSES, len(left)) // CHUNKS
    for _ in range(CHUNKS):
        kept = batches_for(tools.problem)
        append_batches(kept, best.made)
        best = best._replace(made=kept)
        improve(tools.shapes, best.rest, tools.bench, watch, groups, trial, pours, best.made)
    best.rest.pods[:] = left
    return best
