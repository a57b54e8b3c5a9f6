"""What a plan does for each gang, and why one gets no places: for programs and, in sentences, for people.

Nodes requested for gangs are named, too, if they are of no use because their gang cannot be whole. A cloud may deliver
fewer nodes than a gang needs. The plan then looks for others in other groups; if there are none, the nodes that came,
or are still to come, cost money for nothing, and can be given back at once. An order is forgotten once the gang's
minimum runs, or the gang is gone. Of a group, nodes count that were created since the order, no more than it asked for,
on which no pod is and none is planned.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from trimtab.planner.facts.gangs import MISSING_UID, Gang, Reason
from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.new_nodes.demand_sets import DemandSet
from trimtab.planner.new_nodes.progress import OF_GROUP, PlanInProgress, Refusals
from trimtab.planner.round.waiting import UnusedNodes
from trimtab.planner.scale_up.plan import GangOutcome, Rejection, ScaleUpPlan
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int64
from trimtab.reason_texts import PREDICATE_TEXTS
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import NodeGroupReason
from trimtab.words import counted

_NO_REJECTION: Final = Rejection(Reason.UNSPECIFIED)
_LIMITS: Final = {
    int(NodeGroupReason.MAX_SIZE_REACHED): (Reason.MAX_SIZE_REACHED, OF_GROUP[NodeGroupReason.MAX_SIZE_REACHED]),
    int(NodeGroupReason.RESOURCE_LIMIT_REACHED): (Reason.RESOURCE_LIMIT_REACHED, "at the limit on {resource}"),
    int(NodeGroupReason.MAX_NEW_NODES_REACHED): (
        Reason.MAX_NEW_NODES_REACHED,
        "not grown further, as the plan adds the maximum number of nodes",
    ),
    int(NodeGroupReason.BACKED_OFF): (Reason.BACKED_OFF, OF_GROUP[NodeGroupReason.BACKED_OFF]),
    int(NodeGroupReason.UNHEALTHY): (Reason.UNHEALTHY, OF_GROUP[NodeGroupReason.UNHEALTHY]),
    int(NodeGroupReason.NOT_WHOLE): (Reason.NOT_WHOLE, OF_GROUP[NodeGroupReason.NOT_WHOLE]),
    int(NodeGroupReason.NOT_EVALUATED): (Reason.NOT_EVALUATED, "not evaluated in time"),
}
"""Reasons of groups that would complete a gang if they might grow more, the most telling first."""
_NAMED: Final = 3
_NOT_NEW: Final = -1


def add_gangs(decision: pb.ScaleUpDecision, plan: ScaleUpPlan) -> None:
    """Add an entry for each gang with pending pods. To be called while the simulation contains the plan's moves."""
    if plan.gangs is not None:
        rows = enumerate(plan.gangs.gangs)
        decision.gangs.extend(_result(plan, plan.gangs, at, gang) for at, gang in rows if not gang.is_room)


def gang_notes(decision: pb.ScaleUpDecision) -> Iterator[str]:
    """Yield a note for each pod group that is missing or cannot be read."""
    for gang in decision.gangs:
        if gang.reason in (Reason.POD_GROUP_MISSING, Reason.POD_GROUP_INVALID):
            yield f"pod group {gang.group}: {gang.detail}"


def gangs_of_pods(outcome: GangOutcome) -> dict[int, str]:
    """Return why the gang of each pod or placeholder without a place has none; nothing for those of gangs that have."""
    details: dict[int, str] = {}
    for at, rejection in outcome.rejections.items():
        gang = outcome.gangs[at]
        name = gang.name if gang.is_room else gang.key
        details |= dict.fromkeys(gang.pending.tolist(), f"its gang {name} waits: {rejection.detail}")
    return details


def _result(plan: ScaleUpPlan, outcome: GangOutcome, at: int, gang: Gang) -> pb.GangResult:
    state, count = plan.progress.state, len(gang.pending)
    request = plan.context.request
    ahead = request.round.settings.gangs.count_missing
    uid, pending = request.snapshot.pods.uid, gang.pending.tolist()
    is_missing = np.array([ahead and uid.get(pod).startswith(MISSING_UID) for pod in pending], bool)
    result = pb.GangResult(
        group=gang.key,
        min_count=gang.min_count,
        existing_count=gang.existing_count - int(is_missing.sum()),
        bound_count=len(gang.bound),
    )
    if gang.held:
        result.reason, result.detail = gang.held, _held(gang, result.existing_count)  # type: ignore[assignment]
        return result
    on = state.pod_node[gang.pending]
    result.ahead_count = int((is_missing & (on != NO_NODE)).sum())
    on = on[on != NO_NODE]
    result.placed_count = len(on) - result.ahead_count
    result.on_new_nodes_count = int(np.isin(on, plan.progress.opened).sum())
    rejection = outcome.rejections.get(at, _NO_REJECTION)
    result.reason, result.detail = rejection.reason, rejection.detail
    result.lacking_count = rejection.lacking
    result.node_groups.extend(rejection.node_groups)
    result.domain = outcome.domains[at]
    if not rejection.reason and len(on) < count:
        result.detail = f"{counted(count - len(on), 'pod')} beyond its minimum without a place"
    return result


def _held(gang: Gang, existing_count: int) -> str:
    """Return why the scheduler holds the pods of a gang. existing_count : of its pods."""
    waiting = existing_count - len(gang.bound)
    pods = f"its {waiting} pods wait" if waiting > 1 else "its pod waits"
    if gang.group is None:
        return (
            f"PodGroup/{gang.key}, which spec.schedulingGroup.podGroupName names, does not exist: {pods} until it does"
        )
    if gang.group.problem:
        return f"{gang.group.object}: {gang.group.problem}: {pods}"
    if gang.held == Reason.SEVERAL_PRIORITIES:
        others = " and ".join(map(str, gang.other_priorities))
        return (
            f"{gang.group.object} has priority {gang.priority}, and some of its pods have {others}: none is scheduled"
        )
    if gang.held == Reason.SEVERAL_SCHEDULERS:
        return f"its pods name several schedulers ({', '.join(gang.schedulers)}): none takes them"
    if gang.held == Reason.MEMBER_GATED:
        return f"{gang.group.object}: a pod of it has scheduling gates: {pods} until it has none"
    lacking = gang.group.min_count - existing_count
    exist = "exists" if existing_count == 1 else "exist"
    return (
        f"{gang.group.object} has minCount {gang.group.min_count}, and {existing_count} of its pods {exist}: "
        f"{pods} for {lacking} more"
    )


def unplaceable(gang: Gang, served: int) -> Rejection:
    """Return the rejection of a gang of which scale-up serves too few pods. served : pending pods that it serves."""
    pending = len(gang.pending)
    not_served = f"scale-up does not serve {pending - served} of its {pending} pending pods"
    detail = f"{gang.min_count} pods must run together, and {not_served}"
    return Rejection(Reason.PODS_NOT_SERVED, lacking=gang.need - served, detail=detail)


def in_several_domains(gang: Gang) -> Rejection:
    """Return the rejection of a gang whose running pods are not in one domain."""
    detail = f"its running pods are not all on nodes with one value of {gang.topology_key}: the scheduler adds none"
    return Rejection(Reason.SEVERAL_DOMAINS, detail=detail)


def without_places(
    demand: DemandSet, lacking: int, progress: PlanInProgress, refusals: Refusals, groups: Bool
) -> Rejection:
    """Return the rejection of a gang for which places were looked for. lacking : pods without one that it needs;
    refusals : of all its pods without a place, at the end of the best attempt; groups : bool[G] that were allowed."""
    reason = refusals.reason.astype(np.int64)
    reason[:, ~groups] = NodeGroupReason.PREDICATE_FAILED
    counts = np.bincount(refusals.kind, minlength=len(reason))
    hopeless: Bool = np.logical_not(np.isin(reason, list(_LIMITS)).any(axis=1))
    beginning = f"{lacking} of {demand.need} pods that it needs have no place"
    if len(refusals.pods) - int(counts[hopeless].sum()) < lacking or hopeless.all():
        return _fits_nowhere(demand, lacking, beginning, refusals, hopeless)
    binding = {code: np.flatnonzero((reason == code).any(axis=0)) for code in _LIMITS if (reason == code).any()}
    code = next(iter(binding))
    ids = tuple(sorted(progress.groups[group].id for group in binding[code].tolist()))
    shown = ", ".join(ids[:_NAMED]) + (f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else "")
    states = {
        limit: _LIMITS[limit][1].format(resource=_resource(progress, groups)) for limit, groups in binding.items()
    }
    others = [f"{len(groups)} {states[limit]}" for limit, groups in binding.items() if limit != code]
    ending = f"; of others that would help, {', '.join(others)}" if others else ""
    sentence = f"{beginning}: {shown} would help and {'is' if len(ids) == 1 else 'are'} {states[code]}{ending}"
    return Rejection(_LIMITS[code][0], ids, lacking, _in_domains(demand, sentence))


def _fits_nowhere(demand: DemandSet, lacking: int, beginning: str, refusals: Refusals, hopeless: Bool) -> Rejection:
    """Return the rejection of a gang some of whose pods no group would take. hopeless : bool[kinds]."""
    predicates = refusals.predicate[hopeless]
    codes = Counter(predicates[predicates > 0].tolist())
    why = PREDICATE_TEXTS[codes.most_common(1)[0][0]].on_new_node if codes else "there is no node group for them"
    if demand.topology_key:
        return Rejection(Reason.NO_DOMAIN_FITS, (), lacking, _in_domains(demand, f"{beginning}: {why}"))
    return Rejection(Reason.NO_NODE_GROUP_FITS, (), lacking, f"{beginning}, and no node group would help: {why}")


def _in_domains(demand: DemandSet, sentence: str) -> str:
    return f"in no domain of {demand.topology_key}: at best, {sentence}" if demand.topology_key else sentence


def _resource(progress: PlanInProgress, groups: Int64) -> str:
    """Return the limit that keeps the first of these groups from growing, in words."""
    limits = (progress.limits.binding(group) for group in groups.tolist())
    return next((limit for limit in limits if limit is not None), "resources")


def next_orders(plan: ScaleUpPlan) -> list[pb.NodeOrder]:
    """Return the orders to remember, those of this plan included, by gang and group. To be called while the simulation
    contains the plan's moves."""
    if plan.gangs is None:
        return []
    orders = {(order.name, order.node_group): order for order in _earlier(plan)}
    progress = plan.progress
    group_of = np.full(len(progress.state.node_state), _NOT_NEW, np.int64)
    group_of[progress.opened] = progress.group_of
    for gang in plan.gangs.gangs:
        # Nodes for room are given back by scale-down, as no pod waits for them.
        if gang.is_room:
            continue
        for group, count in _opened_for(plan, gang, group_of):
            key = (gang.key, plan.progress.groups[group].id)
            order = orders.setdefault(key, pb.NodeOrder(name=key[0], node_group=key[1]))
            if not order.count:
                order.order_time.seconds = plan.context.request.now_ns // SECOND_NS
            order.count += count
    return [orders[key] for key in sorted(orders)]


def _earlier(plan: ScaleUpPlan) -> Iterator[pb.NodeOrder]:
    """Yield copies of the earlier orders of gangs whose minimum does not run yet."""
    state = plan.context.request.state
    assert plan.gangs is not None
    waiting = {gang.key for gang in plan.gangs.gangs if gang.need > 0}
    for gang_order in state.gang_orders if state is not None else ():
        if gang_order.name in waiting and gang_order.count > 0:
            order = pb.NodeOrder()
            order.CopyFrom(gang_order)
            yield order


def _opened_for(plan: ScaleUpPlan, gang: Gang, group_of: Int64) -> Iterator[tuple[int, int]]:
    """Yield the groups with new nodes that have pods of a gang which needs them, and how many such nodes. group_of :
    int64[N'] group of each new node."""
    if gang.need <= 0:
        return
    at = plan.progress.state.pod_node[gang.pending]
    on = group_of[np.unique(at[at != NO_NODE])]
    groups, counts = np.unique(on[on != _NOT_NEW], return_counts=True)
    yield from zip(groups.tolist(), counts.tolist(), strict=True)


def add_useless(decision: pb.ScaleUpDecision, plan: ScaleUpPlan) -> None:
    """Name the nodes that were requested for gangs and are of no use. To be called likewise."""
    state = plan.context.request.state
    if plan.gangs is None or state is None or not state.gang_orders:
        return
    rejected = {plan.gangs.gangs[at].key for at in plan.gangs.rejections}
    results = {gang.group: gang for gang in decision.gangs if gang.group in rejected}
    unused = UnusedNodes(plan.context.request.round, pb.Decision.SCALE_UP)
    for order in sorted(state.gang_orders, key=lambda gang_order: (gang_order.name, gang_order.node_group)):
        if order.name in results:
            unused.release(order, results[order.name].release)
