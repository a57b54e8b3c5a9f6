"""Places pods that are interchangeable for a plan in numbers: it says how many of a row go to a node, and each pod goes
where its constraints allow. The most constrained pods come first and are put on different nodes in turn. Never
decides about the numbers. The moves stay in the simulation.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.placement.kernels import slots as kernels
from trimtab.planner.placement.orders import boundness
from trimtab.planner.predicates import counters
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import NO_NODE, Int32, Int64

MOST_TRIES: Final = 64
"""Maximum number of slots tried for a pod."""


class PodsInSlots(NamedTuple):
    """pods, rows : int32[M] pods and the row of each; slot_node, slot_row : int32[E] node and row of each slot; room :
    int64[E] > 0 pods that it takes."""

    pods: Int32
    rows: Int32
    slot_node: Int32
    slot_row: Int32
    room: Int64


def place_in_slots(state: SimulationState, asked: PodsInSlots) -> Int32:
    """Place pods, those that find no slot again as long as others are placed; return those placed, in order. int32.

    Pods with equal constraints are placed in the given order. The caller has to call
    `trimtab.planner.simulation.log.check_log`.
    """
    order = np.argsort(-_tightness(state)[state.pod_class[asked.pods]], kind="stable")
    pods, rows = asked.pods[order].astype(np.int32), asked.rows[order].astype(np.int32)
    slots = _rings(asked)
    found, placed = [pods[:0]], 1
    while placed and len(pods):
        # Pods placed since may satisfy an affinity or a spread constraint.
        placed = kernels.place_in_slots(state, slots, pods, rows, MOST_TRIES)
        there = state.pod_node[pods] != NO_NODE
        found.append(pods[there])
        pods, rows = pods[~there], rows[~there]
    return np.concatenate(found)


def _rings(asked: PodsInSlots) -> kernels.Slots:
    """Return the slots of each row in a ring, in the given order."""
    order = np.argsort(asked.slot_row, kind="stable").astype(np.int32)
    row = asked.slot_row[order]
    last_of_row = np.flatnonzero(np.diff(row, append=-1))
    following = np.empty(len(order), np.int32)
    following[order[:-1]] = order[1:]
    following[order[last_of_row]] = order[np.concatenate([np.zeros(1, np.int64), last_of_row + 1])[: len(last_of_row)]]
    rows = int(max(asked.rows.max(initial=-1), row.max(initial=-1))) + 1
    last = np.full(rows, -1, np.int32)
    last[row[last_of_row]] = order[last_of_row]
    return kernels.Slots(asked.slot_node.astype(np.int32), asked.room.astype(np.int64), following, last)


def _tightness(state: SimulationState) -> Int64:
    """Return how early the pods of a class should be placed. int64[S]: those of which a node or domain takes one
    (4), those that spread over nodes and count themselves (3), others that spread over nodes (2), those with other
    constraints (1), all others (0).
    """
    found = boundness(state)
    found = np.where(found == 2, 4, found)
    of_class, counts_itself = counters.spreading_over_nodes(state.counters)
    np.maximum.at(found, of_class, 2 + counts_itself)
    return found
