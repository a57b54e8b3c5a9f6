"""Naive twin of the question whether a gang can be whole: every number of new nodes of every group is tried, and every
way to pack its pods. Only amounts of one resource count; pods are placed by themselves. Exponential.
"""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple


class GrowingGroup(NamedTuple):
    """A node group. size : of a new node; most : how many it may get; price : of one node."""

    size: int
    most: int
    price: int


def cheapest_whole(pods: Sequence[int], least: int, free: Sequence[int], groups: Sequence[GrowingGroup]) -> int | None:
    """Return the least price of new nodes with which `least` of the pods have places, None = none suffice.

    pods : what each requests; free : what each node that is there has left. The smallest pods count, since any will do.
    """
    wanted = sorted(pods)[:least]
    if len(wanted) < least:
        return None
    prices = [
        sum(count * group.price for count, group in zip(counts, groups, strict=True))
        for counts in product(*(range(group.most + 1) for group in groups))
        if _fit(sorted(wanted, reverse=True), _rooms(free, groups, counts))
    ]
    return min(prices, default=None)


def _rooms(free: Sequence[int], groups: Sequence[GrowingGroup], counts: Sequence[int]) -> list[int]:
    new = [group.size for count, group in zip(counts, groups, strict=True) for _ in range(count)]
    return sorted([*free, *new])


def _fit(pods: Sequence[int], rooms: list[int]) -> bool:
    """Return whether all pods, largest first, have room."""
    if not pods:
        return True
    tried = set()
    for at, room in enumerate(rooms):
        if room >= pods[0] and room not in tried:
            tried.add(room)
            if _fit(pods[1:], [*rooms[:at], room - pods[0], *rooms[at + 1 :]]):
                return True
    return False
