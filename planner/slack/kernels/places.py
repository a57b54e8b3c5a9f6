"""Which placeholders keep their nodes, and the places of the others. Source: own.

A placeholder keeps its node as long as there is room beside the pods on it; if a node has no room for all of its
placeholders, as few as possible leave. The others are placed in one scan over the nodes for each set: room only
shrinks, so a node that one of equal placeholders has skipped need not be tried for the others.
"""

from trimtab.planner.compiled.decorators import inner_kernel, kernel, widened
from trimtab.planner.model.tuning import PLACEHOLDER_CHOICES, PLACEHOLDER_RUNS
from trimtab.planner.simulation.kernels import fits, place
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32, Int64


@kernel
def choose_staying(
    free: Int64, request: Int64, pod_class: Int64, offsets: Int64, node: Int32, scratch: Int64, stays: Bool
) -> int:
    """Determine which placeholders have room on their previous nodes, as many as possible; return how many leave.

    free : int64[N, R], without placeholders; request : int64[S, R]; pod_class : int64[M], placeholders grouped by node
    and, on a node, equal ones adjacent; offsets : int64[Q+1] into them; node : int32[Q]; scratch : int64[4, L + 1], L =
    PLACEHOLDER_RUNS; stays : bool[M], written. Of equal placeholders the first stay, and among equally good choices the
    one that keeps more of the first set. Only amounts count here. O(M · R), and choices · L · R for nodes without room.
    """
    leaving = 0
    for group in range(len(node)):
        first, last = offsets[group], offsets[group + 1]
        at = widened(node[group])
        if is_enough(free, request, pod_class, first, last, at):
            stays[first:last] = True
            continue
        runs, choices = runs_of(pod_class, first, last, scratch)
        if runs <= PLACEHOLDER_RUNS and choices <= PLACEHOLDER_CHOICES:
            write_best_choice(free, request, pod_class, at, runs, scratch)
            for run in range(runs):
                for row in range(scratch[0, run], scratch[0, run] + scratch[1, run]):
                    stays[row] = row - scratch[0, run] < scratch[3, run]
                    leaving += not stays[row]
        else:
            leaving += keep_first(free, request, pod_class, first, last, at, stays)
    return leaving


@inner_kernel
def is_enough(free: Int64, request: Int64, pod_class: Int64, first: int, last: int, node: int) -> bool:
    """Return whether placeholders first to last - 1 have room together. A request of 0 is never checked."""
    for resource in range(free.shape[1]):
        total = 0
        for row in range(first, last):
            total += request[pod_class[row], resource]
        if total > 0 and total > free[node, resource]:
            return False
    return True


@inner_kernel
def runs_of(pod_class: Int64, first: int, last: int, scratch: Int64) -> tuple[int, int]:
    """Write the start and length of each run of equal placeholders; return the number of runs and of choices.

    Stops at PLACEHOLDER_RUNS + 1 runs.
    """
    runs, choices = 0, 1
    for row in range(first, last):
        if row > first and pod_class[row] == pod_class[row - 1]:
            scratch[1, runs - 1] += 1
            continue
        if runs > PLACEHOLDER_RUNS:
            break
        scratch[0, runs] = row
        scratch[1, runs] = 1
        runs += 1
    for run in range(runs):
        if choices <= PLACEHOLDER_CHOICES:
            choices *= scratch[1, run] + 1
    return runs, choices


@inner_kernel
def write_best_choice(free: Int64, request: Int64, pod_class: Int64, node: int, runs: int, scratch: Int64) -> None:
    """Write how many of each run stay: the choice that keeps most; among equal ones, the first in descending order."""
    most = -1
    for run in range(runs):
        scratch[2, run] = scratch[1, run]
    while True:
        number, fitting = 0, True
        for run in range(runs):
            number += scratch[2, run]
        if number > most:
            for resource in range(free.shape[1]):
                total = 0
                for run in range(runs):
                    total += scratch[2, run] * request[pod_class[scratch[0, run]], resource]
                if total > 0 and total > free[node, resource]:
                    fitting = False
                    break
            if fitting:
                most = number
                for run in range(runs):
                    scratch[3, run] = scratch[2, run]
        run = runs - 1
        while run >= 0 and scratch[2, run] == 0:
            scratch[2, run] = scratch[1, run]
            run -= 1
        if run < 0:
            return
        scratch[2, run] -= 1


@inner_kernel
def keep_first(free: Int64, request: Int64, pod_class: Int64, first: int, last: int, node: int, stays: Bool) -> int:
    """Keep one placeholder after the other as long as there is room; return how many leave."""
    leaving = 0
    for row in range(first, last):
        stays[row] = True
        for resource in range(free.shape[1]):
            own = request[pod_class[row], resource]
            total = own
            for other in range(first, row):
                if stays[other]:
                    total += request[pod_class[other], resource]
            if own > 0 and total > free[node, resource]:
                stays[row] = False
                break
        leaving += not stays[row]
    return leaving


@kernel
def place_placeholders(
    sim: SimulationState, bounds: Int64, pods: Int64, hint: Int32, order: Int32, allowed: Bool, tried: Int64
) -> int:
    """Place placeholders: first those with a hint on the hinted nodes, then all others wherever there is room.

    bounds : int64[Q+1], sets of equal placeholders, in the order in which they are placed; pods : int64[M], on no
    node; hint : int32[M] node or -1; order : int32[D] nodes, best first; allowed : bool[N]; tried : int64[Q],
    written, how many nodes each set has tried in its search. Returns how many are on a node.

    A set that depends only on the node takes one scan over the nodes. For other sets, the search continues after the
    node of the last placeholder and ends when no node has room for one.
    """
    placed = 0
    nodes = len(order)
    for turn in range(2):
        for group in range(len(bounds) - 1):
            at, local = 0, False
            for row in range(bounds[group], bounds[group + 1]):
                pod = pods[row]
                local = sim.local_class[sim.pod_class[pod]] != 0
                if sim.pod_node[pod] != NO_NODE:
                    continue
                misses, found = 0, False
                # A single call site for all predicates, because they would be compiled twice otherwise.
                while not found and (turn == 0 or misses < nodes):
                    if turn == 1 and local and at == nodes:
                        misses = nodes
                        break
                    node = widened(hint[row]) if turn == 0 else widened(order[at])
                    tried[group] += turn
                    if node >= 0 and allowed[node] and fits(sim, pod, node):
                        place(sim, pod, node)
                        placed += 1
                        found = True
                    if turn == 0:
                        break
                    if not (found and local):
                        misses += not found
                        at = at + 1 if local or at + 1 < nodes else 0
                if turn == 1 and not found:
                    break
    return placed
