"""The limits of a cluster on nodes that leave (`kernels.limits`): headroom above minimums of groups and resources, and
budgets for nodes that hold now, with the budgets of the pods to move. Nodes being deleted count as gone.
Source: Cluster Autoscaler, unneeded.Nodes.removableAt, resource limits; Karpenter, pkg/apis/v1, Budget;
disruption/helpers, BuildDisruptionBudgetMapping.
"""

from collections.abc import Iterable
from datetime import UTC
from typing import NamedTuple

import numpy as np

from trimtab.planner.drainability.kernels.limits import NodeLimits, admit
from trimtab.planner.facts import pdb
from trimtab.planner.facts.labels import LabelIndex
from trimtab.planner.facts.pdb import BudgetMembership
from trimtab.planner.model.settings import NODES, ResourceLimit
from trimtab.planner.model.settings.scale_down import EMPTY, UNDERUTILIZED, NodeDisruptionBudget, is_active
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, Snapshot
from trimtab.planner.snapshot.dictionaries import entries_of


class Spare(NamedTuple):
    """Headroom above minimums."""

    group: Int32
    """int32[N] node group, G for none."""
    group_left: Int64
    """int64[G+1] nodes that each group can lose; without a group unlimited."""
    amount: Int64
    """int64[N, Q] share of each node in each minimum of a resource."""
    amount_left: Int64
    """int64[Q] amount that can be removed, negative if the minimum is not met."""


def spare(snapshot: Snapshot, limits: tuple[ResourceLimit, ...], leaving: Bool) -> Spare:
    """Return the headroom. leaving : bool[N], nodes that are being deleted. O(N·Q + deletions)."""
    nodes, groups = snapshot.nodes, snapshot.groups
    minimums = [limit for limit in limits if limit.minimum is not None]
    amount = np.zeros((len(nodes.name), len(minimums)), np.int64)
    index = LabelIndex(snapshot.strings, snapshot.label_sets)
    for q, limit in enumerate(minimums):
        counted = index.matching(limit.nodes)[nodes.label_set]
        if limit.resource == NODES:
            amount[counted, q] = 1
        elif limit.resource in snapshot.resources:
            amount[counted, q] = nodes.capacity[counted, snapshot.resources.index(limit.resource)]
    least = np.array([limit.minimum or 0 for limit in minimums], np.int64)
    group_left = np.array([*(group.target_size - group.min_size for group in groups), np.iinfo(np.int64).max], np.int64)
    deleted = deletions_by_group(snapshot, leaving)
    group_left[:-1] -= np.bincount(deleted[deleted >= 0], minlength=len(groups))
    group = np.where(nodes.group < 0, len(groups), nodes.group).astype(np.int32)
    return Spare(group, group_left, amount, amount[~leaving].sum(axis=0) - least)


def deletions_by_group(snapshot: Snapshot, leaving: Bool) -> Int32:
    """Return the node group of each deletion in progress, -1 = none: reported ones, then nodes that only have the
    taint. leaving : bool[N]. int32."""
    row_of = {group.id: row for row, group in enumerate(snapshot.groups)}
    reported = {deletion.node for deletion in snapshot.deletions}
    marked = [node for node in np.flatnonzero(leaving).tolist() if snapshot.nodes.name[node] not in reported]
    rows = [row_of.get(deletion.node_group, -1) for deletion in snapshot.deletions]
    return np.concatenate([np.array(rows, np.int32), snapshot.nodes.group[marked]])


def below_minimum(spare: Spare | NodeLimits) -> Bool:
    """Return the nodes without which a minimum of a resource would not be met. bool[N]."""
    below: Bool = np.any((spare.amount > 0) & (spare.amount > spare.amount_left), axis=1)
    return below


class NodeBudgets(NamedTuple):
    """The budgets for nodes that hold now."""

    counted: Bool
    """bool[K, N] nodes that count when they leave."""
    limit: Int64
    """int64[K] how many may leave at the same time."""
    rest: Int64
    """int64[K] how many more."""

    @property
    def closed(self) -> Bool:
        """The nodes of which some budget lets none go, whatever else goes. bool[N]."""
        closed: Bool = self.counted[self.limit == 0].any(axis=0)
        return closed


def active_budgets(
    snapshot: Snapshot, budgets: Iterable[NodeDisruptionBudget], is_empty: Bool, busy: Bool, now_ns: int
) -> NodeBudgets:
    """Return the budgets that hold now. is_empty : bool[N], the node leaves without pods to move; busy : bool[N], it
    counts already, as it is being deleted or not ready."""
    active = [budget for budget in budgets if holds(budget, now_ns)]
    counted, limit, rest = np.zeros((len(active), len(busy)), bool), *np.zeros((2, len(active)), np.int64)
    index = LabelIndex(snapshot.strings, snapshot.label_sets) if active else None
    for k, budget in enumerate(active):
        assert index is not None
        nodes = index.matching(budget.nodes)[snapshot.nodes.label_set]
        if budget.node_groups:
            in_groups = np.array([*(group.id in budget.node_groups for group in snapshot.groups), False], bool)
            nodes = nodes & in_groups[snapshot.nodes.group]
        counted[k] = nodes & np.where(is_empty, budget.holds_for(EMPTY), budget.holds_for(UNDERUTILIZED))
        limit[k] = budget.most(int(nodes.sum()))
        rest[k] = max(limit[k] - np.count_nonzero(counted[k] & busy), 0)
    return NodeBudgets(counted, limit, rest)


def holds(budget: NodeDisruptionBudget, now_ns: int) -> bool:
    """Return whether a budget holds now. now_ns : Unix nanoseconds."""
    return not budget.schedule or is_active(budget.schedule, UTC, budget.duration_ns, now_ns)


def node_limits(
    snapshot: Snapshot,
    moving: tuple[Int64, Int32],
    under: BudgetMembership,
    disruptions: Int64,
    spare: Spare,
    budgets: NodeBudgets | None,
    *,
    in_turn: int = 0,
) -> NodeLimits:
    """Return the limits. moving : int64[N+1] offsets into int32[M] pods to move, by node; disruptions : int64[B] left
    of budgets; budgets : for nodes. What is left is copied. O(N + M + pairs of pods and budgets).

    No eviction API makes evictions wait for gangs, so only of PodDisruptionBudgets a node needs no more than they ever
    allow at once; or, if in_turn > 0, so many nodes of each may need more than is left.
    """
    need_limit, waits = np.zeros(len(disruptions), np.int64), np.zeros(len(disruptions), np.int64)
    waits[: len(snapshot.budgets)] = in_turn
    if not in_turn:
        need_limit[: len(snapshot.budgets)] = pdb.refilled_disruptions(snapshot.budgets)
    need_limit[need_limit == 0] = np.iinfo(np.int64).max
    return NodeLimits(
        *budget_uses(*moving, under, need_limit),
        spare.group,
        spare.amount,
        np.zeros((0, len(spare.group)), bool) if budgets is None else budgets.counted,
        disruptions.copy(),
        waits,
        spare.group_left.copy(),
        spare.amount_left.copy(),
        np.zeros(0, np.int64) if budgets is None else budgets.rest.copy(),
    )


def limits_of_budgets(budgets: NodeBudgets) -> NodeLimits:
    """Return the limits of budgets for nodes alone."""
    nodes, none, none32 = budgets.counted.shape[1], np.zeros(0, np.int64), np.zeros(0, np.int32)
    unlimited = np.full(1, np.iinfo(np.int64).max)
    group, amount = np.zeros(nodes, np.int32), np.zeros((nodes, 0), np.int64)
    return NodeLimits(
        np.zeros(nodes + 1, np.int64), none32, none, none32, group, amount, budgets.counted,
        none, none, unlimited, none, budgets.rest.copy(),
    )  # fmt: skip


def budget_uses(
    offsets: Int64, pods: Int32, under: BudgetMembership, need_limit: Int64
) -> tuple[Int64, Int32, Int64, Int32]:
    """Return the first four fields of `NodeLimits`: by node, each budget once, in the order of the first pods that use
    it. need_limit : int64[B] that a node needs at most."""
    lengths = under.offsets[pods + 1] - under.offsets[pods]
    pairs = entries_of(under.offsets, pods)
    row = np.repeat(np.arange(len(pods)), lengths)
    used = under.needs[pairs] > 0
    pairs, row = pairs[used], row[used]
    node = np.searchsorted(offsets, row, side="right") - 1
    keys = node * max(len(need_limit), 1) + under.budgets[pairs]
    _, first, of = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    first = first[order]
    budget = under.budgets[pairs[first]]
    need = np.minimum(np.bincount(of.reshape(-1), minlength=len(first))[order], need_limit[budget])
    return np.searchsorted(node[first], np.arange(len(offsets))), budget, need, pods[row[first]]


def nodes_using(limits: NodeLimits, uses: Bool) -> Bool:
    """Return the nodes with any of the uses : bool, rows of `limits.budget`. bool[N]."""
    upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(uses, dtype=np.int64)])
    using: Bool = np.diff(upto[limits.offsets]) > 0
    return using


def admitted(limits: NodeLimits, order: Int32, limit: int) -> tuple[Int32, Int32]:
    """Return the first nodes of an order that may leave together, at most so many, and why others may not, each
    `UnremovableReason.Code` once. int32 both. A node that may not leave with those before is passed over."""
    nodes, refused = order.copy(), np.zeros(len(order), np.int32)
    count = admit(limits.copied(), nodes, limit, refused)
    return nodes[:count], np.unique(refused[refused > 0])


def admits(limits: NodeLimits, nodes: Int32) -> bool:
    """Return whether all nodes may leave together."""
    return len(admitted(limits, nodes, len(nodes))[0]) == len(nodes)
