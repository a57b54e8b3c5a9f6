"""Which pods wait for a place, and which of them have none on existing or upcoming nodes.

Nodes being deleted offer no room; the pods still on them, and recently evicted ones, need a place, too.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.new_nodes.demand_sets import NOBODY
from trimtab.planner.placement.group_bounds import fits_more_on_new_nodes
from trimtab.planner.placement.waiting import (
    USUAL,
    PlacementOrder,
    Places,
    close_leaving,
    place_waiting,
    place_where,
    places,
    pods_to_move,
    unplaced,
)
from trimtab.planner.scale_up.context import Pending, ScaleUpContext, pending_pods
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.log import current_mark, placed_since
from trimtab.planner.snapshot.columns import Int32


class PodsOnExistingNodes(NamedTuple):
    """Pods placed on existing and upcoming nodes before any node group grows. start : mark before they were placed,
    after nodes being deleted were closed; pods, nodes : int32 pods in the order in which they were placed, and int32
    the node of each."""

    start: int
    pods: Int32
    nodes: Int32

    def depend_on_new_nodes(self, simulation: Simulation) -> bool:
        """Return whether a new node may keep one of the pods from its node: by a topology spread or an affinity."""
        state = simulation.state
        return not bool(state.local_class[state.pod_class[self.pods]].all())


class UnplacedPods(NamedTuple):
    """pending : pods that wait; where : where pods may be placed; pods : int32 all considered ones, including virtual
    ones and those of nodes being deleted; waiting : int32 those without a place for which nodes may be added, most
    important first; placeholders : int32 those without a place, for which nodes are added last; moving : int32 those of
    nodes being deleted; on_existing : those with a place; held_back : int32 those to be placed after node groups
    grew."""

    pending: Pending
    where: Places
    pods: Int32
    waiting: Int32
    placeholders: Int32
    moving: Int32
    on_existing: PodsOnExistingNodes
    held_back: Int32


def pending_of(context: ScaleUpContext) -> Pending:
    """Return the pending pods of a plan."""
    request = context.request
    this = request.round
    return pending_pods(
        request.snapshot, request.settings, this.settings, request.now_ns, this.requested, context.gangs
    )


def place_on_existing_nodes(
    context: ScaleUpContext, simulation: Simulation, placement_order: PlacementOrder = USUAL, held_back: Int32 = NOBODY
) -> UnplacedPods:
    """Place waiting pods wherever there is room, in one of several ways. The moves stay in the simulation.

    held_back : int32 pods that get no place yet. Pods that have to be together on one node get none, either, if one new
    node takes more of them than any other.
    """
    request, leaving, pending = context.request, context.request.leaving, pending_of(context)
    moving = pods_to_move(request.snapshot, leaving, request.round.settings.expendable_priority)
    close_leaving(simulation, leaving, moving)
    start = current_mark(simulation.state)
    upcoming = request.growth.upcoming
    where = places(simulation, request.round.ready & ~leaving, upcoming, placement_order)
    held = placeholders(context, simulation)
    evicted = np.arange(simulation.pod_count, len(simulation.state.pod_node) - len(held), dtype=np.int32)
    asking = unplaced(simulation.state, np.concatenate([evicted, pending.pods[pending.may_add]]))
    together = fits_more_on_new_nodes(simulation, request.growth, where.order, asking)
    held_back = np.concatenate([held_back, together[~np.isin(together, held_back)]])
    groups = (evicted, pending.pods, moving)
    evicted, waiting, leave = (group[~np.isin(group, held_back)] for group in groups) if len(held_back) else groups
    placed = place_waiting(simulation, where, evicted, waiting, context.hint, leave)
    without_place = np.concatenate([placed.left[~np.isin(placed.left, pending.pods[~pending.may_add])], together])
    held_places = place_waiting(simulation, where, held[~np.isin(held, held_back)], NOBODY, NOBODY, NOBODY)
    pods = np.concatenate([placed.pods, held_back[~np.isin(held_back, held)]])
    on_existing = _in_room(simulation, start)
    return UnplacedPods(pending, where, pods, without_place, held_places.left, moving, on_existing, held_back)


def place_at(context: ScaleUpContext, simulation: Simulation, served: UnplacedPods, node: Int32) -> UnplacedPods:
    """Place waiting pods at given destinations, if there is room. node : int32[P'], -1 = nowhere.

    served : result of placing them in another way. The moves stay in the simulation.
    """
    close_leaving(simulation, context.request.leaving, served.moving)
    start = current_mark(simulation.state)
    pods = np.concatenate([served.pods, placeholders(context, simulation)])
    place_where(simulation.state, served.where.allowed, pods, node)
    without_place, held = (unplaced(simulation.state, pods_) for pods_ in (served.pods, pods[len(served.pods) :]))
    asks = ~np.isin(without_place, served.pending.pods[~served.pending.may_add])
    return served._replace(waiting=without_place[asks], placeholders=held, on_existing=_in_room(simulation, start))


def _in_room(simulation: Simulation, start: int) -> PodsOnExistingNodes:
    pods = placed_since(simulation.state, start)
    return PodsOnExistingNodes(start, pods, simulation.state.pod_node[pods].astype(np.int32))


def placeholders(context: ScaleUpContext, simulation: Simulation) -> Int32:
    """Return the placeholders that keep room, with or without a place, without those of gangs that cannot be whole.
    int32."""
    last, rejected = len(simulation.state.pod_node), context.gangs.rejected
    pods = np.arange(last - len(context.request.round.placeholders), last, dtype=np.int32)
    return pods[~np.isin(pods, rejected)] if len(rejected) else pods
