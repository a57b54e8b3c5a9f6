"""How many nodes may leave, and of which node groups: headroom above minimums of groups and resources, budgets for
nodes that hold now, and which groups are consolidated. Nodes being deleted count as gone.
Source: Cluster Autoscaler, unneeded.Nodes.removableAt, resource limits; Karpenter, pkg/apis/v1, Budget;
disruption/helpers, BuildDisruptionBudgetMapping.
"""

from collections.abc import Iterable
from datetime import UTC
from typing import NamedTuple

import numpy as np

from trimtab.planner.facts.labels import LabelIndex
from trimtab.planner.facts.nodes import of_nodes
from trimtab.planner.model.settings import NODES, ResourceLimit, ScaleDownSettings
from trimtab.planner.model.settings.scale_down import EMPTY, UNDERUTILIZED, NodeDisruptionBudget, is_active
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, Snapshot, UInt8


class Spare(NamedTuple):
    """Headroom above minimums.

    group : int32[N] node group, G for none; group_left : int64[G+1] nodes that each group can lose (none: unlimited);
    amount : int64[N, Q] share of each node in each minimum; amount_left : int64[Q] amount that can be removed, negative
    if the minimum is not met.
    """

    group: Int32
    group_left: Int64
    amount: Int64
    amount_left: Int64

    def below_minimum(self) -> Bool:
        """Return the nodes without which a minimum of a resource would not be met. bool[N]."""
        found: Bool = np.any((self.amount > 0) & (self.amount > self.amount_left), axis=1)
        return found


def spare(snapshot: Snapshot, limits: tuple[ResourceLimit, ...], leaving: Bool) -> Spare:
    """Return the headroom. leaving : bool[N], nodes that are being deleted. O(N·Q + deletions)."""
    amount, amount_left = _amounts(snapshot, limits, leaving)
    groups = snapshot.groups
    left = np.array([*(group.target_size - group.min_size for group in groups), np.iinfo(np.int64).max], np.int64)
    for row, count in _deletions_by_group(snapshot, leaving).items():
        left[row] -= count
    group = np.where(snapshot.nodes.group < 0, len(groups), snapshot.nodes.group).astype(np.int32)
    return Spare(group, left, amount, amount_left)


def _deletions_by_group(snapshot: Snapshot, leaving: Bool) -> dict[int, int]:
    """Count deletions by node group: reported ones, plus nodes that only have the taint."""
    row_of = {group.id: row for row, group in enumerate(snapshot.groups)}
    reported = {deletion.node for deletion in snapshot.deletions}
    rows = [row_of.get(deletion.node_group, -1) for deletion in snapshot.deletions]
    rows += [int(snapshot.nodes.group[n]) for n in np.flatnonzero(leaving) if snapshot.nodes.name[n] not in reported]
    return {row: rows.count(row) for row in sorted(set(rows)) if row >= 0}


def _amounts(snapshot: Snapshot, limits: tuple[ResourceLimit, ...], leaving: Bool) -> tuple[Int64, Int64]:
    """Return each node's share of each minimum, int64[N, Q], and how much of each can be removed, int64[Q]."""
    nodes, minimums = snapshot.nodes, [limit for limit in limits if limit.minimum is not None]
    amount = np.zeros((len(nodes.name), len(minimums)), np.int64)
    left = np.zeros(len(minimums), np.int64)
    index = LabelIndex(snapshot.strings, snapshot.label_sets)
    for q, limit in enumerate(minimums):
        counted = index.matching(limit.nodes)[nodes.label_set]
        if limit.resource == NODES:
            amount[counted, q] = 1
        elif limit.resource in snapshot.resources:
            amount[counted, q] = nodes.capacity[counted, snapshot.resources.index(limit.resource)]
        left[q] = int(amount[~leaving, q].sum()) - (limit.minimum or 0)
    return amount, left


class ActiveNodeBudget(NamedTuple):
    """A budget that holds now. counted : bool[N] nodes that count when they leave; most : how many may leave at the
    same time; left : how many more."""

    counted: Bool
    most: int
    left: int


def active_budgets(
    snapshot: Snapshot, budgets: Iterable[NodeDisruptionBudget], is_empty: Bool, busy: Bool, now_ns: int
) -> list[ActiveNodeBudget]:
    """Return the budgets that hold now. is_empty : bool[N], the node leaves without pods to move; busy : bool[N], it
    counts already, as it is being deleted or not ready."""
    holding = [one for one in budgets if holds(one, now_ns)]
    if not holding:
        return []
    index, groups = LabelIndex(snapshot.strings, snapshot.label_sets), snapshot.groups
    found = []
    for one in holding:
        counted: Bool = index.matching(one.nodes)[snapshot.nodes.label_set]
        if one.node_groups:
            named = np.array([*(group.id in one.node_groups for group in groups), False], bool)
            counted = counted & named[snapshot.nodes.group]
        most = one.most(int(counted.sum()))
        for_reason = np.where(is_empty, one.holds_for(EMPTY), one.holds_for(UNDERUTILIZED))
        found.append(ActiveNodeBudget(counted & for_reason, most, max(most - int((counted & busy).sum()), 0)))
    return found


def holds(budget: NodeDisruptionBudget, now_ns: int) -> bool:
    """Return whether a budget holds now. now_ns : Unix nanoseconds."""
    return not budget.schedule or is_active(budget.schedule, UTC, budget.duration_ns, now_ns)


def closed(budgets: Iterable[ActiveNodeBudget], count: int) -> Bool:
    """Return the nodes of which no budget lets any go, whatever else goes. bool[count]."""
    none = np.zeros(count, bool)
    for one in budgets:
        if one.most == 0:
            none |= one.counted
    return none


def beyond(budgets: Iterable[ActiveNodeBudget], order: Int32, count: int) -> Bool:
    """Return the nodes that may not leave after those before them in an order. bool[count]."""
    active, kept = list(budgets), np.zeros(count, bool)
    left = [one.left for one in active]
    for node in order.tolist():
        mine = [row for row, one in enumerate(active) if one.counted[node]]
        kept[node] = any(left[row] <= 0 for row in mine)
        if not kept[node]:
            for row in mine:
                left[row] -= 1
    return kept


def consolidation_of_nodes(snapshot: Snapshot, settings: ScaleDownSettings) -> UInt8:
    """Return the `Consolidation.Code` of each node. uint8[N]."""
    codes: UInt8 = of_nodes(snapshot, settings, lambda group: int(group.consolidation)).astype(np.uint8)
    return codes
