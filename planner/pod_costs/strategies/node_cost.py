"""NODE_COST: pods on the most expensive nodes go first, by the price per hour of their node's group."""

from functools import partial
from typing import Final

import numpy as np

from trimtab.planner.facts.prices import prices
from trimtab.planner.pod_costs.settings import PodCostTerm
from trimtab.planner.pod_costs.strategy import Code, RankingContext, Ranks, Strategy, Unranked, nothing_else
from trimtab.planner.round.round import Round
from trimtab.planner.snapshot.columns import Float64
from trimtab.v1.reason_pb2 import PodCostGroupReason as Reason

_DEAREST: Final = 1000.0


def prices_of(this: Round) -> Float64:
    """Return the price per hour of each node, NaN = unknown. float64[N]."""
    return this.work.derive("pod cost prices", partial(prices, this.snapshot), of=("nodes.group", "groups"))


def _rank(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    del term, threshold
    rank = context.of_node(prices_of(context.round))
    unknown, unranked = np.isnan(rank), context.without_node
    if unknown.any():

        def detail(member: int) -> str:
            node = context.snapshot.nodes.name[context.node[member]]
            return f"the price of node {node} of {context.pod(member)} is not known"

        unranked += (Unranked(unknown, Reason.PRICE_UNKNOWN, detail),)
    return Ranks(rank, unranked)


NODE_COST = Strategy(Code.NODE_COST, _rank, _DEAREST, rests_on=nothing_else)
