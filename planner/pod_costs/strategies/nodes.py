"""By node. NODE_COST: pods on the most expensive nodes go first, by the price per hour of their node's group.
NODE_DRAIN: pods on the nodes that the same plan drains go first.

NODE_DRAIN ranks 1,000 on nodes that are deleted now or being deleted, 900 on unneeded nodes that go later. On a node
that could still be emptied, 800 minus 1 for each pod that would have to leave it, at least 1: the fewer removals empty
a node, the higher the rank. 0 on nodes that cannot go even if pods leave. DaemonSet and mirror pods do not count.

By the taints of a pod's node. UNTOLERATED_TAINTS: how many, of any effect, the pod does not tolerate; it was on the
node before them. PREFER_NO_SCHEDULE_NODES: pods on nodes with a PreferNoSchedule taint that they do not tolerate go
first. Cost: O(M), plus the product of their sizes for each pair of tolerations and taints that occurs.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from trimtab.planner.facts.nodes import prices
from trimtab.planner.model.values import TaintSpec, TolerationSpec
from trimtab.planner.pod_costs.members import active
from trimtab.planner.pod_costs.settings import PodCostTerm
from trimtab.planner.pod_costs.strategy import RankingContext, Ranks, Strategy, Unranked
from trimtab.planner.predicates.taints import any_tolerates
from trimtab.planner.round.decision import Decided
from trimtab.planner.snapshot.caches import SnapshotKey
from trimtab.planner.snapshot.columns import FLAG_DAEMON, Float64, Int32, Snapshot
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import PodCostGroupReason, UnremovableReason
from trimtab.v1.snapshot_pb2 import TaintEffect

MOST_EXPENSIVE: Final = 1000.0
NOW: Final = 1000.0
LATER: Final = 900.0
NEARLY: Final = 800.0
MAY_GO: Final = frozenset(
    {
        UnremovableReason.NOT_UNDERUTILIZED,
        UnremovableReason.RECENTLY_UNREMOVABLE,
        UnremovableReason.NO_PLACE_TO_MOVE_PODS,
        UnremovableReason.DESTINATION_OF_MOVED_PODS,
        UnremovableReason.NOT_EVALUATED,
        UnremovableReason.IN_COOLDOWN,
        UnremovableReason.CLUSTER_UNHEALTHY,
        UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH,
        UnremovableReason.NOT_UNREADY_LONG_ENOUGH,
    }
)
"""Reasons for which a node stays that fewer pods on it could change."""


def _drained(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    del term, threshold
    level = _levels(context)
    if level is None:
        everybody = np.ones(len(context.members.pods), np.bool_)
        text = "NODE_DRAIN follows the nodes that are removed; request SCALE_DOWN in the same request"
        unranked = Unranked(everybody, PodCostGroupReason.SCALE_DOWN_NOT_ASKED, lambda _: text)
        return Ranks(np.zeros(len(everybody)), (unranked,))
    return Ranks(context.of_node(level), context.without_node)


def _levels(context: RankingContext) -> Float64 | None:
    """Return the rank of the pods of each node, None if scale-down was not requested. float64[N]. O(N + P)."""
    decided: Decided | None = context.round.decided.get(pb.Decision.SCALE_DOWN)
    if decided is None:
        return None
    snapshot = context.snapshot
    verdicts = [pb.NodeVerdict() for _ in snapshot.nodes.name]
    decided.judge(verdicts)
    level, pods = np.zeros(len(verdicts)), snapshot.pods
    leaving = active(pods) & (pods.node >= 0) & ((pods.flags & FLAG_DAEMON) == 0)
    nearly = np.maximum(NEARLY - np.bincount(pods.node[leaving], minlength=len(level)), 1.0)
    for node, verdict in enumerate(verdicts):
        if verdict.fate == pb.NodeFate.GOES_NOW or verdict.reason == UnremovableReason.CURRENTLY_BEING_DELETED:
            level[node] = NOW
        elif verdict.fate == pb.NodeFate.GOES_LATER:
            level[node] = LATER
        elif verdict.reason in MAY_GO:
            level[node] = nearly[node]
    return level


NODE_DRAIN = Strategy(_drained, NOW)


def _priced(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    del term, threshold
    rank = context.of_node(prices(context.snapshot))
    unknown, unranked = np.isnan(rank), context.without_node
    if unknown.any():

        def detail(member: int) -> str:
            node = context.snapshot.nodes.name[context.node[member]]
            return f"the price of node {node} of {context.pod(member)} is not known"

        unranked += (Unranked(unknown, PodCostGroupReason.PRICE_UNKNOWN, detail),)
    return Ranks(rank, unranked)


NODE_COST = Strategy(_priced, MOST_EXPENSIVE)


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
    numbers: dict[Tolerations, int] = {}
    number = np.array([numbers.setdefault(spec.tolerations, len(numbers)) for spec in snapshot.specs], np.int32)
    return number, list(numbers)


def _count(tolerations: Tolerations, taints: tuple[TaintSpec, ...]) -> float:
    return float(sum(not any_tolerates(tolerations, taint) for taint in taints))


def _untolerated(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    del term, threshold
    return rank_by_taints(context, _count)


UNTOLERATED_TAINTS = Strategy(_untolerated)


def _is_disliked(tolerations: Tolerations, taints: tuple[TaintSpec, ...]) -> float:
    soft = (taint for taint in taints if taint.effect == TaintEffect.PREFER_NO_SCHEDULE)
    return float(any(not any_tolerates(tolerations, taint) for taint in soft))


def _disliked(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    del term, threshold
    return rank_by_taints(context, _is_disliked)


PREFER_NO_SCHEDULE_NODES = Strategy(_disliked)
