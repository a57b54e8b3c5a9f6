"""Split new nodes over similar node groups to make their sizes as equal as their maxima allow.

Which groups are similar: `trimtab.planner.facts.similarity`; what limits allow: `trimtab.planner.placement.limits`.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.facts.similarity import Similarity
from trimtab.planner.new_nodes.progress import PlanInProgress
from trimtab.planner.placement.limits import Limits
from trimtab.planner.scale_up.kernels.balance import grow_smallest
from trimtab.planner.snapshot.columns import Bool, Int32, Int64


def split(size: Int64, max_size: Int64, count: int) -> Int64:
    """Return by how many nodes each group grows. int64[A].

    size : int64[A] nodes now; max_size : int64[A]; count : nodes to add, fewer if maxima do not allow more.
    Among groups of equal size, those first in the given order, and those that were smaller before, come first.
    """
    grown = size.copy()
    grow_smallest(np.argsort(size, kind="stable"), grown, max_size, count)
    return grown - size


def split_within(limits: Limits, groups: Int64, size: Int64, count: int) -> Int64:
    """Return by how many nodes each group grows if groups share limits. int64[A]; `limits` is unchanged.

    groups : int64[A] rows of groups, in the order that breaks ties; size, count : see `split`. Nodes are assigned one
    after the other; a group excluded by a limit takes no more, the others continue.
    """
    max_size = size + limits.may_add[groups]
    while True:
        added = split(size, max_size, count)
        if _admitted(limits, groups, added):
            return added
        # The largest number that is admitted, and the group whose turn is next.
        low, high = 0, int(added.sum())
        while high - low > 1:
            middle = (low + high) // 2
            if _admitted(limits, groups, split(size, max_size, middle)):
                low = middle
            else:
                high = middle
        admitted = split(size, max_size, low)
        shut = split(size, max_size, high) > admitted
        max_size[shut] = (size + admitted)[shut]


def _admitted(limits: Limits, groups: Int64, added: Int64) -> bool:
    by_group = np.zeros(len(limits.added), np.int64)
    by_group[groups] = added
    return limits.admit(by_group)


class Sharing(NamedTuple):
    """similarity : of the groups; balance : whether similar groups are balanced; sizes : int64[G] before the plan."""

    similarity: Similarity
    balance: bool
    sizes: Int64

    def may_add(self, progress: PlanInProgress, pods: Int32, group: int, admits: Bool) -> int:
        """Return how many nodes a group and those with which it is balanced may get together.

        pods : int32 pods without a place; admits : bool[S, G] as in `Estimates`. Groups count that take all pods that
        this one takes. Source: Cluster Autoscaler, ComputeSimilarNodeGroups.
        """
        alone = int(progress.limits.may_add[group])
        others = self.similarity.to(group) if self.balance else np.zeros(0, np.int64)
        if len(others) == 0:
            return alone
        of_class = admits[np.unique(progress.state.pod_class[pods])]
        takes_all = ~(of_class[:, [group]] & ~of_class[:, others]).any(axis=0)
        members = np.concatenate(
            [np.array([group], np.int64), others[takes_all & (progress.limits.may_add[others] > 0)]]
        )
        if len(members) == 1:
            return alone
        sizes = self.sizes[members] + progress.limits.added[members]
        limit = int(progress.limits.may_add[members].sum())
        return int(split_within(progress.limits, members, sizes, limit).sum())
