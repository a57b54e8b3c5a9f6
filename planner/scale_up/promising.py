"""Which groups are packed first where there are very many.

Packing shows how good a group really is, and takes long for each of hundreds of instance sizes. Bounds show at once how
good it can be at best, so those come first that the expanders would prefer then; and of all others a ladder of sizes,
because what counters decide on (spread, anti-affinity) the bounds do not know. Decides nothing where groups are few.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from planner.placement.group_bounds import GroupBounds
from planner.scale_up.options import Options
from planner.snapshot.columns import Int64
from planner.snapshot.dictionaries import CPU, MEMORY

MANY: Final = 128
"""Groups up to which all are packed, those counted once whose new nodes are the same for the pods."""
BEST: Final = 32
"""Of more groups, how many are packed for what they promise."""
LADDER: Final = 32
"""Of the others, how many are packed for their sizes."""
FINALISTS: Final = 4
"""Of those, how many are packed in more than one order, for what came of the first."""


def promising(
    bounds: GroupBounds, rooms: Int64, groups: Sequence[int], rank: Callable[[Options], Int64]
) -> Iterator[list[int]]:
    """Yield the groups in parts, the most promising ones first, each part ascending.

    rooms : int64[G] nodes that each may get; groups : those that admit a pod; rank : returns the rows of options, best
    first.
    """
    all_of_them = np.array(groups, np.int64)
    kinds, first = np.unique(bounds.same_as[all_of_them], return_index=True)
    if len(kinds) <= MANY:
        yield list(groups)
        return
    ones = all_of_them[np.sort(first)]
    order = ones[rank(_at_best(bounds, rooms, ones))]
    rest = order[BEST:]
    rest = rest[np.lexsort((rest, bounds.free[rest, MEMORY], bounds.free[rest, CPU]))]
    steps = np.unique(np.linspace(0, len(rest) - 1, LADDER).astype(np.int64))
    chosen = np.concatenate([order[:BEST], rest[steps]])
    yield np.sort(chosen).tolist()
    rest = np.sort(np.setdiff1d(all_of_them, chosen))
    for start in range(0, len(rest), MANY):
        yield rest[start : start + MANY].tolist()


def _at_best(bounds: GroupBounds, rooms: Int64, groups: Int64) -> Options:
    """Return options as good as they can be by the bounds."""
    return Options(
        group=groups,
        node_count=np.clip(bounds.least_nodes[groups], 1, rooms[groups]),
        pod_count=bounds.pods[groups],
        cpu_milli=bounds.demand[groups, CPU],
        memory_bytes=bounds.demand[groups, MEMORY],
    )
