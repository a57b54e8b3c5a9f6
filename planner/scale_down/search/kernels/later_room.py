"""Room for the pods of later waves, held while more nodes are tried for an earlier one.

The pods of nodes that go later are put where they will go, so that no other node takes that place and no node goes
that would receive them. Afterwards they are put back on their nodes. What room the waves leave is known only then.
Source: own.
"""

from trimtab.planner.compiled.decorators import copied_kernel, kernel, widened
from trimtab.planner.scale_down.search.kernels.drain_sets import DrainProblem, fits_in_the_end, record_incoming, unlink
from trimtab.planner.simulation.kernels import mark, place, remove, revert
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Int32


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
