"""Cyclic first fit, and what its failures teach.

Contract: the answer is always that of asking `fits` on every node in turn. For classes that depend on the node alone
a failed search is remembered: nodes that did not get more room since need not be asked again.
"""

from planner.model.jit import kernel
from planner.simulation.kernels.checks import fits, fits_counters, fits_locally
from planner.simulation.state import SimulationState
from planner.snapshot.columns import Bool

_NOT_FOUND = -1
_NOT_KNOWN = -1


@kernel
def _among_gains(sim: SimulationState, pod: int, allowed: Bool, start: int) -> int:
    """Search only nodes that got more room since the class failed everywhere. Returns a node, -1, or -2 = not known."""
    memory = sim.memory
    pod_class = sim.pod_class[pod]
    since, now = memory.failed_at[pod_class], memory.gain_count[0]
    capacity = len(memory.gains)
    if since == _NOT_KNOWN or now - since > capacity:
        return -2
    nodes = len(sim.node_state)
    found, nearest, all_fail = _NOT_FOUND, nodes, True
    for at in range(since, now):
        node = memory.gains[at % capacity]
        distance = node - start if node >= start else node - start + nodes
        if distance >= nearest and not all_fail:
            continue
        if fits_locally(sim, pod_class, node) and fits_counters(sim, pod, pod_class, node):
            all_fail = False
            if allowed[node] and distance < nearest:
                found, nearest = node, distance
    if all_fail:
        memory.failed_at[pod_class] = now
    return found


@kernel
def _among_all(sim: SimulationState, pod: int, allowed: Bool, start: int) -> int:
    """Search all nodes, and remember if none fits, allowed or not."""
    pod_class = sim.pod_class[pod]
    nodes = len(sim.node_state)
    all_fail = True
    node = start
    for _ in range(nodes):
        if fits_locally(sim, pod_class, node):
            if allowed[node]:
                if fits_counters(sim, pod, pod_class, node):
                    return node
            else:
                all_fail = False
        node += 1
        if node == nodes:
            node = 0
    if all_fail and sim.local_class[pod_class] != 0 and sim.volumes.row[pod] < 0:
        sim.memory.failed_at[pod_class] = sim.memory.gain_count[0]
    return _NOT_FOUND


@kernel
def find(sim: SimulationState, pod: int, allowed: Bool, start: int) -> int:
    """Return the first node from `start` on, cyclic, that is allowed and fits the pod; -1 = none.

    allowed : bool[N]. 0 <= start < N. O(N) at worst; O(nodes that got room) after a failure of the same class.
    """
    nodes = len(sim.node_state)
    if nodes == 0:
        return _NOT_FOUND
    pinned = sim.pinned[pod]
    if pinned != -1:
        if pinned >= 0 and allowed[pinned] and fits(sim, pod, pinned):
            return int(pinned)
        return _NOT_FOUND
    if sim.local_class[sim.pod_class[pod]] != 0 and sim.volumes.row[pod] < 0:
        found = _among_gains(sim, pod, allowed, start)
        if found != -2:
            return found
    return _among_all(sim, pod, allowed, start)


@kernel
def find_all(sim: SimulationState, pod: int, allowed: Bool, found: Bool) -> int:
    """Mark every allowed node that fits the pod in `found` : bool[N], written in full. Returns how many. O(N)."""
    count = 0
    for node in range(len(sim.node_state)):
        found[node] = allowed[node] and fits(sim, pod, node)
        count += found[node]
    return count
