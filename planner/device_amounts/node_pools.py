"""Pools of nodes by kind: nodes whose own pools consist of the same devices, with the same counters, share a layout.

A pool that more than one node may reach has no place in a layout; its devices are listed by themselves. Pools that are
incomplete or invalid count for nothing. Plain nodes are compared by columns, and equal ones are read once. A slice is
plain if it is the whole pool of one node, has devices only, and no rule taints its pool by name; a node is, if all its
slices are, one for each driver: its own pools follow from the device sets of its drivers. O(nodes) with some
microseconds each; nothing is done for each device.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
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
from trimtab.planner.snapshot.columns import Bool, DeviceColumns, Int32, Int64


class PlainNodes(NamedTuple):
    """like : int64[N], the first node with the same drivers and device sets, itself where a node has to be read;
    rows : of the slices that have to be read, ascending; row, node : int64[S], slices of plain nodes and their node,
    sorted by node and driver.
    """

    like: Int64
    rows: Int64
    row: Int64
    node: Int64


def plain_nodes(devices: DeviceColumns, names: tuple[str, ...]) -> PlainNodes | None:
    """Return which nodes need no look of their own, None = each does: some slices concern several nodes. names : of N
    nodes. O(slices log slices)."""
    slices, text = devices.slices, devices.strings
    if not (slices.node != 0).all() or (slices.counter_set >= 0).any():
        return None
    row_of = {name: at for at, name in enumerate(names)}
    distinct, of = np.unique(slices.node, return_inverse=True)
    node = np.array([row_of.get(text[at], -1) for at in distinct.tolist()], np.int64)[of]
    is_plain = np.zeros(len(names) + 1, np.bool_)
    is_plain[node] = True
    is_plain[-1] = False
    order = np.lexsort((slices.driver, node))
    again = np.flatnonzero((np.diff(node[order]) == 0) & (np.diff(slices.driver[order]) == 0))
    is_plain[node[order[again]]] = False
    is_plain[node[~_are_plain(devices)]] = False
    row = order[is_plain[node[order]]]
    like = _first_alike(len(names), node[row], slices.driver[row], slices.device_set[row])
    needed = ~is_plain[node]
    needed[row] = like[node[row]] == node[row]
    return PlainNodes(like, np.flatnonzero(needed), row, node[row])


def _are_plain(devices: DeviceColumns) -> Bool:
    """Return which slices are the whole pool of their node, and tainted like others : bool[slices]."""
    slices, text = devices.slices, devices.strings
    pool = slices.driver.astype(np.int64) * len(text) + slices.pool
    _, of, count = np.unique(pool, return_inverse=True, return_counts=True)
    tainted = {one.pool for one in devices.taint_rules if one.pool is not None}
    found: Bool = (slices.slice_count == 1) & (slices.flags == 0) & (count[of] == 1)
    if tainted:
        found &= ~np.isin(slices.pool, [at for at, name in enumerate(text) if name in tainted])
    return found


def _first_alike(nodes: int, node: Int64, driver: Int32, device_set: Int32) -> Int64:
    """Return the first node with equal slices, its own number for one without : int64[nodes]. node, driver,
    device_set : of slices, sorted by node and driver."""
    like = np.arange(nodes, dtype=np.int64)
    if not node.size:
        return like
    kind = np.zeros(nodes, np.int64)
    starts = np.flatnonzero(np.diff(node, prepend=-1))
    place = np.arange(len(node)) - np.repeat(starts, np.diff(starts, append=len(node)))
    _, content = np.unique(driver.astype(np.int64) << 32 | (device_set + 1), return_inverse=True)
    for at in range(int(place.max()) + 1):
        there = place == at
        pair = kind[node[there]] * (int(content.max()) + 1) + content[there]
        # Kinds so far have numbers below this one's: nodes with fewer slices keep theirs.
        _, number = np.unique(pair, return_inverse=True)
        kind[node[there]] = number + int(kind.max()) + 1
    having = node[starts]
    _, first, of = np.unique(kind[having], return_index=True, return_inverse=True)
    like[having] = having[first[of]]
    return like


class DriverTable(NamedTuple):
    """The devices of a pool, and the counters that they share, by driver and number of the table."""

    driver: str
    table: int


NodeDeviceLayout = tuple[DriverTable, ...]
"""The own pools of a node, in the order of the search."""
LabelsOf = Callable[[int], tuple[tuple[str, str], ...]]


class PoolPlaces:
    """The own pools of nodes: the node of each, and its index in the layout."""

    def __init__(self, read: dict[PoolId, tuple[int, int]]) -> None:
        self._read = read
        self._strings: Sequence[str] = ()
        self._pair = self._node = self._index = np.zeros(0, np.int64)

    def add(self, devices: DeviceColumns, rows: Int64, node: Int64, index: Int64) -> None:
        """Add slices that are a whole pool. rows : int64[n] of the slices, node, index : of each; once."""
        self._strings = devices.strings
        pair = devices.slices.driver[rows].astype(np.int64) * len(devices.strings) + devices.slices.pool[rows]
        order = np.argsort(pair)
        self._pair, self._node, self._index = pair[order], node[order], index[order]

    def find(self, strings: Sequence[str], driver: Int64, pool: Int64) -> tuple[Int64, Int64]:
        """Return node and index of pools, -1 where it is nobody's own : int64[n]. driver, pool : indices in `strings`;
        those of the snapshot that was read."""
        pair = driver * max(len(strings), 1) + pool
        nodes, indexes = np.full(len(pair), -1, np.int64), np.full(len(pair), -1, np.int64)
        if len(self._pair):
            at = np.minimum(np.searchsorted(self._pair, pair), len(self._pair) - 1)
            is_there = self._pair[at] == pair
            nodes[is_there], indexes[is_there] = self._node[at[is_there]], self._index[at[is_there]]
        for row in np.flatnonzero(nodes < 0).tolist() if self._read else ():
            place = self._read.get(PoolId(strings[driver[row]], strings[pool[row]]))
            if place is not None:
                nodes[row], indexes[row] = place
        return nodes, indexes

    @cached_property
    def by_pool(self) -> dict[PoolId, tuple[int, int]]:
        """Node and index by pool."""
        found, size = dict(self._read), len(self._strings)
        for pair, node, index in zip(self._pair.tolist(), self._node.tolist(), self._index.tolist(), strict=True):
            found[PoolId(self._strings[pair // size], self._strings[pair % size])] = node, index
        return found


class NodePools(NamedTuple):
    """The pools of N nodes. layout : int32[N] into `layouts`; tables : the distinct devices of pools, one more where
    equal devices share other counters; shared : those that several nodes may reach; place : of each own pool;
    counter_sets : of each table; error : why no claim can be allocated, "" = there is no reason; reached : of each pool
    that several nodes may reach its table and its nodes, None = not all its devices are for the same ones.
    """

    layout: Int32
    layouts: tuple[NodeDeviceLayout, ...]
    tables: tuple[DeviceTable, ...]
    shared: frozenset[DriverTable]
    place: PoolPlaces
    error: str
    counter_sets: tuple[tuple[CounterSet, ...], ...] = ()
    reached: Mapping[PoolId, tuple[DriverTable, NodeSelection] | None] = MappingProxyType({})


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
        plain = plain_nodes(devices, names)
        if plain is None:
            return self.read(slices_of(devices), names, labels_of)
        slices = slices_of(devices, plain.rows)
        nodes = np.flatnonzero(plain.like == np.arange(len(names)))
        found = self.read(slices, names, labels_of, nodes.tolist())
        self._add_plain(devices, plain, found)
        return found._replace(layout=found.layout[plain.like])

    def _add_plain(self, devices: DeviceColumns, plain: PlainNodes, found: NodePools) -> None:
        """Add the places of the pools of plain nodes."""
        places = [{one.driver: at for at, one in enumerate(layout)} for layout in found.layouts]
        layout = found.layout[plain.like[plain.node]]
        kind, of = np.unique(layout.astype(np.int64) << 32 | devices.slices.driver[plain.row], return_inverse=True)
        text = devices.strings
        index = np.array([places[one >> 32].get(text[one & 0xFFFFFFFF], -1) for one in kind.tolist()], np.int64)[of]
        own = index >= 0
        found.place.add(devices, plain.row[own], plain.node[own], index[own])

    def read(
        self, slices: Sequence[DeviceSlice], names: Sequence[str], labels_of: LabelsOf, nodes: Iterable[int] = ()
    ) -> NodePools:
        """Return the pools of nodes. labels_of : returns the labels of a node, asked only if some slice selects nodes
        by label; nodes : rows of those to look at, () = all."""
        index = PoolIndex(slices, self._features)
        self._indexes.append(index)
        by_label = any(_selects_by_label(one) for one in slices)
        elsewhere = any(not one.nodes.node_name or one.counter_sets for one in slices)
        having = {one.nodes.node_name for one in slices}
        layout, place, error = np.zeros(len(names), np.int32), dict[PoolId, tuple[int, int]](), ""
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
            layout, tuple(self._layouts), tuple(self.tables), frozenset(self._shared), PoolPlaces(place), error,
            tuple(self._counter_sets), dict(self._reached),
        )  # fmt: skip

    def _is_own(self, pool: DevicePool, name: str) -> bool:
        """Return whether only this node reaches a pool; note the devices of one that others reach."""
        if all(one.nodes.node_name == name for one in (*pool.slices, *pool.elsewhere)):
            return True
        table = DriverTable(pool.id.driver, self._table(pool))
        self._shared.add(table)
        selections = {one.nodes for one in pool.slices}
        is_one = len(selections) == 1 and not (pool.elsewhere or pool.counter_sets)
        is_one = is_one and not any(one.per_device_nodes or one.nodes.node_name for one in pool.slices)
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


def _selects_by_label(one: DeviceSlice) -> bool:
    if one.nodes.selector is not None:
        return True
    return one.per_device_nodes and any(
        content.nodes is not None and content.nodes.selector is not None for content in one.devices.contents
    )


def own_pools(pools: NodePools) -> dict[int, tuple[PoolId, ...]]:
    """Return the pools of each node that has own ones, in the order of its layout. O(pools)."""
    found: dict[int, dict[int, PoolId]] = {}
    for id, (node, index) in pools.place.by_pool.items():
        found.setdefault(node, {})[index] = id
    return {node: tuple([of[at] for at in range(len(of))]) for node, of in found.items()}


def expected_drivers(pools: NodePools, nodes: Iterable[int]) -> frozenset[str]:
    """Return the drivers of which at least half of some nodes have a pool of their own."""
    count, found = 0, dict[str, int]()
    drivers = [{one.driver for one in layout} for layout in pools.layouts]
    for node in nodes:
        count += 1
        for driver in drivers[pools.layout[node]]:
            found[driver] = found.get(driver, 0) + 1
    return frozenset(driver for driver, having in found.items() if 2 * having >= count)
