"""Checks whether a pod fits a node, and why not. Nothing is changed. O(terms of the pod)."""

from trimtab.planner.compiled.decorators import inlined_kernel, shared_kernel
from trimtab.planner.predicates.kernels import compose, resources
from trimtab.planner.predicates.kernels.compose import ADMITTED
from trimtab.planner.predicates.node_affinity import NODE_AFFINITY
from trimtab.planner.predicates.node_unschedulable import NODE_UNSCHEDULABLE
from trimtab.planner.predicates.order import STATIC
from trimtab.planner.predicates.resources import DEVICES_FIT, RESOURCES_FIT
from trimtab.planner.simulation.state import OPEN, SimulationState

_NOT_OPEN = int(NODE_UNSCHEDULABLE.reason)
_PINNED = int(NODE_AFFINITY.reason)
_NO_POD_ROOM, _NO_AMOUNTS = map(int, RESOURCES_FIT.reasons)
(_NO_DEVICES,) = map(int, DEVICES_FIT.reasons)
_STATIC = tuple(int(predicate.reason) for predicate in STATIC)


@inlined_kernel
def fits_locally(sim: SimulationState, pod_class: int, node: int) -> bool:
    """Return whether the node's state, static predicates and free amounts admit a pod of the class."""
    if sim.node_state[node] != OPEN or sim.blocked[pod_class, sim.node_class[node]] != 0:
        return False
    return resources.has_room(sim.resources, pod_class, node)


@shared_kernel
def refusal_by_counters(sim: SimulationState, pod: int, pod_class: int, node: int) -> int:
    """Return how the dynamic predicates other than room refuse a pod on a node."""
    return compose.refusal(sim.counters, pod, pod_class, node)


@inlined_kernel
def fits(sim: SimulationState, pod: int, node: int) -> bool:
    """Return whether all predicates admit a pod, which is on no node, to the node. Cheapest first; O(its terms)."""
    if sim.pinned[pod] != -1 and sim.pinned[pod] != node:
        return False
    pod_class = sim.pod_class[pod]
    return fits_locally(sim, pod_class, node) and refusal_by_counters(sim, pod, pod_class, node) == ADMITTED


@shared_kernel
def failing(sim: SimulationState, pod: int, node: int) -> int:
    """Return the mask `1 << PredicateReason.Code` of all failing predicates; 0 = fits.

    A node outside of the topology counts as cordoned.
    """
    pod_class = sim.pod_class[pod]
    mask = 0
    if sim.node_state[node] != OPEN:
        mask |= 1 << _NOT_OPEN
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
    if not resources.has_devices(sim.resources, pod_class, node):
        mask |= 1 << _NO_DEVICES
    mask |= compose.because(sim.counters, pod, pod_class, node)
    return mask
