"""How much of what competes for devices surely fits, as a sum of fixed shares.

A room is some devices: one GPU with its partitions, or all devices of a node. Kinds of claims are placed there one
after the other, in any order, each as the scheduler's search would place it, which may leave gaps. `room_left` returns
the largest sum of shares up to which nothing can be refused, whatever the order: found by trying all orders, where
those that lead to the same devices in use are one. Kinds are numbers; sets of them are bits.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import lcm
from typing import Final, NamedTuple, Protocol

MOST_STATES: Final = 3_000
"""States that one question may look at; a room with more is given to one claim at a time."""
MOST_ALONE: Final = 256
"""Claims of one kind that are counted in a room."""
CHOICES: Final = 64
"""Combinations of shares that are tried for one kind of room."""


class DevicePlaces(Protocol):
    """Devices, with all states that are reached from some start."""

    def place(self, state: int, kind: int) -> int:
        """Return the state after one more claim of a kind, -1 = it is refused."""


class RoomLeft(NamedTuple):
    """sum : the largest sum of shares that surely fits; refused : the kind that bounds it, -1 = none does; beside : the
    kinds that were there, as bits."""

    sum: int
    refused: int
    beside: int


def room_left(
    room: DevicePlaces, start: int, shares: Sequence[int], kinds: int, most: int, states: int = MOST_STATES
) -> RoomLeft:
    """Return what surely fits beside what is in use. shares : by kind, positive; kinds : those that may come, as bits;
    most : the sum is not looked at beyond; states : to look at. O(states) placements; 0 if there are more states."""
    coming = [kind for kind in range(len(shares)) if kinds >> kind & 1]
    found, refused, beside = most, -1, 0
    seen = {(start, 0): 0}
    queue = [(start, 0)]
    for state, used in queue:
        if len(queue) > states:
            return RoomLeft(0, refused, beside)
        present = seen[state, used]
        for kind in coming:
            total = used + shares[kind]
            if total > found:
                continue
            after = room.place(state, kind)
            if after < 0:
                found, refused, beside = total - 1, kind, present
            elif (after, total) not in seen:
                seen[after, total] = present | 1 << kind
                queue.append((after, total))
    return RoomLeft(found, refused, beside)


def count_alone(room: DevicePlaces, start: int, kind: int, most: int) -> int:
    """Return how many claims of one kind fit, at most `most`."""
    for count in range(most):
        start = room.place(start, kind)
        if start < 0:
            return count
    return most


class Shares(NamedTuple):
    """of : the share of a room that each kind takes, 0 = none fits there; whole : the room."""

    of: tuple[int, ...]
    whole: int


def _shares(parts: Sequence[int]) -> Shares:
    """Return shares of one part of so many each."""
    whole = lcm(*(one for one in parts if one))
    return Shares(tuple([whole // one if one else 0 for one in parts]), whole)


def shares_of_equal_rooms(rooms: Sequence[tuple[DevicePlaces, int]], kinds: int, count: int) -> Shares:
    """Return shares of one of several rooms, for `count` kinds: each share divides all larger ones, so that
    rooms filled one after the other leave no gaps that add up. rooms : of each kind of room one, with its state while
    nothing is in use; kinds : those that fit in all of them, as bits."""
    alone = [
        min(count_alone(room, start, kind, MOST_ALONE) for room, start in rooms) if kinds >> kind & 1 else 0
        for kind in range(count)
    ]
    choices = [parts for parts in _combinations(alone) if _is_chain(parts)]
    choices.sort(key=lambda parts: -sum(part / most for part, most in zip(parts, alone, strict=True) if most))
    for parts in choices[:CHOICES]:
        shares = _shares(parts)
        if all(room_left(room, start, shares.of, kinds, shares.whole).sum == shares.whole for room, start in rooms):
            return shares
    return Shares(tuple([min(one, 1) for one in alone]), 1)


def _combinations(alone: Sequence[int]) -> Iterable[list[int]]:
    found: list[list[int]] = [[]]
    for most in alone:
        options = sorted({max(most // by, 1) for by in (1, 2, 3, 4)} | {max(most - 1, 1), 1}) if most else [0]
        found = [[*parts, option] for parts in found for option in options]
        if len(found) > MOST_STATES:
            return [[min(one, 1) for one in alone]]
    return found


def _is_chain(parts: Iterable[int]) -> bool:
    """Return whether each divides all larger ones."""
    ordered = sorted({one for one in parts if one})
    return all(larger % smaller == 0 for smaller, larger in pairwise(ordered))


def shares_of_one_room(
    room: DevicePlaces, start: int, kinds: int, count: int, first: int, states: int = MOST_STATES
) -> Shares:
    """Return shares of a room by itself, for `count` kinds. kinds : those that fit, as bits; first : kinds whose
    shares stay as small as they are alone if others can be larger instead, as bits."""
    parts = [count_alone(room, start, kind, MOST_ALONE) if kinds >> kind & 1 else 0 for kind in range(count)]
    while any(one > 1 for one in parts):
        shares = _shares(parts)
        left = room_left(room, start, shares.of, kinds, shares.whole, states)
        if left.sum == shares.whole:
            return shares
        if left.refused < 0:
            break
        involved = [left.refused, *(kind for kind in range(count) if left.beside >> kind & 1)]
        larger = [kind for kind in involved if parts[kind] > 1 and not first >> kind & 1]
        larger = larger or [kind for kind in involved if parts[kind] > 1]
        if not larger:
            break
        parts[larger[0]] = min(parts[larger[0]] - 1, max(parts[larger[0]] * 3 // 4, 1))
    return Shares(tuple([min(one, 1) for one in parts]), 1)
