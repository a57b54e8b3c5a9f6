"""Orders in which pods are packed onto new nodes.

Contract: pods of one class follow one another in the order in which they were given; classes with equal scores come as
their first pods do. Pure; O(M log M). The first order is the Cluster Autoscaler's: by the sum of what a pod takes of
the cpu and of the memory of a new node, largest first (source: estimator.DecreasingPodOrderer).
"""

import numpy as np
from numpy.typing import NDArray

from planner.simulation.build import Simulation
from planner.simulation.state import SimulationState
from planner.snapshot.columns import Int32, Int64

_CPU_AND_MEMORY = slice(0, 2)
Float64 = NDArray[np.float64]


def orders(simulation: Simulation, pods: Int32, free: Int64, bound_most: Int64) -> list[Int32]:
    """Return the distinct orders to try, each int32[M].

    free : int64[R] amounts of a new node; bound_most : int64[S] as `boundness` returns it.
    By the sum of the shares of cpu and memory, by the largest share of any resource, and, where some classes are bound
    more than others (`boundness`), those first.
    """
    state = simulation.state
    of, first = _classes(state.pod_class[pods])
    classes = state.pod_class[pods][first]
    shares = state.resources.request[classes] / np.maximum(free, 1)
    total = shares[:, _CPU_AND_MEMORY].sum(axis=1)
    bound = bound_most[classes]
    keys: list[tuple[Float64, ...]] = [(total,), (shares.max(axis=1, initial=0.0),)]
    if len(bound) and bound.min() < bound.max():
        keys.append((total, bound.astype(np.float64)))
    found: list[Int32] = []
    for key in keys:
        rank = np.empty(len(classes), np.int64)
        rank[np.lexsort((first, *(-one for one in key)))] = np.arange(len(classes))
        order = pods[np.argsort(rank[of], kind="stable")].astype(np.int32)
        if not any(np.array_equal(order, other) for other in found):
            found.append(order)
    return found


def boundness(state: SimulationState) -> Int64:
    """Return how few nodes a class can share. int64[S]: 2 for pods that keep apart from one another, one to a node or
    domain, by host ports for example; 1 for those that affinity or spread binds otherwise; 0 for all others.

    What fills nodes should come behind them.
    """
    presence, count = state.presence, len(state.local_class)
    adding, emptying = (
        np.repeat(np.arange(count), np.diff(one)) for one in (presence.added_offsets, presence.empty_offsets)
    )
    added = adding * len(presence.row) + presence.added[:, 0]
    empty = emptying * len(presence.row) + presence.empty[:, 0]
    found: Int64 = (state.local_class == 0).astype(np.int64)
    found[emptying[np.isin(empty, added)]] = 2
    return found


def _classes(pod_class: Int64) -> tuple[Int64, Int64]:
    """Number the distinct classes; return the number of each pod's and the first pod of each number."""
    _, first, of = np.unique(pod_class, return_index=True, return_inverse=True)
    return of.astype(np.int64), first.astype(np.int64)
