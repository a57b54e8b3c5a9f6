"""Whether a set of nodes can go together: their pods are packed anew, on a fork of the simulation.

All nodes of the set are emptied first; then each pod goes to its node of an earlier packing, if there was one and it
still fits there, else to the node that is left with least room (best fit), or to the first one. A pod without a place
takes that of one or two other pods of the set, which then wait for a place themselves. With each time that a pod finds
no place it becomes dearer to displace, and the cheapest give way: so pods that are hard to place get their place first,
and the search does not go round in circles. In the end every pod that depends on others is checked once more.
Disruption budgets have to allow all evictions at the same time, and minimums have to hold. The simulation is always
left unchanged: callers only learn where pods went.
Source: own; guided ejection is by Nagata and Bräysy (2009), for routes of vehicles.
"""

from typing import Final, NamedTuple

from trimtab.planner.compiled.decorators import copied_kernel, inner_kernel, kernel, widened
from trimtab.planner.drainability.kernels.limits import all_may_leave
from trimtab.planner.model.tuning import LOOKS_A_CHECK
from trimtab.planner.predicates.kernels.compose import ADMITTED
from trimtab.planner.scale_down.search.kernels.drain_sets import DrainProblem, unlink
from trimtab.planner.simulation.kernels import cordon, fits, mark, place, remove, revert
from trimtab.planner.simulation.kernels.checks import refusal_by_counters
from trimtab.planner.simulation.state import OPEN, SimulationState
from trimtab.planner.snapshot.columns import Float64, Int32, Int64

PACKED, NOT_ALLOWED, UNPLACED = 0, 1, 2
"""Results: all pods have a place; a budget or a minimum does not allow the set; a pod found no place."""
CHECKS: Final = 0
"""Position in `work` that counts the nodes looked at for pods."""
NOWHERE: Final = -1
SPARE_MOVES: Final = 64
"""Moves for which the log keeps room, besides four for each pod."""


class MovedPods(NamedTuple):
    """pods : int32[M] to place, in order. The rest is scratch, by row of `pods`: at : int32[M] its node; waiting :
    int32[M] rows without a place, the next one last; dearness : int64[M] how often it found no place, from 1; following
    : int32[M] the next row on the same node, first : int32[N] the first; out : int32[3] two rows to displace (-1 =
    none), and how many were looked at."""

    pods: Int32
    at: Int32
    waiting: Int32
    dearness: Int64
    following: Int32
    first: Int32
    out: Int32


@kernel
def pack_nodes(
    sim: SimulationState, problem: DrainProblem, nodes: Int32, moved: MovedPods, destination: Int32, weight: Float64,
    tries: int, work: Int64,
) -> int:  # fmt: skip
    """Empty nodes : int32[K] and place their pods; return the result.

    destination : int32[P'] where pods go if they fit there, -1 = anywhere; if the result is PACKED, where they went.
    weight : float64[2] of what is left free of the first two resources, the node with the smallest sum takes a pod, the
    first in search order of equal ones; both 0 = the first that fits. tries : how many times pods may be displaced;
    work : int64[1] += nodes looked at. The simulation and the problem are left unchanged. O((M + tries) · N).
    """
    if not all_may_leave(problem.limits, nodes):
        return NOT_ALLOWED
    before = mark(sim)
    for row in range(len(nodes)):
        cordon(sim, widened(nodes[row]))
    for row in range(len(moved.pods)):
        remove(sim, widened(moved.pods[row]))
    start = mark(sim)
    moved.first[:] = NOWHERE
    moved.out[2] = 0
    waiting = 0
    for row in range(len(moved.pods) - 1, -1, -1):
        moved.at[row] = NOWHERE
        moved.dearness[row] = 1
        moved.waiting[waiting] = row
        waiting += 1
    tries_left, unfit = tries, 0
    while waiting > 0:
        if sim.log.length[0] + 4 * len(moved.pods) + SPARE_MOVES > len(sim.log.moves):
            shorten_log(sim, moved, start)
        row = widened(moved.waiting[waiting - 1])
        pod = widened(moved.pods[row])
        target = widened(destination[pod])
        destination[pod] = NOWHERE
        if target < 0 or not problem.search.allowed[target] or not fits(sim, pod, target):
            target = widened(tightest(sim, problem, pod, weight, work))
        if target < 0:
            if tries_left == 0:
                break
            moved.dearness[row] += 1
            tries_left -= 1
            target = widened(node_to_clear(sim, problem, moved, row))
            if target < 0:
                break
            waiting = displaced(sim, moved, target, waiting)
            moved.waiting[waiting - 1] = row
        place(sim, pod, target)
        moved.at[row] = target
        moved.following[row] = moved.first[target]
        moved.first[target] = row
        waiting -= 1
        if waiting == 0:
            waiting = unfit_in_the_end(sim, moved)
            if unfit == tries:
                break
            unfit += waiting
    revert(sim, before)
    work[CHECKS] += moved.out[2] // LOOKS_A_CHECK
    for row in range(len(moved.pods)):
        destination[moved.pods[row]] = moved.at[row]
    return UNPLACED if waiting > 0 else PACKED


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
        rest = (free[node, 0] - request[of_class, 0]) * weight[0] + (free[node, 1] - request[of_class, 1]) * weight[1]
        if (best < 0 or rest < least) and fits(sim, pod, node):
            best, least = node, rest
            if any_node:
                break
    return int(best)


@inner_kernel
def shorten_log(sim: SimulationState, moved: MovedPods, start: int) -> None:
    """Undo all moves since a mark at which all pods were off their nodes, and place them where they are now."""
    revert(sim, start)
    for row in range(len(moved.pods)):
        if moved.at[row] >= 0:
            place(sim, widened(moved.pods[row]), widened(moved.at[row]))


@inner_kernel
def node_to_clear(sim: SimulationState, problem: DrainProblem, moved: MovedPods, row: int) -> int:
    """Return the node on which a waiting pod has a place once the rows in `out` are displaced, -1 if there is none.

    It is the one whose rows are least dear; of equal ones the first in search order, and there the rows placed last.
    Where other pods keep one away that depends on them, one of these is displaced, or none.
    """
    pod = widened(moved.pods[row])
    of_class = widened(sim.pod_class[pod])
    search, best, least = problem.search, widened(NOWHERE), widened(0)
    for position in range(len(search.order)):
        node = widened(search.order[position])
        if not search.allowed[node] or sim.node_state[node] != OPEN:
            continue
        if sim.blocked[of_class, sim.node_class[node]] != 0:
            continue
        kept_away = sim.local_class[of_class] == 0 and refusal_by_counters(sim, pod, of_class, node) != ADMITTED
        pod_there = widened(moved.first[node])
        while pod_there >= 0:
            other, cost = widened(NOWHERE), widened(moved.dearness[pod_there])
            while best < 0 or moved.dearness[pod_there] < least:
                if (best < 0 or cost < least) and has_room_without(sim, moved, pod, node, pod_there, other, kept_away):
                    best, least = node, cost
                    moved.out[0], moved.out[1] = pod_there, other
                other = widened(moved.following[pod_there] if other < 0 else moved.following[other])
                if other < 0:
                    break
                cost = widened(moved.dearness[pod_there] + moved.dearness[other])
            pod_there = widened(moved.following[pod_there])
    return int(best)


@copied_kernel
def has_room_without(
    sim: SimulationState, moved: MovedPods, pod: int, node: int, leaver: int, other: int, kept_away: bool
) -> bool:  # fmt: skip
    """Return whether a node admits a pod without the pods of a row, and of another if it is not -1. kept_away : not
    without a pod among them that depends on others."""
    need, request, free = sim.resources.need, sim.resources.request, sim.resources.free
    of_class = widened(sim.pod_class[pod])
    first = widened(sim.pod_class[moved.pods[leaver]])
    second = widened(sim.pod_class[moved.pods[other]]) if other >= 0 else first
    moved.out[2] += 1
    if kept_away and sim.local_class[first] != 0 and sim.local_class[second] != 0:
        return False
    for q in range(2):
        room = free[node, q] + request[first, q] + (request[second, q] if other >= 0 else 0)
        if room < need[of_class, q]:
            return False
    start = mark(sim)
    row = leaver
    while row >= 0:
        remove(sim, widened(moved.pods[row]))
        row = other if row == leaver else widened(NOWHERE)
    admits = fits(sim, pod, node)
    revert(sim, start)
    return bool(admits)


@inner_kernel
def displaced(sim: SimulationState, moved: MovedPods, node: int, waiting: int) -> int:
    """Take the rows in `out` off a node; return how many wait then, these before the last one."""
    for at in range(2):
        row = widened(moved.out[at])
        if row < 0:
            continue
        remove(sim, widened(moved.pods[row]))
        moved.at[row] = NOWHERE
        unlink(moved.first, moved.following, node, row)
        moved.waiting[waiting - 1] = row
        waiting += 1
    return int(waiting)


@inner_kernel
def unfit_in_the_end(sim: SimulationState, moved: MovedPods) -> int:
    """Take off the first pod that does not fit with all others at their places; return how many wait then: 0 or 1."""
    for row in range(len(moved.pods)):
        pod = widened(moved.pods[row])
        if sim.local_class[sim.pod_class[pod]] != 0:
            continue
        remove(sim, pod)
        if not fits(sim, pod, widened(moved.at[row])):
            unlink(moved.first, moved.following, widened(moved.at[row]), row)
            moved.at[row] = NOWHERE
            moved.dearness[row] += 1
            moved.waiting[0] = row
            return 1
        place(sim, pod, widened(moved.at[row]))
    return 0
