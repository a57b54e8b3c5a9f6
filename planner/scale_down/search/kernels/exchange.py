"""Whether a set of nodes can go together: their pods are packed anew, on a fork of the simulation.

All nodes of the set are emptied first; then each pod goes to the node of an earlier packing, if there was one and it
still fits there, else to the node that is left with least room (best fit), or to the first one. Disruption budgets have
to allow all evictions at the same time, and minimums have to hold. The simulation is always left unchanged: callers
only learn where pods went.
Source: own.
"""

from typing import Final

from trimtab.planner.compiled.decorators import copied_kernel, inner_kernel, kernel, widened
from trimtab.planner.scale_down.search.kernels.drain_sets import DrainProblem, first_lacking, over_limit, use_up
from trimtab.planner.simulation.kernels import cordon, fits, mark, place, remove, revert
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Float64, Int32, Int64

PACKED, NOT_ALLOWED, UNPLACED = 0, 1, 2
"""Results: all pods have a place; a budget or a minimum does not allow the set; a pod found no place."""
CHECKS: Final = 0
"""Position in `work` that counts the nodes looked at for pods."""


@kernel
def pack_nodes(
    sim: SimulationState, problem: DrainProblem, nodes: Int32, pods: Int32, hint: Int32, destination: Int32,
    weight: Float64, work: Int64,
) -> int:  # fmt: skip
    """Empty nodes : int32[K], and place their pods : int32[M] in the given order; return the result.

    hint : int32[P'] node or -1; weight : float64[2] of what is left free of the first two resources, the node with the
    smallest sum takes a pod, the first in search order of equal ones; both 0 = the first that fits. destination :
    int32[P'] is written, and valid for `pods` if the result is PACKED; work : int64[1] += nodes looked at. The
    simulation and the problem are left unchanged. O(M · N).
    """
    if not _is_allowed(problem, nodes):
        return NOT_ALLOWED
    before = mark(sim)
    for row in range(len(nodes)):
        cordon(sim, widened(nodes[row]))
    for row in range(len(pods)):
        remove(sim, widened(pods[row]))
    result = PACKED
    for row in range(len(pods)):
        pod = widened(pods[row])
        target = widened(hint[pod])
        if target < 0 or not problem.search.allowed[target] or not fits(sim, pod, target):
            target = widened(tightest(sim, problem, pod, weight, work))
        if target < 0:
            result = UNPLACED
            break
        place(sim, pod, target)
        destination[pod] = target
    revert(sim, before)
    return result


@copied_kernel
def _is_allowed(problem: DrainProblem, nodes: Int32) -> bool:
    """Return whether budgets and minimums allow all nodes to go at the same time."""
    limits, allowed, taken = problem.limits, True, 0
    for row in range(len(nodes)):
        node = widened(nodes[row])
        if over_limit(limits, node) != 0:
            allowed = False
            break
        limits.group_left[limits.group[node]] -= 1
        for q in range(len(limits.amount_left)):
            limits.amount_left[q] -= limits.amount[node, q]
        use_up(problem, node, widened(1))
        taken += 1
    for row in range(taken):
        if allowed and first_lacking(problem, widened(nodes[row]), widened(0)) >= 0:
            allowed = False
    for row in range(taken):
        node = widened(nodes[row])
        limits.group_left[limits.group[node]] += 1
        for q in range(len(limits.amount_left)):
            limits.amount_left[q] += limits.amount[node, q]
        use_up(problem, node, widened(-1))
    return allowed


@inner_kernel
def tightest(sim: SimulationState, problem: DrainProblem, pod: int, weight: Float64, work: Int64) -> int:
    """Return the allowed node that admits a pod and is left with least room, -1 if none admits it."""
    search, free = problem.search, sim.resources.free
    need, request = sim.resources.need, sim.resources.request
    of_class = widened(sim.pod_class[pod])
    first, second = need[of_class, 0], need[of_class, 1]
    any_node = weight[0] == 0.0 and weight[1] == 0.0
    best, least = widened(-1), 0.0
    for at in range(len(search.order)):
        node = widened(search.order[at])
        if not search.allowed[node] or free[node, 0] < first or free[node, 1] < second:
            continue
        work[CHECKS] += 1
        left = (free[node, 0] - request[of_class, 0]) * weight[0] + (free[node, 1] - request[of_class, 1]) * weight[1]
        if (best < 0 or left < least) and fits(sim, pod, node):
            best, least = node, left
            if any_node:
                break
    return int(best)
