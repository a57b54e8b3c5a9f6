"""YOUNGEST: pods that were created last go first."""

from trimtab.planner.pod_costs.settings import PodCostTerm
from trimtab.planner.pod_costs.strategies.ages import SECONDS, seconds_after_oldest
from trimtab.planner.pod_costs.strategy import Code, RankingContext, Ranks, Strategy, nothing_else


def _rank(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    del threshold
    return Ranks(*seconds_after_oldest(context, term))


YOUNGEST = Strategy(Code.YOUNGEST, _rank, SECONDS, rests_on=nothing_else)
