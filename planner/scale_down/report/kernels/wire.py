"""The nodes of an answer as protobuf bytes, and the uids for a plan's digest. Written by hand because building
thousands of messages and a map of 100,000 entries one by one costs many times more than parsing them. The bytes are
those of `ScaleDownDecision.unneeded`, field 1, each an `UnneededNode`, or of `unremovable`, 2,
each an `UnremovableNode`; empty fields are left out, as in proto3.
Source: protobuf encoding, length-delimited fields and maps.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.compiled.by_reference import by_reference
from trimtab.planner.compiled.decorators import inner_kernel, kernel, widened
from trimtab.planner.compiled.prefetch import prefetch
from trimtab.planner.snapshot.columns import Int32, Int64, UInt8
from trimtab.planner.snapshot.kernels.protobuf import varint_length, write_text, write_varint
from trimtab.planner.snapshot.texts import Names

ENTRY_FIELD, NODE_FIELD, SINCE_FIELD, MAP_FIELD, REASON_FIELD = 0x0A, 0x0A, 0x12, 0x1A, 0x20
UTILIZATION_FIELD, ASSUMPTION_FIELD, DETAIL_FIELD, SAVING_FIELD, COST_FIELD = 0x29, 0x32, 0x3A, 0x41, 0x49
WAVE_FIELD, GANG_FIELD = 0x50, 0x5A
STAYING_FIELD, STAYING_REASON_FIELD, STAYING_UTILIZATION_FIELD = 0x12, 0x10, 0x39
BLOCKING_POD_FIELD, BLOCKING_REASON_FIELD, STAYING_DETAIL_FIELD = 0x1A, 0x20, 0x2A
FIRST_NUMBER, SECOND_NUMBER = 0x08, 0x10
KEY_FIELD, VALUE_FIELD, SLASH, NEW_LINE = 0x0A, 0x12, 0x2F, 0x0A
DIGEST_LENGTH = 16


@inner_kernel
def write_destination(names: Names, pod: int, node: int, out: UInt8, at: int) -> int:
    """Write one map entry, "namespace/name" to node, and return the position after it.

    With an empty `out` nothing is written: the position gives the size needed.
    """
    space = names.namespace[pod]
    first_of_space, end_of_space = names.namespace_offsets[space], names.namespace_offsets[space + 1]
    first_of_pod, end_of_pod = names.pod_offsets[pod], names.pod_offsets[pod + 1]
    first_of_node, end_of_node = names.node_offsets[node], names.node_offsets[node + 1]
    key = end_of_space - first_of_space + 1 + end_of_pod - first_of_pod
    value = end_of_node - first_of_node
    entry = 2 + varint_length(key) + key + varint_length(value) + value
    if len(out) == 0:
        return int(at + 1 + varint_length(entry) + entry)
    out[at] = MAP_FIELD
    at = write_varint(out, at + 1, entry)
    out[at] = KEY_FIELD
    at = write_varint(out, at + 1, key)
    at = write_text(out, at, names.namespaces, first_of_space, end_of_space)
    out[at] = SLASH
    at = write_text(out, at + 1, names.pods, first_of_pod, end_of_pod)
    out[at] = VALUE_FIELD
    at = write_varint(out, at + 1, value)
    return write_text(out, at, names.nodes, first_of_node, end_of_node)


@inner_kernel
def write_numbers(field: int, first: int, second: int, out: UInt8, at: int) -> int:
    """Write a message of two numbers, fields 1 and 2, omitting zeros; return the position after it."""
    size = (1 + varint_length(first) if first else 0) + (1 + varint_length(second) if second else 0)
    if len(out) == 0:
        return at + 2 + size
    out[at] = field
    out[at + 1] = size
    at += 2
    if first:
        out[at] = FIRST_NUMBER
        at = write_varint(out, at + 1, first)
    if second:
        out[at] = SECOND_NUMBER
        at = write_varint(out, at + 1, second)
    return at


@inner_kernel
def write_assumption(count: int, digests: UInt8, row: int, out: UInt8, at: int) -> int:
    """Write a `NodeAssumption`: the number of pods to move and their digest, 16 characters of digests."""
    size = (1 + varint_length(count) if count else 0) + 2 + DIGEST_LENGTH
    if len(out) == 0:
        return at + 2 + size
    out[at] = ASSUMPTION_FIELD
    out[at + 1] = size
    at += 2
    if count:
        out[at] = FIRST_NUMBER
        at = write_varint(out, at + 1, count)
    out[at] = VALUE_FIELD
    out[at + 1] = DIGEST_LENGTH
    return write_text(out, at + 2, digests, row * DIGEST_LENGTH, (row + 1) * DIGEST_LENGTH)


@inner_kernel
def write_double(field: int, doubles: UInt8, row: int, out: UInt8, at: int) -> int:
    """Write a double given as its 8 bytes, doubles[8·row:]; a zero is omitted."""
    empty = True
    for index in range(8 * row, 8 * row + 8):
        empty = empty and doubles[index] == 0
    if empty:
        return at
    if len(out) == 0:
        return at + 9
    out[at] = field
    return write_text(out, at + 1, doubles, 8 * row, 8 * row + 8)


NAN_EXPONENT, NAN_MANTISSA = 0x7F, 0xF8
"""The last byte of a double, without its sign, and the least of the one before it, of NaN as numpy makes it."""


@inner_kernel
def write_optional_double(field: int, doubles: UInt8, row: int, out: UInt8, at: int) -> int:
    """Write a double given as its 8 bytes, doubles[8·row:], also a zero; NaN, for an unknown one, is omitted."""
    last = 8 * row + 7
    if doubles[last] & NAN_EXPONENT == NAN_EXPONENT and doubles[last - 1] >= NAN_MANTISSA:
        return at
    if len(out) == 0:
        return at + 9
    out[at] = field
    return write_text(out, at + 1, doubles, 8 * row, 8 * row + 8)


@by_reference()
class UnneededRows(NamedTuple):
    """The content of the entries of U nodes.

    node : int32[U]; seconds, nanos : int64[U] since when; reason : uint8[U]; utilization, saving, cost : uint8[8·U],
    doubles as bytes, a saving of NaN is unknown; wave : int64[U], positive or 0; digests : uint8[16·U]; pods,
    destination : int32[M]; bounds : int64[U+1]; details, gangs : texts, one for each node, "" = none; detail_offsets,
    gang_offsets : int64[U+1].
    """

    node: Int32
    seconds: Int64
    nanos: Int64
    reason: UInt8
    utilization: UInt8
    saving: UInt8
    cost: UInt8
    wave: Int64
    digests: UInt8
    pods: Int32
    destination: Int32
    bounds: Int64
    details: UInt8
    detail_offsets: Int64
    gangs: UInt8
    gang_offsets: Int64


@inner_kernel
def write_string(field: int, texts: UInt8, first: int, last: int, out: UInt8, at: int) -> int:
    """Write a string, texts[first:last], omitted if empty; return the position after it."""
    if first == last:
        return at
    if len(out) == 0:
        return int(at + 1 + varint_length(last - first) + last - first)
    out[at] = field
    return write_text(out, write_varint(out, at + 1, last - first), texts, first, last)


AHEAD = 8
"""Pods between a request for data and their use."""


@inner_kernel
def fetch_names(names: Names, pods: Int32, index: int) -> None:
    """Request the name of the pod that is written soon after pods[index], and what leads to the one after it."""
    if index + 2 * AHEAD < len(pods):
        later = widened(pods[index + 2 * AHEAD])
        prefetch(names.namespace, later)
        prefetch(names.pod_offsets, later)
    if index + AHEAD < len(pods):
        prefetch(names.pods, names.pod_offsets[pods[index + AHEAD]])


@inner_kernel
def write_content(names: Names, rows: UnneededRows, row: int, out: UInt8, at: int) -> int:
    """Write one `UnneededNode`; return the position after it."""
    node, detail = rows.node[row], rows.detail_offsets
    at = write_string(widened(NODE_FIELD), names.nodes, names.node_offsets[node], names.node_offsets[node + 1], out, at)
    at = write_numbers(SINCE_FIELD, rows.seconds[row], rows.nanos[row], out, at)
    for index in range(rows.bounds[row], rows.bounds[row + 1]):
        fetch_names(names, rows.pods, widened(index))
        at = write_destination(names, rows.pods[index], rows.destination[index], out, at)
    if rows.reason[row] != 0:
        if len(out) != 0:
            out[at] = REASON_FIELD
            out[at + 1] = rows.reason[row]
        at += 2
    at = write_double(widened(UTILIZATION_FIELD), rows.utilization, row, out, at)
    at = write_assumption(rows.bounds[row + 1] - rows.bounds[row], rows.digests, row, out, at)
    at = write_string(widened(DETAIL_FIELD), rows.details, detail[row], detail[row + 1], out, at)
    at = write_optional_double(widened(SAVING_FIELD), rows.saving, row, out, at)
    at = write_double(widened(COST_FIELD), rows.cost, row, out, at)
    if rows.wave[row] != 0:
        if len(out) == 0:
            at += 1 + varint_length(rows.wave[row])
        else:
            out[at] = WAVE_FIELD
            at = write_varint(out, at + 1, rows.wave[row])
    gang = rows.gang_offsets
    return write_string(widened(GANG_FIELD), rows.gangs, gang[row], gang[row + 1], out, at)


@kernel
def write_unneeded(names: Names, rows: UnneededRows, sizes: Int64, out: UInt8) -> int:
    """Write all entries to `out` : uint8 and return the number of bytes. O(bytes).

    sizes : int64[U], of each entry's content: filled if `out` is empty (then nothing else is written), read otherwise.
    """
    at = 0
    for row in range(len(rows.node)):
        if len(out) == 0:
            sizes[row] = write_content(names, rows, row, out, widened(0))
            at += 1 + varint_length(sizes[row]) + sizes[row]
        else:
            out[at] = ENTRY_FIELD
            at = write_varint(out, at + 1, sizes[row])
            at = write_content(names, rows, row, out, at)
    return at


@by_reference()
class StayingRows(NamedTuple):
    """The content of the entries of the V nodes that stay.

    node : int32[V]; reason, blocking_reason : uint8[V], below 128; utilization : uint8[8·V], doubles as bytes, NaN =
    unknown; pods, details : texts, one for each node, "" = none; pod_offsets, detail_offsets : int64[V+1]; failed : the
    encoded entries of `predicate_failure_counts`, the fields of one node after those of another; failed_offsets :
    int64[V+1].
    """

    node: Int32
    reason: UInt8
    blocking_reason: UInt8
    utilization: UInt8
    pods: UInt8
    pod_offsets: Int64
    details: UInt8
    detail_offsets: Int64
    failed: UInt8
    failed_offsets: Int64


@inner_kernel
def write_encoded(fields: UInt8, first: int, last: int, out: UInt8, at: int) -> int:
    """Write fields that are encoded already, fields[first:last]; return the position after them."""
    return int(at + last - first) if len(out) == 0 else write_text(out, at, fields, first, last)


@inner_kernel
def write_code(field: int, code: int, out: UInt8, at: int) -> int:
    """Write the number of an enumeration, below 128, omitted if 0; return the position after it."""
    if code == 0:
        return at
    if len(out) != 0:
        out[at] = field
        out[at + 1] = code
    return at + 2


@inner_kernel
def write_stay(names: Names, rows: StayingRows, row: int, out: UInt8, at: int) -> int:
    """Write one `UnremovableNode`; return the position after it."""
    node = rows.node[row]
    at = write_string(widened(NODE_FIELD), names.nodes, names.node_offsets[node], names.node_offsets[node + 1], out, at)
    at = write_code(widened(STAYING_REASON_FIELD), widened(rows.reason[row]), out, at)
    pod, detail = rows.pod_offsets, rows.detail_offsets
    at = write_string(widened(BLOCKING_POD_FIELD), rows.pods, pod[row], pod[row + 1], out, at)
    at = write_code(widened(BLOCKING_REASON_FIELD), widened(rows.blocking_reason[row]), out, at)
    at = write_string(widened(STAYING_DETAIL_FIELD), rows.details, detail[row], detail[row + 1], out, at)
    at = write_encoded(rows.failed, rows.failed_offsets[row], rows.failed_offsets[row + 1], out, at)
    return write_optional_double(widened(STAYING_UTILIZATION_FIELD), rows.utilization, row, out, at)


@kernel
def write_staying(names: Names, rows: StayingRows, sizes: Int64, out: UInt8) -> int:
    """Write the entries of nodes that stay to `out` : uint8 and return the number of bytes. O(bytes).

    sizes : int64[V], of each entry's content: filled if `out` is empty (then nothing else is written), read otherwise.
    """
    at = 0
    for row in range(len(rows.node)):
        if len(out) == 0:
            sizes[row] = write_stay(names, rows, row, out, widened(0))
            at += 1 + varint_length(sizes[row]) + sizes[row]
        else:
            out[at] = STAYING_FIELD
            at = write_varint(out, at + 1, sizes[row])
            at = write_stay(names, rows, row, out, at)
    return at


@inner_kernel
def text_less(data: UInt8, offsets: Int64, one: int, other: int) -> bool:
    """Return whether text `one` sorts before text `other`, bytewise."""
    first, second = offsets[one], offsets[other]
    while first < offsets[one + 1] and second < offsets[other + 1]:
        if data[first] != data[second]:
            return bool(data[first] < data[second])
        first += 1
        second += 1
    return bool(offsets[one + 1] - offsets[one] < offsets[other + 1] - offsets[other])


@inner_kernel
def text_start(data: UInt8, first: int, last: int) -> int:
    """Return the first 7 bytes of a text as a number with the same sort order; a shorter text is padded with zeros."""
    if first + 8 <= len(data):
        # Constant length and unsigned indices let the compiler make one load of the 8 bytes.
        word, begin = np.uint64(0), np.uint64(first)
        for place in range(np.uint64(8)):
            word |= np.uint64(data[begin + place]) << (np.uint64(56) - np.uint64(8) * place)
        beyond = 8 * max(first + 7 - last, 0)
        return int(widened(word >> np.uint64(8)) >> beyond << beyond)
    start = 0
    for at in range(first, first + 7):
        start = (start << 8) | (widened(data[at]) if at < last else 0)
    return start


@kernel
def write_sorted_uids(
    data: UInt8, offsets: Int64, pods: Int32, bounds: Int64, scratch: Int64, out: UInt8, ends: Int64
) -> None:
    """Write, for each node i, the uids of pods[bounds[i]:bounds[i+1]] in order, each followed by a line feed.

    scratch : int64[most pods of a node, 2] (first bytes, pod), which avoids most comparisons of whole texts; out :
    uint8[bytes of the uids + M]; ends : int64[U]. O(bytes + pods² of a node), because a node has few pods.
    """
    at = widened(0)
    for row in range(len(bounds) - 1):
        count = 0
        for index in range(bounds[row], bounds[row + 1]):
            if index + 2 * AHEAD < len(pods):
                prefetch(offsets, widened(pods[index + 2 * AHEAD]))
            if index + AHEAD < len(pods):
                prefetch(data, offsets[pods[index + AHEAD]])
            pod = widened(pods[index])
            start = text_start(data, offsets[pod], offsets[pod + 1])
            place = count
            while place > 0:
                before = scratch[place - 1, 0]
                if before < start or (before == start and not text_less(data, offsets, pod, scratch[place - 1, 1])):
                    break
                scratch[place, 0] = before
                scratch[place, 1] = scratch[place - 1, 1]
                place -= 1
            scratch[place, 0] = start
            scratch[place, 1] = pod
            count += 1
        for place in range(count):
            pod = scratch[place, 1]
            at = write_text(out, at, data, offsets[pod], offsets[pod + 1])
            out[at] = NEW_LINE
            at += 1
        ends[row] = at
