"""Split new nodes over similar node groups to make their sizes as equal as their maxima allow.

Decides only how many nodes each group takes; never which groups are similar (`trimtab.planner.facts.similarity`), nor
what the limits allow (`trimtab.planner.scale_up.limits`).
"""

import numpy as np

from trimtab.planner.scale_up.kernels.balance import grow_smallest
from trimtab.planner.scale_up.limits import Limits
from trimtab.planner.snapshot.columns import Int64


def split(size: Int64, most: Int64, count: int) -> Int64:
    """Return by how many nodes each group grows. int64[A].

    size : int64[A] nodes now; most : int64[A] largest sizes; count : nodes to add, fewer if maxima do not allow more.
    Among groups of equal size, those first in the given order, and those that were smaller before, come first.
    """
    grown = size.copy()
    grow_smallest(np.argsort(size, kind="stable"), grown, most, count)
    return grown - size


def split_within(limits: Limits, groups: Int64, size: Int64, count: int) -> Int64:
    """Return by how many nodes each group grows if groups share limits. int64[A]; `limits` is unchanged.

    groups : int64[A] rows of groups, in the order that breaks ties; size, count : see `split`. Nodes are assigned one
    after the other; a group excluded by a limit takes no more, the others continue.
    """
    most = size + limits.rooms[groups]
    while True:
        added = split(size, most, count)
        if _admitted(limits, groups, added):
            return added
        # The largest number that is admitted, and the group whose turn is next.
        low, high = 0, int(added.sum())
        while high - low > 1:
            middle = (low + high) // 2
            if _admitted(limits, groups, split(size, most, middle)):
                low = middle
            else:
                high = middle
        admitted = split(size, most, low)
        shut = split(size, most, high) > admitted
        most[shut] = (size + admitted)[shut]


def _admitted(limits: Limits, groups: Int64, added: Int64) -> bool:
    by_group = np.zeros(len(limits.added), np.int64)
    by_group[groups] = added
    return limits.admit(by_group)
