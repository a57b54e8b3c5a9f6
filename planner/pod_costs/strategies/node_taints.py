"""Shared by two strategies: a number for each pod from its tolerations and its node's taints. Cost: O(M), plus the
product of their sizes for each pair of tolerations and taints that occurs.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from trimtab.planner.model.values import Taint, Toleration
from trimtab.planner.pod_costs.strategy import RankingContext, Ranks
from trimtab.planner.snapshot.columns import Int32, Snapshot

Tolerations = tuple[Toleration, ...]


def rank_by_taints(context: RankingContext, rate: Callable[[Tolerations, tuple[Taint, ...]], float]) -> Ranks:
    """Rank pods by a function of their tolerations and the taints of their node."""
    snapshot = context.snapshot
    number, distinct = context.round.work.derive("pod cost tolerations", partial(_numbers, snapshot), of=("specs",))
    taint_sets = snapshot.nodes.taint_sets
    width = max(len(taint_sets), 1)
    context.round.work.effort.take(9 * len(distinct) * width, "tolerations times sets of taints")
    taints = context.of_node_or(snapshot.nodes.taint_set, 0)
    of_pod = number[snapshot.pods.spec[context.members.pods]].astype(np.int64)
    pair = np.where(context.placed, of_pod * width + taints, -1)
    occurs = np.zeros(len(distinct) * width + 1, np.bool_)
    occurs[pair] = True
    occurs[-1] = False
    rank = np.zeros(len(occurs))
    for at in np.flatnonzero(occurs).tolist():
        context.round.work.effort.check()
        rank[at] = rate(distinct[at // width], taint_sets[at % width])
    return Ranks(rank[pair], context.without_node)


def _numbers(snapshot: Snapshot) -> tuple[Int32, list[Tolerations]]:
    """Return (number of each spec's tolerations : int32[specs], the distinct ones)."""
    known: dict[Tolerations, int] = {}
    number = np.array([known.setdefault(spec.tolerations, len(known)) for spec in snapshot.specs], np.int32)
    return number, list(known)
