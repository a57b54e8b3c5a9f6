"""Groups of filters that compete for the same devices, and whether counting them is exact.

Filters that share a device somewhere, or counters of devices, are of one group. Counting is exact for a group if on
each node the eligible devices of any two of its filters are the same or one has none, all of them belong to that node
alone, and none of them can be shared or consumes counters: then any free device is as good as another, and only their
number matters.
"""

from collections.abc import Hashable, Iterable, Sequence
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
            self._linked[pool.table] = [sum(1 << at for at in of) for of in parts_of(self._tables[pool.table])]
        for linked in self._linked[pool.table]:
            if linked & bits:
                bits |= linked
        return bits

    def _evaluated(self, device_filter: DeviceFilter, pool: DriverTable) -> Eligible:
        device_class = self._classes.get(device_filter.device_class)
        if device_class is None:
            return _NOTHING
        table = self._tables[pool.table]
        answer = self._eligibility.of(table, pool.driver, device_class, device_filter.request)
        contents = [content for content, bits in table.groups if bits & answer.usable]
        exclusive = not any(
            of_device.allow_multiple_allocations or of_device.nodes is not None for of_device in contents
        )
        plain = exclusive and not any(of_device.consumes_counters for of_device in contents)
        problem = ""
        if answer.problems:
            problem = input_error(answer.problems[0][1], "", "", device_filter.device_class).error.in_words
        return Eligible(answer.usable, plain, exclusive, problem)


def parts_of(table: DeviceTable) -> list[list[int]]:
    """Return the positions of devices by the counters that they share, directly or through others; a device without
    counters is alone. In the order of their first devices."""
    first: dict[tuple[str, str], int] = {}
    links = [
        (position, first.setdefault((name, counter), position))
        for position, content in enumerate(table.contents)
        for name, amounts in content.consumes_counters
        for counter, _ in amounts
    ]
    return linked_sets(range(len(table.names)), links)


def linked_sets(items: Iterable[T], links: Iterable[tuple[T, T]]) -> list[list[T]]:
    """Return the sets of items that links join, directly or through others, items and sets in the order of `items`."""
    leader = {item: item for item in items}

    def find(item: T) -> T:
        while leader[item] != item:
            item = leader[item]
        return item

    for first, other in links:
        leader[find(first)] = find(other)
    sets: dict[T, list[T]] = {}
    for item in leader:
        sets.setdefault(find(item), []).append(item)
    return list(sets.values())


def filter_groups(
    filters: Iterable[DeviceFilter], pools: NodePools, eligible: EligibleByFilter
) -> list[tuple[DeviceFilter, ...]]:
    """Return the filters that compete, in the order of the first ones."""
    listed = list(dict.fromkeys(filters))
    links = []
    for pool in pools.used:
        having = [device_filter for device_filter in asking(listed) if eligible.of(device_filter, pool).bits]
        for at, device_filter in enumerate(asking(having, every=1)):
            for other in having[:at]:
                if eligible.touched(device_filter, pool) & eligible.touched(other, pool):
                    links.append((device_filter, other))
    return list(map(tuple, linked_sets(listed, links)))


def is_exact(filters: tuple[DeviceFilter, ...], pools: NodePools, eligible: EligibleByFilter) -> bool:
    """Return whether counting decides for filters that compete."""
    used = pools.used
    if not all(eligible.of(device_filter, pool).is_plain for device_filter in asking(filters) for pool in used):
        return False
    if any(eligible.of(device_filter, pool).bits for device_filter in filters for pool in pools.shared):
        return False
    for layout in pools.layouts:
        sets = {tuple([eligible.of(device_filter, pool).bits for pool in layout]) for device_filter in filters}
        if len([bits for bits in sets if any(bits)]) > 1:
            return False
    return True


def problems_of(
    filters: Iterable[DeviceFilter], pools: NodePools, eligible: EligibleByFilter
) -> dict[DeviceFilter, str]:
    """Return, by filter, an error that some device causes."""
    used, problems = pools.used, {}
    for device_filter in asking(filters):
        texts = (pools.error, *(eligible.of(device_filter, pool).problem for pool in used))
        problem = next(filter(None, texts), "")
        if problem:
            problems[device_filter] = problem
    return problems
