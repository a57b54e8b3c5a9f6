"""All strategies; that by anti-affinity has a module of its own.

By age. YOUNGEST: pods that were created last go first; OLDEST: those that were created first; BALANCE_DOMAINS: by
age within the topology domain, 1 for the first pod of its domain.

YOUNGEST and OLDEST count the seconds between the creation of a group's oldest pod and of each pod. With a threshold
they are counted from the oldest pod itself. Without one, only the order matters, and ranks should not change when the
oldest pod goes: they are then counted from the start of the period of 388 days (since 1970) in which the oldest pod was
created.

BALANCE_DOMAINS: if the highest rank is always removed, the domains of a group even out to a difference of at most one
pod: each domain has the ranks 1 to its number of pods. Names break ties of pods created in the same second. A pod of
unknown age counts as old. Does not depend on how many pods a group has: a removal changes ranks only of younger pods in
the same domain.

By the number in an annotation of each pod. IDLE: pods with the largest one, such as the seconds since their last
work, go first; ACCUMULATED_WORK: those with the smallest one, the work that is lost with them, counted down from the
threshold, so that all work above it counts the same. Negative numbers count as 0. With an invalid number,
or without the annotation, the pod is unranked.

By node. NODE_COST: pods on the most expensive nodes go first. NODE_DRAIN ranks 1,000 on nodes that are deleted now or
being deleted, 900 on unneeded nodes that go later; on a node that could still be emptied, 800 minus 1 for each pod that
would have to leave it, at least 1; 0 on nodes that cannot go even if pods leave. DaemonSet and mirror pods do not
count. UNTOLERATED_TAINTS: how many taints of its node a pod does not tolerate, of any effect. PREFER_NO_SCHEDULE_NODES:
pods on nodes with a PreferNoSchedule taint that they do not tolerate go first.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from trimtab.planner.facts.nodes import prices
from trimtab.planner.model.values import TaintSpec, TolerationSpec
from trimtab.planner.pod_costs.members import Members, active
from trimtab.planner.pod_costs.settings import PodCostTerm
from trimtab.planner.pod_costs.strategies.anti_affinity import ANTI_AFFINITY
from trimtab.planner.pod_costs.strategy import RankingContext, Ranks, Strategy, Unranked
from trimtab.planner.predicates.taints import any_tolerates
from trimtab.planner.round.decision import Decided
from trimtab.planner.snapshot.caches import SnapshotKey
from trimtab.planner.snapshot.columns import FLAG_DAEMON, Float64, Int32, Snapshot
from trimtab.planner.snapshot.texts import string_index
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import PodCostGroupReason, UnremovableReason
from trimtab.v1.reason_pb2 import PodCostGroupReason as Reason
from trimtab.v1.snapshot_pb2 import TaintEffect

SECONDS: Final = float(1 << 26)
"""Two years: pods of a group are unlikely to be further apart, and one second still affects the cost."""
_STEP_S: Final = 1 << 25


def seconds_after_oldest(context: RankingContext, term: PodCostTerm) -> tuple[Float64, tuple[Unranked, ...]]:
    """Return (seconds : float64[M], the pods of unknown age)."""
    created_s, members = context.snapshot.pods.created_s[context.members.pods], context.members
    unknown = created_s == 0
    starts = members.bounds[:-1]
    oldest_s = np.minimum.reduceat(created_s, starts) if len(starts) else created_s
    if term.threshold is None:
        oldest_s = oldest_s // _STEP_S * _STEP_S
    seconds = (created_s - oldest_s[members.group]).astype(np.float64)
    if not unknown.any():
        return seconds, ()

    def detail(member: int) -> str:
        return f"the creation time of {context.pod(member)} is unknown"

    return seconds, (Unranked(unknown, Reason.AGE_UNKNOWN, detail),)


def _reversed(amounts: tuple[Float64, tuple[Unranked, ...]], cap: float) -> Ranks:
    """Rank those with the least of an amount first, counted down from a cap."""
    return Ranks(cap - np.minimum(amounts[0], cap), amounts[1])


def _by_domain(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    del threshold
    members, group = context.members, context.members.group
    row, domains = context.domains(term.topology_key)
    domain = context.of_node_or(row, -1)
    of_domain = group * (domains + 1) + domain + 1
    order = np.lexsort((context.snapshot.pods.created_s[members.pods], of_domain))
    rank = np.empty(len(group), np.float64)
    first = np.flatnonzero(np.diff(of_domain[order], prepend=-1))
    rank[order] = np.arange(1, len(group) + 1) - np.repeat(first, np.diff(first, append=len(group)))
    rank[domain < 0] = 0.0
    unranked = context.without_node
    lacking = context.placed & (domain < 0)
    if lacking.any():

        def detail(member: int) -> str:
            node = context.snapshot.nodes.name[context.node[member]]
            return f"node {node} of {context.pod(member)} has no label {term.topology_key}"

        unranked += (Unranked(lacking, Reason.TOPOLOGY_KEY_MISSING, detail),)
    return Ranks(rank, unranked)


def annotated(snapshot: Snapshot, members: Members, annotation: str) -> Float64:
    """Return the number of each member as in the snapshot, NaN if there is none. float64[M]."""
    pods = snapshot.pods
    by_pod = np.full(len(pods.spec), np.nan)
    mine = pods.number_key == string_index(snapshot.strings, annotation)
    by_pod[pods.number_pod[mine]] = pods.number[mine]
    number: Float64 = by_pod[members.pods]
    return number


def numbers(context: RankingContext, term: PodCostTerm) -> tuple[Float64, tuple[Unranked, ...]]:
    """Return (the number of each member : float64[M], 0 if there is none; the pods without)."""
    number = annotated(context.snapshot, context.members, term.annotation)
    missing, invalid = np.isnan(number), np.isinf(number)
    unranked = []
    if invalid.any():
        unranked.append(
            Unranked(
                invalid,
                Reason.ANNOTATION_INVALID,
                lambda member: f"annotation {term.annotation} of {context.pod(member)} is not a number",
            )
        )
    if missing.any():
        unranked.append(
            Unranked(
                missing,
                Reason.ANNOTATION_MISSING,
                lambda member: f"{context.pod(member)} has no annotation {term.annotation}",
            )
        )
    return np.where(np.isfinite(number), np.maximum(number, 0.0), 0.0), tuple(unranked)


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


def _prefers_others(tolerations: Tolerations, taints: tuple[TaintSpec, ...]) -> bool:
    kept_off = (taint for taint in taints if taint.effect == TaintEffect.PREFER_NO_SCHEDULE)
    return any(not any_tolerates(tolerations, taint) for taint in kept_off)


def _untolerated(tolerations: Tolerations, taints: tuple[TaintSpec, ...]) -> int:
    return sum(not any_tolerates(tolerations, taint) for taint in taints)


STRATEGIES: Final[dict[int, Strategy]] = {
    pb.PodCostStrategy.BALANCE_DOMAINS: Strategy(_by_domain),
    pb.PodCostStrategy.UNTOLERATED_TAINTS: Strategy(lambda context, *_: rank_by_taints(context, _untolerated)),
    pb.PodCostStrategy.PREFER_NO_SCHEDULE_NODES: Strategy(lambda context, *_: rank_by_taints(context, _prefers_others)),
    pb.PodCostStrategy.ANTI_AFFINITY: ANTI_AFFINITY,
    pb.PodCostStrategy.YOUNGEST: Strategy(
        lambda context, term, _: Ranks(*seconds_after_oldest(context, term)), SECONDS
    ),
    pb.PodCostStrategy.OLDEST: Strategy(
        lambda context, term, cap: _reversed(seconds_after_oldest(context, term), cap), SECONDS
    ),
    pb.PodCostStrategy.NODE_DRAIN: Strategy(_drained, NOW),
    pb.PodCostStrategy.NODE_COST: Strategy(_priced, MOST_EXPENSIVE),
    pb.PodCostStrategy.IDLE: Strategy(lambda context, term, _: Ranks(*numbers(context, term))),
    pb.PodCostStrategy.ACCUMULATED_WORK: Strategy(lambda context, term, cap: _reversed(numbers(context, term), cap)),
}
"""All strategies. The only place that lists them."""
