"""Places waiting pods on existing nodes and on upcoming ones. Pods of nodes being deleted come first, then other
displaced pods, then pending ones; within each, by priority, size and age. A pod goes back to its place in the last loop
if possible, before any other pod is placed; otherwise to the fullest node that admits it, upcoming nodes last. A pod
without a place does not stop the others. Never adds a node. Pure; the moves stay in the simulation.
Source: Cluster Autoscaler, core/podlistprocessor (currently_drained_nodes, filter_out_schedulable), which goes round
the nodes instead.

Pods are packed onto new nodes by classes: those of one class are consecutive, classes with equal scores in the order of
their first pods. The first order is the Cluster Autoscaler's (estimator.DecreasingPodOrderer).
"""

from enum import Enum, auto
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.model.settings import PlannerSettings
from trimtab.planner.model.tuning import SEARCHED_DOMAINS
from trimtab.planner.placement.kernels.search import (
    NO_DOMAINS,
    REMEMBERED,
    SEARCHES,
    Domains,
    Search,
    evacuate,
    place_all,
)
from trimtab.planner.predicates import counters
from trimtab.planner.predicates.counters import takes_one
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import (
    FLAG_DAEMON,
    FLAG_GATED,
    FLAG_MIRROR,
    FLAG_UNSCHEDULABLE,
    NO_NODE,
    Bool,
    Float64,
    Int32,
    Int64,
    Snapshot,
)
from trimtab.planner.snapshot.dictionaries import CPU, MEMORY, entries_of
from trimtab.planner.snapshot.references import take_or

_CPU_AND_MEMORY = slice(0, 2)


class PodsByClass(NamedTuple):
    """Pods of C classes.

    classes : int64[C] ascending; first : int64[C] position of each class's first pod; members : int32[M] pods by class,
    in the order given; offsets : int64[C+1] of each class.
    """

    classes: Int64
    first: Int64
    members: Int32
    offsets: Int64

    def in_order(self, rows: Int64) -> Int32:
        """Return the pods of some classes, one class after the other. rows : int64 positions in `classes`."""
        members: Int32 = self.members[entries_of(self.offsets, rows)]
        return members


def by_class(simulation: Simulation, pods: Int32) -> PodsByClass:
    """Return pods : int32[M] by their classes."""
    classes, first, of = np.unique(simulation.state.pod_class[pods], return_index=True, return_inverse=True)
    counts = np.bincount(of.reshape(-1), minlength=len(classes))
    return PodsByClass(
        classes.astype(np.int64),
        first.astype(np.int64),
        pods[np.argsort(of.reshape(-1), kind="stable")].astype(np.int32),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
    )


def orders(simulation: Simulation, pods: PodsByClass, rows: Int64, free: Int64, bound_most: Int64) -> list[Int64]:
    """Return the distinct orders to try of some classes, each as int64[C] positions in `pods.classes`.

    rows : int64[C], these positions; free : int64[R] amounts of a new node; bound_most : int64[S] as `boundness`
    returns it. By the sum of the shares of cpu and memory; by the largest share of any resource; and, if some classes
    are bound more than others (`boundness`), with those first.
    """
    state, classes, first = simulation.state, pods.classes[rows], pods.first[rows]
    shares = state.resources.request[classes] / np.maximum(free, 1)
    total = shares[:, _CPU_AND_MEMORY].sum(axis=1)
    bound = bound_most[classes]
    keys: list[tuple[Float64, ...]] = [(total,), (shares.max(axis=1, initial=0.0),)]
    if len(bound) and bound.min() < bound.max():
        keys.append((total, bound.astype(np.float64)))
    distinct: list[Int64] = []
    for key in keys:
        order = rows[np.lexsort((first, *(-part for part in key)))]
        if not any(np.array_equal(order, other) for other in distinct):
            distinct.append(order)
    return distinct


def boundness(state: SimulationState) -> Int64:
    """Return how constrained the nodes of a class are. int64[S]: 2 for pods of which a node or domain takes only one,
    because of host ports for example; 1 for pods with other affinity or spread constraints; 0 for all others. Pods that
    merely fill nodes should come after them.
    """
    bound: Int64 = (state.local_class == 0).astype(np.int64)
    bound[takes_one(state.counters)] = 2
    return bound


def new_search(state: SimulationState, order: Int32, allowed: Bool) -> Search:
    """Return a new search. order : int32[D]; allowed : bool[N]. O(topology rows · D log D)."""
    cursor, failed = np.zeros((2, len(state.local_class)), np.int64)
    return Search(order, allowed, cursor, failed, _domains(state, order))


def _domains(state: SimulationState, order: Int32) -> Domains:
    of_row = counters.domains_of_constraints(state.counters)
    rows = [row for row, domain in of_row.items() if domain.max(initial=-1) < SEARCHED_DOMAINS]
    if not rows:
        return NO_DOMAINS
    chain = np.full(max(of_row) + 1, -1, np.int32)
    chain[rows] = np.arange(len(rows), dtype=np.int32)
    head = np.full((len(rows), SEARCHED_DOMAINS), -1, np.int32)
    following = np.full((len(rows), len(order)), -1, np.int32)
    for place, row in enumerate(rows):
        domain = of_row[row][order]
        rows_there = np.flatnonzero(domain >= 0)
        sorted_by_domain = rows_there[np.argsort(domain[rows_there], kind="stable")]
        its = domain[sorted_by_domain]
        starts = np.flatnonzero(np.diff(its, prepend=-1))
        head[place, its[starts]] = sorted_by_domain[starts]
        same = its[1:] == its[:-1]
        following[place, sorted_by_domain[:-1][same]] = sorted_by_domain[1:][same]
    return Domains(chain, head, following, np.empty(SEARCHED_DOMAINS, np.int32), np.full(1, -1, np.int64))


class PodOrder(Enum):
    """The order in which pods of one priority are placed. BOUND_FIRST : see `in_order`; LISTED : by name."""

    BOUND_FIRST = auto()
    LARGEST_FIRST = auto()
    SMALLEST_FIRST = auto()
    LISTED = auto()
    LISTED_BACKWARDS = auto()


class NodeOrder(Enum):
    """The order in which existing nodes are tried. FULLEST_FIRST : by cpu or memory; LISTED : by name."""

    FULLEST_FIRST = auto()
    EMPTIEST_FIRST = auto()
    LISTED = auto()


class PlacementOrder(NamedTuple):
    """Orders in which waiting pods are placed; none is best for every cluster."""

    pods: PodOrder
    nodes: NodeOrder


USUAL: Final = PlacementOrder(PodOrder.BOUND_FIRST, NodeOrder.FULLEST_FIRST)
"""Room that only some nodes have is not used up by pods that fit anywhere, and empty nodes stay empty."""


class Places(NamedTuple):
    """Nodes on which pods may be placed. order : int32[D] nodes, best first; allowed : bool[N'], those in `order`; pods
    : the order of pods."""

    order: Int32
    allowed: Bool
    pods: PodOrder


class Waiting(NamedTuple):
    """The result for waiting pods. pods : int32[M] in the order of placement; node : int32[M] the node of each, -1 =
    none; leaving : int32 those from nodes being deleted; remembered, searches : how places were found.
    """

    pods: Int32
    node: Int32
    leaving: Int32
    remembered: int
    searches: int

    @property
    def left(self) -> Int32:
        """Pods without a place, in the same order. int32."""
        nowhere: Int32 = self.pods[self.node == NO_NODE]
        return nowhere


def places(simulation: Simulation, usable: Bool, upcoming: Int64, way: PlacementOrder = USUAL) -> Places:
    """Return the nodes on which pods may be placed: existing ones, then upcoming ones. usable : bool[N], nodes that are
    ready and stay; upcoming : int64 nodes of the simulation that stand for upcoming ones.
    """
    existing = np.flatnonzero(usable)
    if way.nodes is not NodeOrder.LISTED:
        used = used_shares(simulation, existing)
        existing = existing[np.argsort(-used if way.nodes is NodeOrder.FULLEST_FIRST else used, kind="stable")]
    order = np.concatenate([existing, upcoming]).astype(np.int32)
    allowed = np.zeros(len(simulation.state.node_state), bool)
    allowed[order] = True
    return Places(order, allowed, way.pods)


def used_shares(simulation: Simulation, nodes: Int64) -> Float64:
    """Return how much of each of these nodes of the snapshot is used, of cpu or memory, whichever is more."""
    used = np.zeros(len(nodes))
    for resource in (CPU, MEMORY):
        offered = simulation.snapshot.nodes.allocatable[nodes, resource]
        free = simulation.state.resources.free[nodes, resource]
        np.maximum(used, (offered - free) / np.maximum(offered, 1), out=used)
    return used


def pods_to_move(snapshot: Snapshot, leaving: Bool, expendable_priority: int) -> Int32:
    """Return the pods that still have to leave nodes being deleted, node by node in pod order. int32. leaving :
    bool[N]; expendable_priority : pods of lower priority need no place. A terminating pod has been evicted: its
    replacement is pending, placed, or a recent eviction. O(P) if a node is being deleted.
    """
    if not leaving.any():
        return np.zeros(0, np.int32)
    pods = snapshot.pods
    moving = take_or(leaving, pods.node, False) & (pods.deletion_s == 0) & ~pods.is_terminal()
    moving &= (pods.flags & (FLAG_DAEMON | FLAG_MIRROR)) == 0
    moving &= (snapshot.spec_priorities() >= expendable_priority)[pods.spec]
    rows = np.flatnonzero(moving)
    return rows[np.argsort(pods.node[rows], kind="stable")].astype(np.int32)


def pods_with_room(snapshot: Snapshot, settings: PlannerSettings, ignored: Bool) -> Int32:
    """Return the pods that wait for a node and can be scheduled, for which the settings keep room, in order of name.
    int32.

    Only those that the scheduler has marked unschedulable, as upstream: it has yet to try the others. ignored :
    bool[P].
    """
    if not settings.reserve_for_pending:
        return np.zeros(0, np.int32)
    pods = snapshot.pods
    waiting = (pods.node == NO_NODE) & ~ignored & (pods.deletion_s == 0) & ((pods.flags & FLAG_GATED) == 0)
    if not settings.reserve_for_unmarked:
        waiting &= (pods.flags & FLAG_UNSCHEDULABLE) != 0
    return np.flatnonzero(waiting).astype(np.int32)


def close_leaving(simulation: Simulation, leaving: Bool, pods: Int32) -> None:
    """Close nodes being deleted, and take off the pods that still have to leave them. leaving : bool[N]; pods :
    int32[M]."""
    if not leaving.any() and not len(pods):
        return
    still_there = simulation.state.pod_node[pods] == simulation.snapshot.pods.node[pods]
    evacuate(simulation.state, np.flatnonzero(leaving).astype(np.int32), pods[still_there], False)


def place_waiting(
    simulation: Simulation, where: Places, displaced: Int32, pending: Int32, hint: Int32, leaving: Int32
) -> Waiting:
    """Place the pods that are on no node. displaced : int32 virtual pods, such as recently evicted ones; pending :
    int32 pods of the snapshot; leaving : int32 pods of nodes being deleted, already taken off them; hint : int32[P']
    node, -1 = none. Pods that have a place keep it. O(pods · terms + classes · N) for classes that depend only on their
    node.
    """
    state = simulation.state
    pods = np.concatenate([in_order(simulation, some, where.pods) for some in (leaving, displaced, pending)])
    if not len(pods):
        return Waiting(pods, pods, leaving, 0, 0)
    counts, destination = np.zeros(2, np.int64), np.full(len(state.pod_node), -1, np.int32)
    hints = np.full(len(state.pod_node), -1, np.int32)
    hints[: len(hint)] = hint
    hinted = pods[(hints[pods] >= 0) & (state.pod_node[pods] == NO_NODE)]
    if len(hinted):
        place_all(state, new_search(state, where.order[:0], where.allowed), hints, destination, counts, hinted, False)
        counts[SEARCHES] = 0
    waiting = unplaced(state, pods)
    # Those that request no more of any resource than some node has.
    largest = state.resources.free[where.order].max(axis=0, initial=0)
    waiting = waiting[(state.resources.need <= largest).all(axis=1)[state.pod_class[waiting]]]
    place_in_passes(state, new_search(state, where.order, where.allowed), hints, destination, counts, waiting)
    return Waiting(pods, state.pod_node[pods].astype(np.int32), leaving, int(counts[REMEMBERED]), int(counts[SEARCHES]))


def place_in_passes(
    state: SimulationState, search: Search, hints: Int32, destination: Int32, counts: Int64, pods: Int32
) -> None:
    """Place pods : int32[M], on no node; as long as some find places, those that depend on other pods are tried again.
    hints, destination, counts : as in `place_all`."""
    waiting, before = pods, 0
    while len(waiting) != before:
        place_all(state, search, hints, destination, counts, waiting, False)
        before, waiting = len(waiting), unplaced(state, waiting)
        if len(waiting) != before:
            # Pods placed later may satisfy an affinity, or even out a spread.
            waiting = waiting[state.local_class[state.pod_class[waiting]] == 0]


def place_anywhere(state: SimulationState, order: Int32, allowed: Bool, pods: Int32) -> None:
    """Place pods : int32[M], those that are on no node, on the first nodes in order that admit them. order : int32[D];
    allowed : bool[N'] nodes that may get pods."""
    nowhere = np.full(len(state.pod_node), NO_NODE, np.int32)
    search = new_search(state, order, allowed)
    place_in_passes(state, search, nowhere, nowhere.copy(), np.zeros(2, np.int64), unplaced(state, pods))


def take_out(simulation: Simulation, nodes: Int32) -> None:
    """Remove nodes : int32 from the simulation, with the pods of the snapshot still on them. O(P)."""
    at = simulation.state.pod_node[: simulation.pod_count]
    gone = np.zeros(len(simulation.state.node_state) + 1, bool)
    gone[nodes] = True
    evacuate(simulation.state, nodes, np.flatnonzero(gone[at]).astype(np.int32), True)


def place_where(state: SimulationState, allowed: Bool, pods: Int32, node: Int32) -> None:
    """Place pods : int32[M], on no node, on their given nodes as soon as these admit them. node : int32[P'], -1 = none.
    A node that is not allowed : bool[N'] counts as none.
    """
    before = -1
    waiting = unplaced(state, pods[node[pods] != NO_NODE])
    search, counts = new_search(state, pods[:0], allowed), np.zeros(2, np.int64)
    while len(waiting) not in {0, before}:
        # Pods placed since then may satisfy an affinity, or even out a spread.
        before = len(waiting)
        place_all(state, search, node, node.copy(), counts, waiting, False)
        waiting = unplaced(state, waiting)


def in_order(simulation: Simulation, pods: Int32, order: PodOrder = PodOrder.BOUND_FIRST) -> Int32:
    """Return pods : int32[M] in the order in which they are placed. O(M log M). By priority; more bound pods first
    (`boundness`); by their largest share of all nodes' amount of a resource; equal pods together; by age; by number.
    Pods of unknown age count as old, and so do virtual ones. Other orders change the criteria between priority and
    number.
    """
    if not len(pods):
        return pods
    priority = priorities(simulation, pods)
    ordered: Int32
    if order is PodOrder.LISTED or order is PodOrder.LISTED_BACKWARDS:
        ordered = pods[np.lexsort((pods if order is PodOrder.LISTED else -pods, -priority))]
        return ordered
    snapshot, state = simulation.snapshot, simulation.state
    of_class = state.pod_class[pods]
    amounts = dict(zip(snapshot.resources, snapshot.nodes.allocatable.sum(axis=0).tolist(), strict=True))
    offered = np.array([amounts.get(name, 0) for name in simulation.resources], np.int64)
    size = (state.resources.request / np.maximum(offered, 1)).max(axis=1, initial=0.0)
    if order is PodOrder.SMALLEST_FIRST:
        size = -size
    bound = boundness(state) if order is PodOrder.BOUND_FIRST else np.zeros(len(size), np.int64)
    created_s, real = np.zeros(len(pods), np.int64), pods < simulation.pod_count
    created_s[real] = snapshot.pods.created_s[pods[real]]
    ordered = pods[np.lexsort((pods, created_s, of_class, -size[of_class], -bound[of_class], -priority))]
    return ordered


def priorities(simulation: Simulation, pods: Int32) -> Int64:
    """Return the priority of each of the pods : int32[M], virtual ones included. int64[M]."""
    priority, real = np.zeros(len(pods), np.int64), pods < simulation.pod_count
    snapshot, virtual = simulation.snapshot, pods[~real] - simulation.pod_count
    by_spec = snapshot.spec_priorities()
    priority[real] = by_spec[snapshot.pods.spec[pods[real]]]
    priority[~real] = [simulation.virtual.pods[at].spec.priority for at in virtual.tolist()]
    return priority


def unplaced(state: SimulationState, pods: Int32) -> Int32:
    """Return the pods that are on no node in the simulation. int32."""
    nowhere: Int32 = pods[state.pod_node[pods] == NO_NODE]
    return nowhere
