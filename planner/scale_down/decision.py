"""Scale-down as one of the decisions of a plan: its entry in the table, and the message and the next state that a
loop's plan becomes. Nodes in order of name. A detail of a reason, for people (since when, which pod, which limit), is
one short clause, if there is anything to add to the reason itself.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from trimtab.planner.drainability import outcome, rules
from trimtab.planner.drainability.pod_columns import of_rows
from trimtab.planner.facts import pdb
from trimtab.planner.facts.nodes import is_used
from trimtab.planner.model.settings import SECOND_NS, ScaleDownSettings, resolve_scale_down
from trimtab.planner.placement.waiting import take_out
from trimtab.planner.round.decision import Decided, Decision, NodeChange, Summary
from trimtab.planner.round.round import Round
from trimtab.planner.scale_down.answer import (
    Blocking,
    NodeTexts,
    Staying,
    Unneeded,
    add_unneeded,
    blocking_code,
    blocking_codes,
    unremovable_name,
    write_verdicts,
)
from trimtab.planner.scale_down.context import ScaleDownContext, ScaleDownRequest
from trimtab.planner.scale_down.loop import ScaleDownPlan, make_plan
from trimtab.planner.scale_down.removal import Removal, since
from trimtab.planner.scale_down.result import LoopResult
from trimtab.planner.scale_down.search.displaced import name_of, names_of
from trimtab.planner.scale_down.search.fewer_placeholders import SlackDependentNodes
from trimtab.planner.scale_down.state import FailedNodes, LaterWaves, PreviousLoop, drained, remember
from trimtab.planner.scale_down.whole_gangs import WholeGangs, whole_gangs
from trimtab.planner.snapshot.columns import Int32, UInt8
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2
from trimtab.v1.reason_pb2 import ScaleDownResult

WHOLE: Final = "its node group is removed as a whole or not at all"
WHOLE_GANG: Final = "waits until all nodes of its gang, which moves whole, can be drained at the same time"
NEW_NODES: Final = "waits for new nodes, which were requested for slack that fits on this node"
WITH_OTHERS: Final = "waits for the other unneeded nodes: slack shrinks only once they are removed as well"
UNDONE: Final = "drains wait {seconds} s more: pods of the last drain took room that slack keeps"
LATER: Final = "goes in a later wave, when disruption budgets allow evictions again"
DELAYED: Final = "its deletion waits up to 2 minutes for the removal of a delay-deletion annotation"


def why_waiting(
    context: ScaleDownContext,
    codes: UInt8,
    nodes: Int32,
    removal: Removal,
    slack_dependent: SlackDependentNodes,
    gangs: WholeGangs,
) -> Mapping[int, str]:
    """Return by node why an unneeded node does not go now. codes : uint8[P] of pods; nodes : int32[U]; slack_dependent
    : those that go only because slack then requests less.
    """
    texts = {
        int(Reason.NOT_UNNEEDED_OTHER_REASON): "waits until fewer deletions are in progress",
        int(Reason.ATOMIC_SCALE_DOWN_FAILED): WHOLE,
        int(Reason.BALANCE): "waits until larger node groups and zones of its kind have shrunk",
        int(Reason.IN_COOLDOWN): context.cooldown.cluster,
        int(Reason.NEEDED_FOR_SLACK): _why_slack(context, slack_dependent),
        int(Reason.CLUSTER_UNHEALTHY): context.unhealthy,
        int(Reason.LATER_WAVE): LATER,
        int(Reason.DISRUPTION_BUDGET): "waits until its pool's disruption budget lets a further node go",
    }
    rows = list(zip(nodes.tolist(), removal.not_now.tolist(), strict=True))
    delayed = context.request.snapshot.nodes.deletion_delayed
    why = {node: DELAYED for node, reason in rows if reason == 0 and delayed[node]}
    why |= {node: texts[reason] for node, reason in rows if reason in texts}
    other = Reason.NOT_UNNEEDED_OTHER_REASON
    together = {node for node, reason in rows if reason == other and gangs.of_node[node] >= 0}
    why |= dict.fromkeys(together, WHOLE_GANG)
    waiting = {node for node, reason in rows if reason == Reason.BLOCKED_BY_ON_COMPLETION_POD}
    if waiting:
        why |= _awaited(context, codes, waiting)
    return why


def _why_slack(context: ScaleDownContext, slack_dependent: SlackDependentNodes) -> str:
    slack, wait_ns = context.slack, context.undone.until_ns - context.request.now_ns
    if slack and not slack.lacking and wait_ns > 0:
        return UNDONE.format(seconds=-(-wait_ns // SECOND_NS))
    # Such nodes exist only while no placeholder waits for a new node.
    return WITH_OTHERS if len(slack_dependent.nodes) else NEW_NODES


def _awaited(context: ScaleDownContext, codes: UInt8, waiting: set[int]) -> dict[int, str]:
    node_of = context.request.snapshot.pods.node
    pods: dict[int, list[int]] = {}
    for pod in np.flatnonzero((codes == outcome.WAIT) & (node_of >= 0)).tolist():
        pods.setdefault(int(node_of[pod]), []).append(pod)
    more = {node: f" and {len(here) - 1} more" if len(here) > 1 else "" for node, here in pods.items()}
    return {
        node: f"waits for pod {name_of(context, pods[node][0])}{more[node]} to complete" for node in sorted(waiting)
    }


def put_why_staying(context: ScaleDownContext, reasons: UInt8, texts: NodeTexts) -> None:
    """Add details on why nodes stay. reasons : uint8[N], 0 = the node does not stay."""
    # Of nodes whose failed simulation is still valid, its result and how long ago it was.
    failed = context.previous.failed
    rows = np.flatnonzero(reasons[failed.node] == Reason.RECENTLY_UNREMOVABLE)
    ages_s = (context.request.now_ns - failed.time_ns[rows]) // SECOND_NS
    pairs = zip(failed.reason[rows].tolist(), ages_s.tolist(), strict=True)
    texts[failed.node[rows]] = [f"{unremovable_name(why)} {age_s} s ago" for why, age_s in pairs]
    limit = context.request.round.settings.max_balance_difference
    of_reason = {
        Reason.UNEXPECTED_ERROR: "the node has no allocatable cpu or memory",
        Reason.NOT_UNNEEDED_OTHER_REASON: "its removal saves too little per pod that would have to move",
        Reason.ATOMIC_SCALE_DOWN_FAILED: WHOLE,
        Reason.BALANCE: f"similar node groups and their zones may differ by {limit} at most",
    }
    for reason, text in of_reason.items():
        texts[reasons == reason] = text
    cooling = np.flatnonzero(reasons == Reason.IN_COOLDOWN)
    group = context.request.snapshot.nodes.group[cooling]
    for row in np.unique(group).tolist():
        texts[cooling[group == row]] = context.cooldown.groups[row]


Reason = reason_pb2.UnremovableReason
Blocked = reason_pb2.BlockingPodReason
Outcome = reason_pb2.ScaleDownResult


def not_tried(request: ScaleDownRequest) -> Decided:
    """Return the answer if scale-down is switched off: every node stays, and the state is unchanged."""

    def judge(verdicts: Sequence[pb.NodeVerdict]) -> None:
        for verdict in verdicts:
            verdict.fate, verdict.reason = pb.NodeFate.STAYS, Reason.NOT_EVALUATED

    decision = pb.ScaleDownDecision(result=Outcome.SCALE_DOWN_NOT_TRIED, detail="scale-down is switched off")
    return Decided(decision, request.state or pb.ScaleDownState(), judge=judge)


def conclude(plan: ScaleDownPlan) -> Decided:
    """Assemble the answer and the next state. O(N + moved pods)."""
    context, result, removal = plan.context, plan.result, plan.removal
    unneeded = _unneeded(plan)
    reasons = result.reasons
    decision = pb.ScaleDownDecision(detail=result.search.trouble or context.unhealthy or context.cooldown.cluster)
    share = context.nodes.utilization.share
    request = context.request
    add_unneeded(decision, request.snapshot, unneeded)
    staying = np.flatnonzero(reasons).astype(np.int32)
    blocking = _blocking(context, result)
    details = np.full(len(reasons), "", object)
    details[_numbers(result.explanation.details)] = list(result.explanation.details.values())
    put_why_staying(context, reasons, details)
    remaining = Staying(staying, reasons[staying], blocking, result.explanation.failed, details)
    names = request.snapshot.nodes.name
    decision.delete_empty.extend(names[node] for node in removal.delete_empty.tolist())
    decision.drain.extend(names[node] for node in removal.drain.tolist())
    decision.result = _result(context, result, removal)
    decision.evaluated = result.counts[0]
    decision.not_evaluated = int((reasons == Reason.NOT_EVALUATED).sum())
    state = _state(context, result, blocking, len(removal.drain) > 0)
    verdicts = partial(
        write_verdicts,
        share=share,
        unneeded=unneeded,
        ends_ns=removal.ends_ns,
        staying=remaining,
        blockers=_blockers(context, result),
    )
    _, remembered, searches = result.counts
    tried = result.choice.tried if result.choice else 0
    figures = {"remembered_places": remembered, "searched_places": searches, "plans_tried": tried}
    return Decided(decision, state, context.notes, figures=figures, change=_change(unneeded, result), judge=verdicts)


def _change(unneeded: Unneeded, result: LoopResult) -> NodeChange:
    """Return what the plan changes of the nodes, in all its waves."""
    choice = result.choice
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


def _unneeded(plan: ScaleDownPlan) -> Unneeded:
    context, unneeded, not_now = plan.context, plan.result.unneeded, plan.removal.not_now
    nodes = unneeded.nodes
    gangs = whole_gangs(context)
    waits = why_waiting(context, plan.result.search.codes, nodes, plan.removal, unneeded.slack_dependent, gangs)
    return Unneeded(
        nodes, plan.since_ns, not_now, unneeded.bounds, unneeded.pods, unneeded.destination,
        gangs.shared(context.nodes.eviction_cost)[nodes], unneeded.wave, waits,
        gangs.keys(nodes) if len(gangs.size) else [],
    )  # fmt: skip


def _blocking(context: ScaleDownContext, result: LoopResult) -> Blocking:
    reasons, stopping, failed = result.reasons, result.stopping, context.previous.failed
    pods, why = np.full(len(reasons), "", object), np.zeros(len(reasons), np.uint8)
    rows = np.flatnonzero(reasons[failed.node] == Reason.RECENTLY_UNREMOVABLE)
    pods[failed.node[rows]] = [failed.blocking_pod[row] for row in rows.tolist()]
    why[failed.node[rows]] = blocking_codes(failed.blocking_reason[rows])
    nodes = context.request.snapshot.pods.node[stopping]
    pods[nodes] = names_of(context, stopping)
    why[nodes] = [blocking_code(outcome.blocking_reason(code)) for code in result.search.codes[stopping].tolist()]
    budgeted = context.pods.columns.budgeted
    by_gang = {node: pod for node, pod in result.explanation.over_budget.items() if not budgeted[pod]}
    by_budget = {node: pod for node, pod in result.explanation.over_budget.items() if budgeted[pod]}
    for unplaceable, reason in (
        (result.explanation.no_place, Blocked.NO_PLACE),
        (by_budget, Blocked.NOT_ENOUGH_PDB),
        (by_gang, Blocked.GANG),
    ):
        nodes = _numbers(unplaceable)
        pods[nodes] = names_of(context, np.fromiter(unplaceable.values(), np.int64, len(unplaceable)))
        why[nodes] = reason
    return Blocking(pods, why)


def _blockers(context: ScaleDownContext, result: LoopResult) -> dict[int, list[pb.BlockingPod]]:
    """Return all blocking pods of the nodes for which they are requested, with all reasons. O(P) if there are any."""
    explained, codes = context.request.round.explained, result.search.codes
    if not len(explained):
        return {}
    snapshot, under = context.request.snapshot, context.pods.under
    pods = np.flatnonzero(outcome.blocks(codes) & np.isin(snapshot.pods.node[: len(codes)], explained))
    exhausted = pdb.exhausted(under, context.pods.remaining, len(snapshot.budgets))
    every = rules.every_reason(of_rows(context.pods.columns.with_exhausted(exhausted), pods))
    rows = sorted(zip(names_of(context, pods), pods.tolist(), every, strict=True))
    entries: dict[int, list[pb.BlockingPod]] = {node: [] for node in explained.tolist()}
    for name, pod, reasons in rows:
        first = outcome.blocking_reason(codes[pod])
        # A budget may have been used up by nodes being deleted, which its status does not show yet.
        more = [blocking_code(reason) for reason in reasons if reason != first]
        reason = blocking_code(first)
        entries[int(snapshot.pods.node[pod])].append(pb.BlockingPod(pod=name, reason=reason, reasons=[reason, *more]))
    return entries


def _numbers(by_node: Mapping[int, Any]) -> Int32:
    return np.fromiter(by_node.keys(), np.int32, len(by_node))


def _result(
    context: ScaleDownContext, result: LoopResult, removal: Removal
) -> "reason_pb2.ScaleDownResult.Code.ValueType":
    if result.choice is None:
        return Outcome.SCALE_DOWN_ERROR
    if context.unhealthy:
        return Outcome.SCALE_DOWN_CLUSTER_UNHEALTHY
    if context.cooldown.cluster:
        return Outcome.SCALE_DOWN_IN_COOLDOWN
    if len(removal.delete_empty) or len(removal.drain):
        return Outcome.SCALE_DOWN_NODE_DELETE_STARTED
    if removal.room.total <= 0:
        return Outcome.SCALE_DOWN_THROTTLED
    if len(result.accepted) == 0:
        return Outcome.SCALE_DOWN_NO_CANDIDATES
    if context.request.leaving.any() or context.request.snapshot.deletions:
        return Outcome.SCALE_DOWN_IN_PROGRESS
    return Outcome.SCALE_DOWN_NO_NODE_DELETED


def _state(context: ScaleDownContext, result: LoopResult, blocking: Blocking, drains: bool) -> pb.ScaleDownState:
    accepted, choice, moves = result.accepted, result.choice, result.moves
    request, previous = context.request, context.previous
    since_ns, is_first = since(context, accepted), result.wave == 1
    used = is_used(request.snapshot, request.settings, context.nodes.utilization)
    searched = choice and result.counts[2] and len(moves.destination)
    next_state = PreviousLoop(
        accepted[is_first],
        since_ns[is_first],
        _failed(context, result, blocking),
        previous.hint,
        int(moves.destination[-1]) if searched else previous.search_start,
        choice.drain_set.stopped_at if choice else previous.resume_at,
        choice.drain_set.options.order if choice else previous.order,
        context.basis if choice else previous.basis,
        choice.headroom if choice else previous.headroom,
        len(result.unneeded.slack_dependent.nodes),
        drained(context.undone, context.slack, request.now_ns) if drains and context.slack else context.undone,
        LaterWaves(accepted[~is_first], since_ns[~is_first], result.wave[~is_first]),
        accepted[used[accepted]],
    )
    return remember(next_state, moves, request.snapshot.nodes.name, context.groups.digests)


def _failed(context: ScaleDownContext, result: LoopResult, blocking: Blocking) -> FailedNodes:
    """Return the failed simulations for the state: earlier ones that are still valid, and those of this loop."""
    request, old, reasons = context.request, context.previous.failed, result.reasons
    time_ns = np.zeros(len(reasons), np.int64)
    why = np.zeros(len(reasons), np.uint8)
    # A node that was not evaluated again because of a bound keeps its time: it comes after nodes never evaluated.
    still = (reasons[old.node] == Reason.RECENTLY_UNREMOVABLE) | (reasons[old.node] == Reason.NOT_EVALUATED)
    time_ns[old.node[still]] = old.time_ns[still]
    why[old.node[still]] = old.reason[still]
    # Among blocked nodes only those that the loop tried: outcomes of rules alone cost nothing to compute again.
    blocked = (reasons == Reason.BLOCKED_BY_POD) & (result.search.reasons == 0)
    now_failed = np.isin(reasons, (Reason.NO_PLACE_TO_MOVE_PODS, Reason.NEEDED_FOR_SLACK, Reason.BALANCE)) | blocked
    time_ns[now_failed] = request.now_ns
    why[now_failed] = reasons[now_failed]
    node = np.flatnonzero(why).astype(np.int32)
    return FailedNodes(node, time_ns[node], why[node], blocking.why[node], tuple(blocking.pods[node]))


def decide_scale_down(request: ScaleDownRequest) -> Decided:
    """Take the scale-down decision.

    The round's simulation is left with the pods at their destinations in the plan; `Decided.finish` removes the nodes.
    """
    if not request.settings.enabled:
        return not_tried(request)
    plan = make_plan(request)
    return conclude(plan)._replace(finish=partial(take_out, request.round.simulation, plan.result.accepted))


def decide(this: Round, settings: ScaleDownSettings, state: pb.ScaleDownState | None) -> Decided:
    """Take the scale-down decision of a round."""
    return decide_scale_down(ScaleDownRequest(this, settings, state))


def warm_up(settings: pb.PlanSettings) -> None:
    """Choose settings with which nodes are removed immediately and groups are balanced."""
    settings.scale_down.unneeded_time.seconds = 0
    settings.scale_down.balance = True


def failed(detail: str) -> pb.ScaleDownDecision:
    """Return the result if the decision fails."""
    return pb.ScaleDownDecision(result=ScaleDownResult.SCALE_DOWN_ERROR, detail=detail)


SCALE_DOWN: Final = Decision(pb.Decision.SCALE_DOWN, resolve_scale_down, decide, summarize, warm_up, failed)
