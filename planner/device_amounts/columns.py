"""Columns of amounts for filters that can be counted, and for device classes.

A group with one filter has one column. With several, each has a column, 0 where no device is eligible for it, and they
share one more, which is what they compete for.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from trimtab.planner.device_amounts.cluster_devices import resource_of_class
from trimtab.planner.device_amounts.device_filters import DeviceFilter
from trimtab.planner.device_amounts.groups import EligibleByFilter, FilterGroup
from trimtab.planner.device_amounts.node_pools import DriverTable, NodeDeviceLayout, NodePools
from trimtab.planner.model.values import DEVICE_RESOURCE
from trimtab.planner.snapshot.columns import ADMIN_ACCESS, ALLOCATED, DeviceColumns, Int64


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
    claims = devices.claims
    counted = (claims.result_flags & ADMIN_ACCESS) == 0
    counted &= (claims.flags[claims.result_claim] & ALLOCATED) != 0
    driver, pool, device = (
        column[counted].astype(np.int64) for column in (claims.result_driver, claims.result_pool, claims.result_device)
    )
    strings = devices.strings
    pairs, of = np.unique(driver * len(strings) + pool, return_inverse=True)
    driver_of = pairs // max(len(strings), 1)
    node_of, table_of = pools.place.find(strings, driver_of, pairs % max(len(strings), 1))
    node, table = node_of[of], table_of[of]
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
