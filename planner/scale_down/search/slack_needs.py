"""Nodes that stay because slack needs them: without their room a placeholder, or a pod that would displace one, has no
place; or they receive placeholders of nodes that go. Uses the simulation after the plan.
"""

import numpy as np

from trimtab.planner.scale_down.context import ScaleDownContext
from trimtab.planner.scale_down.search.kernels.drain_sets import DESTINATION, NO_PLACE, DrainProblem
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.state import OPEN
from trimtab.planner.snapshot.columns import Int32, Int64


def needed_for_slack(context: ScaleDownContext, simulation: Simulation, problem: DrainProblem) -> Int32:
    """Return the nodes without a place for a placeholder, or for a pod that would fit if placeholders were absent,
    followed by the nodes that receive only placeholders. int32. For a pod, only amounts and static predicates are
    checked. O(nodes without a place + classes of blocking pods · N).
    """
    count = len(context.request.round.placeholders)
    if not count:
        return np.zeros(0, np.int32)
    unplaceable = np.flatnonzero(problem.outcome == NO_PLACE).astype(np.int32)
    destinations = _destinations(problem, len(simulation.state.pod_node) - count)
    return np.concatenate([_unplaceable(simulation, problem, unplaceable, count), destinations])


def _destinations(problem: DrainProblem, first: int) -> Int32:
    """Return the nodes that have received only placeholders (pods from `first` on). int32."""
    found = []
    for node in np.flatnonzero(problem.outcome == DESTINATION).tolist():
        pod = int(problem.first_incoming[node])
        while pod >= first:
            pod = int(problem.next_incoming[pod])
        if pod < 0:
            found.append(node)
    return np.array(found, np.int32)


def _unplaceable(simulation: Simulation, problem: DrainProblem, unplaceable: Int32, count: int) -> Int32:
    """Return which of the nodes without a place for a pod stay for slack. count : placeholders, the last pods."""
    state = simulation.state
    blocking_pod = problem.blocking_pod[unplaceable]
    for_slack = blocking_pod >= len(state.pod_node) - count
    held = _held(simulation, count)
    room = state.resources.free + held
    for pod_class in np.unique(state.pod_class[blocking_pod[~for_slack & (blocking_pod >= 0)]]).tolist():
        need = state.resources.need[pod_class]
        takes = (state.node_state == OPEN) & problem.search.allowed & (state.blocked[pod_class, state.node_class] == 0)
        freed = takes & (room >= need).all(axis=1) & ~(state.resources.free >= need).all(axis=1)
        of_class = ~for_slack & (state.pod_class[blocking_pod] == pod_class)
        # A node's own room is not a destination for its pods.
        for_slack |= of_class & (int(freed.sum()) - freed[unplaceable] > 0)
    found: Int32 = unplaceable[for_slack]
    return found


def _held(simulation: Simulation, count: int) -> Int64:
    """Return the amounts that placeholders request on each node. int64[N, R]."""
    state = simulation.state
    held = np.zeros_like(state.resources.free)
    node, of_class = state.pod_node[-count:], state.pod_class[-count:]
    there = node >= 0
    np.add.at(held, node[there], state.resources.request[of_class[there]])
    return held
