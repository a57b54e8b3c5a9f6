"""One loop of replacement: survey, bound, search, choice, answer.

1. Pods that wait, and those of nodes being deleted, get room first, as in scale-down, unless an earlier decision has
   placed them.
2. The cluster is surveyed (`survey`), and the least cost of room for its pods computed (`cluster_bound`). If that shows
   that nothing saves enough, nothing is searched.
3. Waves are searched (`search`), and one of the plans from careful to bold is chosen (`search`).
4. The simulation is left with the moves of the chosen plan.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.drainability.pod_columns import facts_of
from trimtab.planner.facts.nodes import group_prices, prices
from trimtab.planner.model.tuning import TOLERANCE
from trimtab.planner.placement.waiting import pods_with_room
from trimtab.planner.replacement.answer import excluded_groups, kept_nodes, most_saved, option_of, waves_of
from trimtab.planner.replacement.cluster_bound import ClusterBound, cluster_bound
from trimtab.planner.replacement.search import Option, ReplacementSearch, SearchOutcome, chosen_option, options_of
from trimtab.planner.replacement.state import KnownState
from trimtab.planner.replacement.survey import ReplacementContext, ReplacementRequest, survey
from trimtab.planner.round.waiting import place_waiting_pods
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import MoveLogFullError, check_log, current_mark
from trimtab.planner.snapshot.columns import Int32
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
    _place_waiting(request)
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


def _place_waiting(request: ReplacementRequest) -> None:
    """Place the pods that wait, as far as they have room."""
    this, snapshot = request.round, request.snapshot
    ignored = facts_of(snapshot, request.cache, request.limits).ignored(snapshot, this.settings.expendable_priority)
    pending = pods_with_room(snapshot, this.settings, ignored)
    place_waiting_pods(this, pb.Decision.REPLACEMENT, pending)


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
