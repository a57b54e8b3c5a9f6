"""How many nodes a node group, and how much of a resource the cluster, can still spare.

Both count deletions in progress as gone. Source: Cluster Autoscaler, unneeded.Nodes.removableAt, resource limits.
"""

from typing import NamedTuple

import numpy as np
from trimtab.v1 import snapshot_pb2 as pb

from planner.model.settings import ResourceMinimum, ScaleDownSettings
from planner.model.values import LabelRequirement
from planner.scale_down.label_index import LabelIndex
from planner.snapshot.columns import Bool, Int32, Int64, Snapshot


class Spare(NamedTuple):
    """What can go.

    group : int32[N] node group, G for none; group_left : int64[G+1] nodes that each can spare (none: unlimited);
    amount : int64[N, Q] what each node counts for in each minimum; amount_left : int64[Q] what can be spared, may be
    negative where the minimum is not met anyway.
    """

    group: Int32
    group_left: Int64
    amount: Int64
    amount_left: Int64


def spare(snapshot: Snapshot, settings: ScaleDownSettings, leaving: Bool) -> Spare:
    """Return what can go. leaving : bool[N], nodes that are being deleted. O(N·Q + deletions)."""
    amount, amount_left = _amounts(snapshot, settings.minimums, leaving)
    groups = snapshot.groups
    left = np.array([*(group.target_size - group.min_size for group in groups), np.iinfo(np.int64).max], np.int64)
    for row, count in _deletions_by_group(snapshot, leaving).items():
        left[row] -= count
    group = np.where(snapshot.nodes.group < 0, len(groups), snapshot.nodes.group).astype(np.int32)
    return Spare(group, left, amount, amount_left)


def _deletions_by_group(snapshot: Snapshot, leaving: Bool) -> dict[int, int]:
    """Count deletions by node group: those reported, and nodes that only their taint marks."""
    row_of = {group.id: row for row, group in enumerate(snapshot.groups)}
    reported = {deletion.node for deletion in snapshot.deletions}
    rows = [row_of.get(deletion.node_group, -1) for deletion in snapshot.deletions]
    rows += [int(snapshot.nodes.group[n]) for n in np.flatnonzero(leaving) if snapshot.nodes.name[n] not in reported]
    return {row: rows.count(row) for row in sorted(set(rows)) if row >= 0}


def _amounts(snapshot: Snapshot, minimums: tuple[ResourceMinimum, ...], leaving: Bool) -> tuple[Int64, Int64]:
    nodes = snapshot.nodes
    amount = np.zeros((len(nodes.name), len(minimums)), np.int64)
    left = np.zeros(len(minimums), np.int64)
    index = LabelIndex(snapshot.strings, snapshot.label_sets)
    for q, minimum in enumerate(minimums):
        if minimum.resource in snapshot.resources:
            wanted = tuple(LabelRequirement(key, pb.LabelOperator.IN, (value,)) for key, value in minimum.node_labels)
            counted = index.matching(wanted)[nodes.label_set]
            amount[counted, q] = nodes.capacity[counted, snapshot.resources.index(minimum.resource)]
        left[q] = int(amount[~leaving, q].sum()) - minimum.amount
    return amount, left
