"""ACCUMULATED_WORK: pods with the smallest number in an annotation, the work that is lost with them, go first. Counted
down from the threshold, so that all work above it counts the same.
"""

import numpy as np

from trimtab.planner.pod_costs.settings import PodCostTerm
from trimtab.planner.pod_costs.strategies.annotated import annotation, numbers
from trimtab.planner.pod_costs.strategy import Code, RankingContext, Ranks, Strategy


def _rank(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    work, unranked = numbers(context, term)
    return Ranks(threshold - np.minimum(work, threshold), unranked)


ACCUMULATED_WORK = Strategy(Code.ACCUMULATED_WORK, _rank, rests_on=annotation)
