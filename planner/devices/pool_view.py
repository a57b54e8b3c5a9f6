"""The devices of a pool while a search takes some of them, as bits by position."""

from collections.abc import Iterable, Iterator

from trimtab.planner.devices.counters import CounterGroup
from trimtab.planner.devices.model import DeviceError, DeviceFeatures, DeviceNode, NodeSelection, PoolUse
from trimtab.planner.devices.node_matching import NodeSelectorError, reaches
from trimtab.planner.devices.pools import DevicePool

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
