"""Room for the pods of later waves, held while more nodes are tried for an earlier one.

The pods of nodes that go later are put where they will go, so that no other node takes that place and no node goes
that would receive them. Afterwards they are put back on their nodes. What room the waves leave is known only then.
Source: own.

Checks whether the scheduler can place all moved pods at their destinations in some order, with all of them evicted.

It is not enough that every pod fits in the end: two pods may each fit only because the other one is already there. So
the pods whose placement may need others (required affinity, topology spread) are all taken off, with the nodes that go
closed but still there, and are put back in rounds, each as soon as it fits. Nodes of pods that never fit stay.
Source: own; the scheduler's view while nodes are drained in parallel.
"""

from trimtab.planner.compiled.decorators import copied_kernel, inner_kernel, kernel, widened
from trimtab.planner.predicates.kernels import compose
from trimtab.planner.scale_down.search.kernels.drain_sets import (
    TAKEN,
    DrainProblem,
    fits_in_the_end,
    record_incoming,
    unlink,
)
from trimtab.planner.simulation.kernels import fits, mark, place, remove, revert
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32


@kernel
def hold_places(sim: SimulationState, problem: DrainProblem, nodes: Int32) -> bool:
    """Put the pods of nodes : int32[K] at their hints; return whether all fit there: if not, nothing is changed.

    The nodes have to be no destinations. A pod that depends on others is checked against its node alone. O(pods).
    """
    for row in range(len(nodes)):
        for at in range(problem.offsets[nodes[row]], problem.offsets[nodes[row] + 1]):
            target = problem.hint[problem.pods[at]]
            if target < 0 or not problem.search.allowed[target]:
                return False
    fork = mark(sim)
    for row in range(len(nodes)):
        for at in range(problem.offsets[nodes[row]], problem.offsets[nodes[row] + 1]):
            remove(sim, widened(problem.pods[at]))
    for row in range(len(nodes)):
        for at in range(problem.offsets[nodes[row]], problem.offsets[nodes[row] + 1]):
            pod = widened(problem.pods[at])
            target = widened(problem.hint[pod])
            if not fits_in_the_end(sim, pod, target):
                revert(sim, fork)
                return False
            place(sim, pod, target)
    for row in range(len(nodes)):
        for at in range(problem.offsets[nodes[row]], problem.offsets[nodes[row] + 1]):
            pod = widened(problem.pods[at])
            record_incoming(problem, pod, widened(problem.hint[pod]))
    return True


@kernel
def give_back_places(sim: SimulationState, problem: DrainProblem, nodes: Int32) -> int:
    """Put the pods of nodes : int32[K] back on them; where they were becomes their hint. Returns how many pods.

    O(pods · pods that their nodes have received).
    """
    count = 0
    for row in range(len(nodes)):
        node = widened(nodes[row])
        for at in range(problem.offsets[node], problem.offsets[node + 1]):
            pod = widened(problem.pods[at])
            remove(sim, pod)
            place(sim, pod, node)
            problem.hint[pod] = problem.destination[pod]
            forget_incoming(problem, pod)
            count += 1
    return count


@copied_kernel
def forget_incoming(problem: DrainProblem, pod: int) -> None:
    """Take a pod out of what its destination has received."""
    node = widened(problem.destination[pod])
    problem.destination[pod] = -1
    problem.incoming_count[node] -= 1
    unlink(problem.first_incoming, problem.next_incoming, node, pod)


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
