"""Order within groups, and counting in that order. Source: bottom-up merge sort; short runs are sorted by counting
smaller entries, which avoids mispredicted branches.

Which pods are also claimed by a controller other than their own.

Which groups have different pods than before, or pods with different values.
"""

from typing import NamedTuple

from trimtab.planner.compiled.by_reference import by_reference
from trimtab.planner.compiled.decorators import inner_kernel, kernel
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64, UInt8

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


class Claims(NamedTuple):
    """Controllers by the label sets that they select: those of set s are owners[offsets[s] : offsets[s + 1]].

    offsets : int64[L+1]; owners : int32[C]; namespace : int32[O] of each controller, numbered as for pods, -1 = none.
    """

    offsets: Int64
    owners: Int32
    namespace: Int32


@kernel
def find_claims(claims: Claims, pods: Int64, owner: Int32, label_set: Int32, namespace: Int32, rival: Int32) -> None:
    """Write for each of the pods the first other controller that claims it, -1 = none.

    pods : int64[M]; owner, label_set, namespace : int32[P]; rival : int32[M], filled. O(M + claims of their label
    sets).
    """
    labels, own, space, found = -1, -1, -1, -1
    for at in range(len(pods)):
        pod = pods[at]
        # Mostly the same as for the previous pod, which is in the same group.
        if label_set[pod] != labels or owner[pod] != own or namespace[pod] != space:
            labels, own, space, found = label_set[pod], owner[pod], namespace[pod], -1
            for entry in range(claims.offsets[labels], claims.offsets[labels + 1]):
                other = claims.owners[entry]
                if other != own and claims.namespace[other] == space:
                    found = other
                    break
        rival[at] = found


@by_reference()
class Compared(NamedTuple):
    """Groups of one snapshot, and the compared data of their pods.

    bounds : int64[G+1]; pods : int64[M] rows; namespace, node, spec : int32[P]; created_s : int64[P]; names : uint8[B],
    concatenated; name_offsets : int64[P+1]; values : int64[V, M].
    """

    bounds: Int64
    pods: Int64
    namespace: Int32
    node: Int32
    spec: Int32
    created_s: Int64
    names: UInt8
    name_offsets: Int64
    values: Int64


@inner_kernel
def same_run(one: Int32 | Int64 | UInt8, first: int, other: Int32 | Int64 | UInt8, begin: int, count: int) -> bool:
    """Return whether that many entries of two columns are equal."""
    # Sliced, and without early exit, so that the loop is vectorised.
    now, before = one[first : first + count], other[begin : begin + count]
    differs = False
    for at in range(len(now)):
        differs |= now[at] != before[at]
    return not differs


@inner_kernel
def same_columns(now: Compared, before: Compared, row: int, was: int, count: int) -> bool:
    """Return whether pods in consecutive rows are equal, ignoring names. row, was : the first of them."""
    return bool(
        same_run(now.node, row, before.node, was, count)
        and same_run(now.spec, row, before.spec, was, count)
        and same_run(now.namespace, row, before.namespace, was, count)
        and same_run(now.created_s, row, before.created_s, was, count)
    )


@inner_kernel
def same_names(now: Compared, before: Compared, row: int, was: int, count: int) -> bool:
    """Return whether pods in consecutive rows have the same names."""
    start, origin = now.name_offsets[row], before.name_offsets[was]
    # Equal bytes may be divided differently.
    starts, origins = now.name_offsets[row : row + count + 1], before.name_offsets[was : was + count + 1]
    differs = False
    for at in range(len(starts)):
        differs |= starts[at] - start != origins[at] - origin
    return not differs and bool(same_run(now.names, start, before.names, origin, starts[-1] - start))


@inner_kernel
def same_pods(now: Compared, before: Compared, row: int, was: int, count: int, same_table: int) -> bool:
    """Return whether pods in consecutive rows are equal."""
    has_names = same_table == 1 and row == was
    return bool(same_columns(now, before, row, was, count) and (has_names or same_names(now, before, row, was, count)))


@inner_kernel
def same_group(now: Compared, before: Compared, first: int, begin: int, count: int, same_table: int) -> bool:
    """Return whether two groups of the same size are equal. first, begin : their first members."""
    for one in range(len(now.values)):
        if not same_run(now.values[one], first, before.values[one], begin, count):
            return False
    row, was = now.pods[first], before.pods[begin]
    if now.pods[first + count - 1] - row == count - 1 and before.pods[begin + count - 1] - was == count - 1:
        return bool(same_pods(now, before, row, was, count, same_table))
    for at in range(count):
        if not same_pods(now, before, now.pods[first + at], before.pods[begin + at], 1, same_table):
            return False
    return True


@kernel
def find_differing(now: Compared, before: Compared, place: Int64, same_table: int, differs: Bool) -> None:
    """Write for each group whether it differs from before. place : int64[G], position of the earlier group, -1 = none;
    same_table : 1 if both have the same table of pod names, in which equal rows have equal names, else 0; differs :
    bool[G], filled. O(M + bytes of names).
    """
    for group in range(len(place)):
        differs[group] = True
        if place[group] < 0:
            continue
        first, begin = now.bounds[group], before.bounds[place[group]]
        count = now.bounds[group + 1] - first
        if before.bounds[place[group] + 1] - begin == count:
            differs[group] = not same_group(now, before, first, begin, count, same_table)
