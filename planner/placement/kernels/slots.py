"""Places pods in slots: a slot is room for some pods of a row on a node. Each row has a ring of its slots."""

from typing import NamedTuple

from trimtab.planner.compiled.decorators import kernel, widened
from trimtab.planner.simulation.kernels import fits, place
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import NO_NODE, Int32, Int64


class Slots(NamedTuple):
    """node : int32[E] of each slot; room : int64[E] pods that it still takes, in place; following : int32[E] the next
    slot of its ring, in place; last : int32[C] by row the slot after which the next search begins, in place, -1 = no
    slot is left.
    """

    node: Int32
    room: Int64
    following: Int32
    last: Int32


@kernel
def place_in_slots(sim: SimulationState, slots: Slots, pods: Int32, rows: Int32, most_tries: int) -> int:
    """Place pods : int32[M], rows : int32[M] of each, in the first slot of their ring that admits them; return how many
    were placed. A slot without room leaves its ring. A pod that is on a node stays. O(M · most_tries).
    """
    placed = 0
    for at in range(len(pods)):
        pod, row = widened(pods[at]), widened(rows[at])
        before = widened(slots.last[row])
        if sim.pod_node[pod] != NO_NODE or before < 0:
            continue
        first, tries = widened(slots.following[before]), 0
        while tries < most_tries:
            slot = widened(slots.following[before])
            if tries > 0 and slot == first:
                break
            tries += 1
            node = widened(slots.node[slot])
            if fits(sim, pod, node):
                place(sim, pod, node)
                placed += 1
                slots.room[slot] -= 1
                if slots.room[slot] > 0:
                    before = slot
                elif slots.following[slot] == slot:
                    before = -1
                else:
                    slots.following[before] = slots.following[slot]
                break
            before = slot
        slots.last[row] = before
    return placed
