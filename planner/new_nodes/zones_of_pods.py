"""Zones of pods that zones bind, chosen before the nodes of the cheapest plan, for all of these pods together.

Which zone takes a pod that spreads over zones, or that has to be beside others in one, depends on where all such pods
are, not on those of its class alone. So they are packed together, without the other pods, onto the largest nodes of
every zone. The plan in numbers then has a row for each zone, and opens nodes where these pods have to be, which others
fill as well. Pods that a constraint over nodes binds keep the limits of `whole_problem`. Pure.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.cheapest.dominance import alike
from trimtab.planner.cheapest.problem import UNLIMITED, Problem
from trimtab.planner.new_nodes.whole_problem import RoomToGrow, largest_by_zone, packed_on_new_nodes
from trimtab.planner.placement.group_bounds import GroupBounds
from trimtab.planner.predicates.counters import needs_one_node, spreading_over_nodes, takes_one
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64

MOST_KINDS: Final = 16
"""Sets of groups that admit the same pods, of which the largest ones take part; those with most pods come first."""


class ZonesOfPods(NamedTuple):
    """pods : int32[M] in the order in which they were packed; zone : int32[M] of each, as in `Problem.zone`."""

    pods: Int32
    zone: Int32


_NOBODY: Final = ZonesOfPods(np.zeros(0, np.int32), np.zeros(0, np.int32))


def zones_of_pods(room: RoomToGrow, problem: Problem, bounds: GroupBounds, left: Int32) -> ZonesOfPods:
    """Return the zones of the pods of left : int32 that zones bind, as far as they have a place there. problem : with a
    row for each class of `bounds`, ascending."""
    state = room.packer.simulation.state
    bound = bound_by_zones(state)[state.pod_class[left]]
    if not bound.any():
        return _NOBODY
    rows = np.searchsorted(bounds.classes, state.pod_class[left[bound]])
    members = _members(problem, rows)
    if not len(members):
        return _NOBODY
    packed = packed_on_new_nodes(room, members, left[bound])
    there = packed.node_of >= 0
    zone = problem.zone[members[packed.group_of]][packed.node_of[there]]
    return ZonesOfPods(packed.pods[there][zone >= 0], zone[zone >= 0].astype(np.int32))


def bound_by_zones(state: SimulationState) -> Bool:
    """Return the classes of pods that other pods bind, but not by what is on one node. bool[S]."""
    found: Bool = (state.local_class == 0) & ~takes_one(state.counters) & ~needs_one_node(state.counters)
    found[spreading_over_nodes(state.counters)[0]] = False
    return found


def _members(problem: Problem, rows: Int64) -> Int64:
    """Return the largest group of each zone for each kind of rows, by the price of all their pods there. int64."""
    kinds = alike(problem.allowed[rows])
    order = np.argsort(-np.bincount(kinds), kind="stable")[:MOST_KINDS]
    found = [largest_by_zone(problem, np.unique(rows[kinds == kind]).tolist()) for kind in order.tolist()]
    members = np.unique(np.concatenate(found))
    price = _price_by_zone(problem, problem.demand[rows].sum(axis=0))
    return members[np.lexsort((members, price[problem.zone[members]]))]


def _price_by_zone(problem: Problem, demand: Int64) -> Float64:
    """Return what amounts cost at least in a zone, on full nodes. float64[Z + 1], the last one of no zone; inf = not
    known."""
    share = (demand[None] / np.maximum(problem.capacity, 1)).max(axis=1)
    cost = np.where(np.isnan(problem.price) | (problem.most <= 0), np.inf, problem.price * share)
    zones = int(problem.zone.max(initial=-1)) + 1
    found = np.full(zones + 1, np.inf)
    np.minimum.at(found, problem.zone, cost)
    return found


def in_zones(problem: Problem, kind: Int64, row: Int64, zone: Int32) -> tuple[Problem, Int64, Int64]:
    """Return the problem with a row for each class in each zone in which pods of it have to be, the kind of each row,
    and the row of each pod. row : int64[M] of each pod; zone : int32[M], -1 = any."""
    zones = int(problem.zone.max(initial=-1)) + 1
    pairs, row_of, pods = np.unique(row * (zones + 1) + zone + 1, return_inverse=True, return_counts=True)
    of, at = np.divmod(pairs, zones + 1)
    anywhere = at == 0
    found = problem._replace(
        demand=problem.demand[of],
        pods=pods.astype(np.int64),
        allowed=problem.allowed[of] & (anywhere[:, None] | (problem.zone[None] == at[:, None] - 1)),
        per_node=problem.per_node[of],
        zone_most=np.where(anywhere[:, None], problem.zone_most[of], UNLIMITED),
    )
    kinds = np.unique(kind[of] * (zones + 1) + at, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return found, kinds, row_of.reshape(-1).astype(np.int64)
