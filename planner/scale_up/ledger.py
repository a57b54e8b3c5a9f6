"""How many nodes each group may still get, and why no more."""

from collections.abc import Sequence

import numpy as np
from trimtab.v1.reason_pb2 import NodeGroupReason
from trimtab.v1.snapshot_pb2 import NodeGroupHealth

from planner.model.values import NodeGroup
from planner.placement.group_templates import GroupTemplates


class Ledger:
    """Counts what is added."""

    def __init__(self, groups: Sequence[NodeGroup], templates: GroupTemplates, most: int) -> None:
        self.groups, self.templates, self.most = groups, templates, most
        self.added = np.zeros(len(groups), np.int64)

    def reason(self, group: int) -> int:
        """Return why a group may get no node more, 0 = it may."""
        row = self.groups[group]
        left = row.max_size - row.target_size - int(self.added[group])
        if self.templates[group] is None:
            return NodeGroupReason.NO_TEMPLATE
        if row.target_size > row.max_size:
            return NodeGroupReason.NODE_GROUP_INVALID
        if row.health == NodeGroupHealth.BACKED_OFF:
            return NodeGroupReason.BACKED_OFF
        if row.health == NodeGroupHealth.UNHEALTHY:
            return NodeGroupReason.UNHEALTHY
        if left <= 0:
            return NodeGroupReason.MAX_SIZE_REACHED
        if self.most - int(self.added.sum()) < (left if row.zero_or_max else 1):
            return NodeGroupReason.MAX_NEW_NODES_REACHED
        return 0

    def room(self, group: int) -> int:
        """Return how many nodes a group may still get."""
        if self.reason(group):
            return 0
        row = self.groups[group]
        left = row.max_size - row.target_size - int(self.added[group])
        return int(min(left, self.most - int(self.added.sum())))

    def take(self, group: int, count: int) -> None:
        """Count nodes that are added."""
        self.added[group] += count
