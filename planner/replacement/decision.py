"""Replacement as one of the decisions of a plan: its entry in the table."""

from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np

from trimtab.planner.replacement.growth_need import growth_need
from trimtab.planner.replacement.loop import find
from trimtab.planner.replacement.settings import ReplacementSettings, resolve_replacement
from trimtab.planner.replacement.state import KnownState, avoided_until, recall, remember
from trimtab.planner.replacement.survey import ReplacementRequest
from trimtab.planner.replacement.verdicts import change_of, judge
from trimtab.planner.round.decision import Decided, Decision, Summary
from trimtab.planner.round.round import Round
from trimtab.planner.snapshot.columns import Int32
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import ReplacementResult


def decide(this: Round, settings: ReplacementSettings, state: pb.ReplacementState | None) -> Decided:
    """Take the decision of a round. The simulation is left with the moves of the chosen plan."""
    request = ReplacementRequest(this, settings, state)
    if not settings.enabled:
        given = state if state is not None else pb.ReplacementState()
        return Decided(pb.ReplacementDecision(result=ReplacementResult.REPLACEMENT_NOT_TRIED), given)
    known = recall(state, this.snapshot, this.now_ns)
    found = find(request, known)
    notes = (*known.notes, *_unknown_groups(settings, this))
    change = change_of(this.snapshot, found.result, found.most_saved)
    verdicts = partial(judge, found.result, found.kept)
    return Decided(found.result, _state(request, known, found.gone), notes, change=change, judge=verdicts)


def _unknown_groups(settings: ReplacementSettings, this: Round) -> Iterator[str]:
    """Yield a note for each node group that a budget names and that does not exist: it may have no effect."""
    there = {group.id for group in this.snapshot.groups}
    for number, budget in enumerate(settings.budgets):
        for name in sorted(budget.node_groups - there):
            yield f"planner.disruption_budgets[{number}].node_groups: there is no node group {name!r}; check its name"


def _state(request: ReplacementRequest, known: KnownState, gone: Int32) -> pb.ReplacementState:
    """Return what the next request should know. gone : int32 nodes of the best plan."""
    snapshot = request.snapshot
    planned_ns = np.zeros(len(snapshot.nodes.name), np.int64)
    before = known.planned_ns[gone]
    planned_ns[gone] = np.where(before > 0, before, request.now_ns)
    avoided = avoided_until(known, snapshot.groups, request.now_ns, request.settings.avoid_time_ns)
    return remember(snapshot, planned_ns, avoided, np.where(known.paid_back, known.paid_back_ns, 0))


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
