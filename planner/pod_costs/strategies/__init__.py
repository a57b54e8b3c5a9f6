"""All strategies, in the order of their numbers. The only place that lists them."""

from typing import Final

from trimtab.planner.pod_costs.strategies.accumulated_work import ACCUMULATED_WORK
from trimtab.planner.pod_costs.strategies.anti_affinity import ANTI_AFFINITY
from trimtab.planner.pod_costs.strategies.balance_domains import BALANCE_DOMAINS
from trimtab.planner.pod_costs.strategies.custom import CUSTOM
from trimtab.planner.pod_costs.strategies.idle import IDLE
from trimtab.planner.pod_costs.strategies.node_cost import NODE_COST
from trimtab.planner.pod_costs.strategies.node_drain import NODE_DRAIN
from trimtab.planner.pod_costs.strategies.oldest import OLDEST
from trimtab.planner.pod_costs.strategies.prefer_no_schedule_nodes import PREFER_NO_SCHEDULE_NODES
from trimtab.planner.pod_costs.strategies.untolerated_taints import UNTOLERATED_TAINTS
from trimtab.planner.pod_costs.strategies.youngest import YOUNGEST
from trimtab.planner.pod_costs.strategy import Strategy

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
    CUSTOM,
)
BY_CODE: Final[dict[int, Strategy]] = {int(one.code): one for one in STRATEGIES}
