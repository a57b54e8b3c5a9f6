"""Moves of pods and nodes, each written to the log, and their reversal. O(terms of the pod) or O(spread pairs)."""

from typing import cast

import numpy as np

from trimtab.planner.compiled.decorators import copied_kernel, inlined_kernel, inner_kernel, kernel, shared_kernel
from trimtab.planner.predicates.kernels import compose, resources
from trimtab.planner.simulation.state import (
    CLOSE_NODE,
    CLOSED,
    CORDON,
    CORDONED,
    DONE,
    LEAVE_TOPOLOGY,
    LOG_FULL,
    NOT_POSSIBLE,
    OPEN,
    OPEN_NODE,
    OUTSIDE,
    PLACE,
    PLACE_SEVERAL,
    REMOVE,
    MoveLog,
    SimulationState,
)
from trimtab.planner.snapshot.columns import NO_NODE, Int64

# Typed: otherwise every kernel below would be compiled once for each literal argument.
_JOIN, _LEAVE = cast(int, np.int64(1)), cast(int, np.int64(-1))
_CORDONED_LEAVE, _CORDONED_STAY = cast(int, np.int64(0)), cast(int, np.int64(1))
_PLACE, _REMOVE, _CORDON, _LEAVE_TOPOLOGY = (cast(int, np.int64(n)) for n in (PLACE, REMOVE, CORDON, LEAVE_TOPOLOGY))
_OPEN, _CLOSE, _SEVERAL, _NO_POD = (cast(int, np.int64(n)) for n in (OPEN_NODE, CLOSE_NODE, PLACE_SEVERAL, NO_NODE))


@copied_kernel
def _count(sim: SimulationState, pod_class: int, node: int, sign: int) -> None:
    """Count `sign` pods of a class on a node; a negative number takes them off."""
    resources.subtract_requests(sim.resources, pod_class, node, sign)
    compose.count(sim.counters, pod_class, node, sign)


@copied_kernel
def _enter(sim: SimulationState, pod: int, node: int, sign: int) -> None:
    """Put a pod on a node (sign 1) or take it off (sign -1), without a log entry."""
    _count(sim, sim.pod_class[pod], node, sign)
    _note_place(sim, pod, node, sign)


@copied_kernel
def _note_place(sim: SimulationState, pod: int, node: int, sign: int) -> None:
    compose.count_own(sim.counters, pod, node, sign)
    sim.pod_node[pod] = node if sign > 0 else NO_NODE


@shared_kernel
def move_node(sim: SimulationState, node: int, sign: int, stays: int) -> None:
    """Let a node join the topology (sign 1) or leave it (sign -1): for the predicates that ignore a cordoned node
    (stays 0), or for those that count it still (stays 1).
    """
    compose.move_node(sim.counters, node, sign, stays)


@copied_kernel
def _cordon(sim: SimulationState, node: int, sign: int) -> None:
    move_node(sim, node, sign, _CORDONED_LEAVE)
    sim.node_state[node] = CORDONED if sign < 0 else OPEN


@copied_kernel
def _remove_from_topology(sim: SimulationState, node: int, sign: int) -> None:
    move_node(sim, node, sign, _CORDONED_STAY)
    if has_residents(sim, node):
        move_residents(sim, node, sign)
    sim.node_state[node] = OUTSIDE if sign < 0 else CORDONED


@shared_kernel
def look_like(sim: SimulationState, node: int, like: int) -> None:
    """Copy a template's columns from one node to another, which keeps its name. O(node sets + topology rows)."""
    sim.node_class[node] = sim.node_class[like]
    free = sim.resources.free
    for resource in range(free.shape[1]):
        free[node, resource] = free[like, resource]
    compose.look_like(sim.counters, node, like)


@shared_kernel
def move_residents(sim: SimulationState, node: int, sign: int) -> None:
    """Put the residents of a virtual node on it (sign 1), or take them off (sign -1)."""
    like = sim.virtual.opened_from[node]
    of = like if like >= 0 else node
    for at in range(sim.virtual.resident_offsets[of], sim.virtual.resident_offsets[of + 1]):
        _count(sim, sim.virtual.resident[at], node, sign)


@inlined_kernel
def has_residents(sim: SimulationState, node: int) -> bool:
    """Return whether a node has residents."""
    like = sim.virtual.opened_from[node]
    of = like if like >= 0 else node
    return bool(sim.virtual.resident_offsets[of] < sim.virtual.resident_offsets[of + 1])


@inner_kernel
def join(sim: SimulationState, node: int, template_node: int) -> None:
    """Add a closed node to the cluster, like the template node (-1 = as it is); without a log entry."""
    if template_node >= 0:
        look_like(sim, node, template_node)
        sim.virtual.opened_from[node] = template_node
    move_residents(sim, node, _JOIN)
    move_node(sim, node, _JOIN, _CORDONED_LEAVE)
    move_node(sim, node, _JOIN, _CORDONED_STAY)
    sim.node_state[node] = OPEN


@inner_kernel
def leave(sim: SimulationState, node: int) -> None:
    """Undo `join`."""
    move_node(sim, node, _LEAVE, _CORDONED_LEAVE)
    move_node(sim, node, _LEAVE, _CORDONED_STAY)
    move_residents(sim, node, _LEAVE)
    if sim.virtual.opened_from[node] >= 0:
        look_like(sim, node, sim.virtual.spare[0])
        sim.virtual.opened_from[node] = NO_NODE
    sim.node_state[node] = CLOSED


@copied_kernel
def _write(log: MoveLog, move: int, pod: int, node: int) -> None:
    length = log.length[0]
    log.moves[length, 0] = move
    log.moves[length, 1] = pod
    log.moves[length, 2] = node
    log.length[0] = length + 1


@copied_kernel
def _is_full(log: MoveLog) -> bool:
    """Return whether the log is full; if so, this move and every later one count as refused."""
    full = log.refused[0] > 0 or log.length[0] >= len(log.moves)
    log.refused[0] += full
    return bool(full)


@shared_kernel
def place(sim: SimulationState, pod: int, node: int) -> int:
    """Put a pod that is on no node on one, fitting or not.

    Returns DONE, NOT_POSSIBLE (the pod is on a node, or the node is closed or dropped) or LOG_FULL.
    """
    if sim.pod_node[pod] != NO_NODE or sim.node_state[node] >= OUTSIDE:
        return NOT_POSSIBLE
    if _is_full(sim.log):
        return LOG_FULL
    _enter(sim, pod, node, _JOIN)
    _write(sim.log, _PLACE, pod, node)
    return DONE


@shared_kernel
def remove(sim: SimulationState, pod: int) -> int:
    """Take a pod off its node. Returns DONE, NOT_POSSIBLE (it is on none) or LOG_FULL."""
    node = sim.pod_node[pod]
    if node == NO_NODE:
        return NOT_POSSIBLE
    if _is_full(sim.log):
        return LOG_FULL
    _enter(sim, pod, node, _LEAVE)
    _write(sim.log, _REMOVE, pod, node)
    return DONE


@shared_kernel
def cordon(sim: SimulationState, node: int) -> int:
    """Close a node to pods; it keeps its topology domains, as a tainted node does upstream. May come before or after
    `remove`.

    Returns DONE, NOT_POSSIBLE (it is not open) or LOG_FULL.
    """
    if sim.node_state[node] != OPEN:
        return NOT_POSSIBLE
    if _is_full(sim.log):
        return LOG_FULL
    _cordon(sim, node, _LEAVE)
    _write(sim.log, _CORDON, _NO_POD, node)
    return DONE


@shared_kernel
def remove_from_topology(sim: SimulationState, node: int) -> int:
    """Take a cordoned node, from which all pods were removed, out of the topology.

    Returns DONE, NOT_POSSIBLE (it is not cordoned) or LOG_FULL.
    """
    if sim.node_state[node] != CORDONED:
        return NOT_POSSIBLE
    if _is_full(sim.log):
        return LOG_FULL
    _remove_from_topology(sim, node, _LEAVE)
    _write(sim.log, _LEAVE_TOPOLOGY, _NO_POD, node)
    return DONE


@kernel
def open_node(sim: SimulationState, node: int) -> int:
    """Open a closed virtual node: it takes pods, and its topology domains count. Its residents come with it.

    Returns DONE, NOT_POSSIBLE (it is not closed, or is the spare node that stays so) or LOG_FULL.
    """
    return _opened(sim, node, _NO_POD)


@shared_kernel
def open_from_template(sim: SimulationState, node: int, template_node: int) -> int:
    """Open a closed spare node like a template node, which is closed, in everything but its name.

    Classes, free amounts, topology domains, node sets of spread constraints, attach limits and residents are the
    template node's. Returns DONE, NOT_POSSIBLE (the node is not closed or is the one that stays so, or the template
    node is not closed) or LOG_FULL. O(node sets + topology rows + residents · their terms).
    """
    if sim.node_state[template_node] != CLOSED:
        return NOT_POSSIBLE
    return _opened(sim, node, template_node)


@copied_kernel
def _opened(sim: SimulationState, node: int, template_node: int) -> int:
    if sim.node_state[node] != CLOSED or node == sim.virtual.spare[0]:
        return NOT_POSSIBLE
    if _is_full(sim.log):
        return LOG_FULL
    join(sim, node, template_node)
    _write(sim.log, _OPEN, template_node, node)
    return DONE


@kernel
def close_node(sim: SimulationState, node: int) -> int:
    """Close an open node without pods other than its residents: it is then as if it did not exist.

    Returns DONE, NOT_POSSIBLE (it is not open) or LOG_FULL.
    """
    if sim.node_state[node] != OPEN:
        return NOT_POSSIBLE
    if _is_full(sim.log):
        return LOG_FULL
    template_node = sim.virtual.opened_from[node]
    leave(sim, node)
    _write(sim.log, _CLOSE, template_node, node)
    return DONE


@shared_kernel
def place_several(sim: SimulationState, pod_class: int, node: int, count: int) -> int:
    """Count pods of one class on an open node, with one move for all; the pods themselves stay on no node. For
    simulations that are undone: equivalent to placing `count` pods of the class without volumes. Returns DONE,
    NOT_POSSIBLE or LOG_FULL.
    """
    if sim.node_state[node] != OPEN:
        return NOT_POSSIBLE
    if _is_full(sim.log):
        return LOG_FULL
    _count(sim, pod_class, node, count)
    _write(sim.log, _SEVERAL + count, pod_class, node)
    return DONE


@kernel
def count_domains_of(sim: SimulationState, nodes: Int64, sign: int) -> None:
    """Let the topology domains of closed nodes : int64[M], such as zones, count for topology spread although they may
    have no node (sign 1), or no longer (sign -1). Not logged: to be undone by the opposite, before or after `revert`.
    """
    for row in range(len(nodes)):
        compose.move_shared_domains(sim.counters, nodes[row], sign)


@inlined_kernel
def mark(sim: SimulationState) -> int:
    """Return the place in the log to which `revert` can go back. O(1)."""
    return int(sim.log.length[0])


@shared_kernel
def revert(sim: SimulationState, mark: int) -> int:
    """Undo all moves since a mark, last first; counters are then bit by bit as before. Returns how many."""
    undone = 0
    while sim.log.length[0] > mark:
        at = sim.log.length[0] - 1
        move, pod, node = sim.log.moves[at, 0], sim.log.moves[at, 1], sim.log.moves[at, 2]
        if move == CORDON:
            _cordon(sim, node, _JOIN)
        elif move == LEAVE_TOPOLOGY:
            _remove_from_topology(sim, node, _JOIN)
        elif move == OPEN_NODE:
            leave(sim, node)
        elif move == CLOSE_NODE:
            join(sim, node, pod)
        else:
            # One call for all moves of pods: its code is compiled into each call.
            several = move >= PLACE_SEVERAL
            sign = _SEVERAL - move if several else (_LEAVE if move == PLACE else _JOIN)
            _count(sim, pod if several else sim.pod_class[pod], node, sign)
            if not several:
                _note_place(sim, pod, node, sign)
        sim.log.length[0] = at
        undone += 1
    return undone


@kernel
def fill(sim: SimulationState, node_of_pod: Int64) -> None:
    """Put every pod on its node (-1 = none), and add nodes by their state. Only for a new state; nothing is logged."""
    for node in range(len(sim.node_state)):
        if sim.virtual.opened_from[node] >= 0:
            look_like(sim, node, sim.virtual.opened_from[node])
    for pod in range(len(node_of_pod)):
        if node_of_pod[pod] >= 0:
            _enter(sim, pod, node_of_pod[pod], _JOIN)
    for node in range(len(sim.node_state)):
        if sim.node_state[node] == OPEN:
            move_node(sim, node, _JOIN, _CORDONED_LEAVE)
        if sim.node_state[node] <= CORDONED:
            move_node(sim, node, _JOIN, _CORDONED_STAY)
            move_residents(sim, node, _JOIN)
