"""The plan in progress: new nodes opened in the simulation, and pods placed on them.

Every step keeps three things consistent: the open nodes of the simulation, the list kept here, and the counts of the
limits.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from trimtab.planner.model.values import NodeGroupInfo
from trimtab.planner.new_nodes.demand_sets import NOBODY, Reach
from trimtab.planner.new_nodes.whole_problem import RoomToGrow
from trimtab.planner.placement.kernels.search import Search, place_all
from trimtab.planner.placement.limits import Limits
from trimtab.planner.placement.packing import Packer, PodsInSlots, place_in_slots, place_on_new_nodes
from trimtab.planner.placement.waiting import Places
from trimtab.planner.simulation.growth import SPARE
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log, commit, current_mark
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32, Int64
from trimtab.v1 import plan_pb2 as pb


class Checkpoint(NamedTuple):
    """A plan in progress to which one may go back. mark : in the log of moves; others as in `PlanInProgress`."""

    mark: int
    pods: Int32
    nodes: Int32
    group_of: tuple[int, ...]
    limits: Limits


@dataclass
class PlanInProgress:
    """packer : simulation and virtual nodes; groups : of the snapshot; labels : of a new node of each group; limits :
    what groups may still get; other_nodes : existing and upcoming nodes where pods may be placed; start : mark from
    which `replay` repeats the moves; pods, nodes : int32 pods placed since then, in order, and int32 the node of each;
    group_of : group of each new node, in the order of opening; committed : how many of these stay in any case; reach :
    where pods are placed without a given node, None = everywhere.
    """

    packer: Packer
    groups: Sequence[NodeGroupInfo]
    labels: Sequence[Mapping[str, str]]
    limits: Limits
    other_nodes: Places
    start: int = 0
    pods: Int32 = field(default_factory=lambda: NOBODY)
    nodes: Int32 = field(default_factory=lambda: NOBODY)
    group_of: list[int] = field(default_factory=list)
    committed: int = 0
    reach: Reach | None = None

    def __post_init__(self) -> None:
        self._limits_at_start, self.limits = self.limits, self.limits.copy()
        self.is_atomic: Bool = np.array([group.zero_or_max for group in self.groups], bool)
        """bool[G] all-or-nothing groups."""
        self._no_hints = np.full(len(self.state.pod_node), NO_NODE, np.int32)
        self._destination, self._allowed = self._no_hints.copy(), np.ones(len(self.state.node_state), bool)

    def checkpoint(self) -> Checkpoint:
        """Return the plan as it is, to go back to."""
        return Checkpoint(current_mark(self.state), self.pods, self.nodes, tuple(self.group_of), self.limits.copy())

    def commit(self) -> None:
        """Keep everything for good: the log of moves begins anew."""
        check_log(self.state)
        commit(self.state)
        self.start, self.pods, self.nodes, self.committed = 0, NOBODY, NOBODY, len(self.group_of)
        self._limits_at_start = self.limits.copy()

    @contextmanager
    def within(self, reach: Reach) -> Iterator[None]:
        """Let pods be placed, and groups grow, only within reach meanwhile."""
        before, self.reach, self.limits = self.limits, reach, self.limits.closed(~reach.groups)
        try:
            yield
        finally:
            self.reach, self.limits = None, self.limits.reopened(before)

    def return_to(self, before: Checkpoint) -> None:
        """Undo everything since a checkpoint."""
        revert(self.state, before.mark)
        self.pods, self.nodes = before.pods, before.nodes
        self.group_of, self.limits = list(before.group_of), before.limits.copy()

    @property
    def state(self) -> SimulationState:
        """The simulation's state."""
        return self.packer.simulation.state

    @property
    def opened(self) -> Int64:
        """The new nodes. int64."""
        return self.packer.growth.spare_nodes[: len(self.group_of)]

    @property
    def spare_nodes_left(self) -> int:
        """How many more nodes can be opened."""
        return max(len(self.packer.growth.spare_nodes) - SPARE - len(self.group_of), 0)

    @property
    def may_add(self) -> Int64:
        """How many nodes each group may get now: within its limits and the nodes that can be opened; an all-or-nothing
        group all of them or none. int64[G].
        """
        may_add, spare = self.limits.may_add, self.spare_nodes_left
        return np.where(self.is_atomic & (may_add > spare), 0, np.minimum(may_add, spare))

    @property
    def room_to_grow(self) -> RoomToGrow:
        """What groups may still get."""
        room = self.limits.may_add, self.spare_nodes_left, len(self.group_of)
        return RoomToGrow(self.packer, self.groups, self.labels, *room)

    @property
    def spare(self) -> int:
        """A spare node that is never opened permanently."""
        return int(self.packer.growth.spare_nodes[-1])

    def open(self, group_of: Sequence[int], pods: Int32, node_of: Int32) -> Int32:
        """Open one node for each entry of `group_of` and place pods there, node_of : int32[M] as in `Packed`.

        Returns the pods that are on no node. int32.
        """
        placed = place_on_new_nodes(self.packer, group_of, pods, node_of, len(self.group_of))
        self._count_nodes(group_of)
        self.group_of.extend(group_of)
        self._note(pods[placed >= 0])
        return pods[placed < 0]

    def needed(self) -> Int64:
        """Return the new nodes that have pods, and those of all-or-nothing groups of which any has, as positions in
        `group_of`. int64.
        """
        used = np.isin(self.opened, self.nodes)
        used[: self.committed] = True
        group_of = np.array(self.group_of, np.int64)
        return np.flatnonzero(used | (self.is_atomic[group_of] & np.isin(group_of, group_of[used])))

    def replay(self, nodes: Int64) -> Int32:
        """Undo everything since `start`, and redo it with these new nodes only, all of them open from the start.

        This is how the scheduler may see them, as nodes come in any order. nodes : int64 positions in `group_of`,
        ascending; the others have no pods. Returns the pods that no longer fit their nodes. int32.
        """
        self._drop_all_but(nodes)
        pods, on = self.pods, self.nodes
        revert(self.state, self.start)
        place_on_new_nodes(self.packer, self.group_of[self.committed :], pods[:0], pods[:0], self.committed)
        self.pods, self.nodes = pods[:0], on[:0]
        return self.place_as_admitted(pods, on)

    def _drop_all_but(self, nodes: Int64) -> None:
        """Remove all other new nodes from the lists, and renumber those that stay."""
        if len(nodes) == len(self.group_of):
            return
        spare_nodes = self.packer.growth.spare_nodes
        moved_to = np.arange(int(spare_nodes.max(initial=0)) + 1, dtype=np.int32)
        moved_to[self.opened[nodes]] = spare_nodes[: len(nodes)]
        is_virtual = self.nodes < len(moved_to)
        self.nodes[is_virtual] = moved_to[self.nodes[is_virtual]]
        self.group_of = np.array(self.group_of, np.int64)[nodes].tolist()
        self.limits = self._limits_at_start.copy()
        self._count_nodes(self.group_of[self.committed :])

    def _count_nodes(self, group_of: Sequence[int]) -> None:
        for group, count in sorted(Counter(group_of).items()):
            self.limits.count_nodes(group, count)

    def fill(self, pods: Int32) -> Int32:
        """Place pods wherever a node admits them, new ones first; return those that find no place. int32."""
        return self._place(pods, NOBODY, np.concatenate([self.new_nodes, self.others]))

    def fill_new(self, pods: Int32) -> Int32:
        """Place pods on new nodes that admit them; return those that find no place. int32."""
        return self._place(pods, NOBODY, self.new_nodes)

    def fill_others_first(self, pods: Int32) -> Int32:
        """Place pods wherever a node admits them, new ones last; return those that find no place. int32."""
        return self._place(pods, NOBODY, np.concatenate([self.others, self.new_nodes]))

    def fill_other_nodes(self, pods: Int32) -> Int32:
        """Place pods wherever a node that is not new admits them; return those that find no place. int32."""
        return self._place(pods, NOBODY, self.others)

    def fill_in_passes(self, pods: Int32, nodes: Int32) -> Int32:
        """Place pods on nodes : int32 that admit them, those that are left again as long as others are placed; return
        those that find no place. int32."""
        waiting, before = pods, -1
        while len(waiting) not in {0, before}:
            # Pods placed since may satisfy an affinity or a spread constraint.
            before, waiting = len(waiting), self._place(waiting, NOBODY, nodes)
        return waiting

    @property
    def new_nodes(self) -> Int32:
        """The new nodes within reach. int32."""
        if self.reach is None:
            return self.opened.astype(np.int32)
        return self.opened[self.reach.groups[np.array(self.group_of, np.int64)]].astype(np.int32)

    @property
    def others(self) -> Int32:
        """The other nodes within reach. int32."""
        order = self.other_nodes.order
        return order if self.reach is None else order[self.reach.nodes[order]]

    def place_in_slots(self, pods: PodsInSlots) -> None:
        """Place pods on the nodes on which there is a slot for them, if the nodes admit them."""
        self._note(place_in_slots(self.state, pods))

    def place_as_admitted(self, pods: Int32, nodes: Int32) -> Int32:
        """Place pods : int32[M] on nodes : int32[M], each as soon as its node admits it; return those left. int32."""
        target = np.full(len(self.state.pod_node), NO_NODE, np.int32)
        target[pods] = nodes
        waiting, before = self._place(pods, nodes, pods[:0]), -1
        while len(waiting) not in {0, before}:
            # Pods placed since may satisfy an affinity or a spread constraint.
            before = len(waiting)
            waiting = self._place(waiting, target[waiting], pods[:0])
        return waiting

    def _place(self, pods: Int32, nodes: Int32, order: Int32) -> Int32:
        """Place pods : int32[M] on nodes : int32[M], if given, else on the first in `order` that admits them."""
        if not len(pods):
            return pods
        state, hint = self.state, self._no_hints
        if len(nodes):
            hint = hint.copy()
            hint[pods] = nodes
        search = Search(order, self._allowed, *np.zeros((2, len(state.local_class)), np.int64))
        place_all(state, search, hint, self._destination, np.zeros(2, np.int64), pods, False)
        there = state.pod_node[pods] != NO_NODE
        self._note(pods[there])
        waiting: Int32 = pods[~there]
        return waiting

    def _note(self, pods: Int32) -> None:
        """Record placed pods."""
        self.pods = np.concatenate([self.pods, pods])
        self.nodes = np.concatenate([self.nodes, self.state.pod_node[pods].astype(np.int32)])


def write_splits(progress: PlanInProgress, decision: pb.ScaleUpDecision | pb.CapacityRequestsDecision) -> None:
    """Add the groups that grow to a decision, by id, and their price."""
    groups, counts = np.unique(np.array(progress.group_of, np.int64), return_counts=True)
    for group, count in zip(groups.tolist(), counts.tolist(), strict=True):
        row = progress.groups[group]
        price = None if np.isnan(row.price_per_hour) else row.price_per_hour * count
        decision.splits.add(
            node_group=row.id,
            current_size=row.target_size,
            new_size=row.target_size + count,
            max_size=row.max_size,
            price_per_hour=price,
        )
        decision.price_per_hour += price or 0.0
