"""Builds the message from the result of the loop. Decides nothing; groups and pods by name."""

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from trimtab.planner.model.values import NodeGroup
from trimtab.planner.model.wire import entry, tag
from trimtab.planner.round.decision import Decided, Summary
from trimtab.planner.scale_up.choose import Choice
from trimtab.planner.scale_up.report.finding import Finding, growth_in_plan, reasons_of
from trimtab.planner.scale_up.report.placeholders import add_waiting_placeholders, placeholder_notes
from trimtab.planner.scale_up.report.sentences import GrowthInPlan, why_pending
from trimtab.planner.scale_up.report.splits import add_splits
from trimtab.planner.scale_up.request import ScaleUpRequest
from trimtab.planner.scale_up.state import remember
from trimtab.planner.scale_up.whole_plan import PlannedNodes
from trimtab.planner.simulation.state import NOWHERE
from trimtab.planner.snapshot.columns import Int64
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2
from trimtab.v1.reason_pb2 import NodeGroupReason

Outcome = reason_pb2.ScaleUpResult
_INCOMPLETE: Final = "new nodes kept requiring others until the plan reached its bound: a later plan may help more pods"


def not_tried(request: ScaleUpRequest) -> Decided:
    """Return the answer if scale-up is switched off: the state is unchanged."""
    decision = pb.ScaleUpDecision(result=Outcome.SCALE_UP_NOT_TRIED, detail="scale-up is switched off")
    return Decided(decision, request.state or pb.ScaleUpState())


def conclude(finding: Finding) -> Decided:
    """Assemble the answer and the next state. O(groups + pods)."""
    decision = pb.ScaleUpDecision()
    add_splits(decision, finding)
    _add_placed(decision, finding)
    _add_skipped(decision, finding)
    left = np.flatnonzero(np.isin(finding.refusals.pods, finding.unserved.pending.pods))
    _add_options(decision, finding)
    add_waiting_placeholders(decision, finding)
    decision.result = _result(decision, len(left) > 0)
    summary = summary_of(decision, len(left))
    more = (_unschedulable(finding, left),)
    incomplete = [f"scale-up: {_INCOMPLETE}"] if decision.incomplete else []
    notes = (*finding.context.notes, *incomplete, *placeholder_notes(decision))
    return Decided(decision, _state(finding), notes, more=more, summary=summary)


def summary_of(decision: pb.ScaleUpDecision, unschedulable_count: int) -> Summary:
    """Return the figures of a result for logs and metrics. decision : with or without the unschedulable pods."""
    counts = {
        "new_nodes": sum(split.new_size - split.current_size for split in decision.splits),
        "node_groups": len(decision.splits),
        "pods_on_new_nodes": sum(len(split.pods) for split in decision.splits),
        "pods_on_existing_nodes": len(decision.on_existing),
        "pods_on_upcoming_nodes": len(decision.on_upcoming),
        "unschedulable": unschedulable_count,
        "skipped": len(decision.skipped),
        "evaluated": decision.evaluated,
        "not_evaluated": decision.not_evaluated,
    }
    return Summary(Outcome.Code.Name(decision.result), counts)


def _state(finding: Finding) -> pb.ScaleUpState:
    context, within = finding.context, finding.growing.within
    added = np.array(finding.growing.group_of, np.int32)
    return remember(within.simulation, within.growth, context.pods, finding.unserved.pods, added)


def _add_placed(decision: pb.ScaleUpDecision, finding: Finding) -> None:
    """Add the pending pods that fit existing or upcoming nodes."""
    simulation = finding.growing.within.simulation
    nodes, growth = finding.context.request.snapshot.nodes.name, finding.context.request.round.growth
    coming = np.full(len(simulation.state.node_state), NOWHERE, np.int64)
    coming[growth.upcoming] = np.repeat(np.arange(len(growth.prototype)), np.diff(growth.upcoming_offsets))
    pods = finding.unserved.pending.pods
    pods = pods[simulation.state.pod_node[pods] >= 0]
    on = simulation.state.pod_node[pods]
    exists, arrives = on < simulation.node_count, coming[on] >= 0
    names = finding.names_of(pods[exists])
    decision.on_existing.update({name: nodes[node] for name, node in zip(names, on[exists].tolist(), strict=True)})
    ids = [finding.growing.groups[group].id for group in coming[on[arrives]].tolist()]
    decision.on_upcoming.update(dict(zip(finding.names_of(pods[arrives]), ids, strict=True)))
    later = np.isin(pods, finding.bound_after_new_nodes()) & (exists | arrives)
    decision.after_new_nodes.extend(sorted(finding.names_of(pods[later])))


def _add_skipped(decision: pb.ScaleUpDecision, finding: Finding) -> None:
    pending = finding.unserved.pending
    # A pod that is too young is placed if there is room.
    left = finding.growing.state.pod_node[pending.skipped] == NOWHERE
    names, reasons = finding.names_of(pending.skipped[left]), pending.skipped_reason[left].tolist()
    for name, reason in sorted(zip(names, reasons, strict=True)):
        decision.skipped.add(pod=name, reason=reason)


def _unschedulable(finding: Finding, served: Int64) -> bytes:
    """Return why pods stay pending, as entries of the decision. The entries for an unchanged snapshot are encoded once.
    served : rows of the refusals.
    """
    refusals, request = finding.refusals, finding.context.request
    if not len(served):
        return b""
    content = hashlib.sha256(f"{refusals.reason.shape} {len(served)}".encode())
    for column in (refusals.pods[served], refusals.kind[served], refusals.reason, refusals.predicate):
        content.update(np.ascontiguousarray(column).data)
    growth = growth_in_plan(finding)
    content.update(repr((sorted(growth.growing), sorted(growth.limits.items()))).encode())
    key = f"unschedulable pods {content.hexdigest()} of {request.snapshot.version}"
    return request.reuse(key, partial(_write_unschedulable, finding, served, growth))


def _write_unschedulable(finding: Finding, served: Int64, growth: GrowthInPlan) -> bytes:
    """Return the encoded entries. The text for a kind is encoded once and used for all its pods."""
    refusals = finding.refusals
    named = sorted(zip(finding.names_of(refusals.pods[served]), refusals.kind[served].tolist(), strict=True))
    said = {kind: _said(finding, kind, growth) for kind in {kind for _, kind in named}}
    rows = [pb.UnschedulablePod(pod=name).SerializeToString() + said[kind] for name, kind in named]
    return b"".join(entry(_UNSCHEDULABLE, row) for row in rows)


_UNSCHEDULABLE: Final = tag(pb.ScaleUpDecision, "unschedulable")


def _said(finding: Finding, kind: int, growth: GrowthInPlan) -> bytes:
    """Return the content common to all pods of a kind."""
    reasons, failed = reasons_of(finding, kind)
    entry = pb.UnschedulablePod(reasons=reasons, failed_predicates=failed, detail=why_pending(reasons, failed, growth))
    return entry.SerializeToString(deterministic=True)


def _add_options(decision: pb.ScaleUpDecision, finding: Finding) -> None:
    made, groups = finding.made, finding.growing.groups
    first = 0
    if made.planned is not None:
        _add_planned(decision, groups, made.planned)
        first = 1
    for number, choice in enumerate(made.choices):
        for at in choice.verdict.order.tolist():
            _add_option(decision, finding, first + number, choice, at)
    decision.evaluated = len(decision.options)
    decision.not_evaluated = int((made.reasons == NodeGroupReason.NOT_EVALUATED).sum())
    if decision.not_evaluated:
        why = "others were more promising, or time or the bound ran out"
        decision.detail = f"{decision.not_evaluated} node groups were not evaluated: {why}"
    decision.incomplete = not finding.is_complete
    if decision.incomplete:
        decision.detail = "; ".join(filter(None, (decision.detail, _INCOMPLETE)))
    if len(finding.unserved.left):
        looked_at = {option.node_group for option in decision.options}
        for group, reason in zip(groups, made.reasons.tolist(), strict=True):
            if reason and group.id not in looked_at:
                decision.excluded[group.id] = reason


def _add_planned(decision: pb.ScaleUpDecision, groups: Sequence[NodeGroup], planned: PlannedNodes) -> None:
    """Add the groups of a plan made as a whole, all of them chosen."""
    group_of = np.array(planned.group_of, np.int64)
    nodes, pods = (
        np.bincount(group_of, minlength=len(groups)),
        np.bincount(group_of[planned.node], planned.room, minlength=len(groups)),
    )
    for at in np.flatnonzero(nodes).tolist():
        row = decision.options.add(
            node_group=groups[at].id, node_count=int(nodes[at]), pod_count=int(pods[at]), chosen=True
        )
        row.scores.add(expander=pb.Expander.CHEAPEST_PLAN)
        price = groups[at].price_per_hour * int(nodes[at])
        if not np.isnan(price):
            row.price_per_hour = price
            row.scores[0].score = -price


def _add_option(decision: pb.ScaleUpDecision, finding: Finding, number: int, choice: Choice, at: int) -> None:
    option, verdict = choice.options[at], choice.verdict
    group = finding.growing.groups[option.group]
    row = decision.options.add(
        node_group=group.id,
        choice=number,
        node_count=option.node_count,
        pod_count=option.packed.placed,
        chosen=at == verdict.chosen,
        reason=int(verdict.reason[at]),
        decided_by=int(verdict.decided_by[at]),
    )
    if not np.isnan(group.price_per_hour):
        row.price_per_hour = group.price_per_hour * option.node_count
    for code, score in zip(verdict.expanders, verdict.scores[:, at].tolist(), strict=True):
        if not np.isnan(score):
            row.scores.add(expander=code, score=score)


def _result(decision: pb.ScaleUpDecision, pods_are_left: bool) -> "reason_pb2.ScaleUpResult.Code.ValueType":
    if decision.splits:
        return Outcome.SCALE_UP_NEEDED
    return Outcome.SCALE_UP_NO_OPTIONS if pods_are_left else Outcome.SCALE_UP_NOT_NEEDED
