"""Pools while a search takes devices of them: those taken, as bits by position, and what is left of shared counters.

Counters belong to a group of pools that the scheduler accounts for together: one pool from 1.37 on, all pools with one
name before, whose counters are those of the pool that is looked at first. Amounts are int64 in the largest unit that
divides them all, and Python integers where they are too large for that.
Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating, checkAvailableCounters, v0.36.3 and v0.37.2.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.devices.model import (
    AllocatedState,
    DeviceContent,
    DeviceError,
    DeviceFeatures,
    DeviceNode,
    NodeSelection,
    PoolUse,
)
from trimtab.planner.devices.pools import DevicePool, NodeSelectorError, reaches

_LARGEST = 2**62

Consumption = tuple[tuple[str, tuple[tuple[str, int], ...]], ...]


class CounterGroup:
    """Counters that are accounted for together. pools : in the order of the search.

    amounts : int64 or object[C] left for devices taken in this search; usable only once `open` was called.
    """

    def __init__(self, pools: Iterable[DevicePool], state: AllocatedState) -> None:
        self._pools = tuple(pools)
        self._state = state
        self._consumption: dict[int, NDArray[Any]] = {}
        self._of_pool: dict[int, NDArray[Any]] = {}
        self.amounts: NDArray[Any] | None = None

    @cached_property
    def _columns(self) -> dict[tuple[str, str], int]:
        pairs = {
            (one.name, name): None for pool in self._pools for one in pool.counter_sets for name, _ in one.counters
        }
        return {pair: at for at, pair in enumerate(pairs)}

    @cached_property
    def _all_amounts(self) -> list[int]:
        totals = [amount for pool in self._pools for one in pool.counter_sets for _, amount in one.counters]
        slices = [one for pool in self._pools for one in (*pool.slices, *pool.elsewhere)]
        contents = {id(content): content for one in slices for content in one.devices.contents}
        taken = [counters for content in contents.values() for _, counters in content.consumes_counters]
        return totals + [amount for counters in taken for _, amount in counters]

    @cached_property
    def _unit(self) -> int:
        return gcd(*self._all_amounts) or 1

    @cached_property
    def _dtype(self) -> Any:
        devices = sum(len(one.devices.names) for pool in self._pools for one in (*pool.slices, *pool.elsewhere))
        largest = max(map(abs, self._all_amounts), default=0) // self._unit
        # Each device is counted twice at most: as in use, and as taken in the search.
        return np.int64 if largest * (2 * devices + 2) < _LARGEST else object

    def open(self, pool: DevicePool) -> None:
        """Fix what is left, by the counter sets of the pool whose counters are looked at first."""
        if self.amounts is not None:
            return
        amounts = np.zeros(len(self._columns), dtype=self._dtype)
        limited = np.zeros(len(self._columns), dtype=bool)
        for counter_set in pool.counter_sets:
            for name, amount in counter_set.counters:
                column = self._columns[counter_set.name, name]
                amounts[column] = amount // self._unit
                limited[column] = True
        use = self._state.pools.get(pool.id)
        if use is not None:
            for one in (*pool.slices, *pool.elsewhere):
                for name, content in zip(one.devices.names, one.devices.contents, strict=True):
                    if content.consumes_counters and _is_used(use, name):
                        amounts -= self.consumption(content)
        self.amounts = amounts
        self._limited = limited

    def consumption(self, content: DeviceContent) -> NDArray[Any]:
        """Return what a device takes of each counter: int64 or object[C]."""
        row = self._consumption.get(id(content))
        if row is None:
            row = np.zeros(len(self._columns), dtype=self._dtype)
            for set_name, counters in content.consumes_counters:
                for name, amount in counters:
                    row[self._columns[set_name, name]] += amount // self._unit
            self._consumption[id(content)] = row
        return row

    def fitting(self, pool: DevicePool) -> NDArray[np.bool_]:
        """Return bool[D]: which devices of the pool fit into what is left. One array operation; call `open` before."""
        assert self.amounts is not None
        matrix = self._of_pool.get(id(pool))
        if matrix is None:
            rows = [self.consumption(content) for content in pool.table.contents]
            matrix = np.stack(rows) if rows else np.zeros((0, len(self._columns)), dtype=self._dtype)
            self._of_pool[id(pool)] = matrix
        fits = ~self._limited | (matrix <= self.amounts)
        return np.asarray(fits.all(axis=1), dtype=bool)

    def take(self, content: DeviceContent) -> None:
        """Take what a device consumes."""
        self.amounts = self.amounts - self.consumption(content)

    def give_back(self, content: DeviceContent) -> None:
        """Undo `take`."""
        self.amounts = self.amounts + self.consumption(content)


def _is_used(use: PoolUse, name: str) -> bool:
    return name in use.exclusive or name in use.shares


NO_USE = PoolUse()


class PoolView:
    """A pool in one search. in_use : bits of devices that other claims have; taken : of those taken here; held : what
    shares consume of a device, by position: of other claims and of this search; here : bits of devices for this node.
    """

    __slots__ = ("counters", "held", "here", "in_use", "node_errors", "pool", "shares", "taken", "taken_by", "use")

    def __init__(self, pool: DevicePool, use: PoolUse, node: DeviceNode, claims: int, features: DeviceFeatures) -> None:
        self.pool = pool
        self.use = use
        self.in_use = bits_of(pool, use.exclusive)
        if not features.consumable_capacity:
            self.in_use |= bits_of(pool, use.shares)
        self.taken = 0
        self.taken_by = [0] * claims
        self.shares: dict[int, int] = {}
        self.held: dict[int, dict[str, int]] = {}
        self.counters: CounterGroup | None = None
        self.node_errors: dict[int, DeviceError] = {}
        self.here = self._here(node)

    def _here(self, node: DeviceNode) -> int:
        everywhere = (1 << len(self.pool.table.names)) - 1
        if not any(one.per_device_nodes for one in self.pool.slices):
            return everywhere
        labels = dict(node.labels)
        for at, content in enumerate(self.pool.table.contents):
            one = self.pool.slices[self.pool.table.slice_of[at]]
            if not one.per_device_nodes:
                continue
            try:
                if not reaches(content.nodes or NodeSelection(), node, labels):
                    everywhere &= ~(1 << at)
            except NodeSelectorError as error:
                self.node_errors[1 << at] = DeviceError(f"ResourceSlice {one.name}", "spec.devices", str(error))
        return everywhere

    def has_shares(self, position: int) -> bool:
        """Return whether shares with capacity of a device are given away, here or before."""
        return self.shares.get(position, 0) > 0 or self.pool.table.names[position] in self.use.capacity_shares

    def consumed(self, position: int) -> dict[str, int]:
        """Return what is consumed of a device's capacities."""
        before = self.use.consumed.get(self.pool.table.names[position], {})
        here = self.held.get(position)
        if not here:
            return before
        return {name: before.get(name, 0) + here.get(name, 0) for name in {**before, **here}}


def bits_of(pool: DevicePool, names: Iterable[str]) -> int:
    """Return the bits of some devices of a pool; names of other devices are left out."""
    bits = 0
    for name in names:
        at = pool.table.position_of.get(name)
        if at is not None:
            bits |= 1 << at
    return bits


def each_bit(bits: int) -> Iterator[int]:
    """Yield the set bits, the lowest first."""
    while bits:
        bit = bits & -bits
        yield bit
        bits ^= bit
