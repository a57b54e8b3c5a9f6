"""Pods that need room before anything else: those on nodes being deleted, those just evicted, those pending.

The first two must find a place, or there are no candidates this time: what is under way is not yet safe. They use up
disruption budgets but no budget stops them. Pending pods get what room there is, best effort.
Source: the design of parallel drain; Cluster Autoscaler, planner.injectRecentlyEvictedPods, filter_out_schedulable.
"""

import numpy as np

from planner.scale_down import pdb
from planner.scale_down.kernels.drain_sets import Problem, evacuate, place_all
from planner.scale_down.situation import Situation
from planner.simulation.build import Simulation
from planner.snapshot.columns import Int32


def pods_of_leaving_nodes(situation: Situation) -> Int32:
    """Return the pods that nodes being deleted still have to give up, node by node in pod order. int32.

    A pod that is terminating has been evicted: what takes its place is pending, placed, or a recent eviction.
    """
    snapshot = situation.request.snapshot
    node = snapshot.pods.node
    # Two entries more, for the numbers -1 and -2 of pods that are on no node or on an unknown one.
    on_leaving = np.append(situation.leaving, (False, False))[node]
    moving = on_leaving & situation.needs_place & (snapshot.pods.deletion_s == 0)
    pods = np.flatnonzero(moving)
    return pods[np.argsort(node[pods], kind="stable")].astype(np.int32)


def settle_leaving(situation: Situation, simulation: Simulation, problem: Problem) -> int:
    """Step 1: place the pods of nodes being deleted. Return the first that finds no place, -1 if none."""
    pods = pods_of_leaving_nodes(situation)
    evacuate(simulation.state, np.flatnonzero(situation.leaving).astype(np.int32), pods)
    pdb.use_up(situation.under, problem.budgets.left, pods.astype(np.int64))
    return int(place_all(simulation.state, problem, pods, True))


def settle_evicted(situation: Situation, simulation: Simulation, problem: Problem) -> int:
    """Step 2: place the pods just evicted. Return the first that finds no place, -1 if none."""
    first = simulation.pod_count
    evicted = np.arange(first, first + len(situation.evictions), dtype=np.int32)
    return int(place_all(simulation.state, problem, evicted, True))


def settle_pending(situation: Situation, simulation: Simulation, problem: Problem) -> None:
    """Keep room for the pending pods that fit somewhere."""
    place_all(simulation.state, problem, situation.pending, False)


def name_of(situation: Situation, pod: int) -> str:
    """Return "namespace/name" of a pod, injected ones included."""
    snapshot = situation.request.snapshot
    known = len(snapshot.pods.spec)
    if pod < known:
        return snapshot.pod_key(pod)
    eviction = situation.evictions[pod - known]
    return f"{eviction.namespace}/{eviction.name}"
