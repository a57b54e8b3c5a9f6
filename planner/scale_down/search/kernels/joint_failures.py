"""Why the pods of a node cannot all be placed at the same time, although each alone can.

Each node is emptied once more on a fork of the simulation, and its pods and those it has received are placed one by one
as in the greedy loop; for the first without a place, the nodes that each predicate rules out are counted, with the
earlier pods at their destinations.
Source: own.
"""

from trimtab.planner.compiled.decorators import copied_kernel, kernel, widened
from trimtab.planner.placement.kernels.failures import count_failure
from trimtab.planner.placement.kernels.search import seek
from trimtab.planner.scale_down.search.kernels.drain_sets import DrainProblem, remove_pods
from trimtab.planner.simulation.kernels import cordon, fits, mark, place, revert
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Int32, Int64


@kernel
def count_joint_failures(
    sim: SimulationState, problem: DrainProblem, nodes: Int32, blocking_pods: Int32, counts: Int64
) -> int:
    """Fill blocking_pods : int32[K] with the first pod without a place of each of nodes : int32[K], -1 = all can be
    placed.

    counts : int64[K, REASONS], zeroed, in place: by `PredicateReason.Code`, how many allowed nodes it rules out for
    that pod. The simulation is left unchanged. Returns how many nodes have a blocking_pod. O(K · pods of a node · N).
    """
    found = 0
    for row in range(len(nodes)):
        node = widened(nodes[row])
        before = mark(sim)
        allowed = problem.search.allowed[node]
        problem.search.allowed[node] = False
        cordon(sim, node)
        remove_pods(sim, problem, node)
        blocking_pod = first_without_place(sim, problem, node)
        blocking_pods[row] = blocking_pod
        if blocking_pod >= 0:
            found += 1
            for other in range(len(problem.search.allowed)):
                if problem.search.allowed[other]:
                    count_failure(sim, blocking_pod, widened(other), widened(1), counts[row])
        revert(sim, before)
        problem.search.allowed[node] = allowed
    return found


@copied_kernel
def first_without_place(sim: SimulationState, problem: DrainProblem, node: int) -> int:
    """Place the pods of a node, then those it has received; return the first that finds no place, -1 if all do."""
    at, last = problem.offsets[node], problem.offsets[node + 1]
    incoming = widened(problem.first_incoming[node])
    while at < last or incoming >= 0:
        pod = widened(problem.pods[at]) if at < last else incoming
        incoming = incoming if at < last else widened(problem.next_incoming[incoming])
        at += 1
        if not finds_place(sim, problem, pod):
            return int(pod)
    return -1


@copied_kernel
def finds_place(sim: SimulationState, problem: DrainProblem, pod: int) -> bool:
    """Place a pod at its hint if it fits, else on the first node in search order that admits it; return whether it was
    placed.
    """
    target = widened(problem.hint[pod])
    if target < 0 or not problem.search.allowed[target] or not fits(sim, pod, target):
        target = widened(seek(sim, problem.search, pod))
    if target >= 0:
        place(sim, pod, target)
    return bool(target >= 0)
