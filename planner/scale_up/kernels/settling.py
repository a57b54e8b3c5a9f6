"""Place pods on given nodes, and pods that have none wherever an open node admits them.

While pods are only placed, a class that depends on the node alone never fits a node again that refused it: a cursor for
each class passes such nodes.
"""

from planner.model.jit import kernel, widened
from planner.simulation.kernels import fits, place
from planner.simulation.state import NOWHERE, SimulationState
from planner.snapshot.columns import Int32, Int64


@kernel
def settle(sim: SimulationState, pods: Int32, nodes: Int64, placed: Int64) -> int:
    """Place each pod on its node as soon as that admits it, round after round; return how many are placed.

    pods : int32[M]; nodes : int64[M], -1 = none; placed : int64[M] the node or -1, written. The moves stay.
    O(rounds · M · terms).
    """
    for row in range(len(pods)):
        placed[row] = -1
    count, before = 0, -1
    while count > before:
        before = count
        for row in range(len(pods)):
            pod, node = widened(pods[row]), nodes[row]
            if placed[row] < 0 and node >= 0 and sim.pod_node[pod] == NOWHERE and fits(sim, pod, node):
                place(sim, pod, node)
                placed[row] = node
                count += 1
    return count


@kernel
def first_fit(sim: SimulationState, pods: Int32, nodes: Int64, cursor: Int64, placed: Int64) -> int:
    """Place each pod on the first of the nodes that admits it; return how many are placed.

    pods : int32[M], those that are on a node stay there; nodes : int64[K] in the order in which they are tried;
    cursor : int64[S] zeros, written; placed : int64[M] the node or -1, written. The moves stay.
    """
    count = 0
    for row in range(len(pods)):
        placed[row] = -1
        pod = widened(pods[row])
        pod_class = sim.pod_class[pod]
        local = sim.local_class[pod_class] != 0 and sim.volumes.row[pod] < 0 and sim.pinned[pod] == -1
        if sim.pod_node[pod] != NOWHERE:
            continue
        at = cursor[pod_class] if local else 0
        while at < len(nodes) and not fits(sim, pod, nodes[at]):
            at += 1
        if local:
            cursor[pod_class] = at
        if at < len(nodes):
            place(sim, pod, nodes[at])
            placed[row] = nodes[at]
            count += 1
    return count
