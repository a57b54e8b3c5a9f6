"""The last search that found nothing, kept with its snapshot: with the same inputs, it finds nothing again."""

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trimtab.planner.facts.node_budgets import holds
from trimtab.planner.replacement.cluster_bound import ClusterBound
from trimtab.planner.replacement.search import SearchOutcome
from trimtab.planner.replacement.survey import ReplacementContext
from trimtab.planner.snapshot.caches import LatestKey


class LastSearch(NamedTuple):
    """A bound, and a search without waves."""

    bound: ClusterBound
    outcome: SearchOutcome


@dataclass(frozen=True)
class LastSearchKey(LatestKey[LastSearch]):
    """inputs : digest of what the search depends on besides the snapshot."""

    inputs: bytes


def key_of(context: ReplacementContext) -> LastSearchKey:
    """Return the key of a search that is about to begin."""
    request, pods, spare = context.request, context.pods, context.spare
    state, none = request.round.simulation.state, np.zeros(len(context.usable), np.int64)
    holding = [holds(one, request.now_ns) for one in request.settings.budgets]
    found = hashlib.blake2b(repr((request.settings, request.round.settings, holding, context.unhealthy)).encode())
    for array in (
        *(context.verdicts.limit, context.there, context.ready, context.leaving, context.usable),
        *(context.takes_pods, context.budgets_now, context.budgets_later, context.limits.after(none, none).may_add),
        *(pods.offsets, pods.pods, pods.cost, spare.group_left, spare.amount_left),
        *(state.pod_node, state.node_state),
    ):
        found.update(np.ascontiguousarray(array).tobytes())
    return LastSearchKey(found.digest())
