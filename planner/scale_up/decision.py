"""Scale-up as one of the decisions of a plan: the best of several plans for the waiting pods, and its entry in the
table.

The round's simulation is left with the new nodes open and all pods placed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.gangs import gangs_of
from trimtab.planner.facts.nodes import being_deleted
from trimtab.planner.model.settings import ScaleUpSettings, resolve_scale_up
from trimtab.planner.placement.attempts import Attempt, Attempts, best_of
from trimtab.planner.placement.group_templates import growth_with
from trimtab.planner.round.decision import Decided, Decision
from trimtab.planner.round.round import Round
from trimtab.planner.scale_up.answer import conclude, not_tried, summarize
from trimtab.planner.scale_up.context import ScaleUpContext, ScaleUpRequest, survey
from trimtab.planner.scale_up.draft import GivenNodes, PlanAttempt
from trimtab.planner.scale_up.gangs.plan import plan_with_gangs, waiting_placeholder_gangs
from trimtab.planner.scale_up.plan import PlanHistory, ScaleUpPlan, better_of
from trimtab.planner.scale_up.repacking import RepackedNodes, in_cheaper_groups, may_shrink, repackings
from trimtab.planner.scale_up.variants import Variant, Worth, is_better, usual, variants, without_a_group, worth
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.growth import SPARE, GrowthNeed
from trimtab.planner.simulation.kernels import count_domains_of, revert
from trimtab.planner.simulation.log import MoveLogFullError, check_log, current_mark
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Bool, Snapshot
from trimtab.planner.snapshot.references import take_or
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.plan_pb2 import Expander
from trimtab.v1.reason_pb2 import NodeGroupReason, ScaleUpResult


def best_plan(request: ScaleUpRequest) -> ScaleUpPlan:
    """Return the best plan, with its moves in the round's simulation.

    If the log proves too short, it is replaced by a larger one, and everything is decided again.
    """
    context = survey(request)
    start = current_mark(request.round.simulation.state)
    while True:
        simulation = request.round.simulation
        try:
            return _late_groups_last(context, simulation, start)
        except MoveLogFullError:
            request.round.enlarge_log(start)


def _late_groups_last(context: ScaleUpContext, simulation: Simulation, start: int) -> ScaleUpPlan:
    """Return the best plan; groups whose requested nodes are overdue grow only if it helps more pods, with its moves in
    the simulation. Raises MoveLogFullError."""
    late = context.overdue & (context.limits.may_add > 0)
    if not late.any():
        return _by_budgets(context, simulation, start)
    names = ", ".join(context.expanders.groups.ids[group] for group in np.flatnonzero(late).tolist())
    note = f"scale-up: nodes requested from {names} have not come in time, so it grows only where no other group helps"
    context = context._replace(notes=(*context.notes, note))
    first = _by_budgets(
        context._replace(limits=context.limits.closed(late, NodeGroupReason.BACKED_OFF)), simulation, start
    )
    if not first.unhelped_count:
        return first
    with_late = partial(_by_budgets, context, start=start)
    return better_of(first, simulation, start, with_late, lambda plan: plan.unhelped_count < first.unhelped_count)


def _by_budgets(context: ScaleUpContext, simulation: Simulation, start: int) -> ScaleUpPlan:
    """Return the best plan by the search's budgets, or by those with which it begins if that is better, with its moves
    in the simulation. Raises MoveLogFullError."""
    request = context.request
    first_budgets = request.settings.search.begins_with
    if first_budgets is None:
        return _with_gangs(context, simulation, start)
    less = request._replace(settings=replace(request.settings, search=first_budgets))
    first = _with_gangs(context._replace(request=less), simulation, start)
    if not request.round.in_time():
        return first
    before, expanders = worth(first), request.settings.expanders
    with_all = partial(_with_gangs, context, start=start)
    return better_of(first, simulation, start, with_all, lambda plan: not is_better(before, worth(plan), expanders))


def _with_gangs(context: ScaleUpContext, simulation: Simulation, start: int) -> ScaleUpPlan:
    request = context.request
    waiting = [gang for gang in gangs_of(request.snapshot, request.cache) if len(gang.pending)]
    gangs = waiting + waiting_placeholder_gangs(request.round)
    if not gangs:
        return _best(context, simulation, start)
    return plan_with_gangs(context, simulation, start, gangs, _best)


def _best(context: ScaleUpContext, simulation: Simulation, start: int) -> ScaleUpPlan:
    """Return the best of the plans, with its moves in the simulation.

    These are the usual plan, its variants, and versions of the best one with fewer nodes, as long as there are any, and
    with its nodes in cheaper groups.
    start : mark before anything is placed. Raises MoveLogFullError.
    """
    search = _PlanSearch(context, simulation, start)
    search.make_variants()
    search.make_without_new_domains()
    while search.make_with_fewer():
        pass
    while search.make_without_a_group():
        pass
    search.make_in_cheaper_groups()
    return search.best_with_note()


class _JudgedPlan(NamedTuple):
    """A plan, its worth, and how it was made. given_nodes : None = groups were chosen."""

    plan: ScaleUpPlan
    worth: Worth
    variant: Variant
    given_nodes: GivenNodes | None


class _PlanSearch:
    """The attempts made for one request, the usual plan first; the best one is kept."""

    def __init__(self, context: ScaleUpContext, simulation: Simulation, start: int) -> None:
        self._context, self._simulation, self._start = context, simulation, start
        self._attempts: Attempts[_JudgedPlan] = Attempts(
            simulation.state, start, self._repeat, context.request.round.in_time
        )
        self._kinds: set[tuple[bytes, tuple[int, ...], bool, bool, bool, tuple[int, ...]]] = set()
        self._best = self._attempts.make(self._usual)

    def make_variants(self) -> None:
        """Make the variants of the usual plan, without those that equal a plan made before."""
        first = self.best()
        others = variants(first, too_many_nodes=bool(may_shrink(first)))
        self._keep_best(self._attempts.make_all([partial(self._new_plan, variant) for variant in others]))

    def make_without_new_domains(self) -> None:
        """Make the usual plan with only the zones that have nodes, if the best one leaves pods: zones that no group
        opens in the end may have kept them from the others."""
        if len(self._context.new_domains) and len(self.best().refusals.pods):
            variant = usual(self._context)._replace(new_domains=False)
            self._keep_best(self._attempts.make_all([partial(self._new_plan, variant)]))

    def make_with_fewer(self) -> bool:
        """Repeat the best plan with fewer new nodes; return whether the result is better."""
        groups = may_shrink(self.best())
        best = self._best_plan
        for nodes in repackings(best.plan, groups, self._start):
            given_nodes = GivenNodes(nodes, best.plan.unplaced, best.plan.history)
            if self._keep_best([self._attempts.make(partial(self._plan, best.variant, given_nodes))]):
                return True
        return False

    def make_without_a_group(self) -> bool:
        """Make the best plan's variant again, each time without another group; return whether one of these plans is
        better."""
        best = self._best_plan
        others = without_a_group(self.best(), best.variant)
        return self._keep_best(self._attempts.make_all([partial(self._without, variant) for variant in others]))

    def make_in_cheaper_groups(self) -> None:
        """Repeat the best plan, if it has the fewest nodes whatever their price, with them in cheaper groups."""
        best = self._best_plan
        if not best.variant.fewest_nodes or not self._context.request.round.in_time():
            return
        nodes = in_cheaper_groups(self.best())
        if nodes is not None:
            given_nodes = GivenNodes(nodes, best.plan.unplaced, _in_groups(best.plan.history, nodes.group_of))
            self._keep_best([self._attempts.make(partial(self._plan, best.variant, given_nodes))])

    def best(self) -> ScaleUpPlan:
        """Return the best plan, with its moves in the simulation."""
        self._best = self._attempts.adopt(self._best)
        return self._best_plan.plan

    def best_with_note(self) -> ScaleUpPlan:
        """Return the best plan, with a note if other expanders than those that the settings name chose its groups."""
        plan, settings = self.best(), self._context.request.settings
        expanders, variant = plan.context.request.settings.expanders, self._best_plan.variant
        # With the fewest nodes for all pods at once, the configured LEAST_NODES has decided.
        if not settings.names_expanders or expanders == settings.expanders or variant.fewest_nodes:
            return plan
        chosen, configured = (_names(codes) for codes in (expanders, settings.expanders))
        note = f"scale-up: {chosen} chose the node groups, because the plan of the configured {configured} is worse"
        return plan._replace(context=plan.context._replace(notes=(*plan.context.notes, note)))

    @property
    def _best_plan(self) -> _JudgedPlan:
        return self._best.plan

    def _keep_best(self, attempts: Sequence[Attempt[_JudgedPlan]]) -> bool:
        """Keep the best of the attempts made so far; return whether it is one of these."""
        expanders, before = self._context.request.settings.expanders, self._best
        self._best = best_of(
            [before, *attempts], lambda attempt, other: is_better(attempt.plan.worth, other.plan.worth, expanders)
        )
        return self._best is not before

    def _usual(self, state: SimulationState) -> _JudgedPlan:
        variant = usual(self._context)
        with self._counted(variant, state):
            attempt = self._attempt(variant, None, state)
            self._kinds.add(attempt.kind())
            return _run(attempt)

    def _new_plan(self, variant: Variant, state: SimulationState) -> _JudgedPlan | None:
        """Make a plan; None if an equal one was made before."""
        with self._counted(variant, state):
            attempt = self._attempt(variant, None, state)
            kind = attempt.kind()
            if kind in self._kinds:
                return None
            self._kinds.add(kind)
            return _run(attempt)

    def _without(self, variant: Variant, state: SimulationState) -> _JudgedPlan | None:
        """Make a plan without groups; if it is better, carry out its nodes with all groups."""
        judged = self._new_plan(variant, state)
        if judged is None or not is_better(
            judged.worth, self._best_plan.worth, self._context.request.settings.expanders
        ):
            return None
        progress = judged.plan.progress
        nodes = RepackedNodes(list(progress.group_of), state.pod_node.astype(np.int32), progress.pods)
        reasons = judged.plan.history.reasons.copy()
        reasons[list(variant.without)] = 0
        revert(state, self._start)
        history = judged.plan.history._replace(reasons=reasons)
        return self._plan(variant, GivenNodes(nodes, judged.plan.unplaced, history), state)

    def _plan(self, variant: Variant, given_nodes: GivenNodes | None, state: SimulationState) -> _JudgedPlan:
        with self._counted(variant, state):
            return _run(self._attempt(variant, given_nodes, state))

    @contextmanager
    def _counted(self, variant: Variant, state: SimulationState) -> Iterator[None]:
        """Let zones that groups could open count meanwhile, if the variant requires it: what is placed then is as legal
        without them, where the scheduler only counts zones that have nodes."""
        nodes = self._context.new_domains
        if not variant.new_domains or not len(nodes):
            yield
            return
        count_domains_of(state, nodes, 1)
        try:
            yield
        finally:
            count_domains_of(state, nodes, -1)

    def _repeat(self, state: SimulationState, judged: _JudgedPlan) -> _JudgedPlan:
        return self._plan(judged.variant, judged.given_nodes, state)

    def _attempt(self, variant: Variant, given_nodes: GivenNodes | None, state: SimulationState) -> PlanAttempt:
        return PlanAttempt(self._context, self._simulation._replace(state=state), variant, given_nodes)


def _run(attempt: PlanAttempt) -> _JudgedPlan:
    plan = attempt.run()
    check_log(attempt.simulation.state)
    return _JudgedPlan(plan, worth(plan), attempt.variant, attempt.given)


def _names(expanders: tuple[int, ...]) -> str:
    names = {int(code): name for name, code in Expander.Code.items()}
    return ", ".join(names[code] for code in expanders)


def _in_groups(history: PlanHistory, group_of: list[int]) -> PlanHistory:
    """Return how a plan was made, with its planned nodes in these groups, if it needed no other nodes."""
    planned = history.planned
    if planned is None or len(planned.group_of) != len(group_of):
        return history
    return history._replace(planned=planned._replace(group_of=group_of))


LEAST: Final = 64
"""New nodes for which there is room even if nothing waits, so that few numbers occur."""


def decide(this: Round, settings: ScaleUpSettings, state: pb.ScaleUpState | None) -> Decided:
    """Take the scale-up decision."""
    request = ScaleUpRequest(this, settings, state)
    return conclude(best_plan(request)) if settings.enabled else not_tried(request)


def warm_up(settings: pb.PlanSettings) -> None:
    """Choose settings with which a plan is made as a whole and group by group, and groups are balanced."""
    settings.scale_up.expanders.append(pb.Expander.CHEAPEST_PLAN)
    settings.scale_up.balance_similar_node_groups = True


def failed(detail: str) -> pb.ScaleUpDecision:
    """Return the result if the decision fails."""
    return pb.ScaleUpDecision(result=ScaleUpResult.SCALE_UP_ERROR, detail=detail)


def growth_need(snapshot: Snapshot, settings: ScaleUpSettings, now_ns: int) -> GrowthNeed | None:
    """Return the requirements on a round's simulation, in which groups grow; None if none may."""
    if not settings.enabled or not snapshot.groups:
        return None
    leaving = being_deleted(snapshot, now_ns)
    return growth_with(snapshot, settings, leaving, now_ns, _spare_nodes(snapshot, settings, leaving))


def _spare_nodes(snapshot: Snapshot, settings: ScaleUpSettings, leaving: Bool) -> Callable[[int], int]:
    """Return the function that returns how many new nodes may be open at a time, given the number of virtual pods, such
    as placeholders: no more than there are waiting and virtual pods, except for all-or-nothing groups.

    A power of two if limits allow it, which makes the simulation of an unchanged cluster reusable.
    """
    pods, groups = snapshot.pods, snapshot.groups
    on_leaving = take_or(leaving, pods.node, False)
    waits = ((pods.node < 0) | on_leaving) & ~pods.is_terminal()
    may_add = [max(group.max_size - group.target_size, 0) for group in groups]
    atomic_nodes = sum(count for count, group in zip(may_add, groups, strict=True) if group.zero_or_max)
    wanted, limit = LEAST + int(waits.sum()) + atomic_nodes, min(settings.max_new_nodes, sum(may_add))
    return lambda virtual_pod_count: min(1 << (wanted + virtual_pod_count - 1).bit_length(), limit) + SPARE


SCALE_UP: Final = Decision(pb.Decision.SCALE_UP, resolve_scale_up, decide, summarize, warm_up, failed, growth_need)
