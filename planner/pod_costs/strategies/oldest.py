"""OLDEST: pods that were created first go first."""

import numpy as np

from trimtab.planner.pod_costs.settings import PodCostTerm
from trimtab.planner.pod_costs.strategies.ages import SECONDS, seconds_after_oldest
from trimtab.planner.pod_costs.strategy import Code, RankingContext, Ranks, Strategy, nothing_else


def _rank(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    seconds, unranked = seconds_after_oldest(context, term)
    return Ranks(threshold - np.minimum(seconds, threshold), unranked)


OLDEST = Strategy(Code.OLDEST, _rank, SECONDS, rests_on=nothing_else)
