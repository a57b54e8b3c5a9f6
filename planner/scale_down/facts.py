"""What scale-down reads of pods, whatever is asked: the part that follows from a snapshot alone.

P pods, S specs, R resources, N nodes. Decides nothing. Cost: O(P + S · requests), vectorised over pods.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from planner.model.derive import Derive
from planner.scale_down import pdb
from planner.scale_down.drainability import pod_columns
from planner.scale_down.drainability.pod_columns import PodFacts
from planner.scale_down.orders import eviction_ratings
from planner.scale_down.pdb import BudgetMembership
from planner.scale_down.utilization import Float64, NodeUse, node_use
from planner.snapshot.columns import Int64, Snapshot


class Facts(NamedTuple):
    """under : budgets by pod; pods : what rules see; priority : int64[S]; rating : float64[P] of evicting each pod."""

    under: BudgetMembership
    pods: PodFacts
    priority: Int64
    rating: Float64
    use: NodeUse


def facts_of(snapshot: Snapshot, derive: Derive) -> Facts:
    """Return the facts, kept or gathered."""
    return derive("scale-down facts", partial(_gather, snapshot))


def _gather(snapshot: Snapshot) -> Facts:
    priority = np.array([spec.priority for spec in snapshot.specs], np.int64)
    return Facts(
        under=pdb.membership(snapshot),
        pods=pod_columns.pod_facts(snapshot),
        priority=priority,
        rating=eviction_ratings(snapshot, priority),
        use=node_use(snapshot, _requests(snapshot)),
    )


def _requests(snapshot: Snapshot) -> Float64:
    """Return what each spec asks of each resource. float64[R, S], exact below 2^53."""
    row = {name: r for r, name in enumerate(snapshot.resources)}
    requests = np.zeros((len(row), len(snapshot.specs)))
    for column, spec in enumerate(snapshot.specs):
        for name, amount in spec.requests:
            if name in row:
                requests[row[name], column] = amount
    return requests
