"""The place of the first pod of a group whose pods have to be together on one node.

Required affinity to pods of its own kind by hostname: wherever the first pod goes, the others have to follow. So it
goes to the node that takes most of those that come next, not to the first one that has room for it alone.
"""

from typing import Final

from trimtab.planner.compiled.decorators import copied_kernel
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Int32

LOOK_AHEAD: Final = 1024
"""Number of next pods among which those of the group are counted; more hardly ever fit one node."""


@copied_kernel
def alike_ahead(sim: SimulationState, pods: Int32, row: int) -> int:
    """Return how many of the next LOOK_AHEAD pods are of the class of the one in a row, itself included."""
    count = 0
    for other in range(row, min(len(pods), row + LOOK_AHEAD)):
        count += sim.pod_class[pods[other]] == sim.pod_class[pods[row]]
    return int(count)


@copied_kernel
def room_for(sim: SimulationState, pod_class: int, node: int, most: int) -> int:
    """Return how many pods of a class, up to `most`, fit the free amounts of a node. O(R)."""
    free, request = sim.resources.free, sim.resources.request
    room = most
    for resource in range(free.shape[1]):
        if request[pod_class, resource] > 0:
            if free[node, resource] < request[pod_class, resource]:
                return 0
            room = min(room, free[node, resource] // request[pod_class, resource])
    return int(room)
