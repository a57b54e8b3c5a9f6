"""By age. YOUNGEST: pods that were created last go first; OLDEST: those that were created first; BALANCE_DOMAINS: by
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
"""

from typing import Final

import numpy as np

from trimtab.planner.pod_costs.members import Members
from trimtab.planner.pod_costs.settings import PodCostTerm
from trimtab.planner.pod_costs.strategy import RankingContext, Ranks, Strategy, Unranked
from trimtab.planner.snapshot.columns import Float64, Snapshot
from trimtab.planner.snapshot.texts import string_index
from trimtab.v1.reason_pb2 import PodCostGroupReason as Reason

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


def _youngest(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    del threshold
    return Ranks(*seconds_after_oldest(context, term))


YOUNGEST = Strategy(_youngest, SECONDS)


def _oldest(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    seconds, unranked = seconds_after_oldest(context, term)
    return Ranks(threshold - np.minimum(seconds, threshold), unranked)


OLDEST = Strategy(_oldest, SECONDS)


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


BALANCE_DOMAINS = Strategy(_by_domain)


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


def _idle(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    del threshold
    return Ranks(*numbers(context, term))


IDLE = Strategy(_idle)


def _work_left(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    work, unranked = numbers(context, term)
    return Ranks(threshold - np.minimum(work, threshold), unranked)


ACCUMULATED_WORK = Strategy(_work_left)
