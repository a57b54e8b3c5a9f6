"""IDLE: pods with the largest number in an annotation, such as the seconds since their last work, go first."""

from trimtab.planner.pod_costs.settings import PodCostTerm
from trimtab.planner.pod_costs.strategies.annotated import annotation, numbers
from trimtab.planner.pod_costs.strategy import Code, RankingContext, Ranks, Strategy


def _rank(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    del threshold
    return Ranks(*numbers(context, term))


IDLE = Strategy(Code.IDLE, _rank, rests_on=annotation)
