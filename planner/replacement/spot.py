"""Spot nodes: which nodes and node groups are spot, and whether spot may be replaced by spot. Source: Karpenter,
SpotToSpotConsolidation; here groups of known price count as alternatives instead of instance types.
"""

from typing import Final

import numpy as np

from trimtab.planner.facts.label_index import LabelIndex
from trimtab.planner.model.values import LabelRequirement
from trimtab.planner.placement.group_bounds import fresh_amounts
from trimtab.planner.placement.group_templates import labels_by_group
from trimtab.planner.replacement.survey import ReplacementContext
from trimtab.planner.simulation.growth import NO_TEMPLATE_NODE
from trimtab.planner.snapshot.columns import Bool, Int32, Int64
from trimtab.v1.reason_pb2 import ReplacementLimit
from trimtab.v1.snapshot_pb2 import LabelOperator

SPOT_LABELS: Final = {
    "karpenter.sh/capacity-type": "spot",
    "eks.amazonaws.com/capacityType": "SPOT",
    "cloud.google.com/gke-spot": "true",
    "kubernetes.azure.com/scalesetpriority": "spot",
}
"""Label and value of a spot node."""


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


def breaks_spot_rules(spots: SpotNodes, leaving: Int32, new_groups: tuple[int, ...]) -> int:
    """Return TOO_FEW_SPOT_ALTERNATIVES if spot nodes may not be replaced like this, else 0."""
    new = np.array(new_groups, np.int64)
    settings = spots.context.request.settings
    if not len(new) or not spots.nodes[leaving].all() or not spots.groups[new].any():
        return 0
    if settings.spot_to_spot and (
        len(leaving) > 1 or len(_alternatives(spots, leaving)) >= settings.min_spot_alternatives
    ):
        return 0
    return ReplacementLimit.TOO_FEW_SPOT_ALTERNATIVES


def _alternatives(spots: SpotNodes, leaving: Int32) -> list[int]:
    """Return the groups whose new node takes the pods of a node for less, by amounts and static predicates."""
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
    known = context.usable & (growth.template_node != NO_TEMPLATE_NODE)
    node_class = state.node_class[np.where(known, growth.template_node, 0)]
    admits = (state.blocked[classes][:, node_class] == 0).all(axis=0) & known
    fits = ((needed <= amounts) | (needed == 0)).all(axis=1)
    groups = np.flatnonzero(admits & fits)
    found: list[int] = groups[np.lexsort((groups, context.group_price[groups]))].tolist()
    return found
