"""Upper bounds on what new nodes of each group can hold, from classes, amounts and static predicates only. Used to
choose among many groups without packing for each of them. Contract: bounds are optimistic: a pod whose class a group
does not admit fits none of its new nodes, and the admitted pods need at least `least_nodes`. Predicates decided by
counters (ports, affinity, spread, volumes) are not checked. Pure. O(K · G · R + C · G), vectorised, for K kinds of
classes that differ in none of this.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.model.tuning import CLASSES_TOGETHER
from trimtab.planner.predicates import counters
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.growth import NO_TEMPLATE_NODE, Growth
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Bool, Int32, Int64
from trimtab.planner.snapshot.dictionaries import entries_of

UNLIMITED: Final = 2**62


class ClassAdmission(NamedTuple):
    """Which groups take which of C classes of pods, as in `GroupBounds`."""

    classes: Int64
    kind: Int64
    counts: Int64
    admitted: Bool
    free: Int64


class GroupBounds(NamedTuple):
    """Bounds by group for C classes of pods.

    classes : int64[C] ascending; kind : int64[C] classes of one kind have equal requests and are admitted by the same
    groups; counts : int64[C] pods of each; admitted : bool[C, G]; pods : int64[G] how many pods
    are admitted; demand : int64[G, R] what they request together; free : int64[G, R] amounts of a new node; least_nodes
    : int64[G] nodes that they need at least; same_as : int64[G] the first group whose new nodes are equal for these
    pods (itself if there is no earlier one): packings for both give the same result.
    """

    classes: Int64
    kind: Int64
    counts: Int64
    admitted: Bool
    pods: Int64
    demand: Int64
    free: Int64
    least_nodes: Int64
    same_as: Int64


def fresh_amounts(simulation: Simulation, growth: Growth) -> Int64:
    """Return the free amounts of a new node of each group, residents subtracted : int64[G, R], 0 without template
    node."""
    state = simulation.state
    grows = growth.template_node != NO_TEMPLATE_NODE
    template_nodes = growth.template_node[grows]
    free = state.resources.free[template_nodes].copy()
    offsets = state.virtual.resident_offsets
    owner = np.repeat(np.arange(len(template_nodes)), offsets[template_nodes + 1] - offsets[template_nodes])
    at = entries_of(offsets, template_nodes)
    np.subtract.at(free, owner, state.resources.request[state.virtual.resident[at]])
    out = np.zeros((len(grows), free.shape[1]), np.int64)
    out[grows] = free
    return out


def fits_more_on_new_nodes(simulation: Simulation, growth: Growth, nodes: Int32, pods: Int32) -> Int32:
    """Return the pods : int32[M] that have to be together on one node, of which a new node may take more than any of
    nodes : int32. int32. At most CLASSES_TOGETHER classes (C), those with most pods. O(M + C · (nodes + G) · R).
    """
    state = simulation.state
    needed = counters.needs_one_node(state.counters)
    if not needed.any():
        return pods[:0]
    pods = pods[needed[state.pod_class[pods]]]
    classes, counts = np.unique(state.pod_class[pods], return_counts=True)
    together = np.flatnonzero(counts > 1)
    together = together[np.argsort(-counts[together], kind="stable")][:CLASSES_TOGETHER]
    if not len(together):
        return pods[:0]
    grows = growth.template_node != NO_TEMPLATE_NODE
    fresh, there = fresh_amounts(simulation, growth)[grows], state.resources.free[nodes]
    better = [
        int(of_class)
        for of_class, count in zip(classes[together].tolist(), counts[together].tolist(), strict=True)
        if _room(state, of_class, nodes, there)
        < min(_room(state, of_class, growth.template_node[grows].astype(np.int32), fresh), count)
    ]
    fitting: Int32 = pods[np.isin(state.pod_class[pods], better)]
    return fitting


def _room(state: SimulationState, of_class: int, nodes: Int32, free: Int64) -> int:
    """Return how many pods of a class the best of nodes : int32[D] takes. free : int64[D, R] their amounts."""
    request, need = state.resources.request[of_class], state.resources.need[of_class]
    admits = (state.blocked[of_class, state.node_class[nodes]] == 0) & (need <= free).all(axis=1)
    room = (free // np.maximum(request, 1))[:, request > 0].min(axis=1, initial=UNLIMITED)
    return int(room[admits].max(initial=0))


def class_admission(simulation: Simulation, growth: Growth, pods: Int32, groups: Int64) -> ClassAdmission:
    """Return which of some groups : int64 take pods : int32[M]; the others count as taking none."""
    state = simulation.state
    classes, counts = np.unique(state.pod_class[pods], return_counts=True)
    one_of, kind = kinds_of(state, classes)
    free = fresh_amounts(simulation, growth)
    admitted = _admitted(state, growth, classes[one_of], free, groups)
    return ClassAdmission(classes.astype(np.int64), kind, counts.astype(np.int64), admitted[kind], free)


def _admitted(state: SimulationState, growth: Growth, classes: Int64, free: Int64, groups: Int64) -> Bool:
    """Return which of some groups : int64 take which classes : int64[C]; the others count as taking none. bool[C, G].
    free : see `fresh_amounts`."""
    groups = groups[growth.template_node[groups] != NO_TEMPLATE_NODE]
    here = state.blocked[classes][:, state.node_class[growth.template_node[groups]]] == 0
    need = state.resources.need[classes]
    for resource in range(free.shape[1]):
        here &= need[:, resource, None] <= free[groups, resource]
    admitted = np.zeros((len(classes), len(free)), bool)
    admitted[:, groups] = here
    return admitted


def group_bounds(simulation: Simulation, growth: Growth, pods: Int32) -> GroupBounds:
    """Return the bounds for pods : int32[M]."""
    state = simulation.state
    classes, counts = np.unique(state.pod_class[pods], return_counts=True)
    one_of, kind = kinds_of(state, classes)
    row_classes, free = classes[one_of], fresh_amounts(simulation, growth)
    admitted, request = (
        _admitted(state, growth, row_classes, free, np.arange(len(free))),
        state.resources.request[row_classes],
    )
    of_kind = np.bincount(kind, counts, len(row_classes)).astype(np.int64)
    demand = admitted.T.astype(np.int64) @ (request * of_kind[:, None])
    nodes = -(-demand // np.maximum(free, 1))
    return GroupBounds(
        classes.astype(np.int64),
        kind,
        counts.astype(np.int64),
        admitted[kind],
        admitted.T.astype(np.int64) @ of_kind,
        demand,
        free,
        np.where(demand > 0, nodes, 0).max(axis=1, initial=0),
        _same_as(simulation, growth, classes, admitted, free),
    )


def kinds_of(state: SimulationState, classes: Int64) -> tuple[Int64, Int64]:
    """Return the position of one class of each kind alike in requests and static predicates, int64[K], and the kind of
    each class. int64[C]."""
    if not len(classes):
        return np.arange(0), np.arange(0)
    columns = (state.resources.need[classes], state.resources.request[classes], state.blocked[classes])
    rows = np.concatenate(
        [np.ascontiguousarray(column).view(np.uint8).reshape(len(classes), -1) for column in columns], 1
    )
    whole = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1]))).reshape(-1)
    _, one_of, kind = np.unique(whole, return_index=True, return_inverse=True)
    return one_of.astype(np.int64), kind.reshape(-1).astype(np.int64)


def _same_as(simulation: Simulation, growth: Growth, classes: Int64, admitted: Bool, free: Int64) -> Int64:
    """Return for each group the first one whose new nodes are equal in everything relevant to packing : int64[G]."""
    state = simulation.state
    if not len(free):
        return np.zeros(0, np.int64)
    columns = [admitted.T, free, *counters.own_limits(state.counters, growth.template_node)]
    if not state.local_class[classes].all():
        columns += counters.shared_domains(state.counters, growth.template_node)
    rows = [np.ascontiguousarray(column).reshape(len(column), -1).view(np.uint8) for column in columns if column.size]
    width, row_bytes = sum(column.shape[1] for column in rows), np.concatenate(rows, axis=1).tobytes()
    offsets, resident = state.virtual.resident_offsets, state.virtual.resident
    first: dict[tuple[bytes, bytes], int] = {}
    out = np.arange(len(growth.template_node), dtype=np.int64)
    for group in np.flatnonzero(growth.template_node != NO_TEMPLATE_NODE).tolist():
        node = growth.template_node[group]
        residents = resident[offsets[node] : offsets[node + 1]]
        key = (np.sort(residents).tobytes() if len(residents) else b"", row_bytes[group * width : (group + 1) * width])
        out[group] = first.setdefault(key, group)
    return out
