"""Checks whether the scheduler can place all moved pods at their destinations in some order, with all of them evicted.

It is not enough that every pod fits in the end: two pods may each fit only because the other one is already there. So
the pods whose placement may need others (required affinity, topology spread) are all taken off, with the nodes that go
closed but still there, and are put back in rounds, each as soon as it fits. Nodes of pods that never fit stay.
Source: own; the scheduler's view while nodes are drained in parallel.
"""

from trimtab.planner.compiled.decorators import copied_kernel, inner_kernel, kernel, widened
from trimtab.planner.predicates.kernels import compose
from trimtab.planner.scale_down.search.kernels.drain_sets import TAKEN, DrainProblem
from trimtab.planner.simulation.kernels import fits, mark, place, remove, revert
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32


@kernel
def mark_without_order(sim: SimulationState, problem: DrainProblem, unbound_pods: Int32, unplaceable: Bool) -> int:
    """Mark in unplaceable : bool[N] accepted nodes that have to stay to make room for the pods of all others.

    Nodes already marked count as staying. If no pod fits any more, the node of the first one in order of acceptance
    stays, with its pods. unbound_pods : pods to take off first, which may come late. Returns how many nodes were
    marked, and writes their blocking_pods; the simulation is left unchanged. O(rounds · moved pods · terms).
    """
    before = mark(sim)
    for row in range(len(unbound_pods)):
        remove(sim, widened(unbound_pods[row]))
    waiting = 0
    for row in range(problem.counts[TAKEN]):
        node = widened(problem.accepted[row])
        if unplaceable[node]:
            return_pods(sim, problem, node)
        else:
            waiting += remove_dependent_pods(sim, problem, node)
    count = 0
    # Without room in the log no pod would ever be placed: the result is not used then.
    while waiting > 0 and sim.log.refused[0] == 0:
        placed = place_waiting(sim, problem, unplaceable)
        waiting -= placed
        if placed == 0:
            node = first_waiting(sim, problem, unplaceable)
            unplaceable[node] = True
            count += 1
            waiting -= return_pods(sim, problem, node)
    revert(sim, before)
    return count


@copied_kernel
def may_need_others(sim: SimulationState, pod: int) -> bool:
    """Return whether the placement of a pod can need others at their destinations."""
    return compose.may_need_others(sim.counters, sim.pod_class[pod])


@inner_kernel
def remove_dependent_pods(sim: SimulationState, problem: DrainProblem, node: int) -> int:
    """Take off a node the pods whose placement may need others; return how many."""
    count = 0
    for at in range(problem.offsets[node], problem.offsets[node + 1]):
        pod = widened(problem.pods[at])
        if may_need_others(sim, pod):
            remove(sim, pod)
            count += 1
    return count


@inner_kernel
def place_waiting(sim: SimulationState, problem: DrainProblem, unplaceable: Bool) -> int:
    """Place every waiting pod that fits at its destination, in order of acceptance; return how many."""
    count = 0
    for row in range(problem.counts[TAKEN]):
        node = widened(problem.accepted[row])
        if unplaceable[node]:
            continue
        for at in range(problem.offsets[node], problem.offsets[node + 1]):
            pod = widened(problem.pods[at])
            if sim.pod_node[pod] == NO_NODE and fits(sim, pod, widened(problem.destination[pod])):
                place(sim, pod, widened(problem.destination[pod]))
                count += 1
    return count


@inner_kernel
def first_waiting(sim: SimulationState, problem: DrainProblem, unplaceable: Bool) -> int:
    """Return the first accepted node with a waiting pod, which becomes its blocking_pod; one must be there."""
    for row in range(problem.counts[TAKEN]):
        node = widened(problem.accepted[row])
        if unplaceable[node]:
            continue
        for at in range(problem.offsets[node], problem.offsets[node + 1]):
            pod = widened(problem.pods[at])
            if sim.pod_node[pod] == NO_NODE:
                problem.blocking_pod[node] = pod
                return int(node)
    return -1


@inner_kernel
def return_pods(sim: SimulationState, problem: DrainProblem, node: int) -> int:
    """Put all moved pods of a node back on it; return how many of them were waiting."""
    waiting = 0
    for at in range(problem.offsets[node], problem.offsets[node + 1]):
        pod = widened(problem.pods[at])
        if sim.pod_node[pod] == NO_NODE:
            waiting += 1
        else:
            remove(sim, pod)
        place(sim, pod, node)
    return waiting
