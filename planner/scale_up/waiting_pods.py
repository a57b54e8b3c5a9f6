"""Which pods wait for a place, and which of them have none on existing or upcoming nodes.

Nodes being deleted offer no room; the pods still on them, and recently evicted ones, need a place, too.
"""

from typing import NamedTuple

import numpy as np

from planner.placement.waiting import (
    USUAL,
    PlacementOrder,
    Places,
    close_leaving,
    place_waiting,
    place_where,
    places,
    pods_to_move,
)
from planner.scale_up.context import Context
from planner.scale_up.pending import Pending, pending_pods
from planner.simulation.build import Simulation
from planner.simulation.state import NOWHERE
from planner.snapshot.columns import Int32


class Unserved(NamedTuple):
    """pending : pods that wait; where : where pods may be placed; pods : int32 all considered ones, including virtual
    ones and those of nodes being deleted; left : int32 those without a place for which nodes may be added, most
    important first; placeholders : int32 those without a place, for which nodes are added last; moving : int32 those of
    nodes being deleted."""

    pending: Pending
    where: Places
    pods: Int32
    left: Int32
    placeholders: Int32
    moving: Int32


def serve_from_room(context: Context, simulation: Simulation, way: PlacementOrder = USUAL) -> Unserved:
    """Place waiting pods wherever there is room, in one of several ways. The moves stay in the simulation."""
    request, leaving = context.request, context.leaving
    snapshot, settings, general = request.snapshot, request.settings, request.round.settings
    pending = pending_pods(snapshot, settings, general, request.now_ns)
    moving = pods_to_move(snapshot, leaving, general.expendable_priority)
    close_leaving(simulation, leaving, moving)
    upcoming = request.round.growth.upcoming
    where = places(simulation, leaving, settings.not_ready_taints, upcoming, way)
    held = placeholders(context, simulation)
    evicted = np.arange(simulation.pod_count, len(simulation.state.pod_node) - len(held), dtype=np.int32)
    found = place_waiting(simulation, where, evicted, pending.pods, context.hint, moving)
    asks = ~np.isin(found.left, pending.pods[~pending.may_add])
    none = np.zeros(0, np.int32)
    kept = place_waiting(simulation, where, held, none, none, none)
    return Unserved(pending, where, found.pods, found.left[asks], kept.left, moving)


def serve_as(context: Context, simulation: Simulation, served: Unserved, node: Int32) -> Unserved:
    """Place waiting pods at given destinations, if there is room. node : int32[P'], -1 = nowhere.

    served : result of placing them in another way. The moves stay in the simulation.
    """
    close_leaving(simulation, context.leaving, served.moving)
    pods = np.concatenate([served.pods, placeholders(context, simulation)])
    place_where(simulation, served.where, pods, node)
    left, held = (one[simulation.state.pod_node[one] == NOWHERE] for one in (served.pods, pods[len(served.pods) :]))
    asks = ~np.isin(left, served.pending.pods[~served.pending.may_add])
    return served._replace(left=left[asks], placeholders=held)


def placeholders(context: Context, simulation: Simulation) -> Int32:
    """Return the placeholders that keep room, with or without a place. int32."""
    last = len(simulation.state.pod_node)
    return np.arange(last - len(context.request.round.placeholders), last, dtype=np.int32)
