"""Build the message and the next state from the plan of a loop. Nodes in order of name."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from trimtab.planner.drainability import outcome, rules
from trimtab.planner.drainability.pod_columns import of_rows
from trimtab.planner.facts import pdb
from trimtab.planner.round.decision import Decided, NodeChange, Summary
from trimtab.planner.scale_down import eligibility
from trimtab.planner.scale_down.context import ScaleDownContext, ScaleDownRequest
from trimtab.planner.scale_down.loop import ScaleDownPlan
from trimtab.planner.scale_down.report.answer import Staying, Unneeded, add_unneeded
from trimtab.planner.scale_down.report.details import put_why_staying, why_waiting
from trimtab.planner.scale_down.report.texts import Blocking, NodeTexts, blocking_code, blocking_codes
from trimtab.planner.scale_down.report.verdicts import judge
from trimtab.planner.scale_down.result import LoopResult
from trimtab.planner.scale_down.search.displaced import names_of
from trimtab.planner.scale_down.selection.removal import Removal, room_left, since
from trimtab.planner.scale_down.state import FailedNodes, LaterWaves, PreviousLoop, remember
from trimtab.planner.scale_down.undone_drains import drained
from trimtab.planner.scale_down.whole_gangs import whole_gangs
from trimtab.planner.snapshot.columns import Int32
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2

Reason = reason_pb2.UnremovableReason
Blocked = reason_pb2.BlockingPodReason
Outcome = reason_pb2.ScaleDownResult


def not_tried(request: ScaleDownRequest) -> Decided:
    """Return the answer if scale-down is switched off: every node stays, and the state is unchanged."""
    decision = pb.ScaleDownDecision(result=Outcome.SCALE_DOWN_NOT_TRIED, detail="scale-down is switched off")
    return Decided(decision, request.state or pb.ScaleDownState(), judge=_judge_not_tried)


def _judge_not_tried(verdicts: Sequence[pb.NodeVerdict]) -> None:
    """Write that every node stays."""
    for verdict in verdicts:
        verdict.fate, verdict.reason = pb.NodeFate.STAYS, Reason.NOT_EVALUATED


def conclude(plan: ScaleDownPlan) -> Decided:
    """Assemble the answer and the next state. O(N + moved pods)."""
    context, found, removal = plan.context, plan.result, plan.removal
    unneeded = _unneeded(plan)
    reasons = found.staying.reasons
    decision = pb.ScaleDownDecision(detail=found.trouble or context.unhealthy or context.cooldown.cluster)
    share = context.nodes.utilization.share
    request = context.request
    add_unneeded(decision, request, unneeded)
    staying = np.flatnonzero(reasons).astype(np.int32)
    blocking = _blocking(context, found)
    details = NodeTexts(len(reasons))
    details.put(_numbers(found.staying.explanation.details), found.staying.explanation.details.values())
    put_why_staying(context, reasons, details)
    remaining = Staying(staying, reasons[staying], blocking, found.staying.explanation.failed, details)
    names = request.snapshot.nodes.name
    decision.delete_empty.extend(names[node] for node in removal.delete_empty)
    decision.drain.extend(names[node] for node in removal.drain)
    decision.result = _result(context, found, removal)
    decision.evaluated = found.counts.evaluated
    decision.not_evaluated = int((reasons == Reason.NOT_EVALUATED).sum())
    state = _state(context, found, blocking, len(removal.drain) > 0)
    verdicts = partial(
        judge,
        share=share,
        unneeded=unneeded,
        ends_ns=removal.ends_ns,
        staying=remaining,
        blockers=_blockers(context, found),
    )
    return Decided(
        decision, state, context.notes, figures=_figures(found), change=_change(unneeded, found), judge=verdicts
    )


def _change(unneeded: Unneeded, found: LoopResult) -> NodeChange:
    """Return what the plan changes of the nodes, in all its waves."""
    choice = found.choice
    if choice is None:
        return NodeChange(unneeded.nodes)
    objective = pb.Objective.MONEY if choice.by_money else pb.Objective.COUNT
    return NodeChange(unneeded.nodes, objective=objective, most_saved=choice.saving_bound or None)


def summarize(decision: pb.ScaleDownDecision) -> Summary:
    """Return the figures of a result for logs and metrics."""
    counts = {
        "unneeded": len(decision.unneeded),
        "delete_empty": len(decision.delete_empty),
        "drain": len(decision.drain),
        "evaluated": decision.evaluated,
        "not_evaluated": decision.not_evaluated,
    }
    return Summary(Outcome.Code.Name(decision.result), counts)


def _figures(found: LoopResult) -> dict[str, int]:
    """Return the figures of the search."""
    counts, choice = found.counts, found.choice
    return {
        "remembered_places": counts.remembered,
        "searched_places": counts.searches,
        "plans_tried": choice.tried if choice else 0,
    }


def _unneeded(plan: ScaleDownPlan) -> Unneeded:
    context, these, not_now = plan.context, plan.result.unneeded, plan.removal.not_now
    nodes = these.nodes
    gangs = whole_gangs(context)
    waits = why_waiting(context, plan.result.staying.codes, nodes, plan.removal, these.slack_dependent, gangs)
    return Unneeded(
        nodes, plan.since_ns, not_now, these.bounds, these.pods, these.destination,
        gangs.shared(context.nodes.eviction_cost)[nodes], these.wave, waits,
        gangs.keys(nodes) if len(gangs.size) else [],
    )  # fmt: skip


def _blocking(context: ScaleDownContext, found: LoopResult) -> Blocking:
    """Return by node the blocking pod and why it blocks."""
    reasons, stopping, failed = found.staying.reasons, found.staying.stopping, context.previous.failed
    pods, why = NodeTexts(len(reasons)), np.zeros(len(reasons), np.uint8)
    rows = np.flatnonzero(reasons[failed.node] == Reason.RECENTLY_UNREMOVABLE)
    pods.put_shared(failed.node[rows], failed.blocking_pod, rows.astype(np.int32))
    why[failed.node[rows]] = blocking_codes(failed.blocking_reason[rows])
    nodes = context.request.snapshot.pods.node[stopping]
    pods.put(nodes, names_of(context, stopping))
    why[nodes] = [blocking_code(outcome.blocking_reason(code)) for code in found.staying.codes[stopping].tolist()]
    budgeted = context.pods.columns.budgeted
    by_gang = {node: pod for node, pod in found.staying.explanation.over_budget.items() if not budgeted[pod]}
    by_budget = {node: pod for node, pod in found.staying.explanation.over_budget.items() if budgeted[pod]}
    for unplaceable, reason in (
        (found.staying.explanation.no_place, Blocked.NO_PLACE),
        (by_budget, Blocked.NOT_ENOUGH_PDB),
        (by_gang, Blocked.GANG),
    ):
        nodes = _numbers(unplaceable)
        pods.put(nodes, names_of(context, np.fromiter(unplaceable.values(), np.int64, len(unplaceable))))
        why[nodes] = reason
    return Blocking(pods, why)


def _blockers(context: ScaleDownContext, found: LoopResult) -> dict[int, list[pb.BlockingPod]]:
    """Return all blocking pods of the nodes for which they are requested, with all reasons. O(P) if there are any."""
    explained, codes = context.request.round.explained, found.staying.codes
    if not len(explained):
        return {}
    snapshot, under = context.request.snapshot, context.pods.under
    pods = np.flatnonzero(outcome.blocks(codes) & np.isin(snapshot.pods.node[: len(codes)], explained))
    exhausted = pdb.exhausted(under, context.pods.remaining, len(snapshot.budgets))
    every = rules.every_reason(of_rows(context.pods.columns.with_exhausted(exhausted), pods))
    named = sorted(zip(names_of(context, pods), pods.tolist(), every, strict=True))
    entries: dict[int, list[pb.BlockingPod]] = {node: [] for node in explained.tolist()}
    for name, pod, reasons in named:
        first = outcome.blocking_reason(codes[pod])
        # A budget may have been used up by nodes being deleted, which its status does not show yet.
        more = [blocking_code(reason) for reason in reasons if reason != first]
        reason = blocking_code(first)
        entries[int(snapshot.pods.node[pod])].append(pb.BlockingPod(pod=name, reason=reason, reasons=[reason, *more]))
    return entries


def _numbers(by_node: Mapping[int, Any]) -> Int32:
    """Return the nodes with an entry. int32."""
    return np.fromiter(by_node.keys(), np.int32, len(by_node))


def _result(
    context: ScaleDownContext, found: LoopResult, removal: Removal
) -> "reason_pb2.ScaleDownResult.Code.ValueType":
    if found.choice is None:
        return Outcome.SCALE_DOWN_ERROR
    if context.unhealthy:
        return Outcome.SCALE_DOWN_CLUSTER_UNHEALTHY
    if context.cooldown.cluster:
        return Outcome.SCALE_DOWN_IN_COOLDOWN
    if removal.delete_empty or removal.drain:
        return Outcome.SCALE_DOWN_NODE_DELETE_STARTED
    if room_left(context).total <= 0:
        return Outcome.SCALE_DOWN_THROTTLED
    if len(found.accepted) == 0:
        return Outcome.SCALE_DOWN_NO_CANDIDATES
    if context.nodes.leaving.any() or context.request.snapshot.deletions:
        return Outcome.SCALE_DOWN_IN_PROGRESS
    return Outcome.SCALE_DOWN_NO_NODE_DELETED


def _state(context: ScaleDownContext, found: LoopResult, blocking: Blocking, drains: bool) -> pb.ScaleDownState:
    accepted, choice, moves = found.accepted, found.choice, found.moves
    request, previous = context.request, context.previous
    since_ns, is_first = since(context, accepted), found.wave == 1
    is_used = eligibility.is_used(request.snapshot, request.settings, context.nodes.utilization)
    searched = choice and found.counts.searches and len(moves.destination)
    kept = PreviousLoop(
        accepted[is_first],
        since_ns[is_first],
        _failed(context, found, blocking),
        previous.hint,
        int(moves.destination[-1]) if searched else previous.search_start,
        choice.stopped_at if choice else previous.resume_at,
        choice.order if choice else previous.order,
        context.basis if choice else previous.basis,
        choice.headroom if choice else previous.headroom,
        len(found.unneeded.slack_dependent.nodes),
        drained(context.undone, context.slack, request.now_ns) if drains and context.slack else context.undone,
        LaterWaves(accepted[~is_first], since_ns[~is_first], found.wave[~is_first]),
        accepted[is_used[accepted]],
    )
    return remember(kept, moves, request.snapshot.nodes.name, context.groups.digests)


def _failed(context: ScaleDownContext, found: LoopResult, blocking: Blocking) -> FailedNodes:
    """Return the failed simulations for the state: earlier ones that are still valid, and those of this loop."""
    request, old, reasons = context.request, context.previous.failed, found.staying.reasons
    time_ns = np.zeros(len(reasons), np.int64)
    why = np.zeros(len(reasons), np.uint8)
    # A node that was not evaluated again because of a bound keeps its time: it comes after nodes never evaluated.
    still = (reasons[old.node] == Reason.RECENTLY_UNREMOVABLE) | (reasons[old.node] == Reason.NOT_EVALUATED)
    time_ns[old.node[still]] = old.time_ns[still]
    why[old.node[still]] = old.reason[still]
    # Among blocked nodes only those that the loop tried: outcomes of rules alone cost nothing to compute again.
    blocked = (reasons == Reason.BLOCKED_BY_POD) & found.staying.tried
    now_failed = np.isin(reasons, (Reason.NO_PLACE_TO_MOVE_PODS, Reason.NEEDED_FOR_SLACK, Reason.BALANCE)) | blocked
    time_ns[now_failed] = request.now_ns
    why[now_failed] = reasons[now_failed]
    node = np.flatnonzero(why).astype(np.int32)
    return FailedNodes(node, time_ns[node], why[node], blocking.why[node], blocking.pods.of(node))
