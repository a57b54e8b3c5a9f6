"""The smallest group grows first, one node at a time, until it is as large as the next.

Groups of equal size take turns in order; a full group changes places with the first of those taking turns and is no
longer considered. Rounds in which only sizes change are combined.
Source: Cluster Autoscaler, BalanceScaleUpBetweenGroups, which makes the same choice among groups of equal size.
"""

from trimtab.planner.compiled.decorators import kernel
from trimtab.planner.snapshot.columns import Int64


@kernel
def grow_smallest(order: Int64, size: Int64, max_size: Int64, count: int) -> int:
    """Add up to `count` nodes to size : int64[A], in place; return how many got no group.

    order : int64[A] groups by size, ascending, changed in place; max_size : int64[A], a group above its own is
    full. O(A · (A + 1)) in the worst case, for any count.
    """
    missing, start, end, level = count, 0, 0, 0
    while missing > 0 and start < len(order):
        if start == end:
            level = size[order[start]]
        while end < len(order) and size[order[end]] <= level:
            end += 1
        rounds = missing // (end - start)
        if end < len(order):
            rounds = min(rounds, size[order[end]] - level)
        for at in range(start, end):
            rounds = min(rounds, max_size[order[at]] - level)
        if rounds > 0:
            for at in range(start, end):
                size[order[at]] += rounds
            missing -= rounds * (end - start)
            level += rounds
            continue
        for at in range(start, end):
            group = order[at]
            if size[group] >= max_size[group]:
                order[at] = order[start]
                order[start] = group
                start += 1
            elif missing > 0:
                size[group] += 1
                missing -= 1
        level += 1
    return missing
