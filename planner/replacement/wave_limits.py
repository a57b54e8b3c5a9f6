"""Which nodes may leave together in one wave: PodDisruptionBudgets of all their pods jointly, budgets for nodes,
minimum sizes of groups and minimums of resources. Of each PodDisruptionBudget, one node of a wave may have more pods
than it allows at once, which are evicted one after the other, if the others leave one disruption for it. Pure.

Spot nodes: which nodes and node groups are spot, and whether spot may be replaced by spot. Source: Karpenter,
disruption/consolidation, computeSpotToSpotConsolidation; here groups of known price count as alternatives instead of
instance types.
"""

from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from trimtab.common.kubernetes.signals.table import SPOT_LABELS
from trimtab.planner.facts.labels import LabelIndex
from trimtab.planner.facts.node_limits import ActiveNodeBudget, active_budgets
from trimtab.planner.model.values import LabelRequirement
from trimtab.planner.placement.group_bounds import fresh_amounts
from trimtab.planner.placement.group_templates import labels_by_group
from trimtab.planner.replacement.survey import ReplacementContext
from trimtab.planner.simulation.growth import NO_TEMPLATE_NODE
from trimtab.planner.snapshot.columns import Bool, Int32, Int64
from trimtab.planner.snapshot.dictionaries import entries_of
from trimtab.v1.reason_pb2 import ReplacementLimit
from trimtab.v1.snapshot_pb2 import LabelOperator


class LimitUse(NamedTuple):
    """What each node uses of limits if it leaves, as Python numbers: nodes are looked at one by one, and often.
    budgets, needs : by node, the PodDisruptionBudgets that evicting its pods uses, and the disruptions of each; group :
    as in `Spare`; amounts : by node, (place, amount) of each amount above 0; budgets_for_nodes : those that hold now.
    """

    budgets: list[list[int]]
    needs: list[list[int]]
    group: list[int]
    amounts: list[list[tuple[int, int]]]
    budgets_for_nodes: list[ActiveNodeBudget]


class WaveLimits:
    """The limits on the nodes that leave in one wave. removed, added : int64[G] nodes of each group that earlier waves
    remove and add; disruptions : int64[B] that PodDisruptionBudgets allow in the wave; gone : int32 nodes that earlier
    waves remove; waves : the limits are those of so many waves together, and disruptions are of all of them.
    """

    def __init__(
        self,
        context: ReplacementContext,
        disruptions: Int64,
        removed: Int64,
        added: Int64,
        gone: Int32,
        *,
        waves: int = 1,
        use: LimitUse | None = None,
    ) -> None:
        spare, self._use = context.spare, use or limit_use(context)
        self._disruptions, self._waves = disruptions.tolist(), waves
        self._group_left = (spare.group_left - np.append(removed - added, 0)).tolist()
        self._amount_left = (spare.amount_left - spare.amount[gone].sum(axis=0)).tolist()
        # The eviction API knows budgets, and makes evictions wait for them, but no gangs.
        budgets = len(context.request.snapshot.budgets)
        self._in_turn = [waves if row < budgets else 0 for row in range(len(disruptions))]
        self.hit = set[int]()
        """`ReplacementLimit.Code`s of the limits that kept a node out of a wave."""

    def admitted(self, order: Int32, most: int) -> Int32:
        """Return the first nodes of an order that may leave together, at most `most`. int32. A node that may not leave
        together with those before is passed over."""
        chosen: list[int] = []
        left = self._unused()
        for node in order.tolist():
            if len(chosen) == most:
                break
            limit = left.add(node)
            if limit:
                self.hit.add(limit)
            else:
                chosen.append(node)
        return np.array(chosen, np.int32)

    def keeping_alone(self, node: int) -> int:
        """Return the `ReplacementLimit.Code` of the limit that keeps a node from leaving even alone, 0 = none."""
        return self._whole.refusal(node)

    @cached_property
    def _whole(self) -> "_Left":
        """What no node has used yet; never written."""
        return self._unused()

    def _unused(self) -> "_Left":
        return _Left(
            self._use,
            self._disruptions.copy(),
            self._in_turn.copy(),
            self._group_left.copy(),
            self._amount_left.copy(),
            [one.left * self._waves for one in self._use.budgets_for_nodes],
        )

    def admit(self, nodes: Int32) -> bool:
        """Return whether all these nodes may leave together."""
        return len(self.admitted(nodes, len(nodes))) == len(nodes)


class _Left(NamedTuple):
    """What nodes that leave together have left of the limits. in_turn : nodes by budget whose pods may still be evicted
    one after the other."""

    use: LimitUse
    disruptions: list[int]
    in_turn: list[int]
    group: list[int]
    amounts: list[int]
    for_nodes: list[int]

    def refusal(self, node: int) -> int:
        """Return the `ReplacementLimit.Code` that keeps a node from leaving with the others, 0 = none."""
        use, disruptions = self.use, self.disruptions
        amounts = use.amounts[node]
        if self.group[use.group[node]] <= 0 or any(amount > self.amounts[at] for at, amount in amounts):
            return ReplacementLimit.MINIMUM_REACHED
        for one, left in zip(use.budgets_for_nodes, self.for_nodes, strict=True):
            if left <= 0 and one.counted[node]:
                return ReplacementLimit.DISRUPTION_BUDGET
        for budget, need in zip(use.budgets[node], use.needs[node], strict=True):
            left = disruptions[budget]
            if need > left and not (left > 0 and self.in_turn[budget] > 0):
                return ReplacementLimit.NOT_ENOUGH_PDB
        return 0

    def add(self, node: int) -> int:
        """Count a node if it may leave with the others; return 0, else the `ReplacementLimit.Code`."""
        limit = self.refusal(node)
        if limit:
            return limit
        use, disruptions = self.use, self.disruptions
        for budget, need in zip(use.budgets[node], use.needs[node], strict=True):
            is_in_turn = need > disruptions[budget]
            disruptions[budget] -= 1 if is_in_turn else need
            self.in_turn[budget] -= is_in_turn
        self.group[use.group[node]] -= 1
        for at, amount in use.amounts[node]:
            self.amounts[at] -= amount
        for number, one in enumerate(use.budgets_for_nodes):
            self.for_nodes[number] -= bool(one.counted[node])
        return 0


def limit_use(context: ReplacementContext) -> LimitUse:
    """Return what each node uses of limits. O(P + N), vectorised but for the lists."""
    pods, under, count = context.pods, context.facts.under, len(context.request.leaving)
    node = np.repeat(np.arange(count), np.diff(pods.offsets))[pods.evicted]
    moved = pods.pods[pods.evicted]
    lengths, at = under.offsets[moved + 1] - under.offsets[moved], entries_of(under.offsets, moved)
    most = int(under.budgets.max(initial=0)) + 1
    keys, of = np.unique(np.repeat(node, lengths) * most + under.budgets[at], return_inverse=True)
    needs = np.bincount(of.reshape(-1), under.needs[at], len(keys)).astype(np.int64)
    keys, needs = keys[needs > 0], needs[needs > 0]
    bounds = np.searchsorted(keys // most, np.arange(count + 1)).tolist()
    budgets_of, needs_of = (keys % most).tolist(), needs.tolist()
    spare = context.spare
    return LimitUse(
        [budgets_of[first:last] for first, last in pairwise(bounds)],
        [needs_of[first:last] for first, last in pairwise(bounds)],
        spare.group.tolist(),
        [[(at, one) for at, one in enumerate(row) if one > 0] for row in spare.amount.tolist()],
        _node_budgets(context),
    )


def _node_budgets(context: ReplacementContext) -> list[ActiveNodeBudget]:
    """Return the budgets for nodes that hold now. Nodes that are being deleted or not ready count already."""
    request = context.request
    busy = context.request.leaving | ~context.request.ready
    return active_budgets(request.snapshot, request.settings.budgets, context.pods.evictions == 0, busy, request.now_ns)


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
    known = context.usable & (growth.template_node != NO_TEMPLATE_NODE)
    node_class = state.node_class[np.where(known, growth.template_node, 0)]
    admits = (state.blocked[classes][:, node_class] == 0).all(axis=0) & known
    fits = ((needed <= amounts) | (needed == 0)).all(axis=1)
    groups = np.flatnonzero(admits & fits)
    found: list[int] = groups[np.lexsort((groups, context.group_price[groups]))].tolist()
    return found
