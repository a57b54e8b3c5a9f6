"""NodeResourcesFit over counters. Source: plugin noderesources fit, v1.37.2."""

from trimtab.planner.compiled.decorators import inlined_kernel
from trimtab.planner.predicates.resources import POD_ROOM, ResourceCounters


@inlined_kernel
def has_room(resources: ResourceCounters, pod_class: int, node: int) -> bool:
    """Return whether all requests of a pod of the class are free on the node, one pod slot included. O(R)."""
    free, need = resources.free, resources.need
    enough = True
    for resource in range(free.shape[1]):
        if free[node, resource] < need[pod_class, resource]:
            enough = False
            break
    return enough


@inlined_kernel
def has_pod_room(resources: ResourceCounters, node: int) -> bool:
    """Return whether the node takes one more pod. O(1)."""
    return bool(resources.free[node, POD_ROOM] >= 1)


@inlined_kernel
def has_amounts(resources: ResourceCounters, pod_class: int, node: int) -> bool:
    """Return whether the amounts that a pod of the class requests are free; pod slots and devices are not checked.
    O(R)."""
    free, need = resources.free, resources.need
    for resource in range(resources.first_device[0]):
        if resource != POD_ROOM and free[node, resource] < need[pod_class, resource]:
            return False
    return True


@inlined_kernel
def has_devices(resources: ResourceCounters, pod_class: int, node: int) -> bool:
    """Return whether the devices that a pod of the class claims are free. O(R)."""
    free, need = resources.free, resources.need
    for resource in range(resources.first_device[0], free.shape[1]):
        if free[node, resource] < need[pod_class, resource]:
            return False
    return True


@inlined_kernel
def subtract_requests(resources: ResourceCounters, pod_class: int, node: int, sign: int) -> None:
    """Subtract a pod's requests from the node's free amounts (sign 1) or add them again (sign -1). O(R)."""
    free, request = resources.free, resources.request
    for resource in range(free.shape[1]):
        free[node, resource] -= sign * request[pod_class, resource]
