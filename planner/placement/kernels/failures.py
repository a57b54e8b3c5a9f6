"""Which nodes admit a pod that has to leave its own, and why the others do not, in the current simulation. On its node,
a pod counts for spread, affinity and claims, its own included. A pod to which these matter is therefore taken off its
node while it is checked. Its own node is not a destination. The simulation is left unchanged.
Source: own.
"""

from trimtab.planner.compiled.decorators import copied_kernel, inner_kernel, kernel, widened
from trimtab.planner.predicates.kernels.compose import is_unlike_its_class
from trimtab.planner.simulation.kernels import failing, mark, remove, revert
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Bool, Int32, Int64


@kernel
def count_failures(sim: SimulationState, pods: Int32, allowed: Bool, counts: Int64) -> None:
    """Add to counts : int64[K, REASONS] how many allowed nodes each predicate rules out for each pod, its own node
    included. counts[:, 0] counts the nodes that no predicate rules out. O(K · N).
    """
    for row in range(len(pods)):
        fork = mark(sim)
        remove_if_it_affects_others(sim, widened(pods[row]))
        for node in range(len(allowed)):
            if allowed[node]:
                count_failure(sim, widened(pods[row]), widened(node), widened(1), counts[row])
        revert(sim, fork)


@kernel
def discount_failures(sim: SimulationState, pods: Int32, nodes: Int32, counts: Int64) -> None:
    """Subtract one node for each pod from its counts : int64[K, REASONS]. O(K)."""
    for row in range(len(pods)):
        fork = mark(sim)
        remove_if_it_affects_others(sim, widened(pods[row]))
        count_failure(sim, widened(pods[row]), widened(nodes[row]), widened(-1), counts[row])
        revert(sim, fork)


@copied_kernel
def remove_if_it_affects_others(sim: SimulationState, pod: int) -> None:
    """Take a pod off its node if that can affect which nodes admit it."""
    if sim.local_class[sim.pod_class[pod]] == 0 or is_unlike_its_class(sim.counters, pod):
        remove(sim, pod)


@inner_kernel
def count_failure(sim: SimulationState, pod: int, node: int, step: int, counts: Int64) -> None:
    """Add `step` to counts : int64[32] for each failing predicate, or to counts[0] if none fails."""
    mask = failing(sim, pod, node)
    if mask == 0:
        counts[0] += step
    for reason in range(1, len(counts)):
        counts[reason] += step * ((mask >> reason) & 1)
