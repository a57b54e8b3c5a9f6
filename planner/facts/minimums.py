"""Headroom above minimums: the nodes that each group, and the resources that the cluster can still lose.

Nodes being deleted count as gone. Source: Cluster Autoscaler, unneeded.Nodes.removableAt, resource limits.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.facts.label_index import LabelIndex
from trimtab.planner.model.settings import NODES, ResourceLimit
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, Snapshot


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
