"""The plan in progress: new nodes opened in the simulation, and pods placed on them.

Every step keeps three things consistent: the open nodes of the simulation, the list kept here, and the counts of the
limits.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from trimtab.planner.model.values import NodeGroup
from trimtab.planner.placement.kernels.search import Search, place_all
from trimtab.planner.placement.packing import Packer, place_on_new_nodes
from trimtab.planner.placement.slots import PodsInSlots, place_in_slots
from trimtab.planner.placement.waiting import Places
from trimtab.planner.scale_up.growth_need import SPARE
from trimtab.planner.scale_up.limits import Limits
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.state import NOWHERE, SimulationState
from trimtab.planner.snapshot.columns import Int32, Int64


@dataclass
class Growing:
    """within : simulation and virtual nodes; groups : of the snapshot; new_limits : returns the limits before the plan;
    room : the other nodes where pods may be placed; start : mark from which `open_all_first` repeats the moves; pods,
    nodes : int32 pods placed since then, in order, and int32 the node of each; group_of : group of each new node, in
    the order of opening.
    """

    within: Packer
    groups: Sequence[NodeGroup]
    new_limits: Callable[[], Limits]
    room: Places
    start: int
    pods: Int32
    nodes: Int32
    group_of: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.limits = self.new_limits()

    @property
    def state(self) -> SimulationState:
        """The simulation's state."""
        return self.within.simulation.state

    @property
    def opened(self) -> Int64:
        """The new nodes. int64."""
        return self.within.growth.blanks[: len(self.group_of)]

    @property
    def blanks_left(self) -> int:
        """How many more nodes can be opened."""
        return max(len(self.within.growth.blanks) - SPARE - len(self.group_of), 0)

    @property
    def rooms(self) -> Int64:
        """How many nodes each group may get now: within its limits and the nodes that can be opened; an all-or-nothing
        group all of them or none. int64[G].
        """
        rooms, most = self.limits.rooms, self.blanks_left
        is_atomic = np.array([group.zero_or_max for group in self.groups], bool)
        return np.where(is_atomic & (rooms > most), 0, np.minimum(rooms, most))

    @property
    def spare(self) -> int:
        """A blank node that is never opened permanently."""
        return int(self.within.growth.blanks[-1])

    def open(self, group_of: Sequence[int], pods: Int32, node_of: Int32) -> Int32:
        """Open one node for each entry of `group_of` and place pods there, node_of : int32[M] as in `Packed`.

        Returns the pods that are on no node. int32.
        """
        placed = place_on_new_nodes(self.within, group_of, pods, node_of, len(self.group_of))
        for group, count in sorted(Counter(group_of).items()):
            self.limits.take(group, count)
        self.group_of.extend(group_of)
        self._note(pods[placed >= 0])
        return pods[placed < 0]

    def give_up_empty(self) -> bool:
        """Remove new nodes without pods from the plan, and those of all-or-nothing groups only all together; return
        whether any was removed.

        `open_all_first` has to be called afterwards.
        """
        used = np.isin(self.opened, self.nodes)
        group_of = np.array(self.group_of, np.int64)
        is_atomic = np.array([self.groups[group].zero_or_max for group in self.group_of], bool)
        kept = used | (is_atomic & np.isin(group_of, group_of[used]))
        if kept.all():
            return False
        blanks = self.within.growth.blanks
        moved_to = np.arange(int(blanks.max(initial=0)) + 1, dtype=np.int32)
        moved_to[self.opened[kept]] = blanks[: int(kept.sum())]
        there = self.nodes < len(moved_to)
        self.nodes[there] = moved_to[self.nodes[there]]
        self.group_of = group_of[kept].tolist()
        self.limits = self.new_limits()
        for group, count in zip(*np.unique(group_of[kept], return_counts=True), strict=True):
            self.limits.take(int(group), int(count))
        return True

    def fill(self, pods: Int32) -> Int32:
        """Place pods wherever a node admits them, new ones first; return those that find no place. int32."""
        order = np.concatenate([self.opened, self.room.order]).astype(np.int32)
        return self._place(pods, np.zeros(0, np.int32), order)

    def fill_new(self, pods: Int32) -> Int32:
        """Place pods on new nodes that admit them; return those that find no place. int32."""
        return self._place(pods, np.zeros(0, np.int32), self.opened.astype(np.int32))

    def fill_room(self, pods: Int32) -> Int32:
        """Place pods wherever a node that is not new admits them; return those that find no place. int32."""
        return self._place(pods, np.zeros(0, np.int32), self.room.order)

    def open_all_first(self) -> Int32:
        """Undo everything since `start`, and redo it with all new nodes open from the start.

        This is how the scheduler may see them, as nodes come in any order. Returns the pods that no longer fit their
        nodes. int32.
        """
        pods, nodes = self.pods, self.nodes
        revert(self.state, self.start)
        place_on_new_nodes(self.within, self.group_of, pods[:0], pods[:0], 0)
        self.pods = pods[:0]
        return self.settle(pods, nodes)

    def place_in_slots(self, pods: PodsInSlots) -> None:
        """Place pods on the nodes on which there is a slot for them, if the nodes admit them."""
        self._note(place_in_slots(self.state, pods))

    def settle(self, pods: Int32, nodes: Int32) -> Int32:
        """Place pods : int32[M] on nodes : int32[M], each as soon as its node admits it; return those left. int32."""
        target = np.full(len(self.state.pod_node), NOWHERE, np.int32)
        target[pods] = nodes
        left, before = self._place(pods, nodes, pods[:0]), -1
        while len(left) not in {0, before}:
            # Pods placed since may satisfy an affinity or a spread constraint.
            before = len(left)
            left = self._place(left, target[left], pods[:0])
        return left

    def _place(self, pods: Int32, nodes: Int32, order: Int32) -> Int32:
        """Place pods : int32[M] on nodes : int32[M], if given, else on the first in `order` that admits them."""
        if not len(pods):
            return pods
        state = self.state
        hint = np.full(len(state.pod_node), NOWHERE, np.int32)
        if len(nodes):
            hint[pods] = nodes
        search = Search(order, np.ones(len(state.node_state), bool), *np.zeros((2, len(state.local_class)), np.int64))
        place_all(state, search, hint, hint.copy(), np.zeros(2, np.int64), pods, False)
        there = state.pod_node[pods] != NOWHERE
        self._note(pods[there])
        left: Int32 = pods[~there]
        return left

    def _note(self, pods: Int32) -> None:
        """Record placed pods."""
        self.pods = np.concatenate([self.pods, pods])
        self.nodes = self.state.pod_node[self.pods].astype(np.int32)
