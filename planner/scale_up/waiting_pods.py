"""Which pods wait for a place, and which of them have none on nodes that exist or are on their way.

Nodes being deleted are no room; the pods that they still hold, and those evicted lately, need a place too.
"""

from typing import NamedTuple

import numpy as np

from planner.placement.waiting import USUAL, Places, Way, close_leaving, place_waiting, places, pods_to_move
from planner.scale_up.pending import Pending, pending_pods
from planner.scale_up.situation import Situation
from planner.simulation.build import Simulation
from planner.snapshot.columns import Int32


class Unserved(NamedTuple):
    """pending : pods that wait; where : where pods may be placed; pods : int32 all that were looked at, virtual ones
    and those of nodes being deleted included; left : int32 those of them that found no place and for which nodes may be
    added, most important first; placeholders : int32 those without a place, for which nodes are added last."""

    pending: Pending
    where: Places
    pods: Int32
    left: Int32
    placeholders: Int32


def serve_from_room(situation: Situation, simulation: Simulation, way: Way = USUAL) -> Unserved:
    """Place what waits wherever there is room, in one way of many. The moves stay in the simulation."""
    request, leaving = situation.request, situation.leaving
    snapshot, settings, general = request.snapshot, request.settings, request.round.settings
    pending = pending_pods(snapshot, settings, general, request.now_ns)
    moving = pods_to_move(snapshot, leaving, general.expendable_priority)
    close_leaving(simulation, leaving, moving)
    upcoming = request.round.growth.upcoming
    where = places(simulation, leaving, settings.not_ready_taints, upcoming, way)
    last = len(simulation.state.pod_node)
    first_held = last - len(request.round.placeholders)
    evicted = np.arange(simulation.pod_count, first_held, dtype=np.int32)
    found = place_waiting(simulation, where, evicted, pending.pods, situation.hint, moving)
    asks = ~np.isin(found.left, pending.pods[~pending.may_add])
    none = np.zeros(0, np.int32)
    held = place_waiting(simulation, where, np.arange(first_held, last, dtype=np.int32), none, none, none)
    return Unserved(pending, where, found.pods, found.left[asks], held.left)
