"""Replacement as one of the decisions of a plan: its entry in the table, one loop, and what it says of each node that
is replaced. Pods that wait, and those of nodes being deleted, get room first, as in scale-down. If the bound shows that
nothing saves enough, nothing is searched. The simulation is left with the moves of the chosen plan.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from trimtab.places import moves_by_node
from trimtab.planner.drainability.pod_columns import facts_of
from trimtab.planner.facts.nodes import being_deleted, group_prices, prices
from trimtab.planner.model.tuning import TOLERANCE
from trimtab.planner.placement.group_templates import growth_with
from trimtab.planner.placement.waiting import pods_with_room
from trimtab.planner.replacement.answer import excluded_groups, kept_nodes, most_saved, option_of, waves_of
from trimtab.planner.replacement.cluster_bound import ClusterBound, cluster_bound
from trimtab.planner.replacement.search import Option, ReplacementSearch, SearchOutcome, chosen_option, options_of
from trimtab.planner.replacement.settings import ReplacementSettings, resolve_replacement
from trimtab.planner.replacement.survey import (
    KnownState,
    ReplacementContext,
    ReplacementRequest,
    avoided_until,
    recall,
    remember,
    survey,
)
from trimtab.planner.round.decision import Decided, Decision, NodeChange, Summary
from trimtab.planner.round.round import Round
from trimtab.planner.round.waiting import place_waiting_pods
from trimtab.planner.simulation.growth import SPARE, GrowthNeed
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import MoveLogFullError, check_log, current_mark
from trimtab.planner.snapshot.columns import Int32, Snapshot
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import ReplacementLimit, ReplacementResult

_NO_NODES = np.zeros(0, np.int32)


class Replacement(NamedTuple):
    """result : the answer; gone : int32 nodes of the best plan, even if it waits; most_saved : None = not computed;
    staying : nodes with price that stay, and why."""

    result: pb.ReplacementDecision
    gone: Int32
    most_saved: float | None = None
    staying: tuple[tuple[int, pb.NotReplaced], ...] = ()


def find(request: ReplacementRequest, earlier: KnownState) -> Replacement:
    """Make the plan; the simulation is left with its moves. If the log proves too short, everything is done again with
    a larger one."""
    price = group_prices(request.snapshot.groups)
    if np.isnan(price).all() or np.isnan(prices(request.snapshot)).all():
        result = pb.ReplacementDecision(
            result=ReplacementResult.REPLACEMENT_NO_PRICES,
            detail="no node of a node group with price_per_hour: give prices of node groups",
        )
        return Replacement(result, _NO_NODES)
    start = current_mark(request.round.simulation.state)
    while True:
        try:
            return _find(request, earlier)
        except MoveLogFullError:
            request.round.enlarge_log(start)


def _find(request: ReplacementRequest, earlier: KnownState) -> Replacement:
    this, snapshot = request.round, request.snapshot
    ignored = facts_of(snapshot, request.cache, request.limits).ignored(snapshot, this.settings.expendable_priority)
    place_waiting_pods(this, pb.Decision.REPLACEMENT, pods_with_room(snapshot, this.settings, ignored))
    context = survey(request, earlier)
    bound = cluster_bound(context, request.growth)
    outcome = SearchOutcome((), 0, False, np.zeros(len(request.leaving), bool), 0, frozenset())
    if _asks_too_much(context, bound):
        outcome = outcome._replace(stopped_by=ReplacementLimit.SAVING_TOO_SMALL)
    elif _may_save(context, bound):
        outcome = ReplacementSearch(context, bound).run()
    options = options_of(context, outcome)
    chosen = chosen_option(context, options)
    waits = _unstable_count(context, outcome, chosen)
    taken_waves = chosen.wave_count if chosen is not None and not waits else 0
    if taken_waves < len(outcome.waves):
        revert(request.round.simulation.state, outcome.waves[taken_waves].start)
    check_log(request.round.simulation.state)
    result = _answer(context, bound, outcome, options, chosen, taken_waves)
    if waits:
        result.detail = f"{waits} of the nodes have been replaceable for less than stable_time"
    gone = chosen.value.leaving if chosen is not None else _NO_NODES
    saving = chosen.value.saving if chosen is not None and taken_waves else 0.0
    staying = tuple(kept_nodes(context, bound, outcome, gone if taken_waves else _NO_NODES))
    return Replacement(result, gone, most_saved(context, bound, saving), staying)


def _may_save(context: ReplacementContext, bound: ClusterBound) -> float:
    """Return what any plan can save for one hour at most, as far as the bound shows; 0 = nothing."""
    cheapest = _cheapest(context)
    saving = bound.may_save if np.isfinite(cheapest) and not context.unhealthy else 0.0
    return saving if saving > TOLERANCE * cheapest else 0.0


def _asks_too_much(context: ReplacementContext, bound: ClusterBound) -> bool:
    """Return whether a plan may save something, but none what the settings ask for."""
    return 0 < _may_save(context, bound) < _least_saving(context) * (1 - TOLERANCE)


def _least_saving(context: ReplacementContext) -> float:
    """Return what any plan has to save for one hour at least."""
    settings = context.request.settings
    return max(settings.min_saving_per_hour, settings.min_saving_share * _cheapest(context))


def _cheapest(context: ReplacementContext) -> float:
    """Return the least price of a node that may leave, infinite if none has one."""
    price = context.price[context.candidates]
    return float(price[price > 0].min(initial=np.inf))


def _unstable_count(context: ReplacementContext, outcome: SearchOutcome, chosen: Option | None) -> int:
    """Return how many nodes of the first wave have not been planned for long enough."""
    stable_ns = context.request.settings.stable_time_ns
    if chosen is None or not stable_ns:
        return 0
    since = context.earlier.planned_ns[outcome.waves[0].trial.leaving]
    return int(((since == 0) | (context.request.now_ns - since < stable_ns)).sum())


def _answer(
    context: ReplacementContext,
    bound: ClusterBound,
    outcome: SearchOutcome,
    options: tuple[Option, ...],
    chosen: Option | None,
    taken_waves: int,
) -> pb.ReplacementDecision:
    result = pb.ReplacementDecision(
        waves=waves_of(context, outcome.waves[:taken_waves]),
        frontier=[option_of(option, option is chosen and taken_waves > 0) for option in options],
        incomplete=outcome.incomplete,
    )
    result.excluded.update(excluded_groups(context))
    result.result, result.detail = _outcome(context, bound, outcome, chosen, taken_waves)
    return result


_LIMITS = (
    ReplacementLimit.NOT_ENOUGH_PDB,
    ReplacementLimit.DISRUPTION_BUDGET,
    ReplacementLimit.MINIMUM_REACHED,
    ReplacementLimit.NODE_GROUP_LIMIT,
)


def _outcome(
    context: ReplacementContext, bound: ClusterBound, outcome: SearchOutcome, chosen: Option | None, taken_waves: int
) -> "tuple[ReplacementResult.Code.ValueType, str]":
    if taken_waves:
        return ReplacementResult.REPLACEMENT_PLANNED, ""
    if context.unhealthy:
        return ReplacementResult.REPLACEMENT_LIMITED, context.unhealthy
    if chosen is not None or (len(context.candidates) and not outcome.trials and outcome.limits_hit):
        return ReplacementResult.REPLACEMENT_LIMITED, ", ".join(
            name for name, code in ReplacementLimit.Code.items() if code in outcome.limits_hit
        )
    if _asks_too_much(context, bound):
        upper, least = _may_save(context, bound), _least_saving(context)
        text = f"no plan saves more than {upper:.4g} an hour, as the bound proves, and the settings ask for {least:.4g}"
        return ReplacementResult.REPLACEMENT_NOTHING_PAYS, text
    return ReplacementResult.REPLACEMENT_NOTHING_PAYS, ""


def change_of(snapshot: Snapshot, result: pb.ReplacementDecision, most_saved: float | None) -> NodeChange:
    """Return what the waves change. O(nodes of the waves)."""
    names, group_at = snapshot.nodes.name, {group.id: row for row, group in enumerate(snapshot.groups)}
    gone = sorted(bisect_left(names, node.node) for wave in result.waves for node in wave.leaving)
    new = [group_at[node.node_group] for wave in result.waves for node in wave.new_nodes]
    return NodeChange(np.array(gone, np.int32), new, objective=pb.Objective.MONEY, most_saved=most_saved)


def write_verdicts(
    result: pb.ReplacementDecision, staying: Iterable[tuple[int, pb.NotReplaced]], verdicts: Sequence[pb.NodeVerdict]
) -> None:
    """Write which nodes are replaced, and by what, and why others are not. staying : nodes that are not."""
    for node, why in staying:
        verdicts[node].not_replaced.CopyFrom(why)
    verdict_on, new = {verdict.node: verdict for verdict in verdicts} if result.waves else {}, set[str]()
    for number, wave in enumerate(result.waves, 1):
        new.update(added.name for added in wave.new_nodes)
        moves = moves_by_node(wave.places)
        for leaving in wave.leaving:
            verdict = verdict_on[leaving.node]
            verdict.fate, verdict.wave = pb.NodeFate.REPLACED, number
            verdict.replaced_by.extend(sorted(new.intersection(moves.get(leaving.node, {}).values())))


MOST_NEW_NODES: Final = 4096
"""New nodes of one plan, whatever the settings: each takes memory in the simulation."""


def growth_need(snapshot: Snapshot, settings: ReplacementSettings, now_ns: int) -> GrowthNeed | None:
    """Return the requirements; None if replacement is switched off, or no node of a priced group can be replaced."""
    price = group_prices(snapshot.groups)
    if not settings.enabled or not (~np.isnan(price)).any() or not (snapshot.nodes.group >= 0).any():
        return None
    leaving, scale_up = being_deleted(snapshot, now_ns), settings.scale_up
    most_new = min(settings.max_surge_nodes * min(settings.max_waves, len(snapshot.nodes.name)), MOST_NEW_NODES)
    return growth_with(snapshot, scale_up, leaving, now_ns, lambda virtual_pod_count: most_new + SPARE)  # noqa: ARG005


def decide(this: Round, settings: ReplacementSettings, state: pb.ReplacementState | None) -> Decided:
    """Take the decision of a round. The simulation is left with the moves of the chosen plan."""
    request = ReplacementRequest(this, settings, state)
    if not settings.enabled:
        before = state if state is not None else pb.ReplacementState()
        return Decided(pb.ReplacementDecision(result=ReplacementResult.REPLACEMENT_NOT_TRIED), before)
    earlier = recall(state, this.snapshot, this.now_ns)
    plan = find(request, earlier)
    notes = (*earlier.notes, *_unknown_groups(settings, this))
    change = change_of(this.snapshot, plan.result, plan.most_saved)
    verdicts = partial(write_verdicts, plan.result, plan.staying)
    return Decided(plan.result, _state(request, earlier, plan.gone), notes, change=change, judge=verdicts)


def _unknown_groups(settings: ReplacementSettings, this: Round) -> Iterator[str]:
    """Yield a note for each node group that a budget names and that does not exist: it may have no effect."""
    there = {group.id for group in this.snapshot.groups}
    for number, budget in enumerate(settings.budgets):
        for name in sorted(budget.node_groups - there):
            yield f"planner.disruption_budgets[{number}].node_groups: there is no node group {name!r}; check its name"


def _state(request: ReplacementRequest, earlier: KnownState, gone: Int32) -> pb.ReplacementState:
    snapshot = request.snapshot
    planned_ns = np.zeros(len(snapshot.nodes.name), np.int64)
    before = earlier.planned_ns[gone]
    planned_ns[gone] = np.where(before > 0, before, request.now_ns)
    avoided = avoided_until(earlier, snapshot.groups, request.now_ns, request.settings.avoid_time_ns)
    return remember(snapshot, planned_ns, avoided, np.where(earlier.paid_back, earlier.paid_back_ns, 0))


def summarize(result: pb.ReplacementDecision) -> Summary:
    """Return the figures of a result for logs and metrics."""
    leaving = sum(len(wave.leaving) for wave in result.waves)
    new = sum(len(wave.new_nodes) for wave in result.waves)
    evicted = sum(wave.evicted_pod_count for wave in result.waves)
    return Summary(
        ReplacementResult.Code.Name(result.result),
        {"waves": len(result.waves), "leaving": leaving, "new_nodes": new, "evicted_pods": evicted},
    )


def warm_up(settings: pb.PlanSettings) -> None:
    """Choose settings with which several waves are searched."""
    settings.replacement.max_leaving_nodes = 2


def failed(detail: str) -> pb.ReplacementDecision:
    """Return the result if the decision fails."""
    return pb.ReplacementDecision(result=ReplacementResult.REPLACEMENT_ERROR, detail=detail)


REPLACEMENT: Final = Decision(
    pb.Decision.REPLACEMENT, resolve_replacement, decide, summarize, warm_up, failed, growth_need
)
