"""The data about pods that every decision needs which drains nodes: the part that depends on the snapshot only.

P pods, S specs, R resources, N nodes. Cost: O(P + S · requests), vectorised over pods.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.drainability import pod_columns
from trimtab.planner.drainability.pod_columns import PodDrainColumns
from trimtab.planner.facts import pdb
from trimtab.planner.facts.gang_budgets import gang_budgets, with_gangs
from trimtab.planner.facts.nodes import eviction_ratings
from trimtab.planner.facts.pdb import BudgetMembership
from trimtab.planner.facts.utilization import Float64, NodeUse, node_use
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.snapshot.caches import SnapshotCache, SnapshotKey
from trimtab.planner.snapshot.columns import Int64, Snapshot


class DrainFacts(NamedTuple):
    """under : budgets by pod, those of gangs included; pods : the input of the rules, before settings and time;
    priority : int64[S]; rating : float64[P] of the eviction of each pod."""

    under: BudgetMembership
    pods: PodDrainColumns
    priority: Int64
    rating: Float64
    use: NodeUse


class MembershipKey(SnapshotKey[BudgetMembership]):
    """The budgets of pods."""


class DrainColumnsKey(SnapshotKey[PodDrainColumns]):
    """What rules see of pods."""


class RatingsKey(SnapshotKey["_Rating"]):
    """Ratings of evictions."""


class NodeUseKey(SnapshotKey[NodeUse]):
    """Requests on nodes."""


def facts_of(snapshot: Snapshot, cache: SnapshotCache, limits: RequestLimits = UNLIMITED) -> DrainFacts:
    """Return the facts, each from the cache or computed."""
    rating = cache.get(RatingsKey(), snapshot, _rated)
    use = cache.get(NodeUseKey(), snapshot, lambda view: _use(view, limits))
    under = with_gangs(_membership(snapshot, cache, limits), snapshot, gang_budgets(snapshot, cache))
    columns = drain_columns(snapshot, cache, limits)
    return DrainFacts(under, columns, rating.priority, rating.of_pods, use)


def drain_columns(snapshot: Snapshot, cache: SnapshotCache, limits: RequestLimits = UNLIMITED) -> PodDrainColumns:
    """Return what rules see of pods, from the cache or computed."""

    def gather(view: Snapshot) -> PodDrainColumns:
        return pod_columns.of_snapshot(view, _membership(view, cache, limits))

    return cache.get(DrainColumnsKey(), snapshot, gather)


def _membership(snapshot: Snapshot, cache: SnapshotCache, limits: RequestLimits) -> BudgetMembership:
    return cache.get(MembershipKey(), snapshot, lambda view: pdb.membership(view, limits, cache))


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
