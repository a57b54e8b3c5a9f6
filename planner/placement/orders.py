"""Orders in which pods are packed onto new nodes.

Contract: pods of one class are consecutive, in the order given; classes with equal scores are in the order of their
first pods. Pure; O(M log M) once for all pods, O(C log C + M) for each order. The first order is the Cluster
Autoscaler's: by the sum of the pod's shares of a new node's cpu and memory, largest first (source:
estimator.DecreasingPodOrderer).
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.predicates.counters import takes_one
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Float64, Int32, Int64
from trimtab.planner.snapshot.dictionaries import entries_of

_CPU_AND_MEMORY = slice(0, 2)


class PodsByClass(NamedTuple):
    """Pods of C classes.

    classes : int64[C] ascending; first : int64[C] position of each class's first pod; members : int32[M] pods by class,
    in the order given; offsets : int64[C+1] of each class.
    """

    classes: Int64
    first: Int64
    members: Int32
    offsets: Int64

    def in_order(self, rows: Int64) -> Int32:
        """Return the pods of some classes, one class after the other. rows : int64 positions in `classes`."""
        members: Int32 = self.members[entries_of(self.offsets, rows)]
        return members


def by_class(simulation: Simulation, pods: Int32) -> PodsByClass:
    """Return pods : int32[M] by their classes."""
    classes, first, of = np.unique(simulation.state.pod_class[pods], return_index=True, return_inverse=True)
    counts = np.bincount(of.reshape(-1), minlength=len(classes))
    return PodsByClass(
        classes.astype(np.int64),
        first.astype(np.int64),
        pods[np.argsort(of.reshape(-1), kind="stable")].astype(np.int32),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
    )


def orders(simulation: Simulation, pods: PodsByClass, rows: Int64, free: Int64, bound_most: Int64) -> list[Int64]:
    """Return the distinct orders to try of some classes, each as int64[C] positions in `pods.classes`.

    rows : int64[C], these positions; free : int64[R] amounts of a new node; bound_most : int64[S] as `boundness`
    returns it. By the sum of the shares of cpu and memory; by the largest share of any resource; and, if some classes
    are bound more than others (`boundness`), with those first.
    """
    state, classes, first = simulation.state, pods.classes[rows], pods.first[rows]
    shares = state.resources.request[classes] / np.maximum(free, 1)
    total = shares[:, _CPU_AND_MEMORY].sum(axis=1)
    bound = bound_most[classes]
    keys: list[tuple[Float64, ...]] = [(total,), (shares.max(axis=1, initial=0.0),)]
    if len(bound) and bound.min() < bound.max():
        keys.append((total, bound.astype(np.float64)))
    distinct: list[Int64] = []
    for key in keys:
        order = rows[np.lexsort((first, *(-part for part in key)))]
        if not any(np.array_equal(order, other) for other in distinct):
            distinct.append(order)
    return distinct


def boundness(state: SimulationState) -> Int64:
    """Return how constrained the nodes of a class are. int64[S]: 2 for pods of which a node or domain takes only one,
    because of host ports for example; 1 for pods with other affinity or spread constraints; 0 for all others. Pods that
    merely fill nodes should come after them.
    """
    bound: Int64 = (state.local_class == 0).astype(np.int64)
    bound[takes_one(state.counters)] = 2
    return bound
