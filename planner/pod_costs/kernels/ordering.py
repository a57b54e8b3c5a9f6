"""Order within groups, and counting in that order. Source: bottom-up merge sort; short runs are sorted by counting
smaller entries, which avoids mispredicted branches.
"""

from trimtab.planner.compiled.decorators import kernel
from trimtab.planner.snapshot.columns import Float64, Int32, Int64

RUN = 64


@kernel
def sort_groups(keys: Int64, bounds: Int64, order: Int64, scratch: Int64) -> None:
    """Write the positions of each group, bounds[g] to bounds[g+1], ordered by key; equal keys keep their order.

    keys, order, scratch : int64[M]; bounds : int64[G+1]. O(M log(pods of a group)).
    """
    for group in range(len(bounds) - 1):
        first, last = bounds[group], bounds[group + 1]
        for start in range(first, last, RUN):
            end = min(start + RUN, last)
            for place in range(start, end):
                at, key = start, keys[place]
                # Sliced before the loops, so that these are vectorised.
                before, behind = keys[start:place], keys[place + 1 : end]
                for other in range(len(before)):
                    at += before[other] <= key
                for other in range(len(behind)):
                    at += behind[other] < key
                order[at] = place
        width = RUN
        while width < last - first:
            for start in range(first, last, 2 * width):
                middle, end = min(start + width, last), min(start + 2 * width, last)
                left, right = start, middle
                for at in range(start, end):
                    if left < middle and (right >= end or keys[order[left]] <= keys[order[right]]):
                        scratch[at] = order[left]
                        left += 1
                    else:
                        scratch[at] = order[right]
                        right += 1
            for at in range(first, last):
                order[at] = scratch[at]
            width *= 2


@kernel
def count_in_turn(order: Int64, domain: Int32, bounds: Int64, counts: Int64, rank: Float64) -> None:
    """Number the members of each domain within each group, from 1, in the order given. order : int64[M] from
    `sort_groups`; domain : int32[M], negative = none, which gets 0; bounds : int64[G+1];
    counts : int64[D], zeros, at the end too; rank : float64[M], filled. O(M).
    """
    for group in range(len(bounds) - 1):
        for at in range(bounds[group], bounds[group + 1]):
            place = order[at]
            rank[place] = 0.0
            if domain[place] >= 0:
                counts[domain[place]] += 1
                rank[place] = counts[domain[place]]
        for at in range(bounds[group], bounds[group + 1]):
            if domain[at] >= 0:
                counts[domain[at]] = 0
