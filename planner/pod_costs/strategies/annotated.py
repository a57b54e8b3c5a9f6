"""By the number in an annotation of each pod. IDLE: pods with the largest one, such as the seconds since their last
work, go first; ACCUMULATED_WORK: those with the smallest one, the work that is lost with them, counted down from the
threshold, so that all work above it counts the same.

 Negative numbers count as 0. With an
invalid number, or without the annotation, the pod is unranked.
"""

import numpy as np

from trimtab.planner.pod_costs.members import Members
from trimtab.planner.pod_costs.settings import PodCostTerm
from trimtab.planner.pod_costs.strategy import Code, Input, RankingContext, Ranks, Strategy, Unranked
from trimtab.planner.snapshot.columns import Float64, Snapshot
from trimtab.planner.snapshot.lookup import string_index
from trimtab.v1.reason_pb2 import PodCostGroupReason as Reason


def annotated(snapshot: Snapshot, members: Members, annotation: str) -> Float64:
    """Return the number of each member as in the snapshot, NaN if there is none. float64[M]."""
    pods = snapshot.pods
    by_pod = np.full(len(pods.spec), np.nan)
    mine = pods.number_key == string_index(snapshot.strings, annotation)
    by_pod[pods.number_pod[mine]] = pods.number[mine]
    found: Float64 = by_pod[members.pods]
    return found


def annotation(context: RankingContext, term: PodCostTerm) -> tuple[Float64, ...]:
    """Return the data of `Input.ANNOTATION`: the number of each member."""
    return (annotated(context.snapshot, context.members, term.annotation),)


def numbers(context: RankingContext, term: PodCostTerm) -> tuple[Float64, tuple[Unranked, ...]]:
    """Return (the number of each member : float64[M], 0 if there is none; the pods without)."""
    found = annotated(context.snapshot, context.members, term.annotation)
    missing, invalid = np.isnan(found), np.isinf(found)
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
    return np.where(np.isfinite(found), np.maximum(found, 0.0), 0.0), tuple(unranked)


def _idle(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    del threshold
    return Ranks(*numbers(context, term))


IDLE = Strategy(Code.IDLE, _idle, depends_on=frozenset({Input.ANNOTATION}))


def _work_left(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    work, unranked = numbers(context, term)
    return Ranks(threshold - np.minimum(work, threshold), unranked)


ACCUMULATED_WORK = Strategy(Code.ACCUMULATED_WORK, _work_left, depends_on=frozenset({Input.ANNOTATION}))
