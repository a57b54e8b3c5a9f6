"""Shared by YOUNGEST and OLDEST: seconds between the creation of a group's oldest pod and of each pod. With a threshold
they are counted from the oldest pod itself. Without one, only the order matters, and ranks should not change when the
oldest pod goes: they are then counted from the start of the period of 388 days (since 1970) in which the oldest pod was
created.
"""

from typing import Final

import numpy as np

from trimtab.planner.pod_costs.settings import PodCostTerm
from trimtab.planner.pod_costs.strategy import RankingContext, Unranked
from trimtab.planner.snapshot.columns import Float64
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
