"""The answer of scale-up from the result of the loop, groups and pods by name, and notes for people."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from trimtab.places import UPCOMING, count_places, node_name
from trimtab.planner.facts.labels import values_by_label_set
from trimtab.planner.facts.nodes import limits_by_group
from trimtab.planner.model.values import NodeGroupInfo
from trimtab.planner.new_nodes.progress import GrowthInPlan, Refusals, why_pending, write_splits
from trimtab.planner.new_nodes.whole_problem import PlannedNodes
from trimtab.planner.placement.waiting import unplaced
from trimtab.planner.predicates.topologies import HOSTNAME
from trimtab.planner.round.decision import NO_CHANGE, Decided, NodeChange, Summary
from trimtab.planner.scale_up.context import ScaleUpRequest, remember
from trimtab.planner.scale_up.estimate import GroupChoice
from trimtab.planner.scale_up.gangs.report import (
    add_gangs,
    add_useless,
    gang_notes,
    gangs_of_pods,
    next_orders,
)
from trimtab.planner.scale_up.plan import ScaleUpPlan
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32, Int64
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2
from trimtab.v1.reason_pb2 import NodeGroupReason, SkippedPodReason
from trimtab.words import counted

MOST_NOTES: Final = 3
"""Most reasons that get a note of their own."""
_NAMED: Final = 2
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
_SHOWN: Final = 3


def not_tried(request: ScaleUpRequest) -> Decided:
    """Return the answer if scale-up is switched off: the state is unchanged."""
    decision = pb.ScaleUpDecision(result=Outcome.SCALE_UP_NOT_TRIED, detail="scale-up is switched off")
    return Decided(decision, request.state or pb.ScaleUpState())


def conclude(plan: ScaleUpPlan) -> Decided:
    """Assemble the answer and the next state. O(groups + pods)."""
    decision = pb.ScaleUpDecision()
    write_splits(plan.progress, decision)
    add_places(decision, plan)
    _add_skipped(decision, plan)
    _add_options(decision, plan)
    add_gangs(decision, plan)
    add_useless(decision, plan)
    _add_shortfalls(decision, plan)
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


def summarize(decision: pb.ScaleUpDecision) -> Summary:
    """Return the figures of a result for logs and metrics."""
    placed = count_places(decision.places)
    counts = {
        "new_nodes": sum(split.new_size - split.current_size for split in decision.splits),
        "node_groups": len(decision.splits),
        "pods_on_new_nodes": placed.new,
        "pods_on_existing_nodes": placed.existing,
        "pods_on_upcoming_nodes": placed.upcoming,
        "unschedulable": sum(len(shortfall.pods) for shortfall in decision.unschedulable),
        "skipped": len(decision.skipped),
        "evaluated": decision.evaluated,
        "not_evaluated": decision.not_evaluated,
    }
    return Summary(Outcome.Code.Name(decision.result), counts)


def attach_notes(plan: ScaleUpPlan) -> list[str]:
    """Return a note for each node group of whose new nodes the limit for volumes of placed pods is not known, and for
    each node on which their driver is not registered yet. O(mounts + groups)."""
    snapshot, progress = plan.context.request.snapshot, plan.progress
    nodes, pods, at = snapshot.nodes, snapshot.pods, progress.state.pod_node[snapshot.pods.volume_pod]
    moved = np.flatnonzero((at >= 0) & (pods.node[pods.volume_pod] == NO_NODE))
    if not len(moved):
        return []
    limits, group_of = limits_by_group(snapshot), dict(zip(progress.opened.tolist(), progress.group_of, strict=True))
    unknown, awaited = set[tuple[str, str]](), set[tuple[str, str, int]]()
    for node, volume in zip(at[moved].tolist(), pods.volume[moved].tolist(), strict=True):
        driver, is_new = snapshot.volumes[volume].driver, node in group_of
        group = group_of[node] if is_new else int(nodes.group[node]) if node < len(nodes.name) else -1
        if not driver or group < 0:
            continue
        if is_new and driver not in limits[group]:
            unknown.add((snapshot.groups[group].id, driver))
        if not is_new and driver in limits[group] and driver not in dict(nodes.traits[node].attach_limits):
            awaited.add((nodes.name[node], driver, limits[group][driver]))
    return [
        *(
            f"new nodes of node group {group} are planned without a limit on volumes of {driver}: neither its nodes "
            f"nor its template have one; set it in spec.template.status.allocatable: attachable-volumes-csi-{driver}"
            for group, driver in sorted(unknown)
        ),
        *(
            f"node {node} has not registered {driver} yet: it counts with {count} volumes, as its node group's others"
            for node, driver, count in sorted(awaited)
        ),
    ]


def spread_notes(plan: ScaleUpPlan) -> list[str]:
    """Return a note for each topology key over which pods on new nodes spread, if more domains could get nodes.

    O(N + groups), if a pod asks for it.
    """
    context, snapshot = plan.context, plan.context.request.snapshot
    if context.request.settings.spread_over_new_domains:
        return []
    pods = plan.unplaced.pending.pods
    on_new = pods[np.isin(plan.progress.state.pod_node[pods], plan.progress.opened)]
    specs = [snapshot.specs[at] for at in np.unique(snapshot.pods.spec[on_new]).tolist()]
    spreads = (constraint for spec in specs for constraint in spec.topology_spread)
    keys = {spread.topology_key for spread in spreads if spread.min_domains <= 1 and spread.topology_key != HOSTNAME}
    may_grow = [
        template.template
        for at, template in enumerate(context.templates)
        if template and context.limits.reasons[at] == 0
    ]
    notes = []
    for key in sorted(keys):
        by_set = values_by_label_set(snapshot, key)
        there = {by_set[at] for at in np.unique(snapshot.nodes.label_set).tolist()}
        new = sorted({value for template in may_grow for name, value in template.labels if name == key} - there)
        if len(new) > 1 or (new and there - {None}):
            shown = ", ".join(new[:_SHOWN]) + (", …" if len(new) > _SHOWN else "")
            notes.append(
                f"pods spread only over values of {key} that have nodes, as in kube-scheduler, so not over {shown}; "
                "minDomains in the constraint makes it wait for nodes in as many"
            )
    return notes


def add_places(decision: pb.ScaleUpDecision, plan: ScaleUpPlan) -> None:
    """Add where pods have places, those on nodes that are there or were requested first, by name; then those on new
    nodes, by group, number and name. O(pods)."""
    before, new = _on_others(plan), _on_new(plan)
    pods = np.concatenate([before, new])
    if not len(pods):
        return
    used, at = np.unique(plan.progress.state.pod_node[pods], return_inverse=True)
    names = _node_names(plan, used)
    # Requested nodes of one group have one name.
    index = {"": 0}
    numbers = np.array([index.setdefault(name, len(index)) for name in names], np.int64)
    texts = plan.names_of(pods)
    decision.places.nodes.extend(index)
    decision.places.pods.extend(texts)
    decision.places.destinations.extend(numbers[at.reshape(-1)].tolist())
    later = np.isin(before, plan.bound_after_new_nodes())
    decision.after_new_nodes.extend(texts[row] for row in np.flatnonzero(later).tolist())


def _on_others(plan: ScaleUpPlan) -> Int32:
    """Return the pods that wait and have a place on a node that exists or was requested, by name. int32."""
    pods = plan.unplaced.pending.pods
    on = plan.progress.state.pod_node[pods]
    pods = pods[(on != NO_NODE) & ~np.isin(on, plan.progress.opened)]
    by_name: Int32 = pods[np.argsort(_ranks(plan, pods))]
    return by_name


def _on_new(plan: ScaleUpPlan) -> Int32:
    """Return the pods on new nodes, by group, number of the node and name. int32."""
    progress = plan.progress
    group_of = np.array(progress.group_of, np.int64)
    place = np.full(len(progress.state.node_state), -1, np.int64)
    place[progress.opened] = np.arange(len(group_of))
    is_new = place[progress.nodes] >= 0
    pods, place = progress.pods[is_new], place[progress.nodes[is_new]]
    return pods[np.lexsort((_ranks(plan, pods), place, group_of[place]))]


def _node_names(plan: ScaleUpPlan, nodes: Int64 | Int32) -> list[str]:
    """Return the names of nodes, those that do not exist after their groups."""
    progress, growth = plan.progress, plan.context.request.growth
    existing = plan.context.request.snapshot.nodes.name
    coming = np.full(len(progress.state.node_state), NO_NODE, np.int64)
    coming[growth.upcoming] = np.repeat(np.arange(len(growth.template_node)), np.diff(growth.upcoming_offsets))
    new, numbers = dict[int, str](), [0] * len(progress.groups)
    for node, group in zip(progress.opened.tolist(), progress.group_of, strict=True):
        new[node] = node_name(progress.groups[group].id, numbers[group])
        numbers[group] += 1
    return [
        existing[node] if node < len(existing)
        else new[node] if node in new
        else node_name(progress.groups[coming[node]].id, UPCOMING)
        for node in nodes.tolist()
    ]  # fmt: skip


def _ranks(plan: ScaleUpPlan, pods: Int32) -> Int64:
    """Return numbers that sort pods : int32[M] like their names. int64[M]."""
    snapshot = plan.context.request.snapshot
    if len(pods) and int(pods.max()) >= len(snapshot.pods.spec):
        names = plan.names_of(pods)
        place = {name: at for at, name in enumerate(sorted(names))}
        return np.array([place[name] for name in names], np.int64)
    # Pods are sorted by namespace and name; "a-b/x" comes before "a/x".
    spaces, of = np.unique(snapshot.pods.namespace[pods], return_inverse=True)
    texts = [f"{snapshot.strings[space]}/" for space in spaces.tolist()]
    place_of = np.empty(len(texts), np.int64)
    place_of[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    ranks: Int64 = place_of[of.reshape(-1)] * len(snapshot.pods.spec) + pods
    return ranks


def _result(decision: pb.ScaleUpDecision) -> "reason_pb2.ScaleUpResult.Code.ValueType":
    if decision.splits:
        return Outcome.SCALE_UP_NEEDED
    return Outcome.SCALE_UP_NO_OPTIONS if decision.unschedulable else Outcome.SCALE_UP_NOT_NEEDED


def _add_shortfalls(decision: pb.ScaleUpDecision, plan: ScaleUpPlan) -> None:
    """Add why pods and placeholders are left, those with the same reasons together. O(pods + kinds · groups)."""
    refusals, outcome, growth = plan.refusals, plan.gangs, growth_in_plan(plan)
    pods = _shortfalls(plan, refusals, np.isin(refusals.pods, plan.unplaced.pending.pods), growth, {})
    placeholders = _shortfalls(plan, refusals, ~plan.are_pods(refusals.pods), growth, {})
    if outcome is not None:
        gangs, are_pods = gangs_of_pods(outcome), plan.are_pods(outcome.refusals.pods)
        pods += _shortfalls(plan, outcome.refusals, are_pods, growth, gangs)
        placeholders += _shortfalls(plan, outcome.refusals, ~are_pods, growth, gangs)
    decision.unschedulable.extend(sorted(pods, key=lambda shortfall: shortfall.pods[0]))
    decision.waiting_placeholders.extend(
        sorted(placeholders, key=lambda shortfall: (-len(shortfall.pods), shortfall.pods[0]))
    )


def _shortfalls(
    plan: ScaleUpPlan, refusals: Refusals, which: Bool, growth: GrowthInPlan, gangs: Mapping[int, str]
) -> list[pb.Shortfall]:
    """Return why some of the refused pods, bool[M], are left. gangs : by pod, what its gang waits for, no entry = it is
    in none, or its gang is whole without it."""
    table = np.concatenate([refusals.reason, refusals.predicate], axis=1)
    _, first, of_kind = np.unique(table, axis=0, return_index=True, return_inverse=True)
    kinds = first[of_kind.reshape(-1)][refusals.kind[which]]
    pods, names_of = refusals.pods[which], defaultdict[tuple[int, str], list[str]](list)
    for name, kind, pod in zip(plan.names_of(pods), kinds.tolist(), pods.tolist(), strict=True):
        names_of[kind, gangs.get(pod, "")].append(name)
    ids, shortfalls = [group.id for group in plan.progress.groups], list[pb.Shortfall]()
    for (kind, gang), names in names_of.items():
        reasons = dict(zip(ids, refusals.reason[kind].tolist(), strict=True))
        failed = {group: code for group, code in zip(ids, refusals.predicate[kind].tolist(), strict=True) if code}
        detail = gang or why_pending(reasons, failed, growth)
        shortfalls.append(pb.Shortfall(pods=sorted(names), reasons=reasons, failed_predicates=failed, detail=detail))
    return shortfalls


def placeholder_notes(decision: pb.ScaleUpDecision) -> Iterator[str]:
    """Yield a note for each of the most frequent reasons, and one for all others."""
    waiting = decision.waiting_placeholders
    for shortfall in waiting[:MOST_NOTES]:
        yield f"{_counted(shortfall.pods)} no node after this plan: {shortfall.detail}"
    if more := [name for shortfall in waiting[MOST_NOTES:] for name in shortfall.pods]:
        yield f"{_counted(sorted(more))} no node after this plan, for other reasons (waitingPlaceholders)"


def _counted(names: Sequence[str]) -> str:
    """Return "2 placeholders (a, b) have", with the first names only."""
    shown = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    return f"{len(names)} placeholders ({shown}) have" if len(names) > 1 else f"placeholder {shown} has"


def growth_in_plan(plan: ScaleUpPlan) -> GrowthInPlan:
    """Return which node groups grow, and which limits keep groups from growing further."""
    progress = plan.progress
    resources = {progress.groups[group].id: name for group, name in progress.limits.binding_resources().items()}
    return GrowthInPlan({progress.groups[group].id for group in set(progress.group_of)}, resources)


def _placed_count(plan: ScaleUpPlan) -> int:
    """Return how many pods of the snapshot that wait have places in the plan."""
    state, pod_count = plan.progress.packer.simulation.state, len(plan.context.request.snapshot.pods.spec)
    on_nodes, on_new = plan.unplaced.pending.pods, plan.progress.pods
    waits = np.zeros(len(state.pod_node), bool)
    waits[on_nodes] = waits[on_new] = True
    return int((waits & (state.pod_node >= 0))[:pod_count].sum())


def _balance_notes(decision: pb.ScaleUpDecision, plan: ScaleUpPlan) -> Iterator[str]:
    """Yield why a group that grows is not balanced with others that would have served its pods as well."""
    if not plan.context.request.settings.balance_similar:
        return
    rows = {group.id: row for row, group in enumerate(plan.progress.groups)}
    chosen = {option.choice: option.node_group for option in decision.options if option.chosen}
    growing = {split.node_group for split in decision.splits}
    apart = defaultdict[tuple[str, str], list[str]](list)
    for option in decision.options:
        grown = chosen.get(option.choice)
        if grown is None or option.node_group in growing or option.decided_by != pb.Expander.RANDOM:
            continue
        if why := plan.context.similarity.difference(rows[grown], rows[option.node_group]):
            apart[grown, why].append(option.node_group)
    for (grown, why), others in sorted(apart.items()):
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        yield f"scale-up: {grown} is not balanced with {', '.join(others[:3])}{more}, as they are not similar: {why}"


def _state(plan: ScaleUpPlan) -> pb.ScaleUpState:
    context, packer = plan.context, plan.progress.packer
    added = np.array(plan.progress.group_of, np.int32)
    state = remember(packer.simulation, packer.growth, context.pods, plan.unplaced.pods, added)
    state.gang_orders.extend(next_orders(plan))
    return state


def _add_skipped(decision: pb.ScaleUpDecision, plan: ScaleUpPlan) -> None:
    pending = plan.unplaced.pending
    # A pod that is too young is placed if there is room.
    waits = plan.progress.state.pod_node[pending.skipped] == NO_NODE
    names, reasons = plan.names_of(pending.skipped[waits]), pending.skipped_reason[waits].tolist()
    optional = plan.names_of(_beyond_minimum(plan))
    reasons += [SkippedPodReason.BEYOND_GANG_MINIMUM] * len(optional)
    for name, reason in sorted(zip([*names, *optional], reasons, strict=True)):
        decision.skipped.add(pod=name, reason=reason)


def _beyond_minimum(plan: ScaleUpPlan) -> Int32:
    """Return the pods of gangs that get places for their minimum, for which nothing was tried. int32."""
    if plan.gangs is None or plan.context.request.round.settings.gangs.serve_optional:
        return np.zeros(0, np.int32)
    pending = plan.unplaced.pending
    waiting = unplaced(plan.progress.state, pending.pods[pending.may_add])
    tried = np.concatenate([plan.refusals.pods, plan.gangs.refusals.pods])
    return waiting[np.isin(waiting, plan.context.request.snapshot.pods.group_pod) & ~np.isin(waiting, tried)]


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
    if len(plan.unplaced.waiting):
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
