"""Kinds of claims that compete for devices without being alike: the share of a node that each takes, and what is left.

Shares and what is left are chosen so that claims whose shares fit are never refused, in whatever order they come
(`trimtab.planner.device_amounts.rooms`). So less may be planned than the devices could give, and nothing
that they cannot. Where claims of one kind would spoil much for others on a node, it is closed to that kind. A new node
is closed to none.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from trimtab.planner.device_amounts.asks import Ask
from trimtab.planner.device_amounts.bundles import Bundle, NodeOfKind, relative_use
from trimtab.planner.device_amounts.device_room import (
    DeviceRoom,
    NodeRoom,
    RoomContent,
    devices_of,
    is_ordered,
    room_of,
    rooms_of,
)
from trimtab.planner.device_amounts.groups import EligibleByAsk
from trimtab.planner.device_amounts.node_pools import NodePools, Profile
from trimtab.planner.device_amounts.rooms import (
    RoomLeft,
    Shares,
    room_left,
    shares_of_equal_rooms,
    shares_of_one_room,
)
from trimtab.planner.devices.counters import SEPARATE_POOLS_VERSION
from trimtab.planner.devices.model import AllocatedDevice, AllocatedState, DevicesAllocated, PoolId

MOST_KINDS: Final = 6
"""More kinds that compete for the same devices are not planned with."""
SEARCHED_STATES: Final = 250
"""As `rooms.MOST_STATES`, where a placement is a search of the allocator."""


class Kind(NamedTuple):
    """Claims of one kind: single devices of an ask, or all claims of a pod as one (`ask` is None)."""

    ask: Ask | None
    bundle: Bundle


class Competition(NamedTuple):
    """Kinds that compete. counted : those that are counted exactly where no others are, as bits; others must not make
    it worse for them."""

    kinds: tuple[Kind, ...]
    counted: int

    @property
    def is_of_asks(self) -> bool:
        """Whether all of them are single devices."""
        return all(kind.ask is not None for kind in self.kinds)


class SharesLeft(NamedTuple):
    """What surely fits on a node: the sum of shares, and the kinds to which it is open, as bits."""

    sum: int
    open: int


PLENTY: Final = 1 << 40
"""As good as no bound."""
NOTHING_LEFT: Final = SharesLeft(0, 0)


class NodeShares:
    """The shares of a competition on nodes of one profile. shares : by kind, 0 = no node of the profile has devices
    for it; full : what is left while nothing is in use."""

    shares: tuple[int, ...] = ()
    full: SharesLeft = NOTHING_LEFT

    def left(self, node: NodeOfKind, used: Sequence[AllocatedDevice]) -> SharesLeft:
        """Return what is left on a node. used : of its own pools."""
        raise NotImplementedError


class SharesOfDevices(NodeShares):
    """Where all kinds are single devices that are given away whole."""

    def __init__(self, competition: Competition, profile: Profile, eligible: EligibleByAsk, pools: NodePools) -> None:
        asks = [kind.ask for kind in competition.kinds if kind.ask is not None]
        bits = [{kind: eligible.of(ask, pool).bits for kind, ask in enumerate(asks)} for pool in profile]
        devices = [one for at, pool in enumerate(profile) for one in devices_of(at, pools.tables[pool.table], bits[at])]
        sets = {at: pools.counter_sets[pool.table] for at, pool in enumerate(profile)}
        rooms = rooms_of(devices, sets)
        self._tables = [pools.tables[pool.table] for pool in profile]
        self._machines: dict[RoomContent, DeviceRoom] = {}
        self._gaps: dict[tuple[RoomContent, int], int] = {}
        wanted = [room for room in rooms if room.kinds]
        kinds = 0
        for room in wanted:
            kinds |= room.kinds
        is_uniform = all(self._fits(room) == kinds for room in wanted)
        # The devices of one room, if rooms differ: what is in one may matter in all.
        self._rooms = rooms if is_uniform else [room_of(devices, sets)]
        self._shares = self._shares_of([room for room in self._rooms if room.kinds], kinds, len(asks))
        self._is_ordered = is_ordered(self._rooms, kinds)
        self.shares = self._shares.of
        self.full = SharesLeft(self._sum([0] * len(self._rooms), kinds), kinds)

    def _machine(self, room: NodeRoom) -> DeviceRoom:
        if room.content not in self._machines:
            self._machines[room.content] = DeviceRoom(room.content)
        return self._machines[room.content]

    def _fits(self, room: NodeRoom) -> int:
        machine = self._machine(room)
        return sum(1 << kind for kind in range(room.kinds.bit_length()) if machine.place(0, kind) >= 0)

    def _shares_of(self, rooms: Sequence[NodeRoom], kinds: int, count: int) -> Shares:
        fitting = kinds
        for room in rooms:
            fitting &= self._fits(room)
        machines = [(machine, 0) for machine in dict.fromkeys(map(self._machine, rooms))]
        if len(rooms) == 1:
            return shares_of_one_room(*machines[0], fitting, count, 0)
        return shares_of_equal_rooms(machines, fitting, count)

    def _gap(self, room: NodeRoom, state: int, kinds: int) -> int:
        """Return the sum of shares that surely fits into one room. kinds : that may come."""
        key = room.content, state << len(self.shares) | kinds
        if key not in self._gaps:
            machine = self._machine(room)
            able = sum(
                1 << kind for kind in range(len(self.shares)) if kinds >> kind & 1 and machine.place(state, kind) >= 0
            )
            if able == kinds:
                self._gaps[key] = room_left(machine, state, self.shares, kinds, self._shares.whole).sum
            else:
                # Shares too large for what is left here are no part of it: each larger share is a multiple.
                found = room_left(machine, state, self.shares, able, self._shares.whole).sum if able else 0
                missing = [self.shares[kind] for kind in range(len(self.shares)) if (kinds & ~able) >> kind & 1]
                self._gaps[key] = min(found, min(missing) - 1)
        return self._gaps[key]

    def _sum(self, states: Sequence[int], kinds: int) -> int:
        """Return the sum of shares that surely fits into all rooms."""
        open_shares = [share for kind, share in enumerate(self.shares) if kinds >> kind & 1 and share]
        if not open_shares:
            return 0
        wanted = [(room, state) for room, state in zip(self._rooms, states, strict=True) if room.kinds]
        gaps = [self._gap(room, state, kinds) for room, state in wanted]
        if len(self._rooms) == 1 or len(gaps) == 1:
            return gaps[0]
        largest, smallest = max(open_shares), min(open_shares)
        if self._is_ordered:
            return sum(gap // largest * largest for gap in gaps)
        gaps = [gap // smallest * smallest for gap in gaps]
        lost = [sum(min(gap, share - smallest) for gap in gaps) - share for share in open_shares]
        return max(sum(gaps) - smallest - max(lost), 0)

    def left(self, node: NodeOfKind, used: Sequence[AllocatedDevice]) -> SharesLeft:
        """Return what is left on a node. used : of its own pools."""
        states = self._states(node, used)
        if any(self._machine(room).is_exceeded(state) for room, state in zip(self._rooms, states, strict=True)):
            return NOTHING_LEFT
        kinds = 0
        for room, state in zip(self._rooms, states, strict=True):
            kinds |= sum(
                1 << kind for kind in range(room.kinds.bit_length()) if self._machine(room).place(state, kind) >= 0
            )
        kinds &= sum(1 << kind for kind, share in enumerate(self.shares) if share)
        found = SharesLeft(self._sum(states, kinds), kinds)
        while kinds:
            kinds &= ~(1 << max((share, kind) for kind, share in enumerate(self.shares) if kinds >> kind & 1)[1])
            other = SharesLeft(self._sum(states, kinds), kinds)
            if kinds and other.sum > 2 * found.sum:
                found = other
        return found

    def _states(self, node: NodeOfKind, used: Sequence[AllocatedDevice]) -> list[int]:
        taken = set()
        for one in used:
            pool = node.pools.get(PoolId(one.device.driver, one.device.pool))
            if pool is not None and not one.admin_access:
                taken.add((pool, self._tables[pool].position_of.get(one.device.device, -1)))
        return [sum(1 << at for at, place in enumerate(room.places) if place in taken) for room in self._rooms]


class AllocatorRoom:
    """All devices of nodes of one profile; placements are searches of the allocator. A state is what is in use."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._kinds = kinds
        self._number: dict[frozenset[object], int] = {}
        self._states: list[tuple[NodeOfKind, tuple[AllocatedDevice, ...]]] = []
        self._after: dict[tuple[int, int], int] = {}

    def state(self, at: NodeOfKind, used: Iterable[AllocatedDevice]) -> int:
        """Return the number of a state, on any node of the profile."""
        devices = tuple(used)
        key = relative_use(devices, at.pools)
        if key not in self._number:
            self._number[key] = len(self._states)
            self._states.append((at, devices))
        return self._number[key]

    def place(self, state: int, kind: int) -> int:
        """Return the state after one more claim, -1 = it is refused."""
        if (state, kind) not in self._after:
            at, used = self._states[state]
            in_use = AllocatedState()
            in_use.add(used)
            outcome = at.allocator.allocate(at.node, at.allocator.prepare(self._kinds[kind].bundle), in_use)
            found = -1
            if isinstance(outcome, DevicesAllocated):
                found = self.state(at, [*used, *(one for claim in outcome.claims for one in claim.devices)])
            self._after[state, kind] = found
        return self._after[state, kind]


class SharesBySearch(NodeShares):
    """Where the allocator decides."""

    def __init__(self, competition: Competition, new: NodeOfKind) -> None:
        count, self._counted = len(competition.kinds), competition.counted
        self._room = AllocatorRoom(competition.kinds)
        start = self._room.state(new, ())
        kinds = self._able(start, count)
        found = shares_of_one_room(self._room, start, kinds, count, self._counted, SEARCHED_STATES)
        self._whole, self.shares = found.whole, found.of
        self._spoiled = any(
            kinds & self._counted & 1 << kind and not self._is_as_alone(start, kind) for kind in range(count)
        )
        # Kinds that are counted exactly would be worse off beside others, which so have no place here.
        self.full = SharesLeft(PLENTY, kinds & self._counted) if self._spoiled else SharesLeft(self._whole, kinds)

    def _able(self, state: int, count: int) -> int:
        return sum(1 << kind for kind in range(count) if self._room.place(state, kind) >= 0)

    def _is_as_alone(self, start: int, kind: int) -> bool:
        fitting = self._whole // self.shares[kind]
        state = start
        for _ in range(fitting):
            state = self._room.place(state, kind)
        return self._room.place(state, kind) < 0

    def left(self, node: NodeOfKind, used: Sequence[AllocatedDevice]) -> SharesLeft:
        """Return what is left on a node. used : of its own pools."""
        state = self._room.state(node, [one for one in used if not one.admin_access])
        kinds = self._able(state, len(self.shares))
        counted = kinds & self._counted
        if self._spoiled:
            return SharesLeft(PLENTY, counted)
        found = self._left(state, kinds)
        if not counted:
            return _opened(lambda some: self._left(state, some), kinds, found)
        least = self._left(state, counted).sum
        while kinds != counted and found.sum < least:
            spoiling = (1 << found.refused | found.beside) & kinds & ~counted or kinds & ~counted
            kinds &= ~(spoiling & -spoiling)
            found = self._left(state, kinds)
        return SharesLeft(PLENTY if kinds == counted else found.sum, kinds)

    def _left(self, state: int, kinds: int) -> RoomLeft:
        return room_left(self._room, state, self.shares, kinds, self._whole, SEARCHED_STATES)


def _opened(left: Callable[[int], RoomLeft], kinds: int, found: RoomLeft) -> SharesLeft:
    """Return what is left once kinds are closed that keep more than half of it from others."""
    best = SharesLeft(found.sum, kinds)
    while kinds and found.refused >= 0:
        kinds &= ~(1 << found.refused)
        found = left(kinds)
        if kinds and found.sum > 2 * best.sum:
            best = SharesLeft(found.sum, kinds)
    return best


class KnownShares:
    """The shares of a competition, by profile; each is found once."""

    def __init__(self, competition: Competition, eligible: EligibleByAsk, pools: NodePools, version: int) -> None:
        self.competition = competition
        self._eligible, self._pools, self._version = eligible, pools, version
        self._known: dict[int, NodeShares | None] = {}
        self._left: dict[tuple[int, frozenset[object]], SharesLeft] = {}

    def of(self, profile: int, new: Callable[[], NodeOfKind]) -> NodeShares | None:
        """Return the shares of a profile, None = none of its devices is competed for. new : such a node."""
        if profile not in self._known:
            self._known[profile] = self._found(profile, new)
        return self._known[profile]

    def _found(self, profile: int, new: Callable[[], NodeOfKind]) -> NodeShares | None:
        pools = self._pools.profiles[profile]
        if self.competition.is_of_asks:
            asks = [kind.ask for kind in self.competition.kinds if kind.ask is not None]
            if not any(self._eligible.of(ask, pool).bits for ask in asks for pool in pools):
                return None
            consuming = [pool for pool in pools if self._pools.tables[pool.table].consumes_counters]
            # Up to 1.36, counters of pools with one name are mixed up.
            if len({pool.driver for pool in consuming}) > 1 and self._version < SEPARATE_POOLS_VERSION:
                return None
            return SharesOfDevices(self.competition, pools, self._eligible, self._pools)
        found = SharesBySearch(self.competition, new()) if pools else None
        return found if found is not None and any(found.shares) else None

    def left(self, profile: int, node: NodeOfKind, used: Sequence[AllocatedDevice]) -> SharesLeft:
        """Return what is left on a node of a profile that has shares. used : of its own pools."""
        key = self.key(profile, node, used)
        if key not in self._left:
            shares = self._known[profile]
            self._left[key] = NOTHING_LEFT if shares is None else shares.left(node, used)
        return self._left[key]

    def key(self, profile: int, node: NodeOfKind, used: Sequence[AllocatedDevice]) -> tuple[int, frozenset[object]]:
        """Return what the answer for a node depends on."""
        return profile, relative_use(used, node.pools)
