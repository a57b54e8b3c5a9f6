"""Groups of filters that compete for the same devices, and whether counting them is exact.

Filters that share a device somewhere, or counters of devices, are of one group. Counting is exact for a group if on
each node the eligible devices of any two of its filters are the same or one has none, all of them belong to that node
alone, and none of them can be shared or consumes counters: then any free device is as good as another, and only their
number matters.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from trimtab.planner.device_amounts.node_pools import DriverTable, NodePools
from trimtab.planner.device_amounts.pod_claims import DeviceFilter
from trimtab.planner.devices.eligibility import Eligibility, input_error
from trimtab.planner.devices.model import DeviceClass, DeviceFeatures
from trimtab.planner.devices.pools import DeviceTable
from trimtab.planner.model.execution import asking

T = TypeVar("T", bound=Hashable)


class Eligible(NamedTuple):
    """Devices of a pool that a filter may get, as bits by position; is_plain : they can be counted; is_exclusive : each
    is given away whole, to any node that reaches the pool; problem : an error that some device causes, "" = none."""

    bits: int
    is_plain: bool
    is_exclusive: bool
    problem: str


_NOTHING = Eligible(0, True, True, "")


@dataclass(frozen=True)
class FilterGroup:
    """Filters that compete. filters : in order; is_exact : whether counting decides; problems : by filter, errors that
    some device causes."""

    filters: tuple[DeviceFilter, ...]
    is_exact: bool
    problems: tuple[tuple[DeviceFilter, str], ...]


class EligibleByFilter:
    """Which devices are eligible for filters, by driver and table."""

    def __init__(
        self, classes: dict[str, DeviceClass], features: DeviceFeatures, tables: Sequence[DeviceTable]
    ) -> None:
        self._classes, self._tables = classes, tables
        self._eligibility = Eligibility(features)
        self._known: dict[tuple[DeviceFilter, DriverTable], Eligible] = {}
        self._linked: dict[int, list[int]] = {}

    def of(self, device_filter: DeviceFilter, pool: DriverTable) -> Eligible:
        """Return the devices of a pool for a filter."""
        key = device_filter, pool
        if key not in self._known:
            self._known[key] = self._evaluated(device_filter, pool)
        return self._known[key]

    def touched(self, device_filter: DeviceFilter, pool: DriverTable) -> int:
        """Return the devices for a filter, and those that share counters with them, as bits by position."""
        bits = self.of(device_filter, pool).bits
        if not bits or not self._tables[pool.table].consumes_counters:
            return bits
        if pool.table not in self._linked:
            self._linked[pool.table] = _linked(self._tables[pool.table])
        for linked in self._linked[pool.table]:
            if linked & bits:
                bits |= linked
        return bits

    def _evaluated(self, device_filter: DeviceFilter, pool: DriverTable) -> Eligible:
        device_class = self._classes.get(device_filter.device_class)
        if device_class is None:
            return _NOTHING
        table = self._tables[pool.table]
        found = self._eligibility.of(table, pool.driver, device_class, device_filter.request)
        contents = [content for content, bits in table.groups if bits & found.usable]
        exclusive = not any(one.allow_multiple_allocations or one.nodes is not None for one in contents)
        plain = exclusive and not any(one.consumes_counters for one in contents)
        problem = ""
        if found.problems:
            problem = input_error(found.problems[0][1], "", "", device_filter.device_class).error.in_words
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
        linked, others = bits, [one for one in found if not one & bits]
        for one in found:
            linked |= one if one & linked else 0
        found = [*others, linked]
    return found


def parts_of(table: DeviceTable) -> list[list[int]]:
    """Return the positions of devices by the counters that they share, directly or through others; a device without
    counters is alone. In the order of their first devices."""
    linked = [[at for at in range(len(table.names)) if bits >> at & 1] for bits in _linked(table)]
    known = {at for of in linked for at in of}
    return sorted([*linked, *([at] for at in range(len(table.names)) if at not in known)])


def linked_sets(items: Iterable[T], links: Iterable[tuple[T, T]]) -> list[list[T]]:
    """Return the sets of items that links join, directly or through others, items and sets in the order of `items`."""
    leader = {item: item for item in items}

    def find(item: T) -> T:
        while leader[item] != item:
            item = leader[item]
        return item

    for one, other in links:
        leader[find(one)] = find(other)
    sets: dict[T, list[T]] = {}
    for item in leader:
        sets.setdefault(find(item), []).append(item)
    return list(sets.values())


def filter_groups(filters: Iterable[DeviceFilter], pools: NodePools, eligible: EligibleByFilter) -> list[FilterGroup]:
    """Return the groups, in the order of their first filters."""
    listed = list(dict.fromkeys(filters))
    used = sorted({one for layout in pools.layouts for one in layout} | pools.shared)
    links = []
    for pool in used:
        having = [device_filter for device_filter in asking(listed) if eligible.of(device_filter, pool).bits]
        for at, device_filter in enumerate(asking(having, every=1)):
            for other in having[:at]:
                if eligible.touched(device_filter, pool) & eligible.touched(other, pool):
                    links.append((device_filter, other))
    return [_group(tuple(of), used, pools, eligible) for of in linked_sets(listed, links)]


def _group(
    filters: tuple[DeviceFilter, ...], used: list[DriverTable], pools: NodePools, eligible: EligibleByFilter
) -> FilterGroup:
    problems = []
    for device_filter in asking(filters):
        found = next((text for pool in used if (text := eligible.of(device_filter, pool).problem)), "")
        if found:
            problems.append((device_filter, found))
    plain = all(eligible.of(device_filter, pool).is_plain for device_filter in asking(filters) for pool in used)
    plain = plain and not any(
        eligible.of(device_filter, pool).bits for device_filter in filters for pool in pools.shared
    )
    is_exact = plain and all(_agree(filters, layout, eligible) for layout in pools.layouts)
    return FilterGroup(filters, is_exact, tuple(problems))


def _agree(filters: tuple[DeviceFilter, ...], layout: tuple[DriverTable, ...], eligible: EligibleByFilter) -> bool:
    """Return whether the filters that have devices on a node all have the same."""
    sets = {tuple([eligible.of(device_filter, pool).bits for pool in layout]) for device_filter in filters}
    return len([one for one in sets if any(one)]) <= 1
