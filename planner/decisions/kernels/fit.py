"""Why pods do not fit nodes, many at once. Twin: tests/reference/decisions/fit.py."""

from trimtab.planner.compiled.decorators import kernel, widened
from trimtab.planner.simulation.kernels import failing, mark, remove, revert
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Bool, Int32, Int64


@kernel
def explain(sim: SimulationState, pods: Int32, masks: Int64, lacking: Bool, first: int) -> int:
    """Fill masks : int64[Q, N] with `failing` of pods[first], pods[first + 1], … on each node.

    pods : int32, of which Q from `first` on; a pod that is on a node is taken off it meanwhile. lacking : bool[Q, N, R]
    is set if too little of a resource is free. Returns Q. O(Q * N * terms).
    """
    count = min(len(masks), len(pods) - first)
    free, need = sim.resources.free, sim.resources.need
    for q in range(count):
        pod = widened(pods[first + q])
        start = mark(sim)
        remove(sim, pod)
        pod_class = sim.pod_class[pod]
        for node in range(masks.shape[1]):
            masks[q, node] = failing(sim, pod, node)
            for resource in range(free.shape[1]):
                lacking[q, node, resource] = free[node, resource] < need[pod_class, resource]
        revert(sim, start)
    return count
