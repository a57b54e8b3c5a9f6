"""Which counterfactual plans are made, and what is advised.

1. Levers are found in the base plan: for each kind of blocker, and for single ones by the price of the nodes they keep.
2. Each is planned alone. A budget or a minimum is then lifted only as far as that plan needs, if a plan confirms it.
3. Of the best ones, all threes that do not overlap are planned together; if two free as much, two are advised.
4. Advice is ranked by what it saves, then by nodes, then by text.

The number of plans is bounded by a setting, not by time, so that equal input gives equal advice.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Final

from trimtab.clients.advice.counterfactuals import Counterfactuals, Outcome, PlannerCalls
from trimtab.clients.advice.changes import Edit
from trimtab.clients.advice.levers import objects, pods, settings
from trimtab.clients.advice.levers.lever import BasePlan, BlockedPod, Lever
from trimtab.clients.advice.result import Advice, AdviceReport, Blocker
from trimtab.clients.advice.workloads import Workloads
from trimtab.clients.cluster_view import ClusterView
from trimtab.v1 import plan_pb2, reason_pb2

Progress = Callable[[int, int], None]
MOST_PLANS: Final = 300
"""Plans that `advise` makes by default: on 1,000 nodes they take less than ten seconds."""
_MOST_TOGETHER: Final = 8
"""Levers of which all threes are planned: 56 plans."""
_MOST_GAIN: Final = 0.9
"""Share of the largest gain for which the lowest utilization threshold is advised."""
_Node = reason_pb2.UnremovableReason
_FINDERS: Final = (
    settings.levers,
    objects.budgets,
    objects.several_budgets,
    objects.group_minimums,
    objects.node_annotations,
    pods.evictable,
    pods.placement,
)


@dataclass(frozen=True)
class AdviceOptions:
    """prices : hourly, by node, of those that are known; most_plans : bound on the plans; more : finds levers besides
    those of the base plan, such as requests above a known usage; progress : called with plans made and the bound.
    """

    prices: Mapping[str, float]
    most_plans: int = MOST_PLANS
    more: Callable[[BasePlan], Iterable[Lever]] | None = None
    progress: Progress | None = None


def advise(
    planner: PlannerCalls,
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
    session = Counterfactuals(planner, view, request, answer, options.prices)
    return _Search(session, options).run()


@dataclass(frozen=True)
class _Tried:
    """A lever, what its plan frees, and the advice that follows."""

    lever: Lever
    outcome: Outcome
    advice: Advice


class _Search:
    """One search for advice."""

    def __init__(self, session: Counterfactuals, options: AdviceOptions) -> None:
        self._session, self._options = session, options
        self._left_out = 0

    def run(self) -> AdviceReport:
        """Make the plans."""
        levers = self._levers()
        tried = [self._try(lever) for lever in levers if self._may_plan(1 + len(lever.steps))]
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

    def _levers(self) -> list[Lever]:
        """Return all levers, those of a whole kind first, then by the price and number of the nodes that they keep."""
        base = _base_plan(self._session)
        finders = (*_FINDERS, self._options.more) if self._options.more else _FINDERS
        found: dict[tuple[object, ...], Lever] = {}
        for find in finders:
            for lever in find(base):
                found.setdefault(lever.edit.key, lever)
        prices = self._options.prices
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
            steps = [self._tried(step) for step in lever.steps]
            chosen = self._smallest_step(steps)
            useful = tuple(one.advice for one in steps if self._is_useful(one.advice))
            return _Tried(chosen.lever, chosen.outcome, _with_steps(chosen.advice, useful))
        whole = self._tried(lever)
        smaller = lever.smaller(whole.outcome) if lever.smaller and self._is_useful(whole.advice) else None
        if smaller is None or not self._may_plan(1):
            return whole
        less = self._tried(smaller)
        return less if self._gain(less.advice) >= self._gain(whole.advice) else whole

    def _smallest_step(self, steps: Sequence[_Tried]) -> _Tried:
        """Return the first of several values that frees nearly as much as the best one."""
        best = max(self._gain(one.advice)[0] for one in steps)
        enough = (one for one in steps if self._gain(one.advice)[0] >= _MOST_GAIN * best)
        return next(enough) if best > 0 else steps[0]

    def _tried(self, lever: Lever) -> _Tried:
        outcome = self._plan(lever.edit)
        nodes, staying, saving = outcome.beyond(self._session.base)
        return _Tried(lever, outcome, Advice(lever.kind, lever.condition, lever.changes, nodes, staying, saving))

    def _gain(self, advice: Advice) -> tuple[float, int]:
        """Return what an advice is worth: money where prices are known, then nodes."""
        saving = advice.saving_per_hour
        return (float(advice.node_count) if saving is None else saving), advice.node_count

    def _is_useful(self, advice: Advice) -> bool:
        """Return whether more nodes go, and nothing is lost."""
        saving = advice.saving_per_hour
        return advice.node_count > 0 and (saving is None or saving >= 0)

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
        pool, best = [one.lever for one in ranked[:_MOST_TOGETHER]], None
        while len(pool) > 3 and not self._may_plan(comb(len(pool), 3) + 3):
            pool.pop()
        size = min(len(pool), 3)
        if size < 2 or not self._may_plan(comb(len(pool), size) + 3):
            return None
        for chosen in combinations(pool, size):
            best = self._better(best, chosen)
        if best is None and size == 3:
            for chosen in combinations(pool, 2):
                best = self._better(best, chosen) if self._may_plan(1) else best
        if best is not None and len(best[0]) == 3:
            for chosen in combinations(best[0], 2):
                joint = self._joint(chosen)
                if self._gain(joint) >= self._gain(best[1]):
                    return joint
        return best[1] if best else None

    def _better(
        self, best: tuple[tuple[Lever, ...], Advice] | None, chosen: tuple[Lever, ...]
    ) -> tuple[tuple[Lever, ...], Advice] | None:
        """Return the better of the best so far and some levers together; levers that overlap are not combined."""
        if any(_overlap(one, other) for one, other in combinations(chosen, 2)):
            return best
        joint = self._joint(chosen)
        if best is not None and self._gain(best[1]) >= self._gain(joint):
            return best
        return chosen, joint

    def _joint(self, chosen: Sequence[Lever]) -> Advice:
        """Return what several levers together free."""
        edit = Edit()
        for lever in chosen:
            edit = edit.with_other(lever.edit)
        changes = tuple(dict.fromkeys(change for lever in chosen for change in lever.changes))
        condition = " and ".join(lever.condition for lever in chosen)
        return Advice(Blocker.SEVERAL, condition, changes, *self._plan(edit).beyond(self._session.base))

    def _is_better(self, together: Advice, useful: Sequence[_Tried]) -> bool:
        """Return whether several free more than the best single one."""
        best = self._gain(useful[0].advice) if useful else (0.0, 0)
        return self._is_useful(together) and self._gain(together) > best


def _with_steps(advice: Advice, steps: tuple[Advice, ...]) -> Advice:
    return Advice(
        advice.kind, advice.condition, advice.changes, advice.nodes, advice.staying, advice.saving_per_hour, steps
    )


def _overlap(one: Lever, other: Lever) -> bool:
    """Return whether two levers change the same line, or one of them lifts what the other one does."""
    lines = {(change.object, change.keys) for change in one.changes}
    if any((change.object, change.keys) in lines for change in other.changes):
        return True
    return one.kind == other.kind and one.whole != other.whole


def _base_plan(session: Counterfactuals) -> BasePlan:
    """Return the base plan with all blocking pods of the nodes that stay."""
    view, decision = session.view, session.explained()
    alone = {one.node for one in decision.unremovable if one.reason == _Node.BLOCKED_BY_POD}
    reasons = {
        one.pod: (node.node, tuple(one.reasons or (one.reason,))) for node in decision.blockers for one in node.pods
    }
    for node in decision.unremovable:
        # A node with more pods than a budget allows has no pod that is refused.
        if node.node in alone and node.blocking_reason == reason_pb2.BlockingPodReason.NOT_ENOUGH_PDB:
            reasons.setdefault(node.blocking_pod, (node.node, (node.blocking_reason,)))
    blocked = [
        BlockedPod(pod, node, why, node in alone)
        for key, (node, why) in sorted(reasons.items())
        if (pod := view.pod(key)) is not None
    ]
    return BasePlan(view, Workloads(view), session.request.settings, decision, blocked)
