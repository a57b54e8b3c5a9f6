"""How many nodes may leave, and of which node groups: budgets for nodes that hold now, with the nodes that they count
and how many more of them may leave, and which groups are consolidated. Source: Karpenter,
pkg/apis/v1, Budget; disruption/helpers, BuildDisruptionBudgetMapping.
"""

from collections.abc import Iterable
from datetime import UTC
from typing import NamedTuple

import numpy as np

from trimtab.planner.facts.label_index import LabelIndex
from trimtab.planner.facts.schedules import is_active
from trimtab.planner.model.settings import ScaleDownSettings
from trimtab.planner.model.settings.node_budgets import EMPTY, UNDERUTILIZED, NodeDisruptionBudget
from trimtab.planner.snapshot.columns import Bool, Int32, Snapshot, UInt8


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
    of_groups = [settings.of_group(group.id) for group in snapshot.groups]
    codes = np.array([one.consolidation for one in [*of_groups, settings.general]], np.uint8)
    found: UInt8 = codes[snapshot.nodes.group]
    return found
