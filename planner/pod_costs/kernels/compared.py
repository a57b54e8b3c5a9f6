"""Which groups have different pods than before, or pods with different values."""

from typing import NamedTuple

from trimtab.planner.compiled.by_reference import by_reference
from trimtab.planner.compiled.decorators import inner_kernel, kernel
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, UInt8


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
