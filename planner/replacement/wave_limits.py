"""What the limits on nodes that leave are in each wave, and spot nodes: which nodes and node groups are spot, and
whether spot may be replaced by spot. Pure.

Source: Karpenter, disruption/consolidation, computeSpotToSpotConsolidation; here groups of known price count as
alternatives instead of instance types.
"""

from typing import Final

import numpy as np

from trimtab.common.kubernetes.signals.table import SPOT_LABELS
from trimtab.planner.drainability.kernels.limits import BLOCKED, MIN_SIZE, MINIMUM, NODE_BUDGET, NodeLimits
from trimtab.planner.facts.labels import LabelIndex
from trimtab.planner.model.values import LabelRequirement
from trimtab.planner.placement.group_bounds import fresh_amounts
from trimtab.planner.placement.group_templates import labels_by_group
from trimtab.planner.replacement.survey import ReplacementContext
from trimtab.planner.simulation.growth import NO_TEMPLATE_NODE
from trimtab.planner.snapshot.columns import Bool, Int32, Int64
from trimtab.v1.reason_pb2 import ReplacementLimit
from trimtab.v1.snapshot_pb2 import LabelOperator

LIMIT_OF: Final = {
    MIN_SIZE: ReplacementLimit.MINIMUM_REACHED,
    MINIMUM: ReplacementLimit.MINIMUM_REACHED,
    NODE_BUDGET: ReplacementLimit.DISRUPTION_BUDGET,
    BLOCKED: ReplacementLimit.NOT_ENOUGH_PDB,
}
"""`ReplacementLimit.Code` of what keeps a node from leaving with others."""


def limits_of_wave(
    context: ReplacementContext, disruptions: Int64, removed: Int64, added: Int64, gone: Int32, waves: int = 1
) -> NodeLimits:
    """Return the limits on the nodes that leave in one wave. disruptions : int64[B] that budgets allow in it; removed,
    added : int64[G] nodes of each group that earlier waves remove and add; gone : int32 nodes that they remove; waves :
    the limits are those of so many waves together."""
    limits = context.node_limits
    return limits._replace(
        disruptions=disruptions,
        in_turn=limits.in_turn * waves,
        group_left=limits.group_left - np.append(removed - added, 0),
        amount_left=limits.amount_left - limits.amount[gone].sum(axis=0),
        nodes_left=limits.nodes_left * waves,
    )


class SpotNodes:
    """Which nodes and new nodes are spot. nodes : bool[N]; groups : bool[G]."""

    def __init__(self, context: ReplacementContext) -> None:
        self.context = context
        snapshot = context.request.snapshot
        labels = labels_by_group(context.templates)
        self.groups: Bool = np.array(
            [any(of.get(key) == value for key, value in SPOT_LABELS.items()) for of in labels], bool
        )
        index = LabelIndex(snapshot.strings, snapshot.label_sets)
        nodes = np.append(self.groups, False)[snapshot.nodes.group]
        for key, value in SPOT_LABELS.items():
            selector = (LabelRequirement(key, LabelOperator.IN, (value,)),)
            nodes |= index.matching(selector)[snapshot.nodes.label_set]
        self.nodes: Bool = nodes
        self.has_alternatives: dict[int, bool] = {}


def breaks_spot_rules(spots: SpotNodes, leaving: Int32, new_groups: tuple[int, ...]) -> int:
    """Return TOO_FEW_SPOT_ALTERNATIVES if spot nodes may not be replaced like this, else 0.

    Each new node counts as the one that replaces a part of those that leave, as Karpenter's commands have a single new
    node. A new spot node may replace a node on demand, a spot node with enough alternatives, or two spot nodes.
    """
    settings = spots.context.request.settings
    new_spot = int(spots.groups[np.array(new_groups, np.int64)].sum())
    if not new_spot:
        return 0
    strict = [node for node in leaving.tolist() if spots.nodes[node] and not _has_alternatives(spots, node)]
    free = len(leaving) - len(strict)
    new_on_demand = len(new_groups) - new_spot
    # New nodes on demand replace strict ones first.
    free -= max(new_on_demand - len(strict), 0)
    strict_left = max(len(strict) - new_on_demand, 0)
    lacking = new_spot - max(free, 0)
    if lacking <= 0 or (settings.spot_to_spot and strict_left >= 2 * lacking):
        return 0
    return ReplacementLimit.TOO_FEW_SPOT_ALTERNATIVES


def _has_alternatives(spots: SpotNodes, node: int) -> bool:
    """Return whether a spot node may be replaced by one spot node. Computed once for each node."""
    settings = spots.context.request.settings
    if node not in spots.has_alternatives:
        enough = len(_alternatives(spots, np.array([node], np.int32))) >= settings.min_spot_alternatives
        spots.has_alternatives[node] = settings.spot_to_spot and enough
    return spots.has_alternatives[node]


def _alternatives(spots: SpotNodes, leaving: Int32) -> list[int]:
    """Return the groups whose new node takes the pods of a node for less, by amounts and static predicates.
    leaving : int32[1]."""
    context = spots.context
    request = context.request
    price = float(context.price[leaving[0]])
    return [
        group
        for group in groups_that_take(context, context.pods.of(leaving))
        if context.group_price[group] < price and request.snapshot.groups[group].max_size > 0
    ]


def groups_that_take(context: ReplacementContext, pods: Int32, amounts: Int64 | None = None) -> list[int]:
    """Return the groups of which one new node has room for all pods : int32[M], cheapest first, by amounts and static
    predicates. amounts : `fresh_amounts`, if they are known."""
    simulation, growth = context.request.round.simulation, context.request.growth
    state = simulation.state
    amounts = fresh_amounts(simulation, growth) if amounts is None else amounts
    classes = np.unique(state.pod_class[pods])
    needed = state.resources.request[state.pod_class[pods]].sum(axis=0)
    grows = context.usable & (growth.template_node != NO_TEMPLATE_NODE)
    node_class = state.node_class[np.where(grows, growth.template_node, 0)]
    admits = (state.blocked[classes][:, node_class] == 0).all(axis=0) & grows
    fits = ((needed <= amounts) | (needed == 0)).all(axis=1)
    groups = np.flatnonzero(admits & fits)
    cheapest_first: list[int] = groups[np.lexsort((groups, context.group_price[groups]))].tolist()
    return cheapest_first
