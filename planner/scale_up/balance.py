"""Split new nodes over similar node groups so that sizes become as equal as their maxima let them.

Decides only how many nodes each group takes; never which groups are similar (`planner.facts.similarity`), nor what
limits leave (`planner.scale_up.limits`).
"""

import numpy as np

from planner.scale_up.kernels.balance import grow_smallest
from planner.snapshot.columns import Int64


def split(size: Int64, most: Int64, count: int) -> Int64:
    """Return by how many nodes each group grows. int64[A].

    size : int64[A] nodes now; most : int64[A] largest sizes; count : nodes to add, fewer where maxima do not let more.
    Among groups of one size, those first in the order given, and those that were smaller before, come first.
    """
    grown = size.copy()
    grow_smallest(np.argsort(size, kind="stable"), grown, most, count)
    return grown - size
