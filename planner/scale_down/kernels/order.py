"""Orders: of the uids of pods, of which a plan's digest is made; and of candidates of similar node groups, which keeps
their sizes balanced: the largest part loses nodes first.

Candidates come in cells, those of one group and zone, each in the preferred order. Each step takes the next candidate
of the cell whose group has the most nodes left; among equal ones, of the cell whose zone has the most; among those, of
the first in order. Source: own."""

import numpy as np

from trimtab.planner.compiled.decorators import inner_kernel, kernel, prefetch, widened
from trimtab.planner.snapshot.columns import Int32, Int64, UInt8
from trimtab.planner.snapshot.kernels.words import write_text

NEW_LINE = 0x0A
AHEAD = 8
"""Pods between a request for data and their use."""


@inner_kernel
def text_less(data: UInt8, offsets: Int64, text: int, other: int) -> bool:
    """Return whether text `text` sorts before text `other`, bytewise."""
    first, second = offsets[text], offsets[other]
    while first < offsets[text + 1] and second < offsets[other + 1]:
        if data[first] != data[second]:
            return bool(data[first] < data[second])
        first += 1
        second += 1
    return bool(offsets[text + 1] - offsets[text] < offsets[other + 1] - offsets[other])


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


@kernel
def level_order(
    members: Int32, starts: Int64, group: Int32, zone: Int32, group_size: Int64, zone_size: Int64, at: Int64, out: Int32
) -> int:
    """Fill out : int32[E] with the positions `members` : int32[E], taken from the cells in turn; return E.

    starts : int64[C+1] cells in members, each ascending; group, zone : int32[C], zone -1 = none; group_size,
    zone_size : nodes of each part, lowered in place; at : int64[C] scratch. O(E · C).
    """
    for cell in range(len(at)):
        at[cell] = starts[cell]
    for row in range(len(out)):
        best = -1
        for cell in range(len(at)):
            if at[cell] == starts[cell + 1]:
                continue
            if best < 0:
                best = cell
                continue
            more = group_size[group[cell]] - group_size[group[best]]
            if more == 0:
                mine = zone_size[zone[cell]] if zone[cell] >= 0 else 0
                its = zone_size[zone[best]] if zone[best] >= 0 else 0
                more = mine - its
            if more > 0 or (more == 0 and members[at[cell]] < members[at[best]]):
                best = cell
        out[row] = members[at[best]]
        at[best] += 1
        group_size[group[best]] -= 1
        if zone[best] >= 0:
            zone_size[zone[best]] -= 1
    return len(out)
