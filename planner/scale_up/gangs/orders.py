"""Nodes requested for gangs: which were, and which of them are of no use because their gang cannot be whole.

A cloud may deliver fewer nodes than a gang needs. The plan then looks for others in other groups; if there are none,
the nodes that came, or are still to come, cost money for nothing. They are named, so that they can be given back at
once. An order is forgotten once the gang's minimum runs, or the gang is gone. Of a group, nodes count that were created
since the order, no more than it asked for, on which no pod is and none is planned.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from trimtab.planner.facts.gangs import Gang
from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.round.ordered_nodes import nodes_in_use, unused_since
from trimtab.planner.scale_up.plan import ScaleUpPlan
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int64
from trimtab.v1 import plan_pb2 as pb

_NOT_NEW: Final = -1


def next_orders(plan: ScaleUpPlan) -> list[pb.NodeOrder]:
    """Return the orders to remember, those of this plan included, by gang and group. To be called while the simulation
    contains the plan's moves."""
    if plan.gangs is None:
        return []
    found = {(one.name, one.node_group): one for one in _earlier(plan)}
    progress = plan.progress
    group_of = np.full(len(progress.state.node_state), _NOT_NEW, np.int64)
    group_of[progress.opened] = progress.group_of
    for gang in plan.gangs.gangs:
        # Nodes for room are given back by scale-down, as no pod waits for them.
        if gang.is_room:
            continue
        for group, count in _opened_for(plan, gang, group_of):
            key = (gang.key, plan.progress.groups[group].id)
            order = found.setdefault(key, pb.NodeOrder(name=key[0], node_group=key[1]))
            if not order.count:
                order.order_time.seconds = plan.context.request.now_ns // SECOND_NS
            order.count += count
    return [found[key] for key in sorted(found)]


def _earlier(plan: ScaleUpPlan) -> Iterator[pb.NodeOrder]:
    """Yield copies of the earlier orders of gangs whose minimum does not run yet."""
    state = plan.context.request.state
    assert plan.gangs is not None
    waiting = {gang.key for gang in plan.gangs.gangs if gang.need > 0}
    for one in state.gang_orders if state is not None else ():
        if one.name in waiting and one.count > 0:
            order = pb.NodeOrder()
            order.CopyFrom(one)
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
    results = {one.group: one for one in decision.gangs if one.group in rejected}
    taken = nodes_in_use(plan.context.request.round, plan.progress.state, plan.context.leaving)
    for order in sorted(state.gang_orders, key=lambda one: (one.name, one.node_group)):
        if order.name in results:
            _add_order(results[order.name], plan, order, taken)


def _add_order(result: pb.GangResult, plan: ScaleUpPlan, order: pb.NodeOrder, taken: Bool) -> None:
    """Name the nodes of one order, and mark them as taken : bool[N'], in place."""
    snapshot, growth = plan.context.request.snapshot, plan.context.request.growth
    ids = [group.id for group in plan.progress.groups]
    if order.node_group not in ids:
        return
    group = ids.index(order.node_group)
    here = unused_since(snapshot, group, order.order_time.seconds, taken)[: order.count]
    coming = growth.upcoming_of(group)
    coming = coming[~taken[coming]][: order.count - len(here)]
    taken[here] = taken[coming] = True
    if len(here) or len(coming):
        result.release.nodes.extend(snapshot.nodes.name[node] for node in here.tolist())
        result.release.nodes.sort()
    if len(coming):
        result.release.upcoming[order.node_group] = len(coming)
