"""The greedy loop: each candidate in turn goes if all its pods can be placed at the same time, otherwise it stays.

A candidate is tried on a fork: it is closed for pods, its pods are taken off, then each is placed, at its remembered
destination if it still fits there, else on the first node in search order that admits it. If one finds no place, or a
limit or a disruption budget would be exceeded, everything is undone. Accepted nodes are not destinations, and a node
that has received pods is no longer a candidate. In the end, nodes that received pods are tried once more: they can go
if the pods they received and their own fit elsewhere.

Search order instead of upstream's round-robin: nodes that stay anyway come first and the most wanted candidates last,
so that pods do not land on nodes that could go. A cursor for each class records up to where no node has room for it;
room only shrinks, so the whole search costs O(classes · N + pods) for classes that depend only on room.
Source: Cluster Autoscaler, simulator.RemovalSimulator and scheduling.HintingSimulator, for the candidates; own loop.
"""

from typing import NamedTuple

from trimtab.planner.compiled.by_reference import by_reference
from trimtab.planner.compiled.decorators import copied_kernel, inner_kernel, kernel, prefetch, widened
from trimtab.planner.drainability.kernels.limits import BLOCKED, NodeLimits, over_budget, over_limit, spend
from trimtab.planner.placement.kernels.search import REMEMBERED, Search, destination_of, has_room_left
from trimtab.planner.predicates.kernels import compose
from trimtab.planner.simulation.kernels import cordon, fits, mark, place, remove, remove_from_topology, revert
from trimtab.planner.simulation.kernels.checks import fits_locally
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32, Int64, UInt8

ACCEPTED = 0
NO_PLACE, DESTINATION, NOT_EVALUATED = 14, 19, 20
"""Outcomes, as `UnremovableReason.Code`, beside those of limits."""

EVALUATED, MOVED, TAKEN = 2, 3, 4
"""Positions in `DrainProblem.counts` after those of a search; TAKEN counts accepted nodes."""
COUNTS = 5


@by_reference()
class DrainProblem(NamedTuple):
    """All data that one attempt reads and writes.

    offsets : int64[N+1], pods : int32[M] pods to move, by node; hint : int32[P'] node or -1; incoming_count : int32[N]
    pods that each node has received, first_incoming : int32[N], next_incoming : int32[P'] these pods, as lists (-1 =
    end), outcome : uint8[N], blocking_pod : int32[N] or -1, destination : int32[P'], counts : int64[COUNTS], accepted :
    int32[N] written; accepted nodes in order.
    """

    offsets: Int64
    pods: Int32
    hint: Int32
    search: Search
    limits: NodeLimits
    incoming_count: Int32
    first_incoming: Int32
    next_incoming: Int32
    outcome: UInt8
    blocking_pod: Int32
    destination: Int32
    counts: Int64
    accepted: Int32


@copied_kernel
def first_pod_without_a_node(sim: SimulationState, problem: DrainProblem, node: int) -> int:
    """Return the first pod of a node for which no node has room even if it is alone, -1 if none; hinted pods are not
    checked.
    """
    search = problem.search
    for row in range(problem.offsets[node], problem.offsets[node + 1]):
        pod = widened(problem.pods[row])
        target = widened(problem.hint[pod])
        hinted = target >= 0 and search.allowed[target]
        if not hinted and not has_room_left(sim, search, pod, node):
            return int(pod)
    return -1


@copied_kernel
def remove_pods(sim: SimulationState, problem: DrainProblem, node: int) -> None:
    """Take off a node the pods it has to move, then those that it has received."""
    at, last = problem.offsets[node], problem.offsets[node + 1]
    incoming = widened(problem.first_incoming[node])
    # One loop for both: the whole code of a move is compiled into each place that moves a pod.
    while at < last or incoming >= 0:
        pod = widened(problem.pods[at]) if at < last else incoming
        incoming = incoming if at < last else widened(problem.next_incoming[incoming])
        at += 1
        remove(sim, pod)


@copied_kernel
def place_pods(sim: SimulationState, problem: DrainProblem, node: int) -> int:
    """Place the pods that `remove_pods` has taken off, in its order; return -1, or the first that finds no place."""
    at, last = problem.offsets[node], problem.offsets[node + 1]
    incoming = widened(problem.first_incoming[node])
    while at < last or incoming >= 0:
        pod = widened(problem.pods[at]) if at < last else incoming
        incoming = incoming if at < last else widened(problem.next_incoming[incoming])
        at += 1
        target = destination_of(sim, problem.search, problem.hint, problem.counts, pod)
        if target < 0:
            return int(pod)
        place(sim, pod, target)
        problem.destination[pod] = target
    return -1


@inner_kernel
def record_incoming(problem: DrainProblem, pod: int, node: int) -> None:
    """Record that a node has received a pod."""
    problem.destination[pod] = node
    problem.next_incoming[pod] = problem.first_incoming[node]
    problem.first_incoming[node] = pod
    problem.incoming_count[node] += 1


@inner_kernel
def unlink(first: Int32, following: Int32, node: int, row: int) -> None:
    """Take a row out of the list of its node. first : int32, by node; following : int32, by row."""
    if first[node] == row:
        first[node] = following[row]
        return
    entry = widened(first[node])
    while following[entry] != row:
        entry = widened(following[entry])
    following[entry] = following[row]


@copied_kernel
def commit_destinations(problem: DrainProblem, node: int) -> None:
    """Record the destinations of the node's own pods and of those that it had received."""
    pod = widened(problem.first_incoming[node])
    problem.first_incoming[node] = -1
    problem.incoming_count[node] = 0
    while pod >= 0:
        following = widened(problem.next_incoming[pod])
        record_incoming(problem, pod, widened(problem.destination[pod]))
        pod = following
    for row in range(problem.offsets[node], problem.offsets[node + 1]):
        pod = widened(problem.pods[row])
        record_incoming(problem, pod, widened(problem.destination[pod]))
        problem.counts[MOVED] += 1


@copied_kernel
def try_candidate(sim: SimulationState, problem: DrainProblem, node: int) -> int:
    """Try to empty a node; return its outcome. On success the simulation keeps the moves, otherwise it is unchanged."""
    might_receive = problem.search.allowed[node]
    problem.search.allowed[node] = False
    blocking_pod = first_pod_without_a_node(sim, problem, node)
    if blocking_pod < 0:
        fork = mark(sim)
        cordon(sim, node)
        remove_pods(sim, problem, node)
        blocking_pod = place_pods(sim, problem, node)
        if blocking_pod >= 0:
            revert(sim, fork)
    if blocking_pod < 0:
        commit_destinations(problem, node)
        return ACCEPTED
    pod = widened(problem.first_incoming[node])
    while pod >= 0:
        problem.destination[pod] = node
        pod = widened(problem.next_incoming[pod])
    problem.search.allowed[node] = might_receive
    problem.blocking_pod[node] = blocking_pod
    return NO_PLACE


@copied_kernel
def evaluate_candidate(sim: SimulationState, problem: DrainProblem, node: int) -> int:
    """Return the outcome of a candidate: kept by a limit, by a budget, for lack of places, or accepted and recorded."""
    outcome = over_limit(problem.limits, node)
    if outcome != 0:
        return outcome
    problem.counts[EVALUATED] += 1
    blocking_pod = over_budget(problem.limits, node)
    if blocking_pod >= 0:
        problem.blocking_pod[node] = blocking_pod
        return BLOCKED
    outcome = try_candidate(sim, problem, node)
    if outcome == ACCEPTED:
        accept(problem, node)
    return outcome


@inner_kernel
def accept(problem: DrainProblem, node: int) -> None:
    """Record that a node goes, and subtract it from what is left of limits."""
    spend(problem.limits, node, widened(1))
    problem.accepted[problem.counts[TAKEN]] = node
    problem.counts[TAKEN] += 1
    problem.outcome[node] = ACCEPTED


@kernel
def repeat_plan(sim: SimulationState, problem: DrainProblem, nodes: Int32) -> bool:
    """Remove the nodes of the last plan again, all together, each pod placed at its hint; False = one cannot go, and
    nothing was moved.

    A node that has already received a (displaced or pending) pod is a destination and cannot go.

    A pod whose class depends on affinity or spread is only checked against its node alone: the order in which nodes
    went does not matter, only whether pods fit in the end, which `mark_unplaceable` checks. If this fails, `problem`
    must not be used any more. O(moved pods · terms).
    """
    # A pod created since the last loop has no destination yet: detect this before anything is moved in vain.
    for row in range(len(nodes)):
        node = widened(nodes[row])
        for at in range(problem.offsets[node], problem.offsets[node + 1]):
            if problem.hint[problem.pods[at]] < 0:
                return False
    fork = mark(sim)
    for row in range(len(nodes)):
        node = widened(nodes[row])
        blocked = problem.incoming_count[node] > 0 or over_limit(problem.limits, node) != 0
        if blocked or over_budget(problem.limits, node) >= 0:
            revert(sim, fork)
            return False
        accept(problem, node)
        problem.search.allowed[node] = False
        cordon(sim, node)
        for at in range(problem.offsets[node], problem.offsets[node + 1]):
            remove(sim, widened(problem.pods[at]))
    for row in range(len(nodes)):
        node = widened(nodes[row])
        problem.counts[EVALUATED] += 1
        for at in range(problem.offsets[node], problem.offsets[node + 1]):
            pod = widened(problem.pods[at])
            target = widened(problem.hint[pod])
            if target < 0 or not problem.search.allowed[target] or not fits_in_the_end(sim, pod, target):
                revert(sim, fork)
                return False
            place(sim, pod, target)
            record_incoming(problem, pod, target)
            problem.counts[REMEMBERED] += 1
            problem.counts[MOVED] += 1
    return True


@copied_kernel
def fits_in_the_end(sim: SimulationState, pod: int, node: int) -> bool:
    """Return whether a node admits a pod, as far as this cannot change once all other pods are at their
    destinations.
    """
    of_class = sim.pod_class[pod]
    if sim.local_class[of_class] != 0:
        return fits(sim, pod, node)
    return (sim.pinned[pod] == -1 or sim.pinned[pod] == node) and fits_locally(sim, of_class, node)


@inner_kernel
def fetch(sim: SimulationState, problem: DrainProblem, node: int) -> None:
    """Request the data of the pods that a node has to move."""
    for row in range(problem.offsets[node], problem.offsets[node + 1]):
        pod = widened(problem.pods[row])
        prefetch(problem.hint, pod)
        prefetch(problem.destination, pod)
        prefetch(problem.next_incoming, pod)
        prefetch(sim.pod_class, pod)
        prefetch(sim.pinned, pod)
        prefetch(sim.pod_node, pod)
        compose.prefetch_own(sim.counters, pod)


@kernel
def drain_candidates(
    sim: SimulationState, problem: DrainProblem, candidates: Int32, first: int, last: int, unneeded_before: Bool,
    still_to_simulate: Int64, patience: int,
) -> int:  # fmt: skip
    """Try candidates[first:last] in order; return the position of the first that was not evaluated.

    still_to_simulate : int64[1], in place: how many more nodes may be that are not unneeded_before : bool[N]; at 0 the
    loop stops. Outcomes, blocking_pods, destinations, counts and accepted nodes are written to `problem`. O(moved
    pods · terms + classes · N) for classes that depend only on room.

    With patience > 0, only the nodes kept because they had received pods are tried, once more. One that fails remains a
    destination; after `patience` consecutive failures the loop stops. They already count as simulated. One kernel
    serves both, because all called kernels are compiled into each caller.
    """
    failures = 0
    again = patience > 0
    for position in range(first, last):
        if (still_to_simulate[0] <= 0 and not again) or (again and failures >= patience):
            return position
        node = widened(candidates[position])
        if position + 2 < last:
            prefetch(problem.pods, problem.offsets[candidates[position + 2]])
        if position + 1 < last:
            fetch(sim, problem, widened(candidates[position + 1]))
        has_incoming = problem.incoming_count[node] > 0
        if again and not (has_incoming and problem.outcome[node] == DESTINATION):
            continue
        if has_incoming and not again:
            problem.outcome[node] = DESTINATION
            continue
        before = problem.counts[EVALUATED]
        outcome = evaluate_candidate(sim, problem, node)
        if outcome == ACCEPTED or not again:
            problem.outcome[node] = outcome
            failures = 0
        else:
            problem.blocking_pod[node] = -1
            failures += 1
        if not unneeded_before[node] and not again:
            still_to_simulate[0] -= problem.counts[EVALUATED] - before
    return last


@kernel
def mark_unplaceable(
    sim: SimulationState, problem: DrainProblem, offsets: Int64, members: Int32, unbound_pods: Int32, unplaceable: Bool
) -> int:
    """Mark in unplaceable : bool[N] accepted nodes with a pod that would not fit at its destination with all nodes
    gone.

    As nodes go one after the other, a later one can break constraints that the pods of an earlier one depended on. So
    each moved pod is checked once more with all pods at their destinations; pods that depend only on their node need no
    check. offsets, members : all pods by node; unbound_pods : pods to take off first, which are not there yet and may
    come late. Returns how many nodes were marked; the simulation is left unchanged.
    """
    before = mark(sim)
    for row in range(len(unbound_pods)):
        remove(sim, widened(unbound_pods[row]))
    count = 0
    for row in range(problem.counts[TAKEN]):
        node = widened(problem.accepted[row])
        for at in range(offsets[node], offsets[node + 1]):
            if sim.pod_node[members[at]] == node:
                remove(sim, widened(members[at]))
        remove_from_topology(sim, node)
    for row in range(problem.counts[TAKEN]):
        node = widened(problem.accepted[row])
        for at in range(problem.offsets[node], problem.offsets[node + 1]):
            pod = widened(problem.pods[at])
            if sim.local_class[sim.pod_class[pod]] != 0 or unplaceable[node]:
                continue
            remove(sim, pod)
            if not fits(sim, pod, widened(problem.destination[pod])):
                unplaceable[node] = True
                problem.blocking_pod[node] = pod
                count += 1
            place(sim, pod, widened(problem.destination[pod]))
    revert(sim, before)
    return count


@kernel
def record_all_incoming(problem: DrainProblem, pod_node: Int64, pods: Int32) -> None:
    """Record for each of the pods that is on a node, pod_node : int64[P'], that its node has received it."""
    for row in range(len(pods)):
        if pod_node[pods[row]] != NO_NODE:
            record_incoming(problem, widened(pods[row]), widened(pod_node[pods[row]]))
