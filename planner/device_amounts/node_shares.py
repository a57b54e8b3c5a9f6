"""Shares of nodes: what claims that compete for devices without being alike may take of a node, in shares of it.

Devices that share counters, directly or through others, are one part of a node: a GPU with its partitions. Each kind of
claims takes a share of a part. Shares, and the sum of shares that is left, are such that claims which fit are never
refused, whatever the order in which they come: each state that some order leads to is tried as the scheduler's
search would place the claims, by the allocator itself where claims are more than single devices. So less may be planned
than the devices could give, and nothing that they cannot. A kind that would keep much from others is not planned on a
node.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from itertools import pairwise, product
from math import lcm, prod
from operator import and_, or_
from typing import Final, NamedTuple, Protocol

from trimtab.planner.device_amounts.groups import EligibleByFilter, parts_of
from trimtab.planner.device_amounts.node_pools import NodeDeviceLayout, NodePools
from trimtab.planner.device_amounts.pod_claims import DeviceFilter, LayoutNode, NodeUse, PodClaims
from trimtab.planner.devices.model import behavior_of

MOST_KINDS: Final = 6
"""More kinds that compete for the same devices are not planned with."""
PLENTY: Final = 1 << 40
"""As good as no bound."""
_MOST_ALONE: Final = 512
"""Claims of one kind that are counted in a part: more than pods fit on any node."""
_CHOICES: Final = 64
"""Combinations of shares that are tried for one kind of part."""
_COMBINATIONS: Final = 3_000
"""With more combinations, the same power of two is tried for all kinds."""


class ClaimKind(NamedTuple):
    """Claims of one kind."""

    device_filter: DeviceFilter | None
    """Of single devices; None = all claims of a pod as one."""
    claims: PodClaims
    is_counted: bool
    """Counted exactly where no others are; their shares are chosen first."""


Competition = tuple[ClaimKind, ...]
"""Kinds that compete."""


class SharesLeft(NamedTuple):
    """What surely fits on a node: the sum of shares, and the kinds that may come, as bits."""

    sum: int
    open: int


NOTHING_LEFT: Final = SharesLeft(0, 0)


class DevicePlaces(Protocol):
    """Devices, in states that are numbers."""

    most_states: int
    """States that one question may look at; with more, nothing fits beside others."""

    def place(self, state: int, kind: int) -> int:
        """Return the state after one more claim of a kind, -1 = it is refused."""


class _Device(NamedTuple):
    pool: int
    position: int
    kinds: int
    consumes: tuple[tuple[str, str, int], ...]


class DevicesOfPart:
    """Devices that are given away whole, each to a claim for one; a state is the devices in use, as bits by index. A
    claim gets the first device, in the order of the search, that is eligible, free, and fits into its counters."""

    most_states = 3_000

    def __init__(self, content: tuple[tuple[tuple[int, tuple[tuple[int, int], ...]], ...], tuple[int, ...]]) -> None:
        self._devices, self._counters = content
        self._after: dict[tuple[int, int], int] = {}

    def place(self, state: int, kind: int) -> int:
        """Return the devices in use with one more claim, -1 = it is refused."""
        if (state, kind) not in self._after:
            self._after[state, kind] = self._placed(state, kind)
        return self._after[state, kind]

    def is_exceeded(self, state: int) -> bool:
        """Return whether more than all of a counter is in use; nothing fits beside such."""
        return min(self._left(state), default=0) < 0

    def _placed(self, state: int, kind: int) -> int:
        left = self._left(state)
        if min(left, default=0) < 0:
            return -1
        for at, (kinds, consumes) in enumerate(self._devices):
            if kinds >> kind & 1 and not state >> at & 1 and all(left[one] >= amount for one, amount in consumes):
                return state | 1 << at
        return -1

    def _left(self, state: int) -> list[int]:
        left = list(self._counters)
        for at, (_, consumes) in enumerate(self._devices):
            for counter, amount in consumes if state >> at & 1 else ():
                left[counter] -= amount
        return left


class DevicesOfNode:
    """All devices of nodes of one layout; a state is what is in use, and the allocator searches."""

    most_states = 250

    def __init__(self, kinds: Sequence[ClaimKind], at: LayoutNode) -> None:
        """at : any node of the layout."""
        self._kinds, self._at = kinds, at
        self._number: dict[NodeUse, int] = {(): 0}
        self._states: list[NodeUse] = [()]
        self._after: dict[tuple[int, int], int] = {}

    def state(self, use: NodeUse) -> int:
        """Return the number of a state; 0 is that in which nothing is in use."""
        number = self._number.setdefault(use, len(self._states))
        if number == len(self._states):
            self._states.append(use)
        return number

    def place(self, state: int, kind: int) -> int:
        """Return the state after one more claim, -1 = it is refused."""
        if (state, kind) not in self._after:
            use = self._states[state]
            taken = self._at.allocated(self._kinds[kind].claims, use)
            self._after[state, kind] = -1 if taken is None else self.state(tuple(sorted((*use, *taken))))
        return self._after[state, kind]


class NodePart(NamedTuple):
    """A part of a node. places : pool and position of each device, and the kinds that may get it."""

    devices: DevicePlaces
    kinds: int
    """Those of which some device may be, as bits."""
    places: tuple[tuple[tuple[int, int], int], ...] = ()


class CountedDevices:
    """The devices of nodes of one layout of which any is as good as another, for kinds that are all counted: the share
    of each is a device. bits : by kind, of those eligible in each pool."""

    def __init__(self, bits: Sequence[Sequence[int]]) -> None:
        self._every = [reduce(or_, of_pool) for of_pool in zip(*bits, strict=True)]
        self._kinds = (1 << len(bits)) - 1
        self.shares = (1,) * len(bits)

    def left(self, states: Sequence[int]) -> SharesLeft:
        """Return what is left on a node. states : the devices in use of each pool, as bits by position."""
        return SharesLeft(_free(self._every, states), self._kinds)


def _free(bits: Sequence[int], used: Sequence[int]) -> int:
    return sum((one & ~taken).bit_count() for one, taken in zip(bits, used, strict=True))


def safe_sum(devices: DevicePlaces, start: int, shares: Sequence[int], kinds: int, most: int) -> int:
    """Return the largest sum of shares up to which no claim is refused beside what is in use, whatever the order of the
    claims. kinds : that may come, as bits; most : the sum is not looked at beyond. O(states) placements; 0 with more of
    them than may be looked at."""
    coming = [kind for kind in range(len(shares)) if kinds >> kind & 1]
    if len(coming) == 1:
        return min(_count_alone(devices, start, coming[0]) * shares[coming[0]], most)
    found, seen, queue = most, {(start, 0)}, [(start, 0)]
    for state, used in queue:
        if len(queue) > devices.most_states:
            return 0
        for kind in coming:
            total = used + shares[kind]
            if total > found:
                continue
            after = devices.place(state, kind)
            if after < 0:
                found = total - 1
            elif (after, total) not in seen:
                seen.add((after, total))
                queue.append((after, total))
    return found


class NodeShares:
    """The shares of nodes of one layout. shares : by kind, 0 = no such node has devices for it."""

    def __init__(self, competition: Competition, parts: Sequence[NodePart]) -> None:
        self._competition, self._parts = competition, parts
        self._gaps: dict[tuple[int, int, int], int] = {}
        self.shares, self._whole = self._chosen()

    def _able(self, devices: DevicePlaces, state: int) -> int:
        return sum(1 << kind for kind in range(len(self._competition)) if devices.place(state, kind) >= 0)

    def _chosen(self) -> tuple[tuple[int, ...], int]:
        """Return the share of each kind and the whole of a part. Each share divides all larger ones, so that parts
        filled one after the other leave no gaps that add up."""
        distinct = list({id(part.devices): part.devices for part in self._parts if part.kinds}.values())
        kinds = reduce(and_, [self._able(devices, 0) for devices in distinct])
        alone = [
            min([_count_alone(devices, 0, kind) for devices in distinct]) if kinds >> kind & 1 else 0
            for kind in range(len(self._competition))
        ]
        for most in _choices(alone, [kind.is_counted for kind in self._competition]):
            whole = lcm(*(one for one in most if one))
            shares = tuple([whole // one if one else 0 for one in most])
            if all(safe_sum(devices, 0, shares, kinds, whole) == whole for devices in distinct):
                return shares, whole
        return tuple([min(one, 1) for one in alone]), 1

    @cached_property
    def _is_ordered(self) -> bool:
        """Whether the search looks at one part after the other, in the same order for each kind."""
        for kind in range(len(self.shares)):
            order = sorted(
                (place, number)
                for number, part in enumerate(self._parts)
                for place, kinds in part.places
                if kinds >> kind & 1
            )
            if any(one[1] > other[1] for one, other in pairwise(order)):
                return False
        return True

    def _gap(self, number: int, state: int, kinds: int) -> int:
        """Return the sum of shares that surely fits into one part. kinds : that may come."""
        part = self._parts[number]
        key = id(part.devices), state, kinds
        if key not in self._gaps:
            able = self._able(part.devices, state) & kinds
            found = safe_sum(part.devices, state, self.shares, able, self._whole) if able else 0
            # Shares too large for what is left here are no part of it: each larger share is a multiple.
            missing = [self.shares[kind] - 1 for kind in range(len(self.shares)) if (kinds & ~able) >> kind & 1]
            self._gaps[key] = min(found, *missing) if missing else found
        return self._gaps[key]

    def _sum(self, states: Sequence[int], kinds: int) -> int:
        """Return the sum of shares that surely fits into all parts."""
        shares = [share for kind, share in enumerate(self.shares) if kinds >> kind & 1 and share]
        if not shares:
            return 0
        gaps = [self._gap(at, state, kinds) for at, state in enumerate(states) if self._parts[at].kinds]
        if len(gaps) == 1:
            return gaps[0]
        largest, smallest = max(shares), min(shares)
        if self._is_ordered:
            return sum(gap // largest * largest for gap in gaps)
        gaps = [gap // smallest * smallest for gap in gaps]
        lost = [sum(min(gap, share - smallest) for gap in gaps) - share for share in shares]
        return max(sum(gaps) - smallest - max(lost), 0)

    def left(self, states: Sequence[int]) -> SharesLeft:
        """Return what is left on a node. states : of its parts."""
        kinds = 0
        for part, state in zip(self._parts, states, strict=True):
            if isinstance(part.devices, DevicesOfPart) and part.devices.is_exceeded(state):
                return NOTHING_LEFT
            kinds |= self._able(part.devices, state)
        kinds &= sum(1 << kind for kind, share in enumerate(self.shares) if share)
        found = SharesLeft(self._sum(states, kinds), kinds)
        while kinds:
            kinds &= ~(1 << max((share, kind) for kind, share in enumerate(self.shares) if kinds >> kind & 1)[1])
            total = self._sum(states, kinds)
            if kinds and total > 2 * found.sum:
                found = SharesLeft(total, kinds)
        return found


def _count_alone(devices: DevicePlaces, start: int, kind: int) -> int:
    """Return how many claims of one kind fit."""
    for count in range(_MOST_ALONE):
        start = devices.place(start, kind)
        if start < 0:
            return count
    return _MOST_ALONE


def _choices(alone: Sequence[int], are_counted: Sequence[bool]) -> Iterator[Sequence[int]]:
    """Yield how many claims of each kind a part may be for, the best first: each divides all larger ones. alone : how
    many fit without others."""
    options = [{most // by or 1 for by in (1, 2, 3, 4)} | {max(most - 1, 1), 1} if most else {0} for most in alone]

    def loss(parts: Sequence[int]) -> tuple[float, float]:
        kept = [part / most if most else 0.0 for part, most in zip(parts, alone, strict=True)]
        return -sum(share for share, counts in zip(kept, are_counted, strict=True) if counts), -sum(kept)

    if prod(map(len, options)) <= _COMBINATIONS:
        yield from sorted(filter(_is_chain, product(*map(sorted, options))), key=loss)[:_CHOICES]
    powers = [1 << most.bit_length() - 1 if most else 0 for most in alone]
    bound = max(powers, default=0)
    while bound > 1:
        yield [min(bound, one) for one in powers]
        bound //= 2


def _is_chain(parts: Sequence[int]) -> bool:
    """Return whether each divides all larger ones."""
    return all(larger % smaller == 0 for smaller, larger in pairwise(sorted({one for one in parts if one})))


class KnownShares:
    """The shares of a competition, by layout; each is found once."""

    def __init__(self, competition: Competition, eligible: EligibleByFilter, pools: NodePools, version: int) -> None:
        self.competition = competition
        self._filters = [kind.device_filter for kind in competition if kind.device_filter is not None]
        self.is_searched = len(self._filters) < len(competition)
        """Whether the allocator is asked: not all kinds are single devices."""
        self._eligible, self._pools, self._version = eligible, pools, version
        self._parts: dict[int, list[NodePart]] = {}
        self._known: dict[int, NodeShares | CountedDevices | None] = {}
        self._left: dict[tuple[int, NodeUse], SharesLeft] = {}

    def of(self, layout: int, new: Callable[[], LayoutNode]) -> NodeShares | CountedDevices | None:
        """Return the shares of a layout, None = none of its devices is competed for. new : such a node."""
        if layout not in self._known:
            self._known[layout] = self._found(layout, new)
        return self._known[layout]

    def _found(self, layout: int, new: Callable[[], LayoutNode]) -> NodeShares | CountedDevices | None:
        pools, count = self._pools.layouts[layout], len(self.competition)
        if all(kind.is_counted for kind in self.competition):
            return CountedDevices([[self._eligible.of(one, pool).bits for pool in pools] for one in self._filters])
        if self.is_searched:
            parts = [NodePart(DevicesOfNode(self.competition, new()), (1 << count) - 1)] if pools else []
        else:
            consuming = {pool.driver for pool in pools if self._pools.tables[pool.table].consumes_counters}
            # Up to 1.36, counters of pools with one name are mixed up.
            is_mixed_up = len(consuming) > 1 and not behavior_of(self._version).separates_pools
            parts = [] if is_mixed_up else self._parts_of(pools)
        if not any(part.kinds for part in parts):
            return None
        self._parts[layout] = parts
        node_shares = NodeShares(self.competition, parts)
        return node_shares if any(node_shares.shares) or not self.is_searched else None

    def _parts_of(self, layout: NodeDeviceLayout) -> list[NodePart]:
        parts: list[list[_Device]] = []
        totals = dict[tuple[int, str, str], int]()
        for at, pool in enumerate(layout):
            table, bits = self._pools.tables[pool.table], [self._eligible.of(one, pool).bits for one in self._filters]
            for one in self._pools.counter_sets[pool.table]:
                totals |= {(at, one.name, counter): amount for counter, amount in one.counters}
            for positions in parts_of(table):
                parts.append([])
                for position in positions:
                    kinds = sum(1 << kind for kind, of in enumerate(bits) if of >> position & 1)
                    consumes = tuple(
                        [(name, *one) for name, of in table.contents[position].consumes_counters for one in of]
                    )
                    parts[-1].append(_Device(at, position, kinds, consumes))
        made = self._made(parts, totals)
        wanted = [part for part in made if part.kinds]
        able = [
            sum(1 << kind for kind in range(len(self.competition)) if part.devices.place(0, kind) >= 0)
            for part in wanted
        ]
        # If parts differ, they are one: what is in one may matter in all.
        is_uniform = set(able) <= {reduce(or_, [part.kinds for part in wanted], 0)}
        return made if is_uniform else self._made([[one for part in parts for one in part]], totals)

    @staticmethod
    def _made(parts: Sequence[Sequence[_Device]], totals: Mapping[tuple[int, str, str], int]) -> list[NodePart]:
        """Return parts; devices that no kind may get and that consume nothing are left out."""
        known: dict[object, DevicesOfPart] = {}
        found = []
        for devices in parts:
            number: dict[tuple[int, str, str], int] = {}
            kept = [one for one in devices if one.kinds or one.consumes]
            rows = []
            for one in kept:
                amounts: Counter[int] = Counter()
                for name, counter, amount in one.consumes:
                    amounts[number.setdefault((one.pool, name, counter), len(number))] += amount
                rows.append((one.kinds, tuple(amounts.items())))
            content = tuple(rows), tuple([totals[key] for key in number])
            made = known.setdefault(content, DevicesOfPart(content))
            places = tuple([((one.pool, one.position), one.kinds) for one in kept])
            found.append(NodePart(made, reduce(or_, [one.kinds for one in kept], 0), places))
        return found

    def left(self, layout: int, use: NodeUse) -> SharesLeft:
        """Return what is left on a node of a layout that has shares."""
        key, node_shares = (layout, use), self._known[layout]
        if key not in self._left and node_shares is not None:
            self._left[key] = node_shares.left(self._states(layout, use))
        return self._left[key]

    def free(self, layout: int, use: NodeUse, device_filter: DeviceFilter) -> int:
        """Return how many devices of a filter are not in use on a node."""
        bits = [self._eligible.of(device_filter, pool).bits for pool in self._pools.layouts[layout]]
        return _free(bits, self._used(layout, use))

    def _used(self, layout: int, use: NodeUse) -> list[int]:
        """Return the devices in use of each pool, as bits by position."""
        pools = self._pools.layouts[layout]
        found = [0] * len(pools)
        for one in use:
            at = self._pools.tables[pools[one.pool].table].position_of.get(one.device, -1)
            found[one.pool] |= 1 << at if at >= 0 else 0
        return found

    def _states(self, layout: int, use: NodeUse) -> list[int]:
        used, parts = self._used(layout, use), self._parts.get(layout)
        if parts is None:
            return used
        if isinstance(parts[0].devices, DevicesOfNode):
            return [parts[0].devices.state(use)]
        return [
            sum(1 << at for at, ((pool, position), _) in enumerate(part.places) if used[pool] >> position & 1)
            for part in parts
        ]
