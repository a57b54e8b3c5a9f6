"""By the taints of a pod's node. UNTOLERATED_TAINTS: how many, of any effect, the pod does not tolerate; it was on the
node before them. PREFER_NO_SCHEDULE_NODES: pods on nodes with a PreferNoSchedule taint that they do not tolerate go
first. Cost: O(M), plus the
product of their sizes for each pair of tolerations and taints that occurs.
"""

from collections.abc import Callable

import numpy as np

from trimtab.planner.model.values import TaintSpec, TolerationSpec
from trimtab.planner.pod_costs.settings import PodCostTerm
from trimtab.planner.pod_costs.strategy import Code, RankingContext, Ranks, Strategy
from trimtab.planner.predicates.taints import any_tolerates
from trimtab.planner.snapshot.caches import SnapshotKey
from trimtab.planner.snapshot.columns import Int32, Snapshot
from trimtab.v1.snapshot_pb2 import TaintEffect

Tolerations = tuple[TolerationSpec, ...]


class TolerationsKey(SnapshotKey[tuple[Int32, list[Tolerations]]]):
    """The number of each spec's tolerations, and the distinct ones."""


def rank_by_taints(context: RankingContext, rate: Callable[[Tolerations, tuple[TaintSpec, ...]], float]) -> Ranks:
    """Rank pods by a function of their tolerations and the taints of their node."""
    snapshot = context.snapshot
    number, distinct = context.round.work.cache.get(TolerationsKey(), snapshot, _numbers)
    taint_sets = snapshot.nodes.taint_sets
    width = max(len(taint_sets), 1)
    context.round.work.limits.reserve(9 * len(distinct) * width, "tolerations times sets of taints")
    taints = context.of_node_or(snapshot.nodes.taint_set, 0)
    of_pod = number[snapshot.pods.spec[context.members.pods]].astype(np.int64)
    pair = np.where(context.placed, of_pod * width + taints, -1)
    occurs = np.zeros(len(distinct) * width + 1, np.bool_)
    occurs[pair] = True
    occurs[-1] = False
    rank = np.zeros(len(occurs))
    for at in np.flatnonzero(occurs).tolist():
        context.round.work.limits.check()
        rank[at] = rate(distinct[at // width], taint_sets[at % width])
    return Ranks(rank[pair], context.without_node)


def _numbers(snapshot: Snapshot) -> tuple[Int32, list[Tolerations]]:
    """Return (number of each spec's tolerations : int32[specs], the distinct ones)."""
    known: dict[Tolerations, int] = {}
    number = np.array([known.setdefault(spec.tolerations, len(known)) for spec in snapshot.specs], np.int32)
    return number, list(known)


def _count(tolerations: Tolerations, taints: tuple[TaintSpec, ...]) -> float:
    return float(sum(not any_tolerates(tolerations, taint) for taint in taints))


def _untolerated(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    del term, threshold
    return rank_by_taints(context, _count)


UNTOLERATED_TAINTS = Strategy(Code.UNTOLERATED_TAINTS, _untolerated)


def _is_disliked(tolerations: Tolerations, taints: tuple[TaintSpec, ...]) -> float:
    soft = (taint for taint in taints if taint.effect == TaintEffect.PREFER_NO_SCHEDULE)
    return float(any(not any_tolerates(tolerations, taint) for taint in soft))


def _disliked(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    del term, threshold
    return rank_by_taints(context, _is_disliked)


PREFER_NO_SCHEDULE_NODES = Strategy(Code.PREFER_NO_SCHEDULE_NODES, _disliked)
