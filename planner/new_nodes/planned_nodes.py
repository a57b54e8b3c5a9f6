"""New nodes of a cheapest plan with the pods that are planned there, as slots. Pure."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.cheapest.problem import Plan
from trimtab.planner.placement.packing import PodsInSlots
from trimtab.planner.placement.waiting import PodsByClass
from trimtab.planner.snapshot.columns import Bool, Int32, Int64

_GOLDEN: Final = (5**0.5 - 1) / 2


class RowsOfPods(NamedTuple):
    """The row of a problem of each pod. classes : pods by class; row_of : int64[C] the row of each class; first,
    rows_of_first : int32[F] other pods, placed before these in this order, and the row of each: none that these have.
    """

    classes: PodsByClass
    row_of: Int64
    first: Int32 = np.zeros(0, np.int32)
    rows_of_first: Int32 = np.zeros(0, np.int32)


class PlannedNodes(NamedTuple):
    """group_of : group of each new node; node, row : int32[E] new node of a slot, from 0 in the order of `group_of`,
    and row of the problem; room : int64[E] pods of the row that are planned there; pods, rows : int32[M] all pods, in
    the order in which those of a row are placed, and the row of each; first : the first so many of them are placed
    before all others, and share no row with these.
    """

    group_of: list[int]
    node: Int32
    row: Int32
    room: Int64
    pods: Int32
    rows: Int32
    first: int = 0

    def turns(self) -> list[Bool]:
        """Return which pods are placed in one go, in turn. bool[M] each."""
        begin = np.arange(len(self.pods)) < self.first
        return [begin, ~begin] if self.first else [~begin]

    def on(self, nodes: Int64, waits: Bool) -> PodsInSlots:
        """Return the pods that wait : bool[M], and the slots on these nodes : int64, of the simulation."""
        pods, rows = self.pods[waits], self.rows[waits]
        return PodsInSlots(pods, rows, nodes[self.node].astype(np.int32), self.row, self.room)


def planned_nodes(plan: Plan, pods: RowsOfPods) -> PlannedNodes:
    """Return the new nodes of a plan for these pods."""
    others, rows = _in_turn(pods.classes, pods.row_of)
    found = _in_slots(plan, np.concatenate([pods.first, others]), np.concatenate([pods.rows_of_first, rows]))
    return found._replace(first=len(pods.first))


def _in_turn(pods: PodsByClass, row_of: Int64) -> tuple[Int32, Int32]:
    """Return the pods and the row of each, int32[M]; those of classes that share a row in turn. row_of : int64[C]."""
    counts = np.diff(pods.offsets)
    of = np.repeat(np.arange(len(counts)), counts)
    rank = np.arange(len(of)) - pods.offsets[:-1][of]
    # Classes begin at different places, as far apart as the multiples of the golden ratio are.
    place = (rank + (of * _GOLDEN) % 1.0) / counts[of]
    order = np.lexsort((of, place, row_of[of]))
    return pods.members[order], row_of[of][order].astype(np.int32)


def _in_slots(plan: Plan, pods: Int32, rows: Int32) -> PlannedNodes:
    """Return the slots on each new node. O(nodes · entries + pods)."""
    batch = np.repeat(np.arange(len(plan.nodes)), plan.nodes)
    lengths = np.diff(plan.offsets)[batch]
    within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    entry, node = np.repeat(plan.offsets[:-1][batch], lengths) + within, np.repeat(np.arange(len(batch)), lengths)
    group_of: list[int] = np.repeat(plan.group, plan.nodes).tolist()
    return PlannedNodes(group_of, node.astype(np.int32), plan.classes[entry], plan.pods[entry], pods, rows)


def without_others(planned: PlannedNodes, kept: list[int]) -> PlannedNodes:
    """Return the plan with these new nodes only. kept : positions in `group_of`, ascending."""
    number = np.full(len(planned.group_of), -1, np.int32)
    number[kept] = np.arange(len(kept))
    there = number[planned.node] >= 0
    return planned._replace(
        group_of=[planned.group_of[node] for node in kept],
        node=number[planned.node[there]],
        row=planned.row[there],
        room=planned.room[there],
    )


def joined(plans: Sequence[PlannedNodes]) -> PlannedNodes | None:
    """Return several plans as one, None if there are none."""
    if not plans:
        return None
    group_of: list[int] = []
    nodes = []
    for plan in plans:
        nodes.append(plan.node + np.int32(len(group_of)))
        group_of += plan.group_of
    row, room, pods, rows = (
        np.concatenate([getattr(plan, name) for plan in plans]) for name in ("row", "room", "pods", "rows")
    )
    return PlannedNodes(group_of, np.concatenate(nodes), row, room, pods, rows)
