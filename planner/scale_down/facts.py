"""The data about pods that scale-down needs for every request: the part that depends on the snapshot only.

P pods, S specs, R resources, N nodes. Decides nothing. Cost: O(P + S · requests), vectorised over pods.
"""

from functools import partial
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts import pdb
from trimtab.planner.facts.nodes import eviction_ratings
from trimtab.planner.facts.pdb import BudgetMembership
from trimtab.planner.facts.utilization import Float64, NodeUse, node_use
from trimtab.planner.model.derive import Derive
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.scale_down.drainability import pod_columns
from trimtab.planner.scale_down.drainability.pod_columns import PodDrainColumns
from trimtab.planner.snapshot.columns import Int64, Snapshot

FACTS_READ: Final = (*pdb.READ, *pod_columns.READ)
"""Fields of the snapshot from which `ScaleDownFacts.pods` is gathered."""
_USE_READ: Final = ("resources", "specs", "pods.node", "pods.spec", "nodes.name")


class ScaleDownFacts(NamedTuple):
    """under : budgets by pod; pods : the input of the rules, before settings and time; priority : int64[S]; rating :
    float64[P] of the eviction of each pod."""

    under: BudgetMembership
    pods: PodDrainColumns
    priority: Int64
    rating: Float64
    use: NodeUse


def facts_of(snapshot: Snapshot, derive: Derive, limits: RequestLimits = UNLIMITED) -> ScaleDownFacts:
    """Return the facts, each from the cache or computed."""
    under = derive("budgets of pods", partial(pdb.membership, snapshot, limits, derive), of=pdb.READ)
    columns = derive("what rules see of pods", partial(pod_columns.of_snapshot, snapshot, under), of=FACTS_READ)
    rating = derive("ratings of evictions", partial(_rated, snapshot), of=("specs", "pods.spec", "pods.deletion_cost"))
    use = derive("requests on nodes", partial(_use, snapshot, limits), of=_USE_READ)
    return ScaleDownFacts(under, columns, rating.priority, rating.of_pods, use)


class _Rating(NamedTuple):
    """priority : int64[S]; of_pods : float64[P]."""

    priority: Int64
    of_pods: Float64


def _rated(snapshot: Snapshot) -> _Rating:
    priority = np.array([spec.priority for spec in snapshot.specs], np.int64)
    return _Rating(priority, eviction_ratings(snapshot, priority))


def _use(snapshot: Snapshot, limits: RequestLimits) -> NodeUse:
    return node_use(snapshot, _requests(snapshot, limits))


def _requests(snapshot: Snapshot, limits: RequestLimits) -> Float64:
    """Return the request of each spec for each resource. float64[R, S], exact below 2^53."""
    row = {name: r for r, name in enumerate(snapshot.resources)}
    limits.reserve(3 * 8 * len(row) * len(snapshot.specs), "resources times pod specs")
    requests = np.zeros((len(row), len(snapshot.specs)))
    for column, spec in enumerate(snapshot.specs):
        for name, amount in spec.requests:
            if name in row:
                requests[row[name], column] = amount
    return requests
