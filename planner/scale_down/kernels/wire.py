"""Destinations of pods as protobuf bytes, and the uids that a plan's digest is taken over.

Why by hand: a map of 100,000 entries built entry by entry costs a hundred times what it costs to parse. The bytes are
those of `UnneededNode.destinations` (field 3, map<string, string>): 0x1a, length, 0x0a, length, key, 0x12, length,
value. Source: protobuf encoding, length-delimited fields and maps.
"""

from typing import NamedTuple

from planner.model.jit import kernel
from planner.snapshot.columns import Int32, Int64, UInt8

MAP_FIELD, KEY_FIELD, VALUE_FIELD, SLASH, NEW_LINE = 0x1A, 0x0A, 0x12, 0x2F, 0x0A


class Names(NamedTuple):
    """Texts of what is named. namespace : int32[P] into the texts namespaces; pods and nodes : texts by number."""

    namespace: Int32
    namespaces: UInt8
    namespace_offsets: Int64
    pods: UInt8
    pod_offsets: Int64
    nodes: UInt8
    node_offsets: Int64


@kernel
def varint_length(value: int) -> int:
    """Return how many bytes a number takes."""
    length = 1
    while value >= 128:
        value >>= 7
        length += 1
    return length


@kernel
def write_varint(out: UInt8, at: int, value: int) -> int:
    """Write a number at a position; return the position behind it."""
    while value >= 128:
        out[at] = (value & 127) | 128
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


@kernel
def write_text(out: UInt8, at: int, data: UInt8, first: int, last: int) -> int:
    """Copy data[first:last] to a position; return the position behind it."""
    for index in range(first, last):
        out[at] = data[index]
        at += 1
    return at


@kernel
def write_destinations(names: Names, pods: Int32, destination: Int32, bounds: Int64, out: UInt8, ends: Int64) -> int:
    """Write the map entries of the pods pods[bounds[i]:bounds[i+1]] of each node i and where each ends in `ends`.

    pods, destination : int32[M]; bounds : int64[U+1]; out : uint8, ends : int64[U]. With an empty `out` nothing is
    written but `ends`, which tells how much is needed. Returns the number of bytes. O(bytes).
    """
    at = 0
    for row in range(len(bounds) - 1):
        for index in range(bounds[row], bounds[row + 1]):
            pod, node = pods[index], destination[index]
            space = names.namespace[pod]
            first_of_space, end_of_space = names.namespace_offsets[space], names.namespace_offsets[space + 1]
            first_of_pod, end_of_pod = names.pod_offsets[pod], names.pod_offsets[pod + 1]
            first_of_node, end_of_node = names.node_offsets[node], names.node_offsets[node + 1]
            key = end_of_space - first_of_space + 1 + end_of_pod - first_of_pod
            value = end_of_node - first_of_node
            entry = 2 + varint_length(key) + key + varint_length(value) + value
            if len(out) == 0:
                at += 1 + varint_length(entry) + entry
                continue
            out[at] = MAP_FIELD
            at = write_varint(out, at + 1, entry)
            out[at] = KEY_FIELD
            at = write_varint(out, at + 1, key)
            at = write_text(out, at, names.namespaces, first_of_space, end_of_space)
            out[at] = SLASH
            at = write_text(out, at + 1, names.pods, first_of_pod, end_of_pod)
            out[at] = VALUE_FIELD
            at = write_varint(out, at + 1, value)
            at = write_text(out, at, names.nodes, first_of_node, end_of_node)
        ends[row] = at
    return at


@kernel
def text_less(data: UInt8, offsets: Int64, one: int, other: int) -> bool:
    """Say whether text `one` sorts before text `other`, bytewise."""
    first, second = offsets[one], offsets[other]
    while first < offsets[one + 1] and second < offsets[other + 1]:
        if data[first] != data[second]:
            return bool(data[first] < data[second])
        first += 1
        second += 1
    return bool(offsets[one + 1] - offsets[one] < offsets[other + 1] - offsets[other])


@kernel
def write_sorted_uids(
    data: UInt8, offsets: Int64, pods: Int32, bounds: Int64, scratch: Int32, out: UInt8, ends: Int64
) -> None:
    """Write, for each node i, the uids of pods[bounds[i]:bounds[i+1]] in order, each with a line feed behind it.

    scratch : int32[most pods of a node]; out : uint8[bytes of the uids + M]; ends : int64[U]. O(bytes + pods² of a
    node), because a node has few pods.
    """
    at = 0
    for row in range(len(bounds) - 1):
        count = 0
        for index in range(bounds[row], bounds[row + 1]):
            place = count
            while place > 0 and text_less(data, offsets, pods[index], scratch[place - 1]):
                scratch[place] = scratch[place - 1]
                place -= 1
            scratch[place] = pods[index]
            count += 1
        for place in range(count):
            at = write_text(out, at, data, offsets[scratch[place]], offsets[scratch[place] + 1])
            out[at] = NEW_LINE
            at += 1
        ends[row] = at
