"""The groups of an answer as protobuf bytes.

The bytes of each are a `PodCostGroup` in field 1 of `PodCostsDecision`; empty fields are left out, as in proto3.
Written by hand because the messages of 150,000 costs take 58 ms to build and encode, with names and costs given: more
than the whole decision takes (45 ms).
Source: protobuf encoding, length-delimited fields and maps; a negative int32 takes ten bytes.
"""

from typing import NamedTuple

from trimtab.planner.compiled.by_reference import by_reference
from trimtab.planner.compiled.decorators import inner_kernel, kernel, widened
from trimtab.planner.snapshot.columns import Int32, Int64, UInt8
from trimtab.planner.snapshot.kernels.protobuf import varint_length, write_text, write_varint
from trimtab.planner.snapshot.texts import Names

GROUP_FIELD, OWNER_FIELD, COSTS_FIELD, COMPLETE_FIELD = 0x0A, 0x0A, 0x12, 0x18
ORDER_FIELD, SHARES_FIELD, AFTER_EACH_FIELD, WAITS_FIELD, TARGET_FIELD = 0x32, 0x3A, 0x40, 0x4A, 0x50
KEY_FIELD, VALUE_FIELD, RANKS_FIELD, OWN_RANKS_FIELD = 0x0A, 0x10, 0x1A, 0x22
SLASH = 0x2F
NEGATIVE_LENGTH = 10


@by_reference()
class RankedGroups(NamedTuple):
    """Groups whose pods are ranked by the same strategies, with pods in order of removal. bounds : int64[G+1]; pods :
    int64[M] rows of the snapshot; costs : int32[M]; shares : uint8[S, 16·M], for each strategy its weighted
    ranks followed by its own ranks, as little-endian doubles; heads : encoded names of strategies, at the beginning of
    their shares; owners, waits_for : texts of the groups; after_each, target : int64[1].
    """

    bounds: Int64
    pods: Int64
    costs: Int32
    shares: UInt8
    heads: UInt8
    head_offsets: Int64
    owners: UInt8
    owner_offsets: Int64
    waits_for: UInt8
    waits_offsets: Int64
    after_each: Int64
    target: Int64


@inner_kernel
def pod_length(names: Names, pod: int) -> int:
    """Return the bytes of "namespace/name"."""
    space = names.namespace[pod]
    return int(
        names.namespace_offsets[space + 1]
        - names.namespace_offsets[space]
        + 1
        + names.pod_offsets[pod + 1]
        - names.pod_offsets[pod]
    )


@inner_kernel
def write_pod(names: Names, pod: int, out: UInt8, at: int) -> int:
    """Write "namespace/name" with its length; return the position behind it."""
    space = names.namespace[pod]
    at = write_varint(out, at, pod_length(names, pod))
    at = write_text(out, at, names.namespaces, names.namespace_offsets[space], names.namespace_offsets[space + 1])
    out[at] = SLASH
    return write_text(out, at + 1, names.pods, names.pod_offsets[pod], names.pod_offsets[pod + 1])


@inner_kernel
def value_length(cost: int) -> int:
    """Return the bytes of a cost."""
    return NEGATIVE_LENGTH if cost < 0 else varint_length(cost)


@inner_kernel
def share_length(groups: RankedGroups, strategy: int, count: int) -> int:
    """Return the bytes of one strategy's share in a group with this many pods, without tag and length."""
    head = groups.head_offsets[strategy + 1] - groups.head_offsets[strategy]
    return int(head + 2 * (1 + varint_length(8 * count) + 8 * count))


@inner_kernel
def group_length(names: Names, groups: RankedGroups, group: int) -> int:
    """Return the bytes of a group, without tag and length."""
    first, last = groups.bounds[group], groups.bounds[group + 1]
    owner = groups.owner_offsets[group + 1] - groups.owner_offsets[group]
    waits = groups.waits_offsets[group + 1] - groups.waits_offsets[group]
    size = 1 + varint_length(owner) + owner + 2 + 2 * groups.after_each[0]
    if waits:
        size += 1 + varint_length(waits) + waits
    if groups.target[0]:
        size += 1 + varint_length(groups.target[0])
    for at in range(first, last):
        text = pod_length(names, groups.pods[at])
        value = value_length(widened(groups.costs[at]))
        entry = 1 + varint_length(text) + text + 1 + value
        size += 1 + varint_length(entry) + entry + 1 + varint_length(text) + text
    for strategy in range(len(groups.shares)):
        share = share_length(groups, strategy, last - first)
        size += 1 + varint_length(share) + share
    return int(size)


@inner_kernel
def write_cost(names: Names, pod: int, cost: int, out: UInt8, at: int) -> int:
    """Write one entry of the map, pod to cost; return the position behind it."""
    text = pod_length(names, pod)
    value = value_length(cost)
    out[at] = COSTS_FIELD
    at = write_varint(out, at + 1, 1 + varint_length(text) + text + 1 + value)
    out[at] = KEY_FIELD
    at = write_pod(names, pod, out, at + 1)
    out[at] = VALUE_FIELD
    at += 1
    if cost >= 0:
        return write_varint(out, at, cost)
    # Two's complement of 64 bits, seven at a time.
    for _ in range(NEGATIVE_LENGTH - 1):
        out[at] = (cost & 127) | 128
        cost >>= 7
        at += 1
    out[at] = 1
    return at + 1


@inner_kernel
def write_share(groups: RankedGroups, strategy: int, first: int, last: int, out: UInt8, at: int) -> int:
    """Write one strategy's share in a group; return the position behind it."""
    count, all_pods = last - first, groups.bounds[-1]
    out[at] = SHARES_FIELD
    at = write_varint(out, at + 1, share_length(groups, strategy, count))
    at = write_text(out, at, groups.heads, groups.head_offsets[strategy], groups.head_offsets[strategy + 1])
    for half, field in ((0, RANKS_FIELD), (1, OWN_RANKS_FIELD)):
        start = 8 * (half * all_pods + first)
        out[at] = field
        at = write_varint(out, at + 1, 8 * count)
        at = write_text(out, at, groups.shares[strategy], start, start + 8 * count)
    return at


@inner_kernel
def write_group(names: Names, groups: RankedGroups, group: int, out: UInt8, at: int) -> int:
    """Write a group; return the position behind it."""
    first, last = groups.bounds[group], groups.bounds[group + 1]
    out[at] = OWNER_FIELD
    start, end = groups.owner_offsets[group], groups.owner_offsets[group + 1]
    at = write_text(out, write_varint(out, at + 1, end - start), groups.owners, start, end)
    for place in range(first, last):
        at = write_cost(names, groups.pods[place], widened(groups.costs[place]), out, at)
    out[at] = COMPLETE_FIELD
    out[at + 1] = 1
    at += 2
    for place in range(first, last):
        out[at] = ORDER_FIELD
        at = write_pod(names, groups.pods[place], out, at + 1)
    for strategy in range(len(groups.shares)):
        at = write_share(groups, strategy, first, last, out, at)
    if groups.after_each[0]:
        out[at] = AFTER_EACH_FIELD
        out[at + 1] = 1
        at += 2
    start, end = groups.waits_offsets[group], groups.waits_offsets[group + 1]
    if end > start:
        out[at] = WAITS_FIELD
        at = write_text(out, write_varint(out, at + 1, end - start), groups.waits_for, start, end)
    if groups.target[0]:
        out[at] = TARGET_FIELD
        at = write_varint(out, at + 1, groups.target[0])
    return at


@kernel
def write_groups(names: Names, groups: RankedGroups, sizes: Int64, ends: Int64, out: UInt8) -> int:
    """Write all groups; return how many bytes they take.

    sizes : int64[G], the bytes of each without tag and length, filled if `out` is empty; ends : int64[G], where each
    ends; out : uint8[bytes], or empty to get only their number. O(bytes).
    """
    at = widened(0)
    for group in range(len(groups.bounds) - 1):
        if len(out) == 0:
            sizes[group] = group_length(names, groups, group)
            at += 1 + varint_length(sizes[group]) + sizes[group]
        else:
            out[at] = GROUP_FIELD
            at = write_varint(out, at + 1, sizes[group])
            at = write_group(names, groups, group, out, at)
        ends[group] = at
    return int(at)
