"""Orders in which pods are packed onto new nodes.

Contract: pods of one class follow one another in the order in which they were given; classes with equal scores come as
their first pods do. Pure; O(M log M). The first order is the Cluster Autoscaler's: by the sum of what a pod takes of
the cpu and of the memory of a new node, largest first (source: estimator.DecreasingPodOrderer).
"""

import numpy as np
from numpy.typing import NDArray

from planner.simulation.build import Simulation
from planner.snapshot.columns import Int32, Int64

_CPU_AND_MEMORY = slice(0, 2)
Float64 = NDArray[np.float64]


def orders(simulation: Simulation, pods: Int32, free: Int64) -> list[Int32]:
    """Return the distinct orders to try, each int32[M]. free : int64[R] amounts of a new node.

    By the sum of the shares of cpu and memory, by the largest share of any resource, and, where some classes are bound
    by affinity, spread or the like and others are not, those first.
    """
    state = simulation.state
    of, first = _classes(state.pod_class[pods])
    classes = state.pod_class[pods][first]
    shares = state.resources.request[classes] / np.maximum(free, 1)
    total = shares[:, _CPU_AND_MEMORY].sum(axis=1)
    bound = state.local_class[classes] == 0
    keys: list[tuple[Float64, ...]] = [(total,), (shares.max(axis=1, initial=0.0),)]
    if bound.any() and not bound.all():
        keys.append((total, bound.astype(np.float64)))
    found: list[Int32] = []
    for key in keys:
        rank = np.empty(len(classes), np.int64)
        rank[np.lexsort((first, *(-one for one in key)))] = np.arange(len(classes))
        order = pods[np.argsort(rank[of], kind="stable")].astype(np.int32)
        if not any(np.array_equal(order, other) for other in found):
            found.append(order)
    return found


def _classes(pod_class: Int64) -> tuple[Int64, Int64]:
    """Number the distinct classes; return the number of each pod's and the first pod of each number."""
    _, first, of = np.unique(pod_class, return_index=True, return_inverse=True)
    return of.astype(np.int64), first.astype(np.int64)
