"""What scale-down reads of pods, whatever is asked: the part that follows from a snapshot alone.

P pods, S specs, R resources, N nodes. Decides nothing. Cost: O(P + S · requests), vectorised over pods.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from planner.facts import pdb
from planner.facts.eviction_costs import eviction_ratings
from planner.facts.pdb import BudgetMembership
from planner.facts.utilization import Float64, NodeUse, node_use
from planner.model.derive import Derive
from planner.model.effort import UNLIMITED, Effort
from planner.scale_down.drainability import pod_columns
from planner.scale_down.drainability.pod_columns import PodDrainColumns
from planner.snapshot.columns import Int64, Snapshot


class Facts(NamedTuple):
    """under : budgets by pod; pods : what rules see, before
    settings and moment; priority : int64[S]; rating : float64[P] of evicting each pod."""

    under: BudgetMembership
    pods: PodDrainColumns
    priority: Int64
    rating: Float64
    use: NodeUse


def facts_of(snapshot: Snapshot, derive: Derive, effort: Effort = UNLIMITED) -> Facts:
    """Return the facts, kept or gathered."""
    return derive("scale-down facts", partial(_gather, snapshot, effort))


def _gather(snapshot: Snapshot, effort: Effort) -> Facts:
    priority = np.array([spec.priority for spec in snapshot.specs], np.int64)
    under = pdb.membership(snapshot, effort)
    return Facts(
        under=under,
        pods=pod_columns.of_snapshot(snapshot, under),
        priority=priority,
        rating=eviction_ratings(snapshot, priority),
        use=node_use(snapshot, _requests(snapshot, effort)),
    )


def _requests(snapshot: Snapshot, effort: Effort) -> Float64:
    """Return what each spec asks of each resource. float64[R, S], exact below 2^53."""
    row = {name: r for r, name in enumerate(snapshot.resources)}
    effort.take(3 * 8 * len(row) * len(snapshot.specs), "resources times pod specs")
    requests = np.zeros((len(row), len(snapshot.specs)))
    for column, spec in enumerate(snapshot.specs):
        for name, amount in spec.requests:
            if name in row:
                requests[row[name], column] = amount
    return requests
