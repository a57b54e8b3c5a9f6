"""Builds the message from the result of the loop; groups and pods by name."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from trimtab.places import count_places
from trimtab.planner.model.values import NodeGroupInfo
from trimtab.planner.new_nodes.planned_nodes import PlannedNodes
from trimtab.planner.new_nodes.sentences import GrowthInPlan, why_pending
from trimtab.planner.placement.waiting import unplaced
from trimtab.planner.round.decision import NO_CHANGE, Decided, NodeChange, Summary
from trimtab.planner.scale_up.context import ScaleUpRequest
from trimtab.planner.scale_up.estimate import GroupChoice
from trimtab.planner.scale_up.gangs.orders import add_useless, next_orders
from trimtab.planner.scale_up.plan import ScaleUpPlan
from trimtab.planner.scale_up.reasons import Refusals
from trimtab.planner.scale_up.report.gangs import NO_GANGS, add_gangs, gang_notes, gangs_of_pods
from trimtab.planner.scale_up.report.placeholders import add_waiting_placeholders, placeholder_notes
from trimtab.planner.scale_up.report.sentences import growth_in_plan, reasons_of
from trimtab.planner.scale_up.report.splits import add_places, add_splits
from trimtab.planner.scale_up.report.spread import spread_notes
from trimtab.planner.scale_up.report.volumes import attach_notes
from trimtab.planner.scale_up.state import remember
from trimtab.planner.snapshot.columns import NO_NODE, Int32, Int64
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2
from trimtab.v1.reason_pb2 import NodeGroupReason, SkippedPodReason
from trimtab.words import counted

Outcome = reason_pb2.ScaleUpResult
_INCOMPLETE: Final = (
    "the plan reached its bound while new nodes still required others; a later plan may place more pods"
)


_OBJECTIVES: Final = {
    int(pb.Expander.CHEAPEST_PLAN): pb.Objective.MONEY,
    int(pb.Expander.PRICE): pb.Objective.MONEY,
    int(pb.Expander.LEAST_NODES): pb.Objective.COUNT,
}
"""What plans are compared by, by the first expander; others compare otherwise."""


def not_tried(request: ScaleUpRequest) -> Decided:
    """Return the answer if scale-up is switched off: the state is unchanged."""
    decision = pb.ScaleUpDecision(result=Outcome.SCALE_UP_NOT_TRIED, detail="scale-up is switched off")
    return Decided(decision, request.state or pb.ScaleUpState())


def conclude(plan: ScaleUpPlan) -> Decided:
    """Assemble the answer and the next state. O(groups + pods)."""
    decision = pb.ScaleUpDecision()
    add_splits(decision, plan)
    add_places(decision, plan)
    _add_skipped(decision, plan)
    left = np.flatnonzero(np.isin(plan.refusals.pods, plan.unplaced.pending.pods))
    _add_options(decision, plan)
    add_gangs(decision, plan)
    add_useless(decision, plan)
    add_waiting_placeholders(decision, plan)
    _add_unschedulable(decision, plan, left)
    decision.result = _result(decision)
    incomplete = [f"scale-up: {_INCOMPLETE}"] if decision.incomplete else []
    of_parts = (*placeholder_notes(decision), *gang_notes(decision), *_balance_notes(decision, plan))
    notes = (*plan.context.notes, *incomplete, *of_parts, *spread_notes(plan), *attach_notes(plan))
    change = NodeChange(
        NO_CHANGE.gone,
        plan.progress.group_of,
        placed=_placed_count(plan),
        objective=_OBJECTIVES.get(plan.context.compared_by, pb.Objective.UNSPECIFIED),
    )
    return Decided(decision, _state(plan), notes, change=change)


def _placed_count(plan: ScaleUpPlan) -> int:
    """Return how many pods of the snapshot that wait have places in the plan."""
    state, known = plan.progress.packer.simulation.state, len(plan.context.request.snapshot.pods.spec)
    on_nodes, on_new = plan.unplaced.pending.pods, plan.progress.pods
    pods = np.union1d(on_nodes[on_nodes < known], on_new[on_new < known])
    return int((state.pod_node[pods] >= 0).sum())


def _balance_notes(decision: pb.ScaleUpDecision, plan: ScaleUpPlan) -> Iterator[str]:
    """Yield why a group that grows is not balanced with others that would have served its pods as well."""
    if not plan.context.request.settings.balance_similar:
        return
    rows = {group.id: row for row, group in enumerate(plan.progress.groups)}
    chosen = {one.choice: one.node_group for one in decision.options if one.chosen}
    growing = {split.node_group for split in decision.splits}
    apart = defaultdict[tuple[str, str], list[str]](list)
    for one in decision.options:
        grown = chosen.get(one.choice)
        if grown is None or one.node_group in growing or one.decided_by != pb.Expander.RANDOM:
            continue
        if why := plan.context.similarity.difference(rows[grown], rows[one.node_group]):
            apart[grown, why].append(one.node_group)
    for (grown, why), others in sorted(apart.items()):
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        yield f"scale-up: {grown} is not balanced with {', '.join(others[:3])}{more}, as they are not similar: {why}"


def summarize(decision: pb.ScaleUpDecision) -> Summary:
    """Return the figures of a result for logs and metrics."""
    placed = count_places(decision.places)
    counts = {
        "new_nodes": sum(split.new_size - split.current_size for split in decision.splits),
        "node_groups": len(decision.splits),
        "pods_on_new_nodes": placed.new,
        "pods_on_existing_nodes": placed.existing,
        "pods_on_upcoming_nodes": placed.upcoming,
        "unschedulable": sum(len(one.pods) for one in decision.unschedulable),
        "skipped": len(decision.skipped),
        "evaluated": decision.evaluated,
        "not_evaluated": decision.not_evaluated,
    }
    return Summary(Outcome.Code.Name(decision.result), counts)


def _state(plan: ScaleUpPlan) -> pb.ScaleUpState:
    context, packer = plan.context, plan.progress.packer
    added = np.array(plan.progress.group_of, np.int32)
    state = remember(packer.simulation, packer.growth, context.pods, plan.unplaced.pods, added)
    state.gang_orders.extend(next_orders(plan))
    return state


def _add_skipped(decision: pb.ScaleUpDecision, plan: ScaleUpPlan) -> None:
    pending = plan.unplaced.pending
    # A pod that is too young is placed if there is room.
    left = plan.progress.state.pod_node[pending.skipped] == NO_NODE
    names, reasons = plan.names_of(pending.skipped[left]), pending.skipped_reason[left].tolist()
    optional = plan.names_of(_beyond_minimum(plan))
    reasons += [SkippedPodReason.BEYOND_GANG_MINIMUM] * len(optional)
    for name, reason in sorted(zip([*names, *optional], reasons, strict=True)):
        decision.skipped.add(pod=name, reason=reason)


def _beyond_minimum(plan: ScaleUpPlan) -> Int32:
    """Return the pods of gangs that get places for their minimum, for which nothing was tried. int32."""
    if plan.gangs is None or plan.context.request.round.settings.gangs.serve_optional:
        return np.zeros(0, np.int32)
    pending = plan.unplaced.pending
    left = unplaced(plan.progress.state, pending.pods[pending.may_add])
    tried = np.concatenate([plan.refusals.pods, plan.gangs.refusals.pods])
    return left[np.isin(left, plan.context.request.snapshot.pods.group_pod) & ~np.isin(left, tried)]


def _add_unschedulable(decision: pb.ScaleUpDecision, plan: ScaleUpPlan, served: Int64) -> None:
    """Add why pods stay pending, pods with the same reasons together. served : rows of the refusals. O(pods + kinds ·
    groups)."""
    growth = growth_in_plan(plan)
    found = _shortfalls(plan, plan.refusals, served, growth, NO_GANGS)
    if plan.gangs is not None:
        with_gangs = plan.gangs.refusals
        of_pods = np.flatnonzero(plan.are_pods(with_gangs.pods))
        found += _shortfalls(plan, with_gangs, of_pods, growth, gangs_of_pods(plan.gangs))
    decision.unschedulable.extend(sorted(found, key=lambda one: one.pods[0]))


def _shortfalls(
    plan: ScaleUpPlan, refusals: Refusals, rows: Int64, growth: GrowthInPlan, gangs: Mapping[int, str]
) -> list[pb.Shortfall]:
    """Return why pods stay pending, one message for all pods of a kind. gangs : by pod, what its gang waits for, no
    entry = it is in none, or its gang is whole without it."""
    pods = refusals.pods[rows]
    by_kind = defaultdict[tuple[int, str], list[str]](list)
    for name, kind, pod in zip(plan.names_of(pods), refusals.kind[rows].tolist(), pods.tolist(), strict=True):
        by_kind[kind, gangs.get(pod, "")].append(name)
    return [_shortfall(plan, refusals, *kind, growth, names) for kind, names in by_kind.items()]


def _shortfall(
    plan: ScaleUpPlan, refusals: Refusals, kind: int, gang: str, growth: GrowthInPlan, names: list[str]
) -> pb.Shortfall:
    reasons, failed = reasons_of(plan, refusals, kind)
    detail = gang or why_pending(reasons, failed, growth)
    return pb.Shortfall(pods=sorted(names), reasons=reasons, failed_predicates=failed, detail=detail)


def _add_options(decision: pb.ScaleUpDecision, plan: ScaleUpPlan) -> None:
    history, groups = plan.history, plan.progress.groups
    first = 0
    if history.planned is not None:
        _add_planned(decision, groups, history.planned)
        first = 1
    for number, choice in enumerate(history.choices):
        for at in choice.verdict.order.tolist():
            _add_option(decision, plan, first + number, choice, at)
    decision.evaluated = len(decision.options)
    decision.not_evaluated = int((history.reasons == NodeGroupReason.NOT_EVALUATED).sum())
    if decision.not_evaluated:
        why = "other groups looked better, or the time or the bound ran out"
        decision.detail = f"{counted(decision.not_evaluated, 'node group', ('was', 'were'))} not evaluated: {why}"
    decision.incomplete = not plan.is_complete
    if decision.incomplete:
        decision.detail = "; ".join(filter(None, (decision.detail, _INCOMPLETE)))
    if len(plan.unplaced.left):
        looked_at = {option.node_group for option in decision.options}
        for group, reason in zip(groups, history.reasons.tolist(), strict=True):
            if reason and group.id not in looked_at:
                decision.excluded[group.id] = reason


def _add_planned(decision: pb.ScaleUpDecision, groups: Sequence[NodeGroupInfo], planned: PlannedNodes) -> None:
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


def _add_option(decision: pb.ScaleUpDecision, plan: ScaleUpPlan, number: int, choice: GroupChoice, at: int) -> None:
    option, verdict = choice.options[at], choice.verdict
    group = plan.progress.groups[option.group]
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


def _result(decision: pb.ScaleUpDecision) -> "reason_pb2.ScaleUpResult.Code.ValueType":
    if decision.splits:
        return Outcome.SCALE_UP_NEEDED
    return Outcome.SCALE_UP_NO_OPTIONS if decision.unschedulable else Outcome.SCALE_UP_NOT_NEEDED
