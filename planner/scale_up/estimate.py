"""How each node group would grow for the pods that are left: the best of a few packings a group.

Decides which pods are worth trying on a group; never which group grows. Groups whose new nodes are the same for these
pods share a packing.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from planner.placement.group_bounds import fresh_amounts, group_bounds
from planner.placement.orders import orders
from planner.placement.packing import GrowingGroups, Packed, Packer, pack
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


class Asked(NamedTuple):
    """groups : that may grow; left : int32 pods without a place; shared_room : returns how many nodes a group and those
    that share in its growth may get together, from its number and bool[S, G] as `admits`; time_left : whether to go on.
    """

    groups: Sequence[int]
    left: Int32
    shared_room: Callable[[int, Bool], int]
    time_left: Callable[[], bool] | None


def estimates(growing: Growing, asked: Asked) -> Estimates:
    """Return how each of the groups would grow for the pods that are left; those that help no pod are left out.

    A group that is at its maximum before its pods have places is taken to go on in the groups that share in its growth.
    Source: Cluster Autoscaler, estimator.sngCapacityThreshold.
    """
    groups, left = asked.groups, asked.left
    simulation, growth = growing.within.simulation, growing.within.growth
    bounds = group_bounds(simulation, growth, left)
    free = fresh_amounts(simulation, growth)
    admits = np.zeros((len(simulation.state.local_class), len(growing.groups)), bool)
    admits[bounds.classes] = bounds.admitted
    pod_class = simulation.state.pod_class[left]
    takers = admits[:, np.flatnonzero(growing.limits.rooms > 0)].sum(axis=1)
    known: dict[int, Estimate | None] = {}
    found: list[Estimate] = []
    for number, group in enumerate(groups):
        if asked.time_left is not None and found and not asked.time_left():
            return Estimates(found, list(groups[number:]), admits)
        room = min(growing.limits.room(group), growing.blanks_left)
        if room <= 0 or bounds.pods[group] == 0:
            continue
        whole = growing.groups[group].zero_or_max
        same = known.get(int(bounds.same_as[group]))
        if same is not None and same.packed.nodes < room:
            one: Estimate | None = same._replace(group=group)
        else:
            pods = left[admits[pod_class, group]]
            one = _estimate(growing, group, _Asking(pods, free[group], takers), room)
            if one is not None and one.packed.nodes == room and not whole:
                together = min(asked.shared_room(group, admits), growing.blanks_left)
                if together > room:
                    one = _estimate(growing, group, _Asking(pods, free[group], takers), together)
            if one is not None and one.packed.nodes < room:
                known[int(bounds.same_as[group])] = one
        if one is not None:
            found.append(one._replace(node_count=room if whole else one.packed.nodes))
    return Estimates(found, [], admits)


class _Asking(NamedTuple):
    """pods : int32[M]; free : int64[R] amounts of a new node; takers : int64[S] groups that may take a class."""

    pods: Int32
    free: Int64
    takers: Int64


def _estimate(growing: Growing, group: int, asking: _Asking, room: int) -> Estimate | None:
    """Return the best packing: most pods, then fewest nodes, then the first order.

    Where the room does not suffice, one of the orders has those first that the fewest groups take; of packings that
    rate equal, that is better which serves more pods that no other group takes, and then more bound ones.
    """
    within, pods = growing.within, asking.pods
    of_class = within.simulation.state.pod_class
    best: Packed | None = None
    tries = orders(within.simulation, pods, asking.free, within.bound)
    for number, ordered in enumerate(tries):
        # Sizes decide nothing where only one group grows.
        packed = pack(within, GrowingGroups([group], [0], [room]), ordered, room, len(growing.group_of))
        if packed.placed and (best is None or _rank(within, asking, packed) > _rank(within, asking, best)):
            best = packed
        if number == 0 and best is not None and packed.placed < len(pods) and packed.nodes == room:
            takers = asking.takers[of_class[ordered]]
            if takers.min() < takers.max():
                tries.append(ordered[np.argsort(takers, kind="stable")])
    if best is None:
        return None
    placed = best.pods[best.node_of >= 0]
    used = within.simulation.state.resources.request[of_class[placed]].sum(axis=0)
    return Estimate(group, best.pods, best, best.nodes, int(used[_CPU]), int(used[_MEMORY]))


def _rank(within: Packer, asking: _Asking, packed: Packed) -> tuple[int, int, int, int]:
    if packed.placed == len(packed.pods):
        return packed.placed, -packed.nodes, 0, 0
    of_class = within.simulation.state.pod_class[packed.pods[packed.node_of >= 0]]
    only_here = int((asking.takers[of_class] == 1).sum())
    return packed.placed, -packed.nodes, only_here, int(within.bound[of_class].sum())


def as_options(found: Sequence[Estimate]) -> Options:
    """Return estimates as expanders see them."""
    rows = [(one.group, one.node_count, one.packed.placed, one.cpu_milli, one.memory_bytes) for one in found]
    return Options(*np.ascontiguousarray(np.array(rows, np.int64).reshape(-1, 5).T))
