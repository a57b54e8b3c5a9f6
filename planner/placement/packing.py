"""How many new nodes pods need, and which pod goes to which of them. Places pods, in the order given, on virtual nodes
that are opened one after the other (`trimtab.planner.placement.kernels.packing`); the simulation is left unchanged
until `place_on_new_nodes` makes the moves. Never decides which group grows, or the order of pods. Pure.

Places pods that are interchangeable for a plan in numbers: it says how many of a row go to a node, and each pod goes
where its constraints allow. The most constrained pods come first and are put on different nodes in turn. Never
decides about the numbers. The moves stay in the simulation.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trimtab.planner.model.tuning import SLOTS_TRIED
from trimtab.planner.placement.kernels import packing as kernels
from trimtab.planner.placement.waiting import PodsByClass, boundness, orders
from trimtab.planner.predicates import counters
from trimtab.planner.predicates.counters import new_notes
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.growth import Growth
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import NO_NODE, Int32, Int64


class GrowingGroups(NamedTuple):
    """Groups that may grow in one packing; the one with the fewest nodes grows first, ties by order. groups : group
    numbers, each with a template node; sizes : current nodes of each, upcoming ones included; may_add : how many more
    each may have.
    """

    groups: Sequence[int]
    sizes: Sequence[int]
    may_add: Sequence[int]


class Packed(NamedTuple):
    """The result of a packing. nodes : number of new nodes; placed : number of pods; pods : int32[M] in the order of
    placing; node_of : int32[M] the new node of each, 0 to nodes - 1 in the order of opening, -1 = no place; group_of :
    int32[nodes] position in `GrowingGroups.groups` of each new node.
    """

    nodes: int
    placed: int
    pods: Int32
    node_of: Int32
    group_of: Int32


class Packer(NamedTuple):
    """A simulation in which groups can grow, with scratch for packings. bound : int64[S] as returned by `boundness`."""

    simulation: Simulation
    growth: Growth
    memory: kernels.KnownRefusals
    bound: Int64


def packer(simulation: Simulation, growth: Growth) -> Packer:
    """Return the input of `pack`. O(S)."""
    state = simulation.state
    classes = len(state.local_class)
    return Packer(
        simulation,
        growth,
        kernels.KnownRefusals(
            cursor=np.zeros(classes, np.int32),
            passed=np.zeros(classes, np.int32),
            failed=np.zeros(classes, np.uint8),
            notes=new_notes(state.counters),
        ),
        boundness(state),
    )


def pack(packer: Packer, groups: GrowingGroups, pods: Int32, most_nodes: int, first_spare: int = 0) -> Packed:
    """Pack pods : int32[M], on no node, onto new nodes of the groups; the simulation is left unchanged. most_nodes : of
    all groups together; first_spare : number of spare nodes that are open already. A pod that neither an opened nor
    another new node admits is left out; the others are still placed. The caller has to call
    `trimtab.planner.simulation.log.check_log`.
    """
    spare_nodes, count = packer.growth.spare_nodes[first_spare:], len(groups.groups)
    task = kernels.PackingTask(
        pods=pods,
        spare_nodes=spare_nodes,
        groups=kernels.PackingGroups(
            template_node=packer.growth.template_node[np.array(groups.groups, np.int64)],
            size=np.array(groups.sizes, np.int64),
            room_left=np.array(groups.may_add, np.int64),
            total_left=np.array([most_nodes], np.int64),
            opened=np.zeros(count, np.int64),
            tried=np.zeros(count, np.uint8),
        ),
        memory=packer.memory,
        refused=np.empty((len(packer.memory.cursor), count), np.uint8),
        node_of=np.full(len(pods), -1, np.int32),
        group_of=np.full(len(spare_nodes), -1, np.int32),
        counts=np.zeros(kernels.COUNTS, np.int64),
    )
    kernels.pack_pods(packer.simulation.state, task)
    nodes = int(task.counts[kernels.OPENED])
    return Packed(nodes, int(task.counts[kernels.PLACED]), pods, task.node_of, task.group_of[:nodes])


class PodsToPack(NamedTuple):
    """Pods to pack. pods : by class; rows : int64 the classes to pack; free : int64[R] amounts of a new node; takers :
    int64[S] groups that may take a class; least_nodes : lower bound on the nodes for all these pods, 0 = not known;
    once : try one order only; smallest_first : if nodes do not suffice, try the smallest pods first, too."""

    pods: PodsByClass
    rows: Int64
    free: Int64
    takers: Int64
    least_nodes: int = 0
    once: bool = False
    smallest_first: bool = False


def pack_best(
    packer: Packer, groups: GrowingGroups, to_pack: PodsToPack, most_nodes: int, first_spare: int = 0
) -> Packed:
    """Return the best packing over the orders of `trimtab.planner.placement.waiting`: most pods, then fewest nodes. If
    the nodes do not suffice, another order starts with the pods that the fewest groups take; ties are then broken by
    more pods that no other group takes, and by more bound pods. Remaining ties go to the first order,
    first-fit-decreasing by the Cluster Autoscaler's measure. Stops once all pods are on the fewest possible nodes. With
    `to_pack.once`, tries only the last order, in which bound pods come first.
    """
    best: Packed | None = None
    tries = orders(packer.simulation, to_pack.pods, to_pack.rows, to_pack.free, packer.bound)
    if to_pack.once:
        return pack(packer, groups, to_pack.pods.in_order(tries[-1]), most_nodes, first_spare)
    for number, order in enumerate(tries):
        packed = pack(packer, groups, to_pack.pods.in_order(order), most_nodes, first_spare)
        if best is None or _rank(packer, to_pack, packed) > _rank(packer, to_pack, best):
            best = packed
        if best.placed == len(best.pods) and best.nodes <= to_pack.least_nodes:
            break
        if number == 0 and 0 < packed.placed < len(packed.pods) and packed.nodes == most_nodes:
            takers = to_pack.takers[to_pack.pods.classes[order]]
            if takers.min() < takers.max():
                tries.append(order[np.argsort(takers, kind="stable")])
            if to_pack.smallest_first:
                tries.append(order[::-1])
    assert best is not None, "there is always an order"
    return best


def _rank(packer: Packer, to_pack: PodsToPack, packed: Packed) -> tuple[int, int, int, int]:
    if packed.placed == len(packed.pods):
        return packed.placed, -packed.nodes, 0, 0
    of_class = packer.simulation.state.pod_class[packed.pods[packed.node_of >= 0]]
    only_here = int((to_pack.takers[of_class] == 1).sum())
    return packed.placed, -packed.nodes, only_here, int(packer.bound[of_class].sum())


def place_on_new_nodes(
    packer: Packer, group_of: Sequence[int] | Int32 | Int64, pods: Int32, node_of: Int32, first_spare: int = 0
) -> Int32:
    """Open one new node for each entry of `group_of`, and place pods on them; return the node by pod, -1 = does not
    fit. group_of : integers, the group of each new node; pods, node_of : int32[M] as in `Packed`. The moves stay in the
    simulation. A pod fits its node of a packing as long as the nodes belong to the same groups as there.
    """
    template_node_of = packer.growth.template_node[np.asarray(group_of, np.int64)]
    placed_on = np.full(len(pods), -1, np.int32)
    spare_nodes = packer.growth.spare_nodes[first_spare:]
    kernels.place_on_new(packer.simulation.state, spare_nodes, template_node_of, pods, node_of, placed_on)
    return placed_on


class PodsInSlots(NamedTuple):
    """pods, rows : int32[M] pods and the row of each; slot_node, slot_row : int32[E] node and row of each slot; room :
    int64[E] > 0 pods that it takes."""

    pods: Int32
    rows: Int32
    slot_node: Int32
    slot_row: Int32
    room: Int64


def place_in_slots(state: SimulationState, wanted: PodsInSlots) -> Int32:
    """Place pods, those that find no slot again as long as others are placed; return those placed, in order. int32.

    Pods with equal constraints are placed in the given order. The caller has to call
    `trimtab.planner.simulation.log.check_log`.
    """
    order = np.argsort(-_tightness(state)[state.pod_class[wanted.pods]], kind="stable")
    pods, rows = wanted.pods[order].astype(np.int32), wanted.rows[order].astype(np.int32)
    slots = _rings(wanted)
    placed_pods, placed = [pods[:0]], 1
    while placed and len(pods):
        # Pods placed since may satisfy an affinity or a spread constraint.
        placed = kernels.place_in_slots(state, slots, pods, rows, SLOTS_TRIED)
        there = state.pod_node[pods] != NO_NODE
        placed_pods.append(pods[there])
        pods, rows = pods[~there], rows[~there]
    return np.concatenate(placed_pods)


def _rings(slots: PodsInSlots) -> kernels.Slots:
    """Return the slots of each row in a ring, in the given order."""
    order = np.argsort(slots.slot_row, kind="stable").astype(np.int32)
    row = slots.slot_row[order]
    last_of_row = np.flatnonzero(np.diff(row, append=-1))
    following = np.empty(len(order), np.int32)
    following[order[:-1]] = order[1:]
    following[order[last_of_row]] = order[np.concatenate([np.zeros(1, np.int64), last_of_row + 1])[: len(last_of_row)]]
    rows = int(max(slots.rows.max(initial=-1), row.max(initial=-1))) + 1
    last = np.full(rows, -1, np.int32)
    last[row[last_of_row]] = order[last_of_row]
    return kernels.Slots(slots.slot_node.astype(np.int32), slots.room.astype(np.int64), following, last)


def _tightness(state: SimulationState) -> Int64:
    """Return how early the pods of a class should be placed. int64[S]: those of which a node or domain takes one
    (4), those that spread over nodes and count themselves (3), others that spread over nodes (2), those with other
    constraints (1), all others (0).
    """
    tightness = boundness(state)
    tightness = np.where(tightness == 2, 4, tightness)
    of_class, counts_itself = counters.spreading_over_nodes(state.counters)
    np.maximum.at(tightness, of_class, 2 + counts_itself)
    return tightness
