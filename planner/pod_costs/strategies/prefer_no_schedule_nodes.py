"""PREFER_NO_SCHEDULE_NODES: pods on nodes with a PreferNoSchedule taint that they do not tolerate go first."""

from trimtab.planner.model.values import Taint
from trimtab.planner.pod_costs.settings import PodCostTerm
from trimtab.planner.pod_costs.strategies.node_taints import Tolerations, rank_by_taints
from trimtab.planner.pod_costs.strategy import Code, RankingContext, Ranks, Strategy, nothing_else
from trimtab.planner.predicates.taints import any_tolerates
from trimtab.v1.snapshot_pb2 import TaintEffect


def _is_disliked(tolerations: Tolerations, taints: tuple[Taint, ...]) -> float:
    soft = (taint for taint in taints if taint.effect == TaintEffect.PREFER_NO_SCHEDULE)
    return float(any(not any_tolerates(tolerations, taint) for taint in soft))


def _rank(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    del term, threshold
    return rank_by_taints(context, _is_disliked)


PREFER_NO_SCHEDULE_NODES = Strategy(Code.PREFER_NO_SCHEDULE_NODES, _rank, rests_on=nothing_else)
