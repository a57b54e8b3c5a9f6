"""Which nodes may leave together in one wave: PodDisruptionBudgets of all their pods jointly, budgets for nodes,
minimum sizes of groups and minimums of resources. Of each PodDisruptionBudget, one node of a wave may have more pods
than it allows at once, which are evicted one after the other, if the others leave one disruption for it
(`ScaleDownSettings.evict_in_turn`). Pure.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.facts.label_index import LabelIndex
from trimtab.planner.replacement.settings import EMPTY, UNDERUTILIZED, NodeDisruptionBudget
from trimtab.planner.replacement.survey import ReplacementContext
from trimtab.planner.snapshot.columns import Bool, Int32, Int64
from trimtab.v1.reason_pb2 import ReplacementLimit


class _ActiveBudget(NamedTuple):
    """counted : bool[N] nodes that count when they leave; left : how many more of them may."""

    counted: Bool
    left: int


class WaveLimits:
    """The limits on the nodes that leave in one wave. removed, added : int64[G] nodes of each group that earlier waves
    remove and add; disruptions : int64[B] that PodDisruptionBudgets allow in the wave; gone : int32 nodes that earlier
    waves remove.
    """

    def __init__(
        self, context: ReplacementContext, disruptions: Int64, removed: Int64, added: Int64, gone: Int32
    ) -> None:
        self._context, self._disruptions = context, disruptions
        spare = context.spare
        self._group_left = spare.group_left - np.append(removed - added, 0)
        self._amount_left = spare.amount_left - spare.amount[gone].sum(axis=0)
        self._budgets = _active(context)
        self.hit = set[int]()
        """`ReplacementLimit.Code`s of the limits that kept a node out of a wave."""

    def admitted(self, order: Int32, most: int) -> Int32:
        """Return the first nodes of an order that may leave together, at most `most`. int32. A node that may not leave
        together with those before is passed over."""
        chosen: list[int] = []
        use = self._unused()
        for node in order.tolist():
            if len(chosen) == most:
                break
            limit = use.add(node)
            if limit:
                self.hit.add(limit)
            else:
                chosen.append(node)
        return np.array(chosen, np.int32)

    def keeping_alone(self, node: int) -> int:
        """Return the `ReplacementLimit.Code` of the limit that keeps a node from leaving even alone, 0 = none."""
        return self._unused().add(node)

    def _unused(self) -> "_Use":
        return _Use(self._context, self._disruptions, self._group_left, self._amount_left, self._budgets)

    def admit(self, nodes: Int32) -> bool:
        """Return whether all these nodes may leave together."""
        return len(self.admitted(nodes, len(nodes))) == len(nodes)


class _Use:
    """What the nodes of one wave use up."""

    def __init__(
        self,
        context: ReplacementContext,
        disruptions: Int64,
        group_left: Int64,
        amount_left: Int64,
        budgets: list[_ActiveBudget],
    ) -> None:
        self._context = context
        self._disruptions, self._group_left = disruptions.copy(), group_left.copy()
        self._amount_left = amount_left.copy()
        self._is_in_turn = np.zeros(len(disruptions), bool)
        self._evicts_in_turn = context.request.settings.scale_down.evict_in_turn
        self._counted, self._budget_left = [one.counted for one in budgets], [one.left for one in budgets]

    def add(self, node: int) -> int:
        """Count a node if it may leave with the others; return 0, else the `ReplacementLimit.Code`."""
        spare = self._context.spare
        group, amount = int(spare.group[node]), spare.amount[node]
        if self._group_left[group] <= 0 or ((amount > 0) & (amount > self._amount_left)).any():
            return ReplacementLimit.MINIMUM_REACHED
        counts = [bool(counted[node]) for counted in self._counted]
        if any(does and left <= 0 for does, left in zip(counts, self._budget_left, strict=True)):
            return ReplacementLimit.DISRUPTION_BUDGET
        budgets, needs = _disruptions_of(self._context, node)
        in_turn = needs > self._disruptions[budgets]
        # The eviction API knows budgets, and makes evictions wait for them, but no gangs.
        is_known = budgets < len(self._context.request.snapshot.budgets)
        may_wait = (self._disruptions[budgets] > 0) & ~self._is_in_turn[budgets] & self._evicts_in_turn & is_known
        if (in_turn & ~may_wait).any():
            return ReplacementLimit.NOT_ENOUGH_PDB
        self._disruptions[budgets] -= np.where(in_turn, 1, needs)
        self._is_in_turn[budgets] |= in_turn
        self._group_left[group] -= 1
        self._amount_left -= amount
        self._budget_left = [left - does for does, left in zip(counts, self._budget_left, strict=True)]
        return 0


def _disruptions_of(context: ReplacementContext, node: int) -> tuple[Int64, Int64]:
    """Return the budgets that evicting the pods of a node uses, and the disruptions of each. int64 each."""
    under, pods = context.facts.under, context.pods
    first, last = int(pods.offsets[node]), int(pods.offsets[node + 1])
    moved = pods.pods[first:last][pods.evicted[first:last]]
    starts, lengths = under.offsets[moved], under.offsets[moved + 1] - under.offsets[moved]
    if not lengths.any():
        none = np.zeros(0, np.int64)
        return none, none
    before = np.cumsum(lengths) - lengths
    at = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
    budgets, of = np.unique(under.budgets[at], return_inverse=True)
    needs = np.bincount(of.reshape(-1), under.needs[at], len(budgets)).astype(np.int64)
    used = needs > 0
    return budgets[used].astype(np.int64), needs[used]


def _active(context: ReplacementContext) -> list[_ActiveBudget]:
    """Return the budgets for nodes that hold now. Nodes that are being deleted or not ready count already."""
    request = context.request
    holding = [one for one in request.settings.budgets if one.holds(request.now_ns)]
    if not holding:
        return []
    snapshot = request.snapshot
    index = LabelIndex(snapshot.strings, snapshot.label_sets)
    is_empty = context.pods.evictions == 0
    busy = context.leaving | ~context.ready
    return [_rest(one, _counted(one, context, index), is_empty, busy) for one in holding]


def _counted(budget: NodeDisruptionBudget, context: ReplacementContext, index: LabelIndex) -> Bool:
    """Return the nodes that a budget is about. bool[N]."""
    snapshot = context.request.snapshot
    counted: Bool = index.matching(budget.nodes)[snapshot.nodes.label_set]
    if budget.node_groups:
        named = np.array([*(group.id in budget.node_groups for group in snapshot.groups), False], bool)
        counted = counted & named[snapshot.nodes.group]
    return counted


def _rest(budget: NodeDisruptionBudget, counted: Bool, is_empty: Bool, busy: Bool) -> _ActiveBudget:
    left = budget.most(int(counted.sum())) - int((counted & busy).sum())
    for_reason = np.where(is_empty, budget.holds_for(EMPTY), budget.holds_for(UNDERUTILIZED))
    return _ActiveBudget(counted & for_reason, max(left, 0))
