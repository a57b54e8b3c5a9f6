"""From what the loop found to what it says: the message. Decides nothing; groups and pods by name."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2
from trimtab.v1.reason_pb2 import NodeGroupReason

from planner.model.values import NodeGroup
from planner.round.decision import Decided
from planner.scale_up.choose import Choice
from planner.scale_up.reasons import Refusals
from planner.scale_up.report.finding import Finding
from planner.scale_up.report.sentences import why_pending
from planner.scale_up.request import ScaleUpRequest
from planner.scale_up.state import remember
from planner.scale_up.whole_plan import Planned
from planner.simulation.state import NOWHERE

Outcome = reason_pb2.ScaleUpResult


def not_tried(request: ScaleUpRequest) -> Decided:
    """Answer when scale-up is switched off: the state stays as it came."""
    decision = pb.ScaleUpDecision(result=Outcome.SCALE_UP_NOT_TRIED, detail="scale-up is switched off")
    return Decided(decision, request.state or pb.ScaleUpState())


def conclude(finding: Finding) -> Decided:
    """Put the answer and the next state together. O(groups + pods)."""
    decision = pb.ScaleUpDecision()
    _add_splits(decision, finding)
    _add_placed(decision, finding)
    _add_skipped(decision, finding)
    _add_unschedulable(decision, finding)
    _add_options(decision, finding)
    decision.result = _result(decision)
    return Decided(decision, _state(finding), finding.situation.notes)


def _state(finding: Finding) -> pb.ScaleUpState:
    situation, within = finding.situation, finding.growing.within
    added = np.array(finding.growing.group_of, np.int32)
    return remember(within.simulation, within.growth, situation.pods, finding.unserved.pods, added)


def _add_splits(decision: pb.ScaleUpDecision, finding: Finding) -> None:
    growing = finding.growing
    pods_on: dict[int, list[str]] = {}
    for name, node in zip(finding.names_of(growing.pods), growing.nodes.tolist(), strict=True):
        pods_on.setdefault(node, []).append(name)
    nodes_of: dict[int, list[int]] = {}
    for node, group in zip(growing.opened.tolist(), growing.group_of, strict=True):
        nodes_of.setdefault(group, []).append(node)
    for group, nodes in sorted(nodes_of.items()):
        row = growing.groups[group]
        price = 0.0 if np.isnan(row.price_per_hour) else row.price_per_hour * len(nodes)
        split = decision.splits.add(
            node_group=row.id,
            current_size=row.target_size,
            new_size=row.target_size + len(nodes),
            max_size=row.max_size,
            pods=sorted(name for node in nodes for name in pods_on.get(node, ())),
            price_per_hour=price,
        )
        for node in nodes:
            split.new_nodes.add(pods=sorted(pods_on.get(node, ())))
        decision.price_per_hour += price


def _add_placed(decision: pb.ScaleUpDecision, finding: Finding) -> None:
    """Say which pending pods fit nodes that exist or are on their way."""
    simulation = finding.growing.within.simulation
    names = finding.situation.request.snapshot.nodes.name
    growth = finding.situation.request.round.growth
    group_of_upcoming = np.repeat(np.arange(len(growth.prototype)), np.diff(growth.upcoming_offsets))
    group_at = dict(zip(growth.upcoming.tolist(), group_of_upcoming.tolist(), strict=True))
    pods = finding.unserved.pending.pods
    for pod, node in zip(pods.tolist(), simulation.state.pod_node[pods].tolist(), strict=True):
        if 0 <= node < simulation.node_count:
            decision.on_existing[finding.name_of(pod)] = names[node]
        elif node in group_at:
            decision.on_upcoming[finding.name_of(pod)] = finding.growing.groups[group_at[node]].id


def _add_skipped(decision: pb.ScaleUpDecision, finding: Finding) -> None:
    pending = finding.unserved.pending
    for pod, reason in zip(pending.skipped.tolist(), pending.skipped_reason.tolist(), strict=True):
        # A pod that is too young is placed where there is room.
        if finding.growing.state.pod_node[pod] == NOWHERE:
            decision.skipped.add(pod=finding.name_of(pod), reason=reason)
    decision.skipped.sort(key=lambda one: one.pod)


def _add_unschedulable(decision: pb.ScaleUpDecision, finding: Finding) -> None:
    """Say why pods stay pending. What is said of a kind is written once, as bytes, and read for all its pods."""
    refusals = finding.refusals
    ids = [group.id for group in finding.growing.groups]
    served = np.flatnonzero(np.isin(refusals.pods, finding.unserved.pending.pods))
    named = sorted((finding.name_of(int(refusals.pods[row])), int(refusals.kind[row])) for row in served.tolist())
    said = {kind: _said(refusals, ids, kind) for kind in {kind for _, kind in named}}
    entries = [pb.UnschedulablePod(pod=name).SerializeToString() + said[kind] for name, kind in named]
    decision.MergeFromString(b"".join(_UNSCHEDULABLE + _varint(len(entry)) + entry for entry in entries))


_UNSCHEDULABLE: Final = bytes(
    [pb.ScaleUpDecision.DESCRIPTOR.fields_by_name["unschedulable"].number << 3 | 2]  # a message with its length
)


def _varint(value: int) -> bytes:
    """Return a number as protobuf writes lengths."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _said(refusals: Refusals, ids: Sequence[str], kind: int) -> bytes:
    """Return what is said of every pod of a kind."""
    reasons = dict(zip(ids, refusals.reason[kind].tolist(), strict=True))
    failed = {key: code for key, code in zip(ids, refusals.predicate[kind].tolist(), strict=True) if code}
    entry = pb.UnschedulablePod(reasons=reasons, failed_predicates=failed, detail=why_pending(reasons, failed))
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
        decision.detail = f"{decision.not_evaluated} node groups were not looked at: time or bound ended before"
    if len(finding.unserved.left):
        looked_at = {option.node_group for option in decision.options}
        for group, reason in zip(groups, made.reasons.tolist(), strict=True):
            if reason and group.id not in looked_at:
                decision.excluded[group.id] = reason


def _add_planned(decision: pb.ScaleUpDecision, groups: Sequence[NodeGroup], planned: Planned) -> None:
    """Add the groups of a plan made as a whole, all of them chosen."""
    group_of = np.array(planned.group_of, np.int64)
    nodes, pods = (
        np.bincount(group_of, minlength=len(groups)),
        np.bincount(group_of[planned.nodes], minlength=len(groups)),
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
    for code, score in zip(verdict.asked, verdict.scores[:, at].tolist(), strict=True):
        if not np.isnan(score):
            row.scores.add(expander=code, score=score)


def _result(decision: pb.ScaleUpDecision) -> "reason_pb2.ScaleUpResult.Code.ValueType":
    if decision.splits:
        return Outcome.SCALE_UP_NEEDED
    return Outcome.SCALE_UP_NO_OPTIONS if decision.unschedulable else Outcome.SCALE_UP_NOT_NEEDED
