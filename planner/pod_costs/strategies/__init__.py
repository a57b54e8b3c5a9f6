"""All strategies, in the order of their numbers, and the data on which they depend. The only place that lists them."""

from collections.abc import Callable
from typing import Final

from trimtab.planner.pod_costs.settings import PodCostTerm
from trimtab.planner.pod_costs.strategies.anti_affinity import ANTI_AFFINITY, rank_of_pods
from trimtab.planner.pod_costs.strategies.nodes import (
    NODE_COST,
    NODE_DRAIN,
    PREFER_NO_SCHEDULE_NODES,
    UNTOLERATED_TAINTS,
    level_of_pods,
)
from trimtab.planner.pod_costs.strategies.pods import (
    ACCUMULATED_WORK,
    BALANCE_DOMAINS,
    IDLE,
    OLDEST,
    YOUNGEST,
    annotation,
)
from trimtab.planner.pod_costs.strategy import Input, RankingContext, Strategy
from trimtab.planner.snapshot.columns import Float64

STRATEGIES: Final[tuple[Strategy, ...]] = (
    BALANCE_DOMAINS,
    UNTOLERATED_TAINTS,
    PREFER_NO_SCHEDULE_NODES,
    ANTI_AFFINITY,
    YOUNGEST,
    OLDEST,
    NODE_DRAIN,
    NODE_COST,
    IDLE,
    ACCUMULATED_WORK,
)
BY_CODE: Final[dict[int, Strategy]] = {int(one.code): one for one in STRATEGIES}
DATA_OF_PODS: Final[dict[Input, Callable[[RankingContext, PodCostTerm], tuple[Float64, ...]]]] = {
    Input.ANNOTATION: annotation,
    Input.OTHER_PODS: rank_of_pods,
    Input.SCALE_DOWN: level_of_pods,
}
"""Return the data of each member for an input, float64[M] each. Other inputs are the same for all members."""


def depends_on(term: PodCostTerm) -> frozenset[Input]:
    """Return the data on which the ranks of a term depend."""
    return BY_CODE[term.strategy].depends_on
