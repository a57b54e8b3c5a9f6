"""The node groups of a `BalanceScaleUpRequest` read from its bytes, and the splits of its answer written as bytes.

Written by hand because reading and setting the fields of a thousand messages takes several times as long as parsing and
splitting. Source: protobuf encoding; the bytes are those that protobuf writes, fields in the order of their numbers.
"""

from trimtab.planner.model.jit import inner_kernel, kernel, widened
from trimtab.planner.snapshot.columns import Int64, UInt8
from trimtab.planner.snapshot.kernels.protobuf import varint_length, write_text, write_varint

MESSAGE_FIELD, NAME_FIELD, FIRST_NUMBER, SECOND_NUMBER, THIRD_NUMBER = 0x0A, 0x0A, 0x10, 0x18, 0x20
FIRST, LAST, SIZE, MOST = 0, 1, 2, 3
"""Columns of a group: place of its id in the bytes, sizes."""


@inner_kernel
def varint_end(data: UInt8, at: int) -> int:
    """Return the position behind a number."""
    while data[at] >= 128:
        at += 1
    return at + 1


@inner_kernel
def read_varint(data: UInt8, at: int) -> int:
    """Return a number; one of ten bytes is negative."""
    value, shift = widened(0), widened(0)
    while data[at] >= 128:
        value |= widened(data[at] & 127) << shift
        shift += 7
        at += 1
    return int(value | (widened(data[at]) << shift))


@inner_kernel
def read_group(data: UInt8, at: int, end: int, groups: Int64, row: int) -> bool:
    """Read one group; return whether it has the fields of a group and no others."""
    groups[row, :] = 0
    while at < end:
        field = data[at]
        at += 1
        if field == NAME_FIELD:
            groups[row, FIRST] = varint_end(data, at)
            groups[row, LAST] = groups[row, FIRST] + read_varint(data, at)
            at = groups[row, LAST]
        elif field in (FIRST_NUMBER, SECOND_NUMBER):
            groups[row, SIZE if field == FIRST_NUMBER else MOST] = read_varint(data, at)
            at = varint_end(data, at)
        else:
            return False
    return True


@kernel
def read_groups(data: UInt8, groups: Int64) -> bool:
    """Fill groups : int64[A, 4] with the columns `FIRST` and so on; return whether there are no unknown fields.

    data : a serialized request, whose groups come first. O(bytes).
    """
    at = widened(0)
    for row in range(len(groups)):
        start = varint_end(data, at + 1)
        end = start + read_varint(data, at + 1)
        if not read_group(data, start, end, groups, row):
            return False
        at = end
    return True


@inner_kernel
def is_less(data: UInt8, groups: Int64, one: int, other: int) -> bool:
    """Return whether the id of a group sorts before that of another, bytewise."""
    first, second = groups[one, FIRST], groups[other, FIRST]
    while first < groups[one, LAST] and second < groups[other, LAST]:
        if data[first] != data[second]:
            return bool(data[first] < data[second])
        first += 1
        second += 1
    return bool(first == groups[one, LAST] and second < groups[other, LAST])


@kernel
def ids_ascend(data: UInt8, groups: Int64, order: Int64) -> bool:
    """Return whether the ids, in an order, strictly ascend. O(bytes)."""
    at = 1
    while at < len(order) and is_less(data, groups, order[at - 1], order[at]):
        at += 1
    return bool(at >= len(order))


@inner_kernel
def write_number(field: int, value: int, out: UInt8, at: int) -> int:
    """Write a number with its field; a zero is left out. Return the position behind it."""
    if value == 0:
        return at
    out[at] = field
    return int(write_varint(out, at + 1, value))


@kernel
def write_splits(data: UInt8, groups: Int64, rows: Int64, grown: Int64, out: UInt8) -> int:
    """Write a split for each of rows : int64[S] to `out`, which has room; return the number of bytes. O(bytes).

    data, groups : of the request; grown : int64[S] new sizes.
    """
    at = widened(0)
    for place in range(len(rows)):
        row = rows[place]
        first, last, size, most = groups[row, FIRST], groups[row, LAST], groups[row, SIZE], groups[row, MOST]
        content = 1 + varint_length(last - first) + last - first
        for value in (size, grown[place], most):
            content += 1 + varint_length(value) if value else 0
        out[at] = MESSAGE_FIELD
        at = write_varint(out, at + 1, content)
        out[at] = NAME_FIELD
        at = write_text(out, write_varint(out, at + 1, last - first), data, first, last)
        at = write_number(widened(FIRST_NUMBER), size, out, at)
        at = write_number(widened(SECOND_NUMBER), grown[place], out, at)
        at = write_number(widened(THIRD_NUMBER), most, out, at)
    return int(at)
