"""How many new nodes pods need, and which pod goes to which of them.

Decides by placing pods, in the order given, on virtual nodes that are opened one after the other
(`planner.placement.kernels.packing`); the simulation is left as it was until `place_on_new_nodes` does it for good.
Never decides which group grows or in which order pods come. Pure.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from planner.placement.kernels import packing as kernels
from planner.placement.orders import PodsByClass, boundness, orders
from planner.simulation.build import Simulation
from planner.simulation.growth import Growth
from planner.snapshot.columns import Int32, Int64


class GrowingGroups(NamedTuple):
    """Groups that may grow in one packing; of several the one with the fewest nodes grows first, ties by order.

    groups : group numbers, each with a prototype; sizes : nodes that each has, upcoming ones included; most : how many
    more each may have.
    """

    groups: Sequence[int]
    sizes: Sequence[int]
    most: Sequence[int]


class Packed(NamedTuple):
    """What came of a packing.

    nodes : how many new nodes; placed : how many pods; pods : int32[M] in the order of placing; node_of : int32[M] of
    each of them the new node, 0 to nodes - 1 in the order of opening, -1 = no place; group_of : int32[nodes] position
    in `GrowingGroups.groups` of each new node.
    """

    nodes: int
    placed: int
    pods: Int32
    node_of: Int32
    group_of: Int32


class Packer(NamedTuple):
    """A simulation in which groups can grow, and scratch for packings of it. bound : int64[S] as `boundness` says."""

    simulation: Simulation
    growth: Growth
    memory: kernels.Refusals
    bound: Int64


def packer(simulation: Simulation, growth: Growth) -> Packer:
    """Return what `pack` works on. O(S)."""
    state = simulation.state
    classes, limits = len(state.local_class), len(state.spread.limit)
    return Packer(
        simulation,
        growth,
        kernels.Refusals(
            cursor=np.zeros(classes, np.int32),
            passed=np.zeros(classes, np.int32),
            passed_lowest=np.zeros(limits, np.int32),
            failed=np.zeros(classes, np.uint8),
            failed_lowest=np.zeros(limits, np.int32),
            failed_domains=np.zeros(limits, np.int32),
            failed_total=np.zeros(len(state.presence.filled), np.int32),
        ),
        boundness(state),
    )


def pack(within: Packer, groups: GrowingGroups, pods: Int32, most_nodes: int, start_blank: int = 0) -> Packed:
    """Pack pods : int32[M], on no node, onto new nodes of the groups; the simulation is left as it was.

    most_nodes : of all groups together; start_blank : how many blank nodes are open already. A pod that no node opened
    so far admits and no further node would admit is left out; the others are placed all the same. The caller has to
    call `planner.simulation.log.check_log`.
    """
    blanks, count = within.growth.blanks[start_blank:], len(groups.groups)
    task = kernels.Task(
        pods=pods,
        blanks=blanks,
        groups=kernels.Groups(
            prototype=within.growth.prototype[np.array(groups.groups, np.int64)],
            size=np.array(groups.sizes, np.int64),
            left=np.array(groups.most, np.int64),
            total_left=np.array([most_nodes], np.int64),
            opened=np.zeros(count, np.int64),
            tried=np.zeros(count, np.uint8),
        ),
        memory=within.memory,
        refused=np.empty((len(within.memory.cursor), count), np.uint8),
        node_of=np.full(len(pods), -1, np.int32),
        group_of=np.full(len(blanks), -1, np.int32),
        counts=np.zeros(kernels.COUNTS, np.int64),
    )
    kernels.pack_pods(within.simulation.state, task)
    nodes = int(task.counts[kernels.OPENED])
    return Packed(nodes, int(task.counts[kernels.PLACED]), pods, task.node_of, task.group_of[:nodes])


class PodsToPack(NamedTuple):
    """Pods to pack. pods : by class; rows : int64 the classes among them that are packed; free : int64[R] amounts of a
    new node; takers : int64[S] groups that may take a class; least_nodes : fewer never take all of these pods, 0 = not
    known."""

    pods: PodsByClass
    rows: Int64
    free: Int64
    takers: Int64
    least_nodes: int = 0


def pack_best(
    within: Packer, groups: GrowingGroups, asked: PodsToPack, most_nodes: int, start_blank: int = 0
) -> Packed:
    """Return the best of the packings in each order of `planner.placement.orders`: most pods, then fewest nodes.

    Where the nodes do not suffice, one more order has those first that the fewest groups take; of packings that rate
    equal, that is better which serves more pods that no other group takes, and then more bound ones. Ties go to the
    first order, which is first-fit-decreasing by the Cluster Autoscaler's measure. No order is tried any more once all
    pods are on as few nodes as can be.
    """
    best: Packed | None = None
    tries = orders(within.simulation, asked.pods, asked.rows, asked.free, within.bound)
    for number, order in enumerate(tries):
        found = pack(within, groups, asked.pods.in_order(order), most_nodes, start_blank)
        if best is None or _rank(within, asked, found) > _rank(within, asked, best):
            best = found
        if best.placed == len(best.pods) and best.nodes <= asked.least_nodes:
            break
        if number == 0 and 0 < found.placed < len(found.pods) and found.nodes == most_nodes:
            takers = asked.takers[asked.pods.classes[order]]
            if takers.min() < takers.max():
                tries.append(order[np.argsort(takers, kind="stable")])
    assert best is not None, "there is always an order"
    return best


def _rank(within: Packer, asked: PodsToPack, packed: Packed) -> tuple[int, int, int, int]:
    if packed.placed == len(packed.pods):
        return packed.placed, -packed.nodes, 0, 0
    of_class = within.simulation.state.pod_class[packed.pods[packed.node_of >= 0]]
    only_here = int((asked.takers[of_class] == 1).sum())
    return packed.placed, -packed.nodes, only_here, int(within.bound[of_class].sum())


def place_on_new_nodes(
    within: Packer, group_of: Sequence[int] | Int32 | Int64, pods: Int32, node_of: Int32, start_blank: int = 0
) -> Int32:
    """Open one new node for each entry of `group_of`, and place pods on them; return by pod the node, -1 = it fits not.

    group_of : the group of each new node; pods, node_of : int32[M] as in `Packed`. The moves stay in the simulation. A
    pod of a packing fits where it went as long as the nodes are of the groups that they were of there.
    """
    prototype_of = within.growth.prototype[np.asarray(group_of, np.int64)]
    placed_on = np.full(len(pods), -1, np.int32)
    blanks = within.growth.blanks[start_blank:]
    kernels.place_on_new(within.simulation.state, blanks, prototype_of, pods, node_of, placed_on)
    return placed_on
