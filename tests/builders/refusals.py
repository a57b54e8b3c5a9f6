"""Why a pod does not fit a node: all failing predicates in upstream's order, and the resources that are short.

The pod must be on no node. Nothing is changed. O(terms of the pod) for one node; O(N x terms) for all.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.predicates.order import reasons_of
from trimtab.planner.predicates.resources import POD_ROOM
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.kernels import failing
from trimtab.planner.snapshot.columns import Int64
from trimtab.v1.reason_pb2 import PredicateReason


class Refusal(NamedTuple):
    """reasons : `PredicateReason.Code`s in upstream's order, [] = fits; insufficient : resource names, sorted."""

    reasons: list[int]
    insufficient: list[str]


def explain(simulation: Simulation, pod: int, node: int) -> Refusal:
    """Return why a pod does not fit a node; no reasons = it fits."""
    mask = int(failing(simulation.state, pod, node))
    return Refusal(reasons_of(mask), insufficient(simulation, pod, node, mask))


def insufficient(simulation: Simulation, pod: int, node: int, mask: int) -> list[str]:
    """Return the names of the resources that are short, if `mask` has such a reason. Pod slots have a separate
    reason."""
    if not mask >> PredicateReason.INSUFFICIENT_RESOURCES & 1:
        return []
    resources = simulation.state.resources
    short = resources.free[node] < resources.need[simulation.state.pod_class[pod]]
    short[POD_ROOM] = False
    return sorted(simulation.resources[i] for i in np.flatnonzero(short).tolist())


def masks(simulation: Simulation, pod: int) -> Int64:
    """Return the mask `1 << reason` of all failing predicates on every node : int64[N]; 0 = fits. O(N x terms)."""
    return np.array([failing(simulation.state, pod, node) for node in range(len(simulation.nodes.of))], np.int64)
