"""The plan while it is being made: new nodes opened in the simulation, pods placed on them.

Every step keeps three things equal: what is open in the simulation, what is listed here, what the limits have counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from planner.placement.packing import Packer, place_on_new_nodes
from planner.scale_up.growth_need import SPARE
from planner.scale_up.kernels.settling import settle
from planner.scale_up.ledger import Ledger
from planner.simulation.kernels import revert
from planner.simulation.state import SimulationState
from planner.snapshot.columns import Int32, Int64


@dataclass
class Growing:
    """within : simulation and virtual nodes; ledger : what limits leave; group_of : group of each new node, in the
    order of opening; pods, nodes : int32 pods placed on new nodes in the order of placing, and int64 the node of each.
    """

    within: Packer
    ledger: Ledger
    group_of: list[int] = field(default_factory=list)
    pods: Int32 = field(default_factory=lambda: np.zeros(0, np.int32))
    nodes: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))

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
        return len(self.within.growth.blanks) - SPARE - len(self.group_of)

    @property
    def spare(self) -> int:
        """A blank node that is never opened for good."""
        return int(self.within.growth.blanks[-1])

    def open(self, group_of: Sequence[int] | Int32 | Int64, pods: Int32, node_of: Int32) -> Int32:
        """Open one node for each entry of `group_of` and place pods there, node_of : int32[M] as in `Packed`.

        Returns the pods that are on no node. int32.
        """
        placed = place_on_new_nodes(self.within, group_of, pods, node_of, len(self.group_of)).astype(np.int64)
        for group, count in zip(*np.unique(np.asarray(group_of, np.int64), return_counts=True), strict=True):
            self.ledger.take(int(group), int(count))
        self.group_of.extend(int(group) for group in group_of)
        self.note(pods, placed)
        return pods[placed < 0]

    def open_all_first(self, mark: int) -> Int32:
        """Undo all that was done since a mark, and do it again with all new nodes open from the start.

        So it will be for the scheduler, which may see them in any order. Returns the pods that then fit no more where
        they were. int32.
        """
        pods, nodes = self.pods, self.nodes
        revert(self.state, mark)
        place_on_new_nodes(self.within, self.group_of, pods[:0], pods[:0], 0)
        placed = np.full(len(pods), -1, np.int64)
        settle(self.state, pods, nodes, placed)
        self.pods, self.nodes = pods[:0], nodes[:0]
        self.note(pods, placed)
        return pods[placed < 0]

    def note(self, pods: Int32, placed: Int64) -> None:
        """Remember pods that were placed on nodes, -1 = on none."""
        there = placed >= 0
        self.pods = np.concatenate([self.pods, pods[there]])
        self.nodes = np.concatenate([self.nodes, placed[there]])
