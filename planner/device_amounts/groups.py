"""Groups of asks that compete for the same devices, and whether counting them is exact.

Asks that share a device somewhere, or counters of devices, are of one group. Counting is exact for a group if on each
node the eligible devices of any two of its asks are the same or one has none, all of them belong to that node alone,
and none of them can be shared or consumes counters: then any free device is as good as another, and only their number
matters.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trimtab.planner.device_amounts.asks import Ask
from trimtab.planner.device_amounts.node_pools import DriverTable, NodePools
from trimtab.planner.devices.eligibility import Eligibility, input_error
from trimtab.planner.devices.model import DeviceClass, DeviceFeatures
from trimtab.planner.devices.pools import DeviceTable
from trimtab.planner.model.execution import asking


class Eligible(NamedTuple):
    """Devices of a pool that an ask may get, as bits by position; is_plain : they can be counted; is_exclusive : each
    is given away whole, to any node that reaches the pool; problem : an error that some device causes, "" = none."""

    bits: int
    is_plain: bool
    is_exclusive: bool
    problem: str


_NOTHING = Eligible(0, True, True, "")


@dataclass(frozen=True)
class AskGroup:
    """Asks that compete. asks : in order; is_exact : whether counting decides; problems : by ask, errors that some
    device causes."""

    asks: tuple[Ask, ...]
    is_exact: bool
    problems: tuple[tuple[Ask, str], ...]


class EligibleByAsk:
    """Which devices asks may get, by driver and table."""

    def __init__(
        self, classes: dict[str, DeviceClass], features: DeviceFeatures, tables: Sequence[DeviceTable]
    ) -> None:
        self._classes, self._tables = classes, tables
        self._eligibility = Eligibility(features)
        self._known: dict[tuple[Ask, DriverTable], Eligible] = {}
        self._linked: dict[int, list[int]] = {}

    def of(self, ask: Ask, pool: DriverTable) -> Eligible:
        """Return the devices of a pool for an ask."""
        key = ask, pool
        if key not in self._known:
            self._known[key] = self._evaluated(ask, pool)
        return self._known[key]

    def touched(self, ask: Ask, pool: DriverTable) -> int:
        """Return the devices for an ask, and those that share counters with them, as bits by position."""
        bits = self.of(ask, pool).bits
        if not bits or not self._tables[pool.table].consumes_counters:
            return bits
        if pool.table not in self._linked:
            self._linked[pool.table] = _linked(self._tables[pool.table])
        for linked in self._linked[pool.table]:
            if linked & bits:
                bits |= linked
        return bits

    def _evaluated(self, ask: Ask, pool: DriverTable) -> Eligible:
        device_class = self._classes.get(ask.device_class)
        if device_class is None:
            return _NOTHING
        table = self._tables[pool.table]
        found = self._eligibility.of(table, pool.driver, device_class, ask.request)
        contents = [content for content, bits in table.groups if bits & found.usable]
        exclusive = not any(one.allow_multiple_allocations or one.nodes is not None for one in contents)
        plain = exclusive and not any(one.consumes_counters for one in contents)
        problem = ""
        if found.problems:
            problem = input_error(found.problems[0][1], "", "", ask.device_class).error.in_words
        return Eligible(found.usable, plain, exclusive, problem)


def _linked(table: DeviceTable) -> list[int]:
    """Return the devices that share counters with each other, directly or through others, as bits by position."""
    found: list[int] = []
    by_counter: dict[tuple[str, str], int] = {}
    for position, content in enumerate(table.contents):
        for name, amounts in content.consumes_counters:
            for counter, _ in amounts:
                by_counter[name, counter] = by_counter.get((name, counter), 0) | 1 << position
    for bits in by_counter.values():
        linked, apart = bits, [one for one in found if not one & bits]
        for one in found:
            linked |= one if one & linked else 0
        found = [*apart, linked]
    return found


def parts_of(table: DeviceTable) -> list[list[int]]:
    """Return the positions of devices by the counters that they share, directly or through others; a device without
    counters is alone. In the order of their first devices."""
    linked = [[at for at in range(len(table.names)) if bits >> at & 1] for bits in _linked(table)]
    known = {at for of in linked for at in of}
    return sorted([*linked, *([at] for at in range(len(table.names)) if at not in known)])


def ask_groups(asks: Iterable[Ask], pools: NodePools, eligible: EligibleByAsk) -> list[AskGroup]:
    """Return the groups, in the order of their first asks."""
    listed = list(dict.fromkeys(asks))
    used = sorted({one for profile in pools.profiles for one in profile} | pools.shared)
    leader = {ask: ask for ask in listed}

    def find(ask: Ask) -> Ask:
        while leader[ask] is not ask:
            ask = leader[ask]
        return ask

    for pool in used:
        having = [ask for ask in asking(listed) if eligible.of(ask, pool).bits]
        for at, ask in enumerate(asking(having, every=1)):
            for other in having[:at]:
                if eligible.touched(ask, pool) & eligible.touched(other, pool):
                    leader[find(ask)] = find(other)
    members: dict[Ask, list[Ask]] = {}
    for ask in listed:
        members.setdefault(find(ask), []).append(ask)
    return [_group(tuple(of), used, pools, eligible) for of in members.values()]


def _group(asks: tuple[Ask, ...], used: list[DriverTable], pools: NodePools, eligible: EligibleByAsk) -> AskGroup:
    problems = []
    for ask in asking(asks):
        found = next((text for pool in used if (text := eligible.of(ask, pool).problem)), "")
        if found:
            problems.append((ask, found))
    plain = all(eligible.of(ask, pool).is_plain for ask in asking(asks) for pool in used)
    plain = plain and not any(eligible.of(ask, pool).bits for ask in asks for pool in pools.shared)
    is_exact = plain and all(_agree(asks, profile, eligible) for profile in pools.profiles)
    return AskGroup(asks, is_exact, tuple(problems))


def _agree(asks: tuple[Ask, ...], profile: tuple[DriverTable, ...], eligible: EligibleByAsk) -> bool:
    """Return whether the asks that have devices on a node all have the same."""
    sets = {tuple([eligible.of(ask, pool).bits for pool in profile]) for ask in asks}
    return len([one for one in sets if any(one)]) <= 1
