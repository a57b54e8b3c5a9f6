"""How many claims of one kind a node can have beside what is in use, if claims of no other kind come.

Claims of a kind are for single devices of a filter, each given away whole, or all claims of a pod as one. Single
devices are counted here: a claim gets the first one, in the order of the search, that is free and fits into its
counters, among those that share counters, such as a GPU with its partitions. Claims of pods are given by the allocator,
until it refuses.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from trimtab.planner.device_amounts.groups import EligibleByFilter, parts_of
from trimtab.planner.device_amounts.node_pools import NodePools
from trimtab.planner.device_amounts.pod_claims import DeviceFilter, LayoutNode, NodeUse, PodClaims
from trimtab.planner.devices.model import DeviceFeatures

MOST_CLAIMS: Final = 512
"""Claims of one kind that are counted on a node: more than pods fit on any node."""


class ClaimKind(NamedTuple):
    """Claims of one kind."""

    device_filter: DeviceFilter | None
    """Of single devices; None = all claims of a pod as one."""
    claims: PodClaims
    is_counted: bool
    """Any device of the filter is as good as another."""


class _LinkedDevices:
    """Devices that share counters. devices : of each, whether the kind may get it, and which counters it consumes, by
    index; counters : what there is of each."""

    def __init__(
        self, devices: tuple[tuple[bool, tuple[tuple[int, int], ...]], ...], counters: tuple[int, ...]
    ) -> None:
        self._devices, self._counters = devices, counters
        self._counts: dict[int, int] = {}

    def count(self, used: int) -> int:
        """Return how many devices the kind can have, -1 = more than all of a counter is in use. used : devices in use,
        as bits by index."""
        if used not in self._counts:
            self._counts[used] = self._counted(used)
        return self._counts[used]

    def _counted(self, used: int) -> int:
        free = list(self._counters)
        for at, (_, consumes) in enumerate(self._devices):
            for counter, amount in consumes if used >> at & 1 else ():
                free[counter] -= amount
        if min(free, default=0) < 0:
            return -1
        count = 0
        for at, (is_eligible, consumes) in enumerate(self._devices):
            if is_eligible and not used >> at & 1 and all(free[counter] >= amount for counter, amount in consumes):
                count += 1
                for counter, amount in consumes:
                    free[counter] -= amount
        return count


class KindCounts:
    """The counts of a kind, by layout and what is in use; each is found once."""

    def __init__(self, kind: ClaimKind, eligible: EligibleByFilter, pools: NodePools, features: DeviceFeatures) -> None:
        self.kind = kind
        self._eligible, self._pools, self._features = eligible, pools, features
        self._counts: dict[tuple[int, NodeUse], int] = {}
        self._by_content: dict[object, _LinkedDevices] = {}
        self._parts: dict[int, list[tuple[_LinkedDevices, list[tuple[int, int]]]]] = {}

    def count(self, layout: int, use: NodeUse, new_node: Callable[[], LayoutNode]) -> int:
        """Return how many claims fit. new_node : makes a node of the layout."""
        key = layout, use
        if key not in self._counts:
            if self.kind.device_filter is None:
                count = self._count_searched(new_node(), use) if self._pools.layouts[layout] else 0
            else:
                count = self._count_devices(layout, use, self.kind.device_filter)
            self._counts[key] = count
        return self._counts[key]

    def _count_searched(self, node: LayoutNode, use: NodeUse) -> int:
        for count in range(MOST_CLAIMS):
            devices = node.allocated(self.kind.claims, use)
            if devices is None:
                return count
            use = tuple(sorted((*use, *devices)))
        return MOST_CLAIMS

    def _count_devices(self, layout: int, use: NodeUse, device_filter: DeviceFilter) -> int:
        pools = [(pool, self._pools.tables[pool.table]) for pool in self._pools.layouts[layout]]
        consuming = {pool.driver for pool, table in pools if table.consumes_counters}
        if len(consuming) > 1 and not self._features.behavior.separates_pools:
            # Up to 1.36, counters of pools with one name are mixed up.
            return 0
        used = [0] * len(pools)
        for device in use:
            position = pools[device.pool][1].position_of.get(device.device, -1)
            used[device.pool] |= 1 << position if position >= 0 else 0
        if layout not in self._parts:
            self._parts[layout] = [part for at in range(len(pools)) for part in self._parts_of(layout, at)]
        of_parts = [
            part.count(sum(1 << at for at, (pool, position) in enumerate(places) if used[pool] >> position & 1))
            for part, places in self._parts[layout]
        ]
        if -1 in of_parts:
            return 0
        plain = [
            (self._eligible.of(device_filter, pool).bits & ~used[at]).bit_count()
            for at, (pool, table) in enumerate(pools) if not table.consumes_counters
        ]  # fmt: skip
        return sum(of_parts) + sum(plain)

    def _parts_of(self, layout: int, pool: int) -> Iterator[tuple[_LinkedDevices, list[tuple[int, int]]]]:
        """Yield the parts of a pool whose devices consume counters, with pool and position of their devices."""
        driver_table = self._pools.layouts[layout][pool]
        table = self._pools.tables[driver_table.table]
        if self.kind.device_filter is None or not table.consumes_counters:
            return
        bits = self._eligible.of(self.kind.device_filter, driver_table).bits
        totals = {
            (counter_set.name, counter): amount
            for counter_set in self._pools.counter_sets[driver_table.table]
            for counter, amount in counter_set.counters
        }
        for positions in parts_of(table):
            number: dict[tuple[str, str], int] = {}
            devices = []
            for position in positions:
                amounts: Counter[int] = Counter()
                for name, counters in table.contents[position].consumes_counters:
                    for counter, amount in counters:
                        amounts[number.setdefault((name, counter), len(number))] += amount
                devices.append((bool(bits >> position & 1), tuple(amounts.items())))
            content = tuple(devices), tuple([totals[key] for key in number])
            part = self._by_content.setdefault(content, _LinkedDevices(*content))
            yield part, [(pool, position) for position in positions]
