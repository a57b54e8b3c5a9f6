"""BALANCE_DOMAINS: by age within the topology domain, 1 for the first pod of its domain.

If the highest rank is always removed, the domains of a group even out to a difference of at most one pod: each domain
has the ranks 1 to its number of pods. Names break ties of pods created in the same second. A pod of unknown age counts
as old. Does not depend on how many pods a group has: a removal changes ranks only of younger pods in the same domain.
"""

import numpy as np

from trimtab.planner.pod_costs.kernels.ordering import count_in_turn, sort_groups
from trimtab.planner.pod_costs.settings import PodCostTerm
from trimtab.planner.pod_costs.strategy import Code, RankingContext, Ranks, Strategy, Unranked, nothing_else
from trimtab.v1.reason_pb2 import PodCostGroupReason as Reason


def _rank(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    del threshold
    members, count = context.members, len(context.members.pods)
    row, domains = context.domains(term.topology_key)
    domain = context.of_node_or(row, -1)
    order, rank = np.empty(count, np.int64), np.empty(count, np.float64)
    created_s = context.snapshot.pods.created_s[members.pods]
    sort_groups(created_s, members.bounds, order, np.empty(count, np.int64))
    count_in_turn(order, domain, members.bounds, np.zeros(domains, np.int64), rank)
    unranked = context.without_node
    lacking = context.placed & (domain < 0)
    if lacking.any():

        def detail(member: int) -> str:
            node = context.snapshot.nodes.name[context.node[member]]
            return f"node {node} of {context.pod(member)} has no label {term.topology_key}"

        unranked += (Unranked(lacking, Reason.TOPOLOGY_KEY_MISSING, detail),)
    return Ranks(rank, unranked)


BALANCE_DOMAINS = Strategy(Code.BALANCE_DOMAINS, _rank, rests_on=nothing_else)
