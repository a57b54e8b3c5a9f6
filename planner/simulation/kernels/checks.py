"""Checks whether a pod fits a node, and why not. Nothing is changed. O(terms of the pod)."""

from trimtab.planner.model.jit import inlined_kernel, kernel, shared_kernel
from trimtab.planner.predicates.kernels import presence, resources, spread, volumes
from trimtab.planner.predicates.order import STATIC_REASONS
from trimtab.planner.simulation.state import OPEN, SimulationState
from trimtab.planner.snapshot.columns import Int64
from trimtab.v1.reason_pb2 import PredicateReason

_PINNED = int(PredicateReason.NODE_AFFINITY_NOT_MATCHED)
_NO_POD_ROOM = int(PredicateReason.TOO_MANY_PODS)
_NO_AMOUNTS = int(PredicateReason.INSUFFICIENT_RESOURCES)
_CLAIM_USED = int(PredicateReason.VOLUME_RESTRICTED)
_OVER_LIMIT = int(PredicateReason.VOLUME_LIMIT_EXCEEDED)
_UNEVEN = int(PredicateReason.TOPOLOGY_SPREAD_VIOLATED)
_ALONE = int(PredicateReason.POD_AFFINITY_NOT_MATCHED)
_STATIC = tuple(int(reason) for reason in STATIC_REASONS)


@inlined_kernel
def fits_locally(sim: SimulationState, pod_class: int, node: int) -> bool:
    """Return whether the node's state, static predicates and free amounts admit a pod of the class."""
    if sim.node_state[node] != OPEN or sim.blocked[pod_class, sim.node_class[node]] != 0:
        return False
    return resources.has_room(sim.resources, pod_class, node)


@shared_kernel
def fits_counters(sim: SimulationState, pod: int, pod_class: int, node: int) -> bool:
    """Return whether ports, disks, volumes, spread and affinity admit the pod."""
    if presence.is_kept_out(sim.presence, pod_class, node):
        return False
    row = sim.volumes.row[pod]
    if row >= 0 and (volumes.is_claim_used(sim.volumes, row) or volumes.is_over_limit(sim.volumes, row, node)):
        return False
    if not spread.is_even(sim.spread, pod_class, node):
        return False
    return presence.is_near_others(sim.presence, pod_class, node)


@inlined_kernel
def fits(sim: SimulationState, pod: int, node: int) -> bool:
    """Return whether all predicates admit a pod, which is on no node, to the node. Cheapest first; O(its terms)."""
    if sim.pinned[pod] != -1 and sim.pinned[pod] != node:
        return False
    pod_class = sim.pod_class[pod]
    return fits_locally(sim, pod_class, node) and fits_counters(sim, pod, pod_class, node)


@shared_kernel
def failing(sim: SimulationState, pod: int, node: int) -> int:
    """Return the mask `1 << PredicateReason.Code` of all failing predicates; 0 = fits.

    A retired or dropped node counts as cordoned.
    """
    pod_class = sim.pod_class[pod]
    mask = 0
    if sim.node_state[node] != OPEN:
        mask |= 1 << _STATIC[0]
    if sim.pinned[pod] != -1 and sim.pinned[pod] != node:
        mask |= 1 << _PINNED
    blocked = sim.blocked[pod_class, sim.node_class[node]]
    for bit in range(len(_STATIC)):
        if (blocked >> bit) & 1:
            mask |= 1 << _STATIC[bit]
    if not resources.has_pod_room(sim.resources, node):
        mask |= 1 << _NO_POD_ROOM
    if not resources.has_amounts(sim.resources, pod_class, node):
        mask |= 1 << _NO_AMOUNTS
    mask |= presence.kept_out_because(sim.presence, pod_class, node)
    row = sim.volumes.row[pod]
    if row >= 0 and volumes.is_claim_used(sim.volumes, row):
        mask |= 1 << _CLAIM_USED
    if row >= 0 and volumes.is_over_limit(sim.volumes, row, node):
        mask |= 1 << _OVER_LIMIT
    if not spread.is_even(sim.spread, pod_class, node):
        mask |= 1 << _UNEVEN
    if not presence.is_near_others(sim.presence, pod_class, node):
        mask |= 1 << _ALONE
    return mask


@kernel
def failing_everywhere(sim: SimulationState, pod: int, masks: Int64) -> None:
    """Write `failing` of the pod on every node to `masks` : int64[N]. O(N x terms of the pod)."""
    for node in range(len(masks)):
        masks[node] = failing(sim, pod, node)
