"""Pools of nodes by kind: nodes whose own pools consist of the same devices, with the same counters, share a profile.

A pool that more than one node may reach has no place in a profile; its devices are listed apart. Pools that are
incomplete or invalid count for nothing. O(nodes) with some microseconds each; nothing is done for each device.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

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
from trimtab.planner.snapshot.columns import Int32


class DriverTable(NamedTuple):
    """The devices of a pool, and the counters that they share, by driver and number of the table."""

    driver: str
    table: int


Profile = tuple[DriverTable, ...]
"""The own pools of a node, in the order of the search."""
LabelsOf = Callable[[int], tuple[tuple[str, str], ...]]


class NodePools(NamedTuple):
    """The pools of N nodes. profile : int32[N] into `profiles`; tables : the distinct devices of pools, one more where
    equal devices share other counters; shared : those that several nodes may reach; place : node and table of each own
    pool; counter_sets : of each table; error : why no claim can be allocated, "" = there is no reason; reached : of
    each pool that several nodes may reach its table and its nodes, None = not all its devices are for the same ones.
    """

    profile: Int32
    profiles: tuple[Profile, ...]
    tables: tuple[DeviceTable, ...]
    shared: frozenset[DriverTable]
    place: dict[PoolId, tuple[int, int]]
    error: str
    counter_sets: tuple[tuple[CounterSet, ...], ...] = ()
    reached: Mapping[PoolId, tuple[DriverTable, NodeSelection] | None] = MappingProxyType({})


class NodePoolReader:
    """Numbers tables and profiles, of nodes and of templates."""

    def __init__(self, features: DeviceFeatures) -> None:
        self._features = features
        self._number_of: dict[tuple[int, tuple[CounterSet, ...]], int] = {}
        self._by_content: dict[object, int] = {}
        self._profiles: dict[Profile, int] = {(): 0}
        self._listed: tuple[Profile, ...] = ((),)
        self._shared: set[DriverTable] = set()
        self._reached: dict[PoolId, tuple[DriverTable, NodeSelection] | None] = {}
        self.tables: list[DeviceTable] = []
        self._counter_sets: list[tuple[CounterSet, ...]] = []
        # Their tables are known by identity, so they stay.
        self._indexes: list[PoolIndex] = []

    def read(self, slices: Sequence[DeviceSlice], names: Sequence[str], labels_of: LabelsOf) -> NodePools:
        """Return the pools of nodes. labels_of : returns the labels of a node, asked only if some slice selects nodes
        by label."""
        index = PoolIndex(slices, self._features)
        self._indexes.append(index)
        by_label = any(_selects_by_label(one) for one in slices)
        elsewhere = any(not one.nodes.node_name or one.counter_sets for one in slices)
        by_node: dict[str, list[DeviceSlice]] = {}
        for one in slices:
            by_node.setdefault(one.nodes.node_name, []).append(one)
        count_of = Counter((one.driver, one.pool) for one in slices)
        profile, place, error = np.zeros(len(names), np.int32), dict[PoolId, tuple[int, int]](), ""
        known: dict[tuple[tuple[str, int], ...], tuple[int, dict[str, int]]] = {}
        for node, name in enumerate(names):
            if not elsewhere and name not in by_node:
                continue
            kind = () if elsewhere else _kind(by_node[name], count_of)
            if kind in known:
                profile[node], of_driver = known[kind]
                for one in by_node[name]:
                    if one.driver in of_driver:
                        place[PoolId(one.driver, one.pool)] = node, of_driver[one.driver]
                continue
            try:
                pools = index.pools(DeviceNode(name, labels_of(node) if by_label else ()))
            except DeviceInputError as found:
                error = str(found)
                continue
            own = [pool for pool in pools if pool.problem is None and pool.table.names and self._is_own(pool, name)]
            key = tuple([DriverTable(pool.id.driver, self._table(pool)) for pool in own])
            for pool, (_, table) in zip(own, key, strict=True):
                place[pool.id] = node, table
            profile[node] = self._profiles.setdefault(key, len(self._profiles))
            self._listed = tuple(self._profiles)
            if kind:
                known[kind] = int(profile[node]), dict(self._listed[profile[node]])
        return NodePools(
            profile, tuple(self._profiles), tuple(self.tables), frozenset(self._shared), place, error,
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


def _kind(slices: Sequence[DeviceSlice], count_of: Mapping[tuple[str, str], int]) -> tuple[tuple[str, int], ...]:
    """Return what nodes have in common that have one slice for each driver, all of its pool, with the same devices; ()
    = such a node has to be looked at by itself. Device sets are the same objects if they are equal."""
    for one in slices:
        if one.slice_count != 1 or one.per_device_nodes or one.counter_sets or count_of[one.driver, one.pool] != 1:
            return ()
    kind = sorted([(one.driver, id(one.devices)) for one in slices])
    return tuple(kind) if len(kind) == 1 or len({driver for driver, _ in kind}) == len(kind) else ()


def _selects_by_label(one: DeviceSlice) -> bool:
    if one.nodes.selector is not None:
        return True
    return one.per_device_nodes and any(
        content.nodes is not None and content.nodes.selector is not None for content in one.devices.contents
    )


def pool_indexes(pools: NodePools) -> dict[int, dict[PoolId, int]]:
    """Return for each node with own pools the index of each in the node's profile. O(pools)."""
    found: dict[int, list[tuple[bool, PoolId]]] = {}
    is_last = [any(one.has_binding_conditions for one in table.contents) for table in pools.tables]
    for id, (node, table) in pools.place.items():
        found.setdefault(node, []).append((is_last[table], id))
    return {node: {id: at for at, (_, id) in enumerate(sorted(of))} for node, of in found.items()}


def expected_drivers(pools: NodePools, nodes: Iterable[int]) -> frozenset[str]:
    """Return the drivers of which at least half of some nodes have a pool of their own."""
    count, found = 0, dict[str, int]()
    drivers = [{one.driver for one in profile} for profile in pools.profiles]
    for node in nodes:
        count += 1
        for driver in drivers[pools.profile[node]]:
            found[driver] = found.get(driver, 0) + 1
    return frozenset(driver for driver, having in found.items() if 2 * having >= count)
