"""Replacement as one of the decisions of a plan: its entry in the table, what it requires of a round's simulation (at
most as many new nodes as its waves may have), and what it says of each node that is replaced.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from trimtab.places import moves_by_node
from trimtab.planner.facts.nodes import being_deleted, group_prices
from trimtab.planner.placement.group_templates import growth_with
from trimtab.planner.replacement.loop import find
from trimtab.planner.replacement.settings import ReplacementSettings, resolve_replacement
from trimtab.planner.replacement.state import KnownState, avoided_until, recall, remember
from trimtab.planner.replacement.survey import ReplacementRequest
from trimtab.planner.round.decision import Decided, Decision, NodeChange, Summary
from trimtab.planner.round.round import Round
from trimtab.planner.simulation.growth import SPARE, GrowthNeed
from trimtab.planner.snapshot.columns import Int32, Snapshot
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import ReplacementResult


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
    """Return what the next request should know. gone : int32 nodes of the best plan."""
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
