"""How each node group would grow for the pods that are left: the best of a few packings a group.

Decides which pods are worth trying on a group; never which group grows. Groups whose new nodes are the same for these
pods share a packing.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from planner.placement.group_bounds import fresh_amounts, group_bounds
from planner.placement.orders import orders
from planner.placement.packing import GrowingGroups, Packed, pack
from planner.scale_up.growing import Growing
from planner.scale_up.options import Options
from planner.snapshot.columns import Bool, Int32, Int64

_CPU, _MEMORY = 0, 1
"""Columns of the simulation's resources."""


class Estimate(NamedTuple):
    """How a group would grow. pods : int32[M] in the order of placing; packed : where each goes; node_count : new
    nodes, those on which no pod comes included; cpu_milli, memory_bytes : what the pods that fit request."""

    group: int
    pods: Int32
    packed: Packed
    node_count: int
    cpu_milli: int
    memory_bytes: int

    @property
    def placed(self) -> Int32:
        """The pods that fit. int32."""
        return self.pods[self.packed.node_of >= 0]


class Estimates(NamedTuple):
    """options : by group; not_evaluated : groups for which the time did not suffice; admits : bool[S, G] classes that a
    new node of a group may take, of the pods that are left."""

    options: list[Estimate]
    not_evaluated: list[int]
    admits: Bool


def estimates(growing: Growing, groups: Sequence[int], left: Int32, time_left: Callable[[], bool] | None) -> Estimates:
    """Return how each of the groups would grow for the pods that are left; those that help no pod are left out."""
    simulation, growth = growing.within.simulation, growing.within.growth
    bounds = group_bounds(simulation, growth, left)
    free = fresh_amounts(simulation, growth)
    admits = np.zeros((len(simulation.state.local_class), len(growing.groups)), bool)
    admits[bounds.classes] = bounds.admitted
    pod_class = simulation.state.pod_class[left]
    known: dict[int, Estimate | None] = {}
    found: list[Estimate] = []
    for number, group in enumerate(groups):
        if time_left is not None and found and not time_left():
            return Estimates(found, list(groups[number:]), admits)
        room = min(growing.limits.room(group), growing.blanks_left)
        if room <= 0 or bounds.pods[group] == 0:
            continue
        same = known.get(int(bounds.same_as[group]))
        if same is not None and same.packed.nodes < room:
            one: Estimate | None = same._replace(group=group)
        else:
            one = _estimate(growing, group, left[admits[pod_class, group]], free[group], room)
            if one is not None and one.packed.nodes < room:
                known[int(bounds.same_as[group])] = one
        if one is not None:
            whole = growing.groups[group].zero_or_max
            found.append(one._replace(node_count=room if whole else one.packed.nodes))
    return Estimates(found, [], admits)


def _estimate(growing: Growing, group: int, pods: Int32, free: Int64, room: int) -> Estimate | None:
    """Return the best packing: most pods, then fewest nodes, then the first order."""
    best: Estimate | None = None
    simulation = growing.within.simulation
    for ordered in orders(simulation, pods, free):
        # Sizes decide nothing where only one group grows.
        packed = pack(growing.within, GrowingGroups([group], [0], [room]), ordered, room, len(growing.group_of))
        if packed.placed and (best is None or _rank(packed) > _rank(best.packed)):
            best = Estimate(group, ordered, packed, packed.nodes, 0, 0)
    if best is None:
        return None
    used = simulation.state.resources.request[simulation.state.pod_class[best.placed]].sum(axis=0)
    return best._replace(cpu_milli=int(used[_CPU]), memory_bytes=int(used[_MEMORY]))


def _rank(packed: Packed) -> tuple[int, int]:
    return packed.placed, -packed.nodes


def as_options(found: Sequence[Estimate]) -> Options:
    """Return estimates as expanders see them."""
    rows = [(one.group, one.node_count, one.packed.placed, one.cpu_milli, one.memory_bytes) for one in found]
    return Options(*np.ascontiguousarray(np.array(rows, np.int64).reshape(-1, 5).T))
