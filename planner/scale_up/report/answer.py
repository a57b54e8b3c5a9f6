"""From what the loop found to what it says: the message. Decides nothing; groups and pods by name."""

from typing import NamedTuple

import numpy as np
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2

from planner.round.decision import Decided
from planner.scale_up.choose import Choice
from planner.scale_up.growing import Growing
from planner.scale_up.reasons import Refusals
from planner.scale_up.report.sentences import why_pending
from planner.scale_up.request import ScaleUpRequest
from planner.scale_up.situation import Situation
from planner.scale_up.waiting_pods import Waiting
from planner.simulation.build import Simulation
from planner.simulation.state import NOWHERE

Group = reason_pb2.NodeGroupReason
Outcome = reason_pb2.ScaleUpResult
LAYOUT_VERSION = 1


class Finding(NamedTuple):
    """What the loop found. refusals : why pods are left, None = none is."""

    situation: Situation
    simulation: Simulation
    waiting: Waiting
    growing: Growing
    choices: list[Choice]
    refusals: Refusals | None


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
    return Decided(decision, pb.ScaleUpState(layout_version=LAYOUT_VERSION))


def name_of(finding: Finding, pod: int) -> str:
    """Return "namespace/name" of a pod, those evicted lately included, or the name of a placeholder."""
    request = finding.situation.request
    known = finding.simulation.pod_count
    if pod < known:
        return request.snapshot.pod_key(pod)
    evictions = request.round.evictions
    if pod - known < len(evictions):
        eviction = evictions[pod - known]
        return f"{eviction.namespace}/{eviction.name}"
    return request.round.placeholders[pod - known - len(evictions)]


def _add_splits(decision: pb.ScaleUpDecision, finding: Finding) -> None:
    growing = finding.growing
    pods_on: dict[int, list[str]] = {}
    for pod, node in zip(growing.pods.tolist(), growing.nodes.tolist(), strict=True):
        pods_on.setdefault(node, []).append(name_of(finding, pod))
    nodes_of: dict[int, list[int]] = {}
    for node, group in zip(growing.opened.tolist(), growing.group_of, strict=True):
        nodes_of.setdefault(group, []).append(node)
    for group, nodes in sorted(nodes_of.items()):
        row = growing.ledger.groups[group]
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
    waiting, simulation = finding.waiting, finding.simulation
    names = finding.situation.request.snapshot.nodes.name
    growth = finding.situation.request.round.growth
    group_of_upcoming = np.repeat(np.arange(len(growth.prototype)), np.diff(growth.upcoming_offsets))
    group_at = dict(zip(growth.upcoming.tolist(), group_of_upcoming.tolist(), strict=True))
    pods = waiting.pending.pods
    for pod, node in zip(pods.tolist(), simulation.state.pod_node[pods].tolist(), strict=True):
        if 0 <= node < simulation.node_count:
            decision.on_existing[name_of(finding, pod)] = names[node]
        elif node in group_at:
            decision.on_upcoming[name_of(finding, pod)] = finding.growing.ledger.groups[group_at[node]].id


def _add_skipped(decision: pb.ScaleUpDecision, finding: Finding) -> None:
    pending = finding.waiting.pending
    for pod, reason in zip(pending.skipped.tolist(), pending.skipped_reason.tolist(), strict=True):
        # A pod that is too young is placed where there is room.
        if finding.simulation.state.pod_node[pod] == NOWHERE:
            decision.skipped.add(pod=name_of(finding, pod), reason=reason)
    decision.skipped.sort(key=lambda one: one.pod)


def _add_unschedulable(decision: pb.ScaleUpDecision, finding: Finding) -> None:
    refusals = finding.refusals
    if refusals is None:
        return
    ids = [group.id for group in finding.growing.ledger.groups]
    served = np.isin(refusals.pods, finding.waiting.pending.pods)
    for row in np.flatnonzero(served).tolist():
        kind = int(refusals.kind[row])
        reasons = dict(zip(ids, refusals.reason[kind].tolist(), strict=True))
        failed = {key: code for key, code in zip(ids, refusals.predicate[kind].tolist(), strict=True) if code}
        reasons = {key: code or Group.NOT_EVALUATED for key, code in reasons.items()}
        entry = decision.unschedulable.add(pod=name_of(finding, int(refusals.pods[row])))
        entry.reasons.update(reasons)
        entry.failed_predicates.update(failed)
        entry.detail = why_pending(reasons, failed)
    decision.unschedulable.sort(key=lambda one: one.pod)


def _add_options(decision: pb.ScaleUpDecision, finding: Finding) -> None:
    groups = finding.growing.ledger.groups
    for number, choice in enumerate(finding.choices):
        for at, option in enumerate(choice.options):
            chosen = at == choice.chosen
            row = decision.options.add(
                node_group=groups[option.group].id,
                choice=number,
                node_count=option.node_count,
                pod_count=option.packed.placed,
                chosen=chosen,
                reason=Group.UNSPECIFIED if chosen else Group.NOT_CHOSEN,
            )
            price = groups[option.group].price_per_hour
            if not np.isnan(price):
                row.price_per_hour = price * option.node_count
            row.scores.add(expander=pb.Expander.LEAST_WASTE, score=choice.scores[at])
    decision.evaluated = sum(len(choice.options) for choice in finding.choices)


def _result(decision: pb.ScaleUpDecision) -> "reason_pb2.ScaleUpResult.Code.ValueType":
    if decision.splits:
        return Outcome.SCALE_UP_NEEDED
    return Outcome.SCALE_UP_NO_OPTIONS if decision.unschedulable else Outcome.SCALE_UP_NOT_NEEDED
