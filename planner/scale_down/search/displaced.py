"""Pods that need room before anything else: those on nodes being deleted, recently evicted ones, pending ones. The
first two must find a place, or there are no candidates this time, as the deletions in progress are not safe yet. They
use up disruption budgets, but no budget stops them. Pending pods are placed best-effort, again in each attempt. A pod
placed by an earlier decision stays where it is. Source: Cluster Autoscaler, planner.injectRecentlyEvictedPods,
filter_out_schedulable.
"""

import numpy as np

from trimtab.planner.facts import pdb
from trimtab.planner.placement.kernels.search import place_all
from trimtab.planner.placement.waiting import close_leaving, pods_to_move, unplaced
from trimtab.planner.round.waiting import starting_for_pods
from trimtab.planner.scale_down.context import ScaleDownContext
from trimtab.planner.scale_down.search.kernels.drain_sets import DrainProblem, record_all_incoming
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32, Int64


def pods_of_leaving_nodes(context: ScaleDownContext) -> Int32:
    """Return the pods still to be evicted from nodes being deleted, node by node in pod order. int32."""
    request = context.request
    return pods_to_move(request.snapshot, context.request.leaving, request.round.settings.expendable_priority)


def record_placed(context: ScaleDownContext, simulation: Simulation, problem: DrainProblem) -> None:
    """Record pods placed by an earlier decision: they are on their nodes. O(P)."""
    placed, snapshot = simulation.state.pod_node, context.request.snapshot
    moved = placed >= 0
    moved[: simulation.pod_count] &= placed[: simulation.pod_count] != snapshot.pods.node
    # Placeholders belong to their nodes, like running pods; they move when the node goes.
    pods = np.flatnonzero(moved[: simulation.pod_count + len(context.evictions)]).astype(np.int32)
    record_all_incoming(problem, placed, pods)


def promised_nodes(context: ScaleDownContext) -> Bool:
    """Return the nodes that hold room for pending pods: those that this round places there, those that the scheduler
    has nominated for them, and those that start for some. They stay. bool[N]; O(P)."""
    this = context.request.round
    promised = starting_for_pods(this)
    pods = context.request.snapshot.pods
    at = this.simulation.state.pod_node[: len(pods.node)][pods.node == NO_NODE]
    promised[at[(at >= 0) & (at < len(promised))]] = True
    return promised


def place_leaving(context: ScaleDownContext, simulation: Simulation, problem: DrainProblem) -> int:
    """Place the pods of nodes being deleted. Return the first that finds no place, -1 if none."""
    pods = pods_of_leaving_nodes(context)
    close_leaving(simulation, context.request.leaving, pods)
    pdb.use_up(context.pods.under, problem.limits.disruptions, pods.astype(np.int64))
    return place_and_record(simulation.state, problem, unplaced(simulation.state, pods), True)


def place_evicted(context: ScaleDownContext, simulation: Simulation, problem: DrainProblem) -> int:
    """Place the recently evicted pods. Return the first that finds no place, -1 if none."""
    first = simulation.pod_count
    evicted = np.arange(first, first + len(context.evictions), dtype=np.int32)
    return place_and_record(simulation.state, problem, unplaced(simulation.state, evicted), True)


def place_and_record(state: SimulationState, problem: DrainProblem, pods: Int32, strict: bool) -> int:
    """Place pods and record the node of each. With `strict`, return the first without a place, -1 if none."""
    unplaceable = place_all(state, problem.search, problem.hint, problem.destination, problem.counts, pods, strict)
    record_all_incoming(problem, state.pod_node, pods)
    return int(unplaceable)


def names_of(context: ScaleDownContext, pods: Int64 | Int32) -> list[str]:
    """Return "namespace/name" of each pod, recently evicted ones included, or the name of a placeholder."""
    snapshot = context.request.snapshot
    names = snapshot.pod_keys(pods[pods < len(snapshot.pods.spec)])
    if len(names) == len(pods):
        return names
    pod_names = iter(names)
    return [next(pod_names) if pod < len(snapshot.pods.spec) else name_of(context, pod) for pod in pods.tolist()]


def name_of(context: ScaleDownContext, pod: int) -> str:
    """Return "namespace/name" of a pod, recently evicted ones included, or the name of a placeholder."""
    snapshot = context.request.snapshot
    pod_count = len(snapshot.pods.spec)
    if pod < pod_count:
        return snapshot.pod_key(pod)
    at = pod - pod_count - len(context.evictions)
    if at >= 0:
        return context.request.round.placeholders[at]
    eviction = context.evictions[pod - pod_count]
    return f"{eviction.namespace}/{eviction.name}"
