"""What a ProvisioningRequest lacks, in one sentence and as reasons: which nodes refuse its pods, and why no set of new
nodes of the groups holds all of them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.model.execution import reserve_memory
from trimtab.planner.new_nodes.all_or_nothing import NewNodeRoom
from trimtab.planner.new_nodes.sentences import GrowthInPlan, why_pending
from trimtab.planner.placement.kernels.refusals import refusals
from trimtab.planner.predicates.order import reasons_of
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.snapshot.columns import Int32
from trimtab.v1.reason_pb2 import NodeGroupReason

_BYTES_OF_GROUP: Final = 300
_NOTHING_KNOWN: Final = (NodeGroupReason.NO_TEMPLATE, NodeGroupReason.NODE_GROUP_INVALID)


class Lack(NamedTuple):
    """detail : one sentence; reasons : `NodeGroupReason.Code` by node group; failed : `PredicateReason.Code` of those
    whose new nodes refuse the pods."""

    detail: str = ""
    reasons: Mapping[str, int] = MappingProxyType({})
    failed: Mapping[str, int] = MappingProxyType({})


NO_LACK: Final = Lack()


def lack_of(room: NewNodeRoom | None, simulation: Simulation, left: Int32, order: Int32, pod_count: int) -> Lack:
    """Return what a request of `pod_count` pods lacks. room : what groups may still get, None = its class adds no
    nodes; left : int32 pods without room, while the others are placed; order : int32 nodes that may take pods.
    """
    first = int(left[0])
    detail = f"{len(left)} of {pod_count} pods have no room on {_why_nodes(simulation, first, order)}"
    if room is None:
        return Lack(detail)
    reasons, failed = _why_groups(room, left)
    helping = [at for at, reason in enumerate(reasons.values()) if reason == NodeGroupReason.UNSPECIFIED]
    if helping:
        bound = min(int(room.limits.may_add[helping].sum()), room.most)
        why = f"{_groups(len(helping))} may get {bound} more nodes at most, which do not hold all of them"
        then = room.limits.reasons_when_full()
        for at in helping:
            reasons[room.groups[at].id] = int(then[at]) or int(NodeGroupReason.MAX_NEW_NODES_REACHED)
    else:
        resources = {room.groups[at].id: name for at, name in room.limits.binding_resources().items()}
        why = why_pending(reasons, failed, GrowthInPlan(set(), resources))
    return Lack(f"{detail}; {why}", reasons, failed)


def _groups(count: int) -> str:
    return "the one node group that helps" if count == 1 else f"the {count} node groups that help"


def _why_nodes(simulation: Simulation, pod: int, order: Int32) -> str:
    """Return the nodes, and how many of them refuse a pod for what. O(D · R)."""
    state = simulation.state
    of_class, count = state.pod_class[pod], len(order)
    if not count:
        return "nodes: there is none that may take pods"
    admits = state.blocked[of_class, state.node_class[order]] == 0
    need, free = state.resources.need[of_class], state.resources.free[order]
    lacking = (need > free) & admits[:, None]
    parts = []
    refused = int((~admits).sum())
    by_resource = lacking.sum(axis=0)
    if by_resource.any():
        most = int(by_resource.argmax())
        name = simulation.resources[most] if most < len(simulation.resources) else "room for pods"
        parts.append(f"{int(by_resource[most])} have too little {name}")
    if refused:
        parts.append(f"{refused} do not admit them")
    why = f" ({', '.join(parts)})" if parts else ""
    return f"the {count} nodes that may take pods{why}"


def _why_groups(room: NewNodeRoom, left: Int32) -> tuple[dict[str, int], dict[str, int]]:
    """Return why new nodes of each group do not help pods, UNSPECIFIED if they do, and the predicates that fail."""
    state, ids = room.packer.simulation.state, [group.id for group in room.groups]
    reserve_memory(_BYTES_OF_GROUP * len(ids), "why node groups do not help ProvisioningRequests")
    if not ids:
        return {}, {}
    _, first = np.unique(state.pod_class[left], return_index=True)
    masks = np.zeros((len(first), len(ids)), np.int64)
    spare = int(room.packer.growth.spare_nodes[-1]) if len(room.packer.growth.spare_nodes) else -1
    if spare >= 0:
        refusals(state, spare, room.packer.growth.template_node, left[first], masks)
    reasons, failed = {}, {}
    for at, (name, now) in enumerate(zip(ids, room.limits.reasons.tolist(), strict=True)):
        mask = int(masks[:, at].min())
        reasons[name] = now
        if mask > 0 and now not in _NOTHING_KNOWN:
            reasons[name] = int(NodeGroupReason.PREDICATE_FAILED)
            failed[name] = reasons_of(mask)[0]
    return reasons, failed
