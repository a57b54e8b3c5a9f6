"""Which groups are packed first if there are very many.

Packing shows how good a group really is, but is slow for hundreds of instance sizes. Bounds quickly show how good it
can be at best. So the groups that the expanders would prefer by their bounds come first, followed by a sample of sizes
of all others, because bounds do not include counters (spread, anti-affinity). If groups are
few, as `SearchBudgets.packed_groups` says, all are packed.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from trimtab.planner.placement.group_bounds import GroupBounds
from trimtab.planner.scale_up.expanders.chain import Chooser
from trimtab.planner.scale_up.options import Options
from trimtab.planner.snapshot.columns import Int64
from trimtab.planner.snapshot.dictionaries import CPU, MEMORY

BEST: Final = 32
"""If there are more kinds than the budget pays for, the number of groups packed because they are promising."""
LADDER: Final = 32
"""The number of other groups packed because of their sizes."""
FINALISTS: Final = 4
"""The number of those that are packed in more than one order, because of their results in the first."""


def promising(
    bounds: GroupBounds, may_add: Int64, groups: Sequence[int], chooser: Chooser, most: int
) -> Iterator[list[int]]:
    """Yield the groups in parts, the most promising ones first, each part ascending.

    may_add : int64[G] nodes that each may get; groups : those that admit a pod; chooser : ranks options; most :
    kinds of groups up to which all are packed; groups whose new nodes are the same for the pods are of one kind.
    """
    all_of_them = np.array(groups, np.int64)
    kinds, first = np.unique(bounds.same_as[all_of_them], return_index=True)
    most = max(most, BEST + LADDER)
    if len(kinds) <= most:
        yield list(groups)
        return
    ones = all_of_them[np.sort(first)]
    order = ones[chooser.verdict(_at_best(bounds, may_add, ones)).order]
    rest = order[BEST:]
    rest = rest[np.lexsort((rest, bounds.free[rest, MEMORY], bounds.free[rest, CPU]))]
    steps = np.unique(np.linspace(0, len(rest) - 1, LADDER).astype(np.int64))
    chosen = np.concatenate([order[:BEST], rest[steps]])
    yield np.sort(chosen).tolist()
    rest = np.sort(np.setdiff1d(all_of_them, chosen))
    for start in range(0, len(rest), most):
        yield rest[start : start + most].tolist()


def _at_best(bounds: GroupBounds, may_add: Int64, groups: Int64) -> Options:
    """Return the best possible options by the bounds."""
    return Options(
        group=groups,
        node_count=np.clip(bounds.least_nodes[groups], 1, may_add[groups]),
        pod_count=bounds.pods[groups],
        cpu_milli=bounds.demand[groups, CPU],
        memory_bytes=bounds.demand[groups, MEMORY],
    )
