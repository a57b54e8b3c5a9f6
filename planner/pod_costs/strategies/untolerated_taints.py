"""UNTOLERATED_TAINTS: how many taints of its node, of any effect, a pod does not tolerate.

A pod with untolerated taints was on the node before them.
"""

from trimtab.planner.model.values import Taint
from trimtab.planner.pod_costs.settings import PodCostTerm
from trimtab.planner.pod_costs.strategies.node_taints import Tolerations, rank_by_taints
from trimtab.planner.pod_costs.strategy import Code, RankingContext, Ranks, Strategy, nothing_else
from trimtab.planner.predicates.taints import any_tolerates


def _count(tolerations: Tolerations, taints: tuple[Taint, ...]) -> float:
    return float(sum(not any_tolerates(tolerations, taint) for taint in taints))


def _rank(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    del term, threshold
    return rank_by_taints(context, _count)


UNTOLERATED_TAINTS = Strategy(Code.UNTOLERATED_TAINTS, _rank, rests_on=nothing_else)
