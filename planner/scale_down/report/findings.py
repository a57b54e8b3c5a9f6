"""From what the loop found to what it says: the message, and what is remembered.

Decides nothing but the outcome's name. Nodes in order of name.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2

from planner.facts.prices import prices
from planner.placement.hints import Moves
from planner.placement.kernels.search import HINT_HITS, SEARCHES
from planner.round.decision import Decided
from planner.scale_down.context import Context
from planner.scale_down.drainability import outcome
from planner.scale_down.report.answer import Staying, Unneeded, add_staying, add_unneeded
from planner.scale_down.report.codes import blocking_code, blocking_codes, order_code
from planner.scale_down.report.details import put_why_staying, why_in_turn, why_waiting
from planner.scale_down.report.explain import Explanation, explain
from planner.scale_down.report.node_texts import Blocking, NodeTexts
from planner.scale_down.report.slack import needed_for_slack
from planner.scale_down.request import ScaleDownRequest
from planner.scale_down.search.displaced import names_of, pods_of_leaving_nodes, take_out
from planner.scale_down.search.fewer_placeholders import NONE_BESIDES, Besides
from planner.scale_down.search.kernels.drain_sets import Problem
from planner.scale_down.search.portfolio import Choice
from planner.scale_down.selection.removal import Removal, UnneededSet, room_left, select
from planner.scale_down.selection.timers import since
from planner.scale_down.selection.undone_drains import drained
from planner.scale_down.state import FailedNodes, PreviousLoop, remember
from planner.simulation.build import Simulation
from planner.snapshot.columns import Bool, Int32, Int64, UInt8

Reason = reason_pb2.UnremovableReason
Blocked = reason_pb2.BlockingPodReason
Outcome = reason_pb2.ScaleDownResult
FOR_SLACK: Final = np.uint8(Reason.NEEDED_FOR_SLACK)
RESERVED: Final = np.uint8(Reason.RESERVED_FOR_PENDING_PODS)


class Finding(NamedTuple):
    """What the loop found. codes : uint8[P] rules' outcomes, budgets included; reasons : uint8[N] why a node is not
    eligible, 0 = it is; choice : None when there could be no candidates, for which `trouble` says why; besides : nodes
    of it that go only because slack asks for less then."""

    context: Context
    simulation: Simulation
    problem: Problem
    codes: UInt8
    reasons: UInt8
    choice: Choice | None
    trouble: str
    besides: Besides = NONE_BESIDES


def not_tried(request: ScaleDownRequest) -> Decided:
    """Answer when scale-down is switched off: every node stays, the state stays as it came."""
    decision = pb.ScaleDownDecision(result=Outcome.SCALE_DOWN_NOT_TRIED, detail="scale-down is switched off")
    for name in request.snapshot.nodes.name:
        decision.unremovable.add(node=name, reason=Reason.NOT_EVALUATED)
    return Decided(decision, request.state or pb.ScaleDownState())


def conclude(finding: Finding) -> Decided:
    """Put the answer and the next state together. O(N + moved pods)."""
    context, choice = finding.context, finding.choice
    accepted = choice.attempt.accepted if choice else np.zeros(0, np.int32)
    unneeded, removal = _unneeded(finding, np.sort(accepted))
    reasons = _final_reasons(finding, unneeded.nodes)
    decision = pb.ScaleDownDecision(detail=finding.trouble or context.unhealthy or context.cooldown.cluster)
    share = context.utilization.share
    request = context.request
    add_unneeded(decision, request, unneeded, share)
    staying = np.flatnonzero(reasons).astype(np.int32)
    told = explain(finding.simulation, finding.problem, choice.attempt if choice else None)
    blocking = _blocking(finding, reasons, told)
    details = NodeTexts(len(reasons))
    details.put(_numbers(told.details), told.details.values())
    put_why_staying(context, reasons, details)
    names = request.snapshot.nodes.name
    stays = Staying(staying, reasons[staying], blocking, told.failed, details)
    add_staying(decision, request, stays, share)
    decision.delete_empty.extend(names[node] for node in removal.delete_empty)
    decision.drain.extend(names[node] for node in removal.drain)
    decision.result = _result(finding, removal, len(accepted))
    _count(decision, finding, int((reasons == Reason.NOT_EVALUATED).sum()))
    state = _state(finding, accepted, reasons, blocking, len(removal.drain) > 0)
    return Decided(decision, state, context.notes, partial(take_out, context, finding.simulation, accepted))


def _unneeded(finding: Finding, nodes: Int32) -> tuple[Unneeded, Removal]:
    context = finding.context
    request, previous = context.request, context.previous
    snapshot = request.snapshot
    since_ns = since(nodes, previous.unneeded, previous.since_ns, len(context.leaving), request.now_ns)
    bounds, pods = _real_moves_of(finding, nodes)
    waiting = _nodes_with(context, finding.codes == outcome.WAIT)[nodes]
    removal = select(
        context,
        UnneededSet(
            nodes, since_ns, np.diff(bounds) == 0, waiting, _risky(finding, nodes, bounds, pods), finding.besides
        ),
    )
    cost = context.eviction_cost
    price = np.nan_to_num(prices(snapshot))
    where = finding.choice.attempt.problem.destination if finding.choice else finding.problem.destination
    left = finding.problem.budgets.left
    in_turn = why_in_turn(context, left, finding.choice.attempt) if finding.choice else {}
    return (
        Unneeded(
            nodes, since_ns, removal.not_now, bounds, pods, where[pods], price[nodes], cost[nodes],
            {**in_turn, **why_waiting(context, finding.codes, nodes, removal, finding.besides)},
        ),
        removal,
    )  # fmt: skip


def _moves_of(problem: Problem, nodes: Int32) -> tuple[Int64, Int32]:
    """Return the pods to move of some nodes, node by node: int64[U+1] bounds and int32[M] pods."""
    lengths = problem.offsets[nodes + 1] - problem.offsets[nodes]
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    rows = np.arange(bounds[-1]) + np.repeat(problem.offsets[nodes] - bounds[:-1], lengths)
    return bounds, problem.pods[rows]


def _real_moves_of(finding: Finding, nodes: Int32) -> tuple[Int64, Int32]:
    """Return the same without placeholders, which nobody moves."""
    bounds, pods = _moves_of(finding.problem, nodes)
    real = pods < len(finding.codes)
    upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(real, dtype=np.int64)])
    return upto[bounds], pods[real]


def _nodes_with(context: Context, mask: Bool) -> Bool:
    """Say for each node whether it has a pod for which the mask : bool[P] holds. bool[N]."""
    node = context.request.snapshot.pods.node
    found = np.zeros(len(context.leaving), bool)
    found[node[mask & (node >= 0)]] = True
    return found


def _risky(finding: Finding, nodes: Int32, bounds: Int64, pods: Int32) -> Bool:
    """Say for each node whether the whole plan leaves a budget of one of its pods with nothing. bool[U].

    Pods of nodes being deleted have used up theirs before.
    """
    under, left = finding.context.under, finding.problem.budgets.left.copy()
    pairs = np.repeat(np.arange(len(under.offsets) - 1), np.diff(under.offsets))
    moved = np.zeros(len(under.offsets) - 1, bool)
    moved[pods] = True
    used = moved[pairs] & (under.needs > 0)
    np.subtract.at(left, under.budgets[used], 1)
    risky_pod = np.zeros(len(moved), bool)
    risky_pod[pairs[used & (left[under.budgets] <= 0)]] = True
    owner = np.repeat(np.arange(len(nodes)), np.diff(bounds))
    risky = np.zeros(len(nodes), bool)
    risky[owner[risky_pod[pods]]] = True
    return risky


def _final_reasons(finding: Finding, unneeded: Int32) -> UInt8:
    """Return by node why it stays, 0 = it is unneeded. uint8[N]."""
    reasons = finding.reasons.copy()
    eligible = reasons == 0
    if finding.choice:
        reasons[eligible] = finding.choice.attempt.problem.outcome[eligible]
        reasons[_reserved(finding.context, finding.choice.attempt.problem) & eligible] = RESERVED
        reasons[needed_for_slack(finding.context, finding.simulation, finding.choice.attempt.problem)] = FOR_SLACK
    else:
        reasons[eligible] = Reason.NOT_EVALUATED
    reasons[unneeded] = 0
    return reasons


def _reserved(context: Context, problem: Problem) -> Bool:
    """Say for each node whether it stays as the destination of pending pods alone. bool[N]."""
    target = problem.destination[context.pending]
    only_pending = problem.received == np.bincount(target[target >= 0], minlength=len(problem.received))
    destination = problem.outcome == Reason.DESTINATION_OF_MOVED_PODS
    reserved: Bool = destination & only_pending[: len(destination)]
    return reserved


def _blocking(finding: Finding, reasons: UInt8, told: Explanation) -> Blocking:
    """Return by node the pod in its way and why."""
    context = finding.context
    pods, why = NodeTexts(len(reasons)), np.zeros(len(reasons), np.uint8)
    failed = context.previous.failed
    rows = np.flatnonzero(reasons[failed.node] == Reason.RECENTLY_UNREMOVABLE)
    pods.put_shared(failed.node[rows], failed.blocking_pod, rows.astype(np.int32))
    why[failed.node[rows]] = blocking_codes(failed.blocking_reason[rows])
    node_of = context.request.snapshot.pods.node
    stopping = np.flatnonzero(outcome.blocks(finding.codes) & (node_of >= 0))
    stopping = stopping[reasons[node_of[stopping]] == Reason.BLOCKED_BY_POD]
    nodes, first = np.unique(node_of[stopping], return_index=True)
    pods.put(nodes, names_of(context, stopping[first]))
    why[nodes] = [blocking_code(outcome.blocking_reason(code)) for code in finding.codes[stopping[first]].tolist()]
    for found, reason in ((told.no_place, Blocked.NO_PLACE), (told.over_budget, Blocked.NOT_ENOUGH_PDB)):
        nodes = _numbers(found)
        pods.put(nodes, names_of(context, np.fromiter(found.values(), np.int64, len(found))))
        why[nodes] = reason
    return Blocking(pods, why)


def _numbers(by_node: Mapping[int, Any]) -> Int32:
    """Return the nodes that there is something for. int32."""
    return np.fromiter(by_node.keys(), np.int32, len(by_node))


def _result(finding: Finding, removal: Removal, unneeded_count: int) -> "reason_pb2.ScaleDownResult.Code.ValueType":
    if finding.choice is None:
        return Outcome.SCALE_DOWN_ERROR
    if finding.context.unhealthy:
        return Outcome.SCALE_DOWN_CLUSTER_UNHEALTHY
    if finding.context.cooldown.cluster:
        return Outcome.SCALE_DOWN_IN_COOLDOWN
    if removal.delete_empty or removal.drain:
        return Outcome.SCALE_DOWN_NODE_DELETE_STARTED
    if room_left(finding.context).total <= 0:
        return Outcome.SCALE_DOWN_THROTTLED
    if unneeded_count == 0:
        return Outcome.SCALE_DOWN_NO_CANDIDATES
    if finding.context.leaving.any() or finding.context.request.snapshot.deletions:
        return Outcome.SCALE_DOWN_IN_PROGRESS
    return Outcome.SCALE_DOWN_NO_NODE_DELETED


def _count(decision: pb.ScaleDownDecision, finding: Finding, not_evaluated: int) -> None:
    counts = finding.problem.counts
    if finding.choice is None:
        decision.not_evaluated = not_evaluated
        decision.hint_hits, decision.searches = int(counts[HINT_HITS]), int(counts[SEARCHES])
        return
    attempt = finding.choice.attempt
    decision.evaluated = attempt.evaluated
    decision.not_evaluated = not_evaluated
    decision.hint_hits = attempt.hint_hits
    decision.searches = attempt.searches
    decision.candidate_order = order_code(attempt.order)
    decision.orders_tried = finding.choice.tried


def _state(
    finding: Finding,
    accepted: Int32,
    reasons: UInt8,
    blocking: Blocking,
    drains: bool,
) -> pb.ScaleDownState:
    context, choice = finding.context, finding.choice
    request, previous = context.request, context.previous
    since_ns = since(accepted, previous.unneeded, previous.since_ns, len(context.leaving), request.now_ns)
    order = choice.attempt.order if choice else int(previous.order)
    stopped_at = choice.attempt.stopped_at if choice else previous.resume_at
    moves = _moves(finding, accepted)
    kept = PreviousLoop(
        accepted,
        since_ns,
        _failed(finding, reasons, blocking),
        previous.hint,
        int(moves.destination[-1]) if choice and choice.attempt.searches and len(moves.destination)
        else previous.search_start,
        stopped_at,
        order_code(order),
        context.basis if choice else previous.basis,
        choice.headroom if choice else previous.headroom,
        len(finding.besides.nodes),
        drained(context.undone, context.slack, request.now_ns) if drains and context.slack else context.undone,
    )  # fmt: skip
    return remember(kept, moves, request.snapshot.nodes.name, context.groups.digests)


def _moves(finding: Finding, accepted: Int32) -> Moves:
    """Return every destination: of pods from nodes being deleted, from unneeded nodes, and of pods on no node."""
    context = finding.context
    snapshot = context.request.snapshot
    where = finding.choice.attempt.problem.destination if finding.choice else finding.problem.destination
    leaving_pods = pods_of_leaving_nodes(context)
    leaving, counts = np.unique(snapshot.pods.node[leaving_pods], return_counts=True)
    bounds, pods = _moves_of(finding.problem, accepted)
    known = len(snapshot.pods.spec)
    evicted = np.arange(known, known + len(context.evictions), dtype=np.int32)
    loose = np.concatenate([context.pending, evicted])
    source = np.concatenate([leaving, accepted, np.array([len(context.leaving)])]).astype(np.int32)
    lengths = np.concatenate([counts, np.diff(bounds), np.array([len(loose)])])
    moved = np.concatenate([leaving_pods, pods, loose]).astype(np.int32)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    # A virtual node is no place to remember.
    target = where[moved]
    return Moves(source, ends, moved, np.where(target < len(context.leaving), target, -1).astype(np.int32))


def _failed(
    finding: Finding,
    reasons: UInt8,
    blocking: Blocking,
) -> FailedNodes:
    """Return what is believed of failed simulations from now on: what is still believed, and what failed now."""
    context = finding.context
    request, old = context.request, context.previous.failed
    time_ns = np.zeros(len(reasons), np.int64)
    why = np.zeros(len(reasons), np.uint8)
    # What a bound kept from being looked at again keeps its time: it stands behind what was never looked at.
    still = (reasons[old.node] == Reason.RECENTLY_UNREMOVABLE) | (reasons[old.node] == Reason.NOT_EVALUATED)
    time_ns[old.node[still]] = old.time_ns[still]
    why[old.node[still]] = old.reason[still]
    # Of blocked nodes only those that the loop tried: what rules alone decide costs nothing to look at again.
    blocked = (reasons == Reason.BLOCKED_BY_POD) & (finding.reasons == 0)
    now_failed = np.isin(reasons, (Reason.NO_PLACE_TO_MOVE_PODS, Reason.NEEDED_FOR_SLACK, Reason.BALANCE)) | blocked
    time_ns[now_failed] = request.now_ns
    why[now_failed] = reasons[now_failed]
    node = np.flatnonzero(why).astype(np.int32)
    return FailedNodes(node, time_ns[node], why[node], blocking.why[node], blocking.pods.of(node))
