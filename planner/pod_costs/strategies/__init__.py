"""All strategies. The only place that lists them."""

from typing import Final

from trimtab.planner.pod_costs.strategies.anti_affinity import ANTI_AFFINITY
from trimtab.planner.pod_costs.strategies.pods import (
    ACCUMULATED_WORK,
    BALANCE_DOMAINS,
    IDLE,
    NODE_COST,
    NODE_DRAIN,
    OLDEST,
    PREFER_NO_SCHEDULE_NODES,
    UNTOLERATED_TAINTS,
    YOUNGEST,
)
from trimtab.planner.pod_costs.strategy import Strategy
from trimtab.v1.plan_pb2 import PodCostStrategy as Code

STRATEGIES: Final[dict[int, Strategy]] = {
    Code.BALANCE_DOMAINS: BALANCE_DOMAINS,
    Code.UNTOLERATED_TAINTS: UNTOLERATED_TAINTS,
    Code.PREFER_NO_SCHEDULE_NODES: PREFER_NO_SCHEDULE_NODES,
    Code.ANTI_AFFINITY: ANTI_AFFINITY,
    Code.YOUNGEST: YOUNGEST,
    Code.OLDEST: OLDEST,
    Code.NODE_DRAIN: NODE_DRAIN,
    Code.NODE_COST: NODE_COST,
    Code.IDLE: IDLE,
    Code.ACCUMULATED_WORK: ACCUMULATED_WORK,
}
