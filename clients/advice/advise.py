"""Which counterfactual plans are made, and what is advised.

1. Levers are found in the base plan: for each kind of blocker, and for single ones by the price of the nodes they keep.
2. Each is planned alone. A budget or a minimum is then lifted as little as frees the same, if a plan confirms it: a
   budget by one pod, if the nodes can go in waves.
3. Of the best ones, all threes that do not overlap are planned together; if two free as much, two are advised.
4. Advice is ranked by what it saves, then by nodes, then by text.

The number of plans is bounded by a setting, not by time, so that equal input gives equal advice.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import Final

from trimtab.clients.advice.changes import Edit
from trimtab.clients.advice.counterfactuals import Counterfactuals, Outcome
from trimtab.clients.advice.levers import budgets, objects, pods, settings
from trimtab.clients.advice.levers.lever import BasePlan, BlockedPod, Lever
from trimtab.clients.advice.result import MOST_PLANS, Advice, AdviceReport, Blocker
from trimtab.clients.advice.workloads import PodWorkloads
from trimtab.clients.cluster_view import ClusterView
from trimtab.clients.planner_client import PlannerClient
from trimtab.clients.verdicts import staying
from trimtab.v1 import plan_pb2, reason_pb2

Progress = Callable[[int, int], None]
_MOST_TOGETHER: Final = 8
"""Levers of which all threes are planned: 56 plans."""
_MOST_GAIN: Final = 0.9
"""Share of the largest gain for which the lowest utilization threshold is advised."""
LEAST_SAVING: Final = 1e-6
"""Hourly; less is rounding of sums of equal prices."""
_Node = reason_pb2.UnremovableReason
_FINDERS: Final = (
    settings.levers,
    budgets.budgets,
    budgets.several_budgets,
    objects.group_minimums,
    objects.node_annotations,
    objects.consolidation,
    objects.node_budgets,
    pods.evictable,
    pods.disruptable,
    pods.placement,
)


@dataclass(frozen=True)
class AdviceOptions:
    """most_plans : bound on the plans; more : finds levers besides those of the base plan, such as requests above a
    known usage; progress : called with plans made and the bound; most_steps : values of one setting that are tried, the
    nearest first, 0 = all.
    """

    most_plans: int = MOST_PLANS
    more: Callable[[BasePlan], Iterable[Lever]] | None = None
    progress: Progress | None = None
    most_steps: int = 0


def advise(
    planner: PlannerClient,
    view: ClusterView,
    request: plan_pb2.PlanRequest,
    answer: plan_pb2.PlanResponse,
    options: AdviceOptions,
) -> AdviceReport:
    """Return what to change so that more nodes could go. request, answer : the base plan, which the planner has made of
    the view's snapshot. Errors: those of the planner; ValueError, IndexError for a damaged snapshot.
    """
    if not answer.HasField("scale_down") or any(
        one.failed for one in answer.diagnostics.decisions if one.decision == plan_pb2.Decision.SCALE_DOWN
    ):
        return AdviceReport((), ())
    session = Counterfactuals(planner, view, request, answer)
    return AdviceSearch(session, options).run()


@dataclass(frozen=True)
class _Tried:
    """A lever, what its plan frees, and the advice that follows. whole : the lever before it was made smaller."""

    lever: Lever
    whole: Lever
    outcome: Outcome
    advice: Advice


@dataclass(frozen=True)
class _Joint:
    """Several levers, what a plan with all of them frees, and the advice that follows."""

    levers: tuple[Lever, ...]
    outcome: Outcome
    advice: Advice


class AdviceSearch:
    """One search for advice."""

    def __init__(self, session: Counterfactuals, options: AdviceOptions) -> None:
        self._session, self._options = session, options
        self._left_out = 0
        self._is_by_money = session.is_by_money

    def run(self) -> AdviceReport:
        """Make the plans."""
        levers = self._levers()
        tried = [self._try(lever) for lever in levers if self._may_plan(max(1, len(self._steps(lever))))]
        self._left_out = len(levers) - len(tried)
        ranked = self._ranked(tried)
        useful = [one for one in ranked if self._is_useful(one.advice)]
        together = self._together(ranked)
        return AdviceReport(
            tuple(sorted(self._session.base.nodes)),
            tuple(one.advice for one in useful),
            together if together and self._is_better(together, useful) else None,
            self._session.plan_count,
            self._left_out,
        )

    def of_levers(self, levers: tuple[Lever, ...]) -> Advice:
        """Return what some levers together free, each lifted only as far as their plan needs."""
        return self._made_smaller(self._joint(levers))

    def _levers(self) -> list[Lever]:
        """Return all levers, those of a whole kind first, then by the price and number of the nodes that they keep."""
        base = base_plan(self._session)
        finders = (*_FINDERS, self._options.more) if self._options.more else _FINDERS
        found: dict[tuple[object, ...], Lever] = {}
        for find in finders:
            for lever in find(base):
                found.setdefault(lever.edit.key, lever)
        prices = self._session.prices
        return sorted(
            found.values(),
            key=lambda one: (
                not one.whole, -sum(prices.get(node, 0.0) for node in one.kept), -len(one.kept), one.condition,
            ),
        )  # fmt: skip

    def _may_plan(self, count: int) -> bool:
        return self._session.plan_count + count <= self._options.most_plans

    def _plan(self, edit: Edit) -> Outcome:
        outcome = self._session.plan(edit)
        if self._options.progress is not None:
            self._options.progress(self._session.plan_count, self._options.most_plans)
        return outcome

    def _try(self, lever: Lever) -> _Tried:
        """Plan a lever alone, and smaller changes of the same line."""
        if lever.steps:
            steps = [self._tried(step) for step in self._steps(lever)]
            chosen = self._smallest_step(steps)
            return replace(chosen, advice=replace(chosen.advice, steps=self._rising(steps)))
        whole = self._tried(lever)
        for smaller in lever.smaller(whole.outcome) if lever.smaller and self._is_useful(whole.advice) else ():
            if not self._may_plan(1):
                break
            less = replace(self._tried(smaller), whole=lever)
            if self._gain(less.advice) >= self._gain(whole.advice):
                return less
        return whole

    def _steps(self, lever: Lever) -> Sequence[Lever]:
        """Return the values of a setting to try."""
        return lever.steps[: self._options.most_steps or None]

    def _rising(self, steps: Sequence[_Tried]) -> tuple[Advice, ...]:
        """Return the values that free more than all before them; () = no value frees more than the first useful one."""
        rising: list[Advice] = []
        for step in steps:
            if self._is_useful(step.advice) and (not rising or self._gain(step.advice) > self._gain(rising[-1])):
                rising.append(step.advice)
        return tuple(rising) if len(rising) > 1 else ()

    def _smallest_step(self, steps: Sequence[_Tried]) -> _Tried:
        """Return the first of several values that frees nearly as much as the best one."""
        best = max(self._gain(step.advice)[0] for step in steps)
        enough = (step for step in steps if self._gain(step.advice)[0] >= _MOST_GAIN * best)
        return next(enough) if best > 0 else steps[0]

    def _tried(self, lever: Lever) -> _Tried:
        outcome = self._plan(lever.edit)
        nodes, staying, saving = outcome.beyond(self._session.base)
        return _Tried(lever, lever, outcome, Advice(lever.kind, lever.condition, lever.changes, nodes, staying, saving))

    def _gain(self, advice: Advice) -> tuple[float, int]:
        """Return what an advice is worth: money where prices are known, then nodes."""
        saving = advice.saving_per_hour
        return (float(advice.node_count) if saving is None else saving), advice.node_count

    def _is_useful(self, advice: Advice) -> bool:
        """Return whether more nodes go and no money is lost, or, where money decides between plans, more is saved."""
        saving = advice.saving_per_hour
        if saving is None or saving < 0 or not self._is_by_money:
            return advice.node_count > 0 and (saving is None or saving >= 0)
        return advice.node_count > 0 or saving > LEAST_SAVING

    def _ranked(self, tried: Sequence[_Tried]) -> list[_Tried]:
        """Return the most valuable first; those that free nothing alone by the nodes that they keep."""
        return sorted(
            tried,
            key=lambda one: (
                *(-part for part in self._gain(one.advice)), -len(one.lever.kept), one.advice.condition,
            ),
        )  # fmt: skip

    def _together(self, ranked: Sequence[_Tried]) -> Advice | None:
        """Return the best three, or two, of the most valuable levers; None = there are no two to combine."""
        pool = [one.whole for one in ranked[:_MOST_TOGETHER]]
        while len(pool) > 3 and not self._may_plan(_plans_together(len(pool))):
            pool.pop()
        if len(pool) < 2 or not self._may_plan(_plans_together(len(pool))):
            return None
        threes = self._best(combinations(pool, 3))
        twos = self._best(combinations(threes.levers if threes else pool, 2))
        if threes is None or (twos is not None and self._gain(twos.advice) >= self._gain(threes.advice)):
            threes = twos
        return self._made_smaller(threes) if threes is not None else None

    def _best(self, every: Iterable[tuple[Lever, ...]]) -> "_Joint | None":
        """Return the levers that free most together, the first of equal ones; levers that overlap are not combined."""
        best: _Joint | None = None
        for levers in every:
            if any(_overlap(one, other) for one, other in combinations(levers, 2)):
                continue
            joint = self._joint(levers)
            if best is None or self._gain(joint.advice) > self._gain(best.advice):
                best = joint
        return best

    def _made_smaller(self, joint: "_Joint") -> Advice:
        """Return the advice with each lever lifted only as far as their common plan needs, if a plan confirms it."""
        smaller = [(one.smaller(joint.outcome) if one.smaller else ()) or (one,) for one in joint.levers]
        for choice in (tuple(one[0] for one in smaller), tuple(one[-1] for one in smaller)):
            if not self._may_plan(1):
                break
            less = self._joint(choice).advice
            if self._gain(less) >= self._gain(joint.advice):
                return less
        return joint.advice

    def _joint(self, levers: tuple[Lever, ...]) -> "_Joint":
        """Return what several levers together free."""
        edit = Edit()
        for lever in levers:
            edit = edit.with_other(lever.edit)
        changes = tuple(dict.fromkeys(change for lever in levers for change in lever.changes))
        condition = " and ".join(lever.condition for lever in levers)
        outcome = self._plan(edit)
        advice = Advice(Blocker.SEVERAL, condition, changes, *outcome.beyond(self._session.base))
        return _Joint(levers, outcome, advice)

    def _is_better(self, together: Advice, useful: Sequence[_Tried]) -> bool:
        """Return whether several free more than the best single one."""
        best = self._gain(useful[0].advice) if useful else (0.0, 0)
        return self._is_useful(together) and self._gain(together) > best


def _plans_together(count: int) -> int:
    """Return how many plans find the best three, or two, of some levers, at most."""
    return comb(count, 3) + (comb(count, 2) if count < 4 else 3) + 1


def _overlap(lever: Lever, other: Lever) -> bool:
    """Return whether two levers change the same line, or one of them lifts what the other one does."""
    lines = {(change.object, change.keys) for change in lever.changes}
    if any((change.object, change.keys) in lines for change in other.changes):
        return True
    return lever.kind == other.kind and lever.whole != other.whole


def base_plan(session: Counterfactuals) -> BasePlan:
    """Return the base plan with all blocking pods of the nodes that stay."""
    view, answer = session.view, session.explained()
    alone = {one.node for one in staying(answer) if one.reason == _Node.BLOCKED_BY_POD}
    reasons = {
        one.pod: (node.node, tuple(one.reasons or (one.reason,))) for node in answer.nodes for one in node.blocking_pods
    }
    for node in staying(answer):
        # A node with more pods than a budget allows has no pod that is refused.
        if node.node in alone and node.blocking_reason == reason_pb2.BlockingPodReason.NOT_ENOUGH_PDB:
            reasons.setdefault(node.blocking_pod, (node.node, (node.blocking_reason,)))
    blocked = [
        BlockedPod(pod, node, why, node in alone)
        for key, (node, why) in sorted(reasons.items())
        if (pod := view.pod(key)) is not None
    ]
    return BasePlan(view, PodWorkloads(view), session.request.settings, answer, blocked)
