"""Which pods wait for a place, and which of them have one on nodes that exist or are on their way."""

from typing import NamedTuple

import numpy as np

from planner.scale_up.kernels.settling import first_fit
from planner.scale_up.pending import Pending, pending_pods
from planner.scale_up.situation import Situation
from planner.simulation.build import Simulation
from planner.simulation.kernels import remove, retire
from planner.simulation.state import NOWHERE
from planner.snapshot.columns import (
    FLAG_DAEMON,
    FLAG_MIRROR,
    Int32,
)


class Waiting(NamedTuple):
    """pending : pods that wait; left : int32 pods, virtual ones and those of nodes being deleted included, that found
    no place and for which nodes may be added, in the order in which they were asked."""

    pending: Pending
    left: Int32


def place_waiting(situation: Situation, simulation: Simulation) -> Waiting:
    """Place what waits, and what nodes being deleted hold, wherever there is room."""
    request = situation.request
    pending = pending_pods(request.snapshot, request.settings, request.round.settings, request.now_ns)
    state = simulation.state
    moving = _clear_leaving(situation, simulation)
    virtual = np.arange(simulation.pod_count, len(state.pod_node), dtype=np.int32)
    pods = np.concatenate([moving, virtual, pending.pods]).astype(np.int32)
    pods = pods[state.pod_node[pods] == NOWHERE]
    growth = request.round.growth
    nodes = np.concatenate([np.flatnonzero(situation.room), growth.upcoming]).astype(np.int64)
    where = np.full(len(pods), -1, np.int64)
    first_fit(state, pods, nodes, np.zeros(len(state.local_class), np.int64), where)
    asks_not = pending.pods[~pending.may_add]
    return Waiting(pending, pods[(where < 0) & ~np.isin(pods, asks_not)])


def _clear_leaving(situation: Situation, simulation: Simulation) -> Int32:
    """Close nodes being deleted and take the pods off them that need another place."""
    pods = situation.request.snapshot.pods
    on_leaving = np.append(situation.leaving, (False, False))[pods.node]
    stays = (pods.flags & (FLAG_DAEMON | FLAG_MIRROR)) != 0
    moving = np.flatnonzero(on_leaving & ~stays & ~pods.is_terminal() & (pods.deletion_s == 0)).astype(np.int32)
    for node in np.flatnonzero(situation.leaving).tolist():
        retire(simulation.state, node)
    for pod in moving.tolist():
        remove(simulation.state, pod)
    return moving
