"""How each node group would grow for the pods that are left: one packing a group.

Decides which pods are worth trying on a group and in which order; never which group grows.
"""

from typing import NamedTuple

import numpy as np

from planner.placement.packing import GrowingGroups, Packed, Packer, pack
from planner.scale_up.growing import Growing
from planner.simulation.growth import NO_PROTOTYPE
from planner.simulation.state import SimulationState
from planner.snapshot.columns import Bool, Int32, Int64

CPU, MEMORY = 0, 1
"""Columns of the simulation's resources."""


class Estimate(NamedTuple):
    """How a group would grow. pods : int32[M] in the order of placing; packed : where each goes; node_count : new
    nodes, those on which no pod comes included."""

    group: int
    pods: Int32
    packed: Packed
    node_count: int

    @property
    def placed(self) -> Int32:
        """The pods that fit."""
        return self.pods[self.packed.node_of >= 0]


def admitting(within: Packer) -> Bool:
    """Return which classes a new node of each group may take, by static predicates and amounts. bool[S, G]."""
    state, prototype = within.simulation.state, within.growth.prototype
    known = np.maximum(prototype, 0)
    free = _room(state, known)
    need = state.resources.need
    fits = np.ones((len(need), len(known)), bool)
    for resource in range(need.shape[1]):
        fits &= need[:, resource, None] <= free[None, :, resource]
    fits &= state.blocked[:, state.node_class[known]] == 0
    fits[:, prototype == NO_PROTOTYPE] = False
    return fits


def _room(state: SimulationState, nodes: Int64) -> Int64:
    """Return what closed virtual nodes offer beside their residents. int64[nodes, R]."""
    free = state.resources.free[nodes].copy()
    virtual = state.virtual
    for row, node in enumerate(nodes.tolist()):
        residents = virtual.resident[virtual.resident_offsets[node] : virtual.resident_offsets[node + 1]]
        free[row] -= state.resources.request[residents].sum(axis=0)
    return free


def estimate(growing: Growing, admits: Bool, group: int, left: Int32) -> Estimate | None:
    """Return how a group would grow for the pods that are left, None = not at all."""
    pod_class = growing.state.pod_class
    room = min(growing.ledger.room(group), growing.blanks_left)
    pods = left[admits[pod_class[left], group]]
    if room <= 0 or not len(pods):
        return None
    pods = in_order(growing, group, pods)
    # Target sizes decide nothing where only one group grows.
    packed = pack(growing.within, GrowingGroups([group], [0], [room]), pods, room, len(growing.group_of))
    if not packed.placed:
        return None
    row = growing.ledger.groups[group]
    return Estimate(group, pods, packed, room if row.zero_or_max else packed.nodes)


def in_order(growing: Growing, group: int, pods: Int32) -> Int32:
    """Return pods with the largest share of a new node first, pods of one class together. int32."""
    state = growing.state
    free = np.maximum(state.resources.free[growing.within.growth.prototype[group]], 1)
    pod_class = state.pod_class[pods]
    request = state.resources.request[pod_class]
    score = request[:, CPU] / free[CPU] + request[:, MEMORY] / free[MEMORY]
    return pods[np.lexsort((pods, pod_class, -score))]
