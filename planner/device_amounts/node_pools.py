"""Pools of nodes by kind: nodes whose own pools consist of the same devices, with the same counters, share a layout.

A pool that more than one node may reach has no place in a layout; its devices are listed by themselves. Pools that are
incomplete or invalid count for nothing. Plain nodes are compared by columns, and equal ones are read once. A slice is
plain if it is the whole pool of one node, has devices only, and no rule taints its pool by name; a node is, if all its
slices are, one for each driver: its own pools follow from the device sets of its drivers. O(nodes) with some
microseconds each; nothing is done for each device.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from trimtab.planner.device_amounts.cluster_devices import slices_of
from trimtab.planner.devices.model import (
    CounterSet,
    DeviceFeatures,
    DeviceInputError,
    DeviceNode,
    DeviceSlice,
    NodeSelection,
    PoolId,
)
from trimtab.planner.devices.pools import DevicePool, DeviceTable, PoolIndex
from trimtab.planner.model.execution import asking
from trimtab.planner.snapshot.columns import Bool, DeviceColumns, Int32


class LikeAnother(NamedTuple):
    """A node that needs no look of its own. first : the first node with the same drivers and device sets; rows : of
    its slices."""

    first: int
    rows: Sequence[int]


def nodes_like_others(devices: DeviceColumns, names: tuple[str, ...]) -> dict[int, LikeAnother]:
    """Return the plain nodes that are like one before; none where some slices concern several nodes. names : of N
    nodes. O(slices)."""
    slices, text = devices.slices, devices.strings
    if not (slices.node != 0).all() or (slices.counter_set >= 0).any():
        return {}
    _, content = np.unique(slices.driver.astype(np.int64) << 32 | slices.device_set + 1, return_inverse=True)
    contents = np.where(_are_plain(devices), content, -1).tolist()
    rows_of: dict[str, list[int]] = {}
    for row, node in enumerate(slices.node.tolist()):
        rows_of.setdefault(text[node], []).append(row)
    first: dict[frozenset[int], int] = {}
    like_another = {}
    for at, name in enumerate(names):
        rows = rows_of.get(name, ())
        kind = frozenset([contents[row] for row in rows])
        if rows and -1 not in kind:
            like = first.setdefault(kind, at)
            if like != at:
                like_another[at] = LikeAnother(like, rows)
    return like_another


def _are_plain(devices: DeviceColumns) -> Bool:
    """Return which slices are the whole pool of their node, the only one of their driver, and tainted like others :
    bool[slices]."""
    slices, text = devices.slices, devices.strings
    driver = slices.driver.astype(np.int64) * len(text)
    tainted = {rule.pool for rule in devices.taint_rules if rule.pool is not None}
    plain: Bool = (slices.slice_count == 1) & (slices.flags == 0)
    for other in (slices.pool, slices.node):
        _, of, count = np.unique(driver + other, return_inverse=True, return_counts=True)
        plain &= count[of] == 1
    if tainted:
        plain &= ~np.isin(slices.pool, [at for at, name in enumerate(text) if name in tainted])
    return plain


class DriverTable(NamedTuple):
    """The devices of a pool, and the counters that they share, by driver and number of the table."""

    driver: str
    table: int


NodeDeviceLayout = tuple[DriverTable, ...]
"""The own pools of a node, in the order of the search."""
LabelsOf = Callable[[int], tuple[tuple[str, str], ...]]


class NodePools(NamedTuple):
    """The pools of N nodes. layout : int32[N] into `layouts`; tables : the distinct devices of pools, one more where
    equal devices share other counters; shared : those that several nodes may reach; place : of each own pool its node
    and its index in the layout; counter_sets : of each table; error : why no claim can be allocated, "" = there is no
    reason; reached : of each pool that several nodes may reach its table and its nodes, None = not all its devices are
    for the same ones.
    """

    layout: Int32
    layouts: tuple[NodeDeviceLayout, ...]
    tables: tuple[DeviceTable, ...]
    shared: frozenset[DriverTable]
    place: dict[tuple[str, str], tuple[int, int]]
    error: str
    counter_sets: tuple[tuple[CounterSet, ...], ...] = ()
    reached: Mapping[PoolId, tuple[DriverTable, NodeSelection] | None] = MappingProxyType({})

    @property
    def used(self) -> list[DriverTable]:
        """The devices of all pools, each once."""
        return sorted({pool for layout in self.layouts for pool in layout} | self.shared)


class NodePoolReader:
    """Numbers tables and layouts, of nodes and of templates."""

    def __init__(self, features: DeviceFeatures) -> None:
        self._features = features
        self._number_of: dict[tuple[int, tuple[CounterSet, ...]], int] = {}
        self._by_content: dict[object, int] = {}
        self._layouts: dict[NodeDeviceLayout, int] = {(): 0}
        self._shared: set[DriverTable] = set()
        self._reached: dict[PoolId, tuple[DriverTable, NodeSelection] | None] = {}
        self.tables: list[DeviceTable] = []
        self._counter_sets: list[tuple[CounterSet, ...]] = []
        # Their tables are known by identity, so they stay.
        self._indexes: list[PoolIndex] = []

    def read_cluster(self, devices: DeviceColumns, names: tuple[str, ...], labels_of: LabelsOf) -> NodePools:
        """Return the pools of the nodes of a cluster; equal plain nodes are read once."""
        like = nodes_like_others(devices, names)
        if not like:
            return self.read(slices_of(devices), names, labels_of)
        rows = np.delete(np.arange(len(devices.slices.driver)), [row for node in like.values() for row in node.rows])
        pools = self.read(slices_of(devices, rows), names, labels_of, sorted(set(range(len(names))) - like.keys()))
        pools.layout[list(like)] = pools.layout[[node.first for node in like.values()]]
        places = [{pool.driver: at for at, pool in enumerate(layout)} for layout in pools.layouts]
        text, driver, pool = devices.strings, devices.slices.driver.tolist(), devices.slices.pool.tolist()
        for (node, alike), layout in zip(like.items(), pools.layout[list(like)].tolist(), strict=True):
            for row in alike.rows:
                name = text[driver[row]]
                if name in places[layout]:
                    pools.place[name, text[pool[row]]] = node, places[layout][name]
        return pools

    def read(
        self, slices: Sequence[DeviceSlice], names: Sequence[str], labels_of: LabelsOf, nodes: Iterable[int] = ()
    ) -> NodePools:
        """Return the pools of nodes. labels_of : returns the labels of a node, asked only if some slice selects nodes
        by label; nodes : rows of those to look at, () = all."""
        index = PoolIndex(slices, self._features)
        self._indexes.append(index)
        by_label = any(_selects_by_label(device_slice) for device_slice in slices)
        elsewhere = any(not device_slice.nodes.node_name or device_slice.counter_sets for device_slice in slices)
        having = {device_slice.nodes.node_name for device_slice in slices}
        layout, place, error = np.zeros(len(names), np.int32), dict[tuple[str, str], tuple[int, int]](), ""
        for node in asking(nodes or range(len(names))):
            name = names[node]
            if not elsewhere and name not in having:
                continue
            try:
                pools = index.pools(DeviceNode(name, labels_of(node) if by_label else ()))
            except DeviceInputError as found:
                error = str(found)
                continue
            own = [pool for pool in pools if pool.problem is None and pool.table.names and self._is_own(pool, name)]
            key = tuple([DriverTable(pool.id.driver, self._table(pool)) for pool in own])
            for at, pool in enumerate(own):
                place[pool.id] = node, at
            layout[node] = self._layouts.setdefault(key, len(self._layouts))
        return NodePools(
            layout, tuple(self._layouts), tuple(self.tables), frozenset(self._shared), place, error,
            tuple(self._counter_sets), dict(self._reached),
        )  # fmt: skip

    def _is_own(self, pool: DevicePool, name: str) -> bool:
        """Return whether only this node reaches a pool; note the devices of one that others reach."""
        if all(device_slice.nodes.node_name == name for device_slice in (*pool.slices, *pool.elsewhere)):
            return True
        table = DriverTable(pool.id.driver, self._table(pool))
        self._shared.add(table)
        selections = {device_slice.nodes for device_slice in pool.slices}
        is_one = len(selections) == 1 and not (pool.elsewhere or pool.counter_sets)
        is_one = is_one and not any(
            device_slice.per_device_nodes or device_slice.nodes.node_name for device_slice in pool.slices
        )
        place = (table, selections.pop()) if is_one else None
        self._reached[pool.id] = place if self._reached.get(pool.id, place) == place else None
        return False

    def _table(self, pool: DevicePool) -> int:
        table = pool.table
        number = self._number_of.get((id(table), pool.counter_sets))
        if number is None:
            key = table.names, table.contents, pool.counter_sets
            number = self._by_content.setdefault(key, len(self.tables))
            self._number_of[id(table), pool.counter_sets] = number
            if number == len(self.tables):
                self.tables.append(table)
                self._counter_sets.append(pool.counter_sets)
        return number


def _selects_by_label(device_slice: DeviceSlice) -> bool:
    if device_slice.nodes.selector is not None:
        return True
    return device_slice.per_device_nodes and any(
        content.nodes is not None and content.nodes.selector is not None for content in device_slice.devices.contents
    )


def own_pools(pools: NodePools) -> dict[int, tuple[PoolId, ...]]:
    """Return the pools of each node that has own ones, in the order of its layout. O(pools)."""
    pools_of: dict[int, dict[int, PoolId]] = {}
    for id, (node, index) in pools.place.items():
        pools_of.setdefault(node, {})[index] = PoolId(*id)
    return {node: tuple([of[at] for at in range(len(of))]) for node, of in pools_of.items()}
