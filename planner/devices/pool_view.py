"""Pools while a search takes devices of them: those taken, as bits by position, and what is left of shared counters.

Counters belong to a group of pools that the scheduler accounts for together: one pool from 1.37 on, all pools with one
name before, whose counters are those of the pool that is looked at first.
Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating, checkAvailableCounters, v0.36.3 and v0.37.2.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

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


class CounterGroup:
    """Counters that are accounted for together: what is left of each, by counter set and name."""

    def __init__(self, state: AllocatedState) -> None:
        self._state = state
        self._left: Counter[tuple[str, str]] = Counter()
        self.is_open = False

    def open(self, pool: DevicePool) -> None:
        """Fix what is left, by the counter sets of the pool whose counters are looked at first."""
        if self.is_open:
            return
        self.is_open = True
        self._left.update({(of.name, name): amount for of in pool.counter_sets for name, amount in of.counters})
        use = self._state.pools.get(pool.id, NO_USE)
        for device_slice in (*pool.slices, *pool.elsewhere) if use.exclusive or use.shares else ():
            for name, content in zip(device_slice.devices.names, device_slice.devices.contents, strict=True):
                if content.consumes_counters and (name in use.exclusive or name in use.shares):
                    self.take(content)

    def fits(self, content: DeviceContent) -> bool:
        """Return whether what a device consumes is left, and no counter is exceeded; call `open` before."""
        consumed = _consumption(content)
        return all(consumed[counter] <= amount for counter, amount in self._left.items())

    def take(self, content: DeviceContent) -> None:
        """Take what a device consumes; counters of other pools have no bound."""
        for counter, amount in _consumption(content).items():
            if counter in self._left:
                self._left[counter] -= amount

    def give_back(self, content: DeviceContent) -> None:
        """Undo `take`."""
        for counter, amount in _consumption(content).items():
            if counter in self._left:
                self._left[counter] += amount


def _consumption(content: DeviceContent) -> Counter[tuple[str, str]]:
    consumed: Counter[tuple[str, str]] = Counter()
    for of, counters in content.consumes_counters:
        for name, amount in counters:
            consumed[of, name] += amount
    return consumed


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
        if not any(device_slice.per_device_nodes for device_slice in self.pool.slices):
            return everywhere
        labels = dict(node.labels)
        for at, content in enumerate(self.pool.table.contents):
            published = self.pool.slices[self.pool.table.slice_of[at]]
            if not published.per_device_nodes:
                continue
            try:
                if not reaches(content.nodes or NodeSelection(), node, labels):
                    everywhere &= ~(1 << at)
            except NodeSelectorError as error:
                self.node_errors[1 << at] = DeviceError(f"ResourceSlice {published.name}", "spec.devices", str(error))
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
