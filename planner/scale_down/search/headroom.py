"""Upper bound on how much more than a given plan any plan could save, from cpu and memory only. Removed nodes take
their free room with them, and their pods need room on the others. So for each resource, the free amount of a plan's
nodes plus the requests of their pods to move is at most the free amount of all nodes. The largest saving under this
condition, with fractions of nodes allowed, is at least that of any plan. Cost: O(N log N + pods to move).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.facts.nodes import total
from trimtab.planner.facts.utilization import Float64
from trimtab.planner.snapshot.columns import Bool, Int32, Int64

Amounts = NDArray[np.int64]


class CapacityUse(NamedTuple):
    """weight : int64[Q, N], by resource, a node's free amount plus the requests of its pods to move; free : int64[Q],
    free amounts of all nodes together."""

    weight: Amounts
    free: Int64


def capacity_use(room: Amounts, used: Amounts, moving: Amounts, leaving: Bool) -> CapacityUse:
    """Return free amounts and requests of nodes. room, used, moving : int64[Q, N]; leaving : bool[N], nodes being
    deleted.
    """
    free = np.where(leaving, 0, np.maximum(room - used, 0))
    return CapacityUse(free + moving, free.sum(axis=1))


def saving_bound(given: CapacityUse, candidates: Int32, saving: Float64) -> float:
    """Return the most that any set of candidates could save. candidates : int32[E]; saving : float64[N], positive."""
    worth = saving[candidates]
    return min(
        (_most(given.weight[q, candidates], int(given.free[q]), worth) for q in range(len(given.free))), default=0.0
    )


def _most(weight: Int64, free: int, worth: Float64) -> float:
    """Return the largest total value of candidates, one of them in part, whose weights sum to at most `free`."""
    order = np.lexsort((np.arange(len(weight)), -worth / np.maximum(weight, 1)))
    upto = np.cumsum(weight[order])
    whole = int(np.searchsorted(upto, free, side="right"))
    most = total(worth[order[:whole]])
    if whole < len(order):
        before = int(upto[whole - 1]) if whole else 0
        most += float(worth[order[whole]]) * (free - before) / int(weight[order[whole]])
    return most
