"""The result of the loop, as input of the report."""

from typing import NamedTuple

import numpy as np

from trimtab.planner.facts.prices import total
from trimtab.planner.placement.waiting import place_where
from trimtab.planner.scale_up.choose import Choice
from trimtab.planner.scale_up.context import Context
from trimtab.planner.scale_up.growing import Growing
from trimtab.planner.scale_up.reasons import Refusals
from trimtab.planner.scale_up.report.sentences import GrowthInPlan
from trimtab.planner.scale_up.waiting_pods import Unserved
from trimtab.planner.scale_up.whole_plan import PlannedNodes
from trimtab.planner.simulation.fresh import branch
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log
from trimtab.planner.simulation.state import NOWHERE
from trimtab.planner.snapshot.columns import Int32
from trimtab.v1.reason_pb2 import NodeGroupReason, PredicateReason


class Made(NamedTuple):
    """How a plan was made. planned : the plan for all pods at once, None = none was made; choices : in order; reasons :
    int32[G] why a group has no option, 0 = it could have."""

    planned: PlannedNodes | None
    choices: list[Choice]
    reasons: Int32


class Finding(NamedTuple):
    """The result of the loop. refusals : why pods are left; is_complete : False if the plan reached its bound while
    node groups might still help."""

    context: Context
    unserved: Unserved
    growing: Growing
    made: Made
    refusals: Refusals
    is_complete: bool

    def bound_after_new_nodes(self) -> Int32:
        """Return the pods on existing and upcoming nodes that only fit once the new nodes, or pods on them, are there.
        int32. To be called while the simulation contains the plan's moves.
        """
        growing, room, state = self.growing, self.unserved.in_room, self.growing.state
        is_new = np.zeros(len(state.node_state), bool)
        is_new[growing.opened] = True
        pods = np.concatenate([room.pods, growing.pods])
        pods = np.unique(pods[(state.pod_node[pods] != NOWHERE) & ~is_new[state.pod_node[pods]]])
        if (state.pod_node[room.pods] == room.nodes).all() and not np.isin(pods, self.unserved.held_back).any():
            # All that were tried found no place, and room has not grown since.
            later: Int32 = pods[~np.isin(pods, room.pods)]
            return later
        node, before = state.pod_node.astype(np.int32), branch(state)
        revert(before, room.start)
        place_where(growing.within.simulation._replace(state=before), self.unserved.where, pods, node)
        check_log(before)
        found: Int32 = pods[before.pod_node[pods] == NOWHERE]
        return found

    def name_of(self, pod: int) -> str:
        """Return "namespace/name" of a pod, recently evicted ones included, or the name of a placeholder."""
        request = self.context.request
        pod_count = self.growing.within.simulation.pod_count
        if pod < pod_count:
            return request.snapshot.pod_key(pod)
        evictions = request.round.evictions
        if pod - pod_count < len(evictions):
            eviction = evictions[pod - pod_count]
            return f"{eviction.namespace}/{eviction.name}"
        return request.round.placeholders[pod - pod_count - len(evictions)]

    def names_of(self, pods: Int32) -> list[str]:
        """Return `name_of` of many pods."""
        snapshot = self.context.request.snapshot
        table, strings, pod_count = snapshot.pods, snapshot.strings, self.growing.within.simulation.pod_count
        if not (pods < pod_count).all():
            return [self.name_of(pod) for pod in pods.tolist()]
        text = table.name.data.tobytes()
        starts, ends = table.name.offsets[pods].tolist(), table.name.offsets[pods + 1].tolist()
        spaces = table.namespace[pods].tolist()
        rows = zip(spaces, starts, ends, strict=True)
        return [f"{strings[space]}/{text[start:end].decode()}" for space, start, end in rows]


def reasons_of(
    finding: Finding, kind: int
) -> tuple[dict[str, "NodeGroupReason.Code.ValueType"], dict[str, "PredicateReason.Code.ValueType"]]:
    """Return why pods of a kind are left: `NodeGroupReason.Code` by node group, and `PredicateReason.Code` by those of
    the groups whose new nodes refuse them.
    """
    refusals, ids = finding.refusals, [group.id for group in finding.growing.groups]
    reasons = dict(zip(ids, refusals.reason[kind].tolist(), strict=True))
    return reasons, {key: code for key, code in zip(ids, refusals.predicate[kind].tolist(), strict=True) if code}


def rating(finding: Finding) -> tuple[int, int, float, int]:
    """Return the quality of a plan, smaller is better: pods left, nodes of unknown price, price, nodes."""
    growing = finding.growing
    price = np.array([group.price_per_hour for group in growing.groups], np.float64)[growing.group_of]
    unknown = int(np.isnan(price).sum())
    return len(finding.refusals.pods), unknown, total(np.sort(price)), len(price)


def growth_in_plan(finding: Finding) -> GrowthInPlan:
    """Return which node groups grow, and which limits keep groups from growing further."""
    growing = finding.growing
    at_limit = np.flatnonzero(growing.limits.reasons == NodeGroupReason.RESOURCE_LIMIT_REACHED).tolist()
    binding = {growing.groups[group].id: growing.limits.binding(group) for group in at_limit}
    resources = {group: limit.resource for group, limit in binding.items() if limit is not None}
    return GrowthInPlan({growing.groups[group].id for group in set(growing.group_of)}, resources)
