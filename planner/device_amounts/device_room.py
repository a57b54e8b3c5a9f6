"""Rooms of devices that are given away whole: with the counters that they share, and nothing else.

A claim of some kind gets the first device, in the order of the scheduler's search, that is eligible, not in use, and
fits into what is left of its counters. Devices that share counters, directly or through others, make up a room.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trimtab.planner.devices.model import CounterSet
from trimtab.planner.devices.pools import DeviceTable


class RoomDevice(NamedTuple):
    """A device of a room. kinds : of claims that may get it, as bits; consumes : counter and amount."""

    kinds: int
    consumes: tuple[tuple[int, int], ...]


class RoomContent(NamedTuple):
    """A room, apart from names: devices in the order of the search, and the amounts of their counters."""

    devices: tuple[RoomDevice, ...]
    counters: tuple[int, ...]


class DeviceRoom:
    """A state is the devices in use, as bits by index."""

    def __init__(self, content: RoomContent) -> None:
        self._devices, self._counters = content
        self._after: dict[tuple[int, int], int] = {}

    def place(self, state: int, kind: int) -> int:
        """Return the devices in use with one more claim, -1 = it is refused."""
        key = state, kind
        if key not in self._after:
            self._after[key] = self._placed(state, kind)
        return self._after[key]

    def is_exceeded(self, state: int) -> bool:
        """Return whether more than all of a counter is in use."""
        return min(self._left(state), default=0) < 0

    def _placed(self, state: int, kind: int) -> int:
        left = self._left(state)
        # The search compares all counters of a pool, so nothing fits beside one that is exceeded.
        if min(left, default=0) < 0:
            return -1
        for at, (kinds, consumes) in enumerate(self._devices):
            if kinds >> kind & 1 and not state >> at & 1 and all(left[one] >= amount for one, amount in consumes):
                return state | 1 << at
        return -1

    def _left(self, state: int) -> list[int]:
        left = list(self._counters)
        for at, (_, consumes) in enumerate(self._devices):
            if state >> at & 1:
                for counter, amount in consumes:
                    left[counter] -= amount
        return left


class PlacedDevice(NamedTuple):
    """A device of a node, before its room is known. pool : its index on the node; position : there; kinds : of claims
    that may get it, as bits; consumes : counter set, counter and amount."""

    pool: int
    position: int
    kinds: int
    consumes: tuple[tuple[str, str, int], ...]


class NodeRoom(NamedTuple):
    """A room of a node. places : pool and position of each device."""

    content: RoomContent
    places: tuple[tuple[int, int], ...]

    @property
    def kinds(self) -> int:
        """The kinds of claims that may get some device."""
        found = 0
        for one in self.content.devices:
            found |= one.kinds
        return found


def devices_of(at: int, table: DeviceTable, kinds: Mapping[int, int]) -> list[PlacedDevice]:
    """Return the devices of a pool. at : its index on the node; kinds : of each distinct content, by its index, as the
    bits of positions for each kind."""
    found = []
    for position, content in enumerate(table.contents):
        mine = sum(1 << kind for kind, bits in kinds.items() if bits >> position & 1)
        consumes = tuple(
            [(name, counter, amount) for name, amounts in content.consumes_counters for counter, amount in amounts]
        )
        found.append(PlacedDevice(at, position, mine, consumes))
    return found


def rooms_of(devices: Sequence[PlacedDevice], counter_sets: Mapping[int, tuple[CounterSet, ...]]) -> list[NodeRoom]:
    """Return the rooms of a node, in the order of their first devices. counter_sets : by pool."""
    leader = list(range(len(devices)))

    def find(at: int) -> int:
        while leader[at] != at:
            at = leader[at]
        return at

    first: dict[tuple[int, str, str], int] = {}
    for at, one in enumerate(devices):
        for name, counter, _ in one.consumes:
            other = find(first.setdefault((one.pool, name, counter), at))
            mine = find(at)
            leader[max(mine, other)] = min(mine, other)
    members: dict[int, list[PlacedDevice]] = {}
    for at, one in enumerate(devices):
        members.setdefault(find(at), []).append(one)
    return [room_of(of, counter_sets) for of in members.values()]


def room_of(devices: Sequence[PlacedDevice], counter_sets: Mapping[int, tuple[CounterSet, ...]]) -> NodeRoom:
    """Return some devices as one room; those that no kind may get and that consume nothing are left out."""
    totals = {
        (pool, one.name, counter): amount
        for pool, sets in counter_sets.items()
        for one in sets
        for counter, amount in one.counters
    }
    number: dict[tuple[int, str, str], int] = {}
    kept = [one for one in devices if one.kinds or one.consumes]
    rows = []
    for one in kept:
        amounts: dict[int, int] = {}
        for name, counter, amount in one.consumes:
            at = number.setdefault((one.pool, name, counter), len(number))
            amounts[at] = amounts.get(at, 0) + amount
        rows.append(RoomDevice(one.kinds, tuple(amounts.items())))
    content = RoomContent(tuple(rows), tuple([totals[key] for key in number]))
    return NodeRoom(content, tuple([(one.pool, one.position) for one in kept]))


def is_ordered(rooms: Sequence[NodeRoom], kinds: int) -> bool:
    """Return whether the search looks at one room after the other, in the same order for each kind."""
    for kind in range(kinds.bit_length()):
        order = sorted(
            (place, number)
            for number, room in enumerate(rooms)
            for place, device in zip(room.places, room.content.devices, strict=True)
            if device.kinds >> kind & 1
        )
        numbers = [number for _, number in order]
        if numbers != sorted(numbers):
            return False
    return True
