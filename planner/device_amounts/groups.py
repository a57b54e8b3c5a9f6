"""Groups of filters that compete for the same devices, whether counting them is exact, and the columns of amounts.

Filters that share a device somewhere, or counters of devices, are of one group. Counting is exact for a group if on
each node the eligible devices of any two of its filters are the same or one has none, all of them belong to that node
alone, and none of them can be shared or consumes counters: then any free device is as good as another, and only their
number matters. Such a group with one filter has one column. With several, each has a column, 0 where no device is
eligible for it, and they share one more, which is what they compete for. Each device class has a column too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from trimtab.planner.device_amounts.cluster_devices import resource_of_class, results_in_use
from trimtab.planner.device_amounts.node_pools import DriverTable, NodeDeviceLayout, NodePools
from trimtab.planner.device_amounts.pod_claims import DeviceFilter
from trimtab.planner.devices.eligibility import Eligibility, input_error
from trimtab.planner.devices.model import DeviceClass, DeviceFeatures
from trimtab.planner.devices.pools import DeviceTable
from trimtab.planner.model.execution import asking
from trimtab.planner.model.values import DEVICE_RESOURCE
from trimtab.planner.snapshot.columns import DeviceColumns, Int64


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
        linked, unshared_claims = bits, [one for one in found if not one & bits]
        for one in found:
            linked |= one if one & linked else 0
        found = [*unshared_claims, linked]
    return found


def parts_of(table: DeviceTable) -> list[list[int]]:
    """Return the positions of devices by the counters that they share, directly or through others; a device without
    counters is alone. In the order of their first devices."""
    linked = [[at for at in range(len(table.names)) if bits >> at & 1] for bits in _linked(table)]
    known = {at for of in linked for at in of}
    return sorted([*linked, *([at] for at in range(len(table.names)) if at not in known)])


def filter_groups(filters: Iterable[DeviceFilter], pools: NodePools, eligible: EligibleByFilter) -> list[FilterGroup]:
    """Return the groups, in the order of their first filters."""
    listed = list(dict.fromkeys(filters))
    used = sorted({one for layout in pools.layouts for one in layout} | pools.shared)
    leader = {device_filter: device_filter for device_filter in listed}

    def find(device_filter: DeviceFilter) -> DeviceFilter:
        while leader[device_filter] is not device_filter:
            device_filter = leader[device_filter]
        return device_filter

    for pool in used:
        having = [device_filter for device_filter in asking(listed) if eligible.of(device_filter, pool).bits]
        for at, device_filter in enumerate(asking(having, every=1)):
            for other in having[:at]:
                if eligible.touched(device_filter, pool) & eligible.touched(other, pool):
                    leader[find(device_filter)] = find(other)
    members: dict[DeviceFilter, list[DeviceFilter]] = {}
    for device_filter in listed:
        members.setdefault(find(device_filter), []).append(device_filter)
    return [_group(tuple(of), used, pools, eligible) for of in members.values()]


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


def resource_of(device_filter: DeviceFilter) -> str:
    """Return the name of the resource of a filter: that of its class if it takes every device of it."""
    if device_filter == DeviceFilter(device_filter.device_class):
        return resource_of_class(device_filter.device_class)
    return f"{DEVICE_RESOURCE}{device_filter.device_class}-{_digest(device_filter)}"


def _digest(value: object) -> str:
    return blake2b(repr(value).encode(), digest_size=4).hexdigest()


@dataclass(frozen=True)
class Column:
    """A resource."""

    name: str
    filters: tuple[DeviceFilter, ...]
    """Whose eligible devices are counted."""
    group: int
    """Number of the group whose devices in use count, -1 = none of them do."""


def columns_of(groups: Sequence[FilterGroup], classes: Iterable[str]) -> tuple[Column, ...]:
    """Return the columns of exact groups, by the number of each, and of classes that have none of their own."""
    found: dict[str, Column] = {}
    for number, group in enumerate(groups):
        if group.is_exact:
            for device_filter in group.filters:
                found[resource_of(device_filter)] = Column(resource_of(device_filter), (device_filter,), number)
            if len(group.filters) > 1:
                name = f"{DEVICE_RESOURCE}{_digest(group.filters)}"
                found[name] = Column(name, group.filters, number)
    for name in classes:
        found.setdefault(resource_of_class(name), Column(resource_of_class(name), (DeviceFilter(name),), -1))
    return tuple(sorted(found.values(), key=lambda one: one.name))


class DeviceTotals:
    """How many devices of each column nodes have, and which group each device belongs to."""

    def __init__(self, columns: Sequence[Column], groups: Sequence[FilterGroup], eligible: EligibleByFilter) -> None:
        self._columns, self._groups, self._eligible = columns, groups, eligible
        self._known: dict[NodeDeviceLayout, list[int]] = {}
        self._group_of: dict[DriverTable, Int64] = {}

    def of(self, layout: NodeDeviceLayout) -> list[int]:
        """Return the eligible devices of a node by column."""
        if layout not in self._known:
            self._known[layout] = [self._count(column, layout) for column in self._columns]
        return self._known[layout]

    def _count(self, column: Column, layout: NodeDeviceLayout) -> int:
        return sum(_union(self._eligible, column.filters, pool).bit_count() for pool in layout)

    def group_of(self, pool: DriverTable, size: int) -> Int64:
        """Return the exact group that each device of a pool belongs to, -1 = none : int64[size]."""
        if pool not in self._group_of:
            found = self._group_of[pool] = np.full(size, -1, np.int64)
            for number, group in enumerate(self._groups):
                if group.is_exact:
                    bits = _union(self._eligible, group.filters, pool)
                    found[[at for at in range(size) if bits >> at & 1]] = number
        return self._group_of[pool]


def _union(eligible: EligibleByFilter, filters: Iterable[DeviceFilter], pool: DriverTable) -> int:
    bits = 0
    for device_filter in filters:
        bits |= eligible.of(device_filter, pool).bits
    return bits


def used_devices(devices: DeviceColumns, pools: NodePools, totals: DeviceTotals, groups: int, nodes: int) -> Int64:
    """Return how many devices of each group are in use on each node : int64[nodes, groups]. O(results)."""
    claims, strings, rows = devices.claims, devices.strings, results_in_use(devices)
    driver, pool, device = (
        column[rows].astype(np.int64) for column in (claims.result_driver, claims.result_pool, claims.result_device)
    )
    pairs, of = np.unique(driver * len(strings) + pool, return_inverse=True)
    driver_of = pairs // max(len(strings), 1)
    node_of, index = pools.place.find(strings, driver_of, pairs % max(len(strings), 1))
    first = np.cumsum([0, *map(len, pools.layouts)])
    tables = np.array([one.table for layout in pools.layouts for one in layout] or [0], np.int64)
    node, table = node_of[of], tables[first[pools.layout[node_of]] + index][of]
    # The same device of the same kind of pool is looked up once.
    placed = np.flatnonzero(node >= 0)
    if not placed.size:
        return np.zeros((nodes, groups), np.int64)
    size = len(pools.tables)
    of_driver, number = np.unique(driver_of[of][placed] * size + table[placed], return_inverse=True)
    kinds, kind = np.unique(number * len(strings) + device[placed], return_inverse=True)
    found = [
        _group_at(totals, pools, strings, *divmod(int(of_driver[one // len(strings)]), size), one % len(strings))
        for one in kinds.tolist()
    ]
    group = np.array(found, np.int64)[kind]
    inside = group >= 0
    return np.bincount(node[placed][inside] * groups + group[inside], minlength=nodes * groups).reshape(nodes, groups)


def _group_at(
    totals: DeviceTotals, pools: NodePools, strings: Sequence[str], driver: int, table: int, device: int
) -> int:
    names = pools.tables[table].position_of
    position = names.get(strings[device], -1)
    if position < 0:
        return -1
    return int(totals.group_of(DriverTable(strings[driver], table), len(names))[position])
