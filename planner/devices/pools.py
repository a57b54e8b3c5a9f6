"""The pools that a node reaches: which slices belong to each, whether they are all there, and whether they agree.

A node reaches slices and devices by name, as every node, or by a node selector; unlike in the node affinity of pods, a
requirement that cannot be parsed is an error, not a refusal. A pool that misses slices, or whose slices contradict each
other, stays in the list: nothing is allocated from it, and a request for all devices is an error while there is one.
Order: pools without binding conditions first, then by driver and name; slices by name; devices as published.
Source: k8s.io/dynamic-resource-allocation/structured, NodeMatches, and internal/incubating/pools_incubating.go,
v0.36.3 and v0.37.2; component-helpers nodeaffinity.NewNodeSelector.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from trimtab.common.kubernetes.selectors import matches
from trimtab.planner.devices.model import (
    CounterSet,
    DeviceContent,
    DeviceError,
    DeviceFeatures,
    DeviceInputError,
    DeviceNode,
    DeviceSet,
    DeviceSlice,
    NodeSelection,
    PoolId,
    RefusalKind,
)
from trimtab.planner.model.execution import asking, check_limits, reserve_memory
from trimtab.planner.model.label_syntax import NAME_FIELD, is_parsable, is_parsable_field
from trimtab.planner.model.values import NodeAffinityTerm


class NodeSelectorError(Exception):
    """Raised for a node selector that cannot be parsed; the argument is for people."""


def is_given(nodes: NodeSelection) -> bool:
    """Return whether a selection says anything."""
    return bool(nodes.node_name) or nodes.all_nodes or nodes.selector is not None


def reaches(nodes: NodeSelection, node: DeviceNode, labels: dict[str, str]) -> bool:
    """Return whether the node is selected; labels : those of the node. Raises NodeSelectorError."""
    if nodes.node_name:
        return nodes.node_name == node.name
    if nodes.all_nodes:
        return True
    if nodes.selector is None:
        return False
    for term in nodes.selector:
        for requirement in term.match_expressions:
            if not is_parsable(requirement):
                raise NodeSelectorError(f"requirement on label {requirement.key!r} cannot be parsed")
        for requirement in term.match_fields:
            if not is_parsable_field(requirement):
                raise NodeSelectorError(f"requirement on field {requirement.key!r} cannot be parsed")
    return any(_matches(term, node, labels) for term in nodes.selector)


def _matches(term: NodeAffinityTerm, node: DeviceNode, labels: dict[str, str]) -> bool:
    fields = {field.key: node.name if field.key == NAME_FIELD else "" for field in term.match_fields}
    is_given = bool(term.match_expressions or fields)
    return is_given and matches(term.match_expressions, labels) and matches(term.match_fields, fields)


identity = id
"""What tells objects apart; `id` names a pool here."""

_DEVICE_BYTES = 150
_POOLS = "pools of devices"
_FEW = 8


@dataclass(frozen=True, slots=True, eq=False)
class DeviceTable:
    """The devices of a pool for a node, of all its slices, in the order of the search: by position. slice_of : index
    of the slice; position_of : by device name; group_of : index in `groups`, which has each distinct content with the
    bits of its positions. Shared by pools that consist of the same device sets.
    """

    names: tuple[str, ...]
    contents: tuple[DeviceContent, ...]
    slice_of: tuple[int, ...]
    position_of: dict[str, int]
    group_of: tuple[int, ...]
    groups: tuple[tuple[DeviceContent, int], ...]
    consumes_counters: bool


@dataclass(frozen=True, slots=True, eq=False)
class DevicePool:
    """A pool as a node sees it. problem : why nothing is allocated from it (INCOMPLETE_POOL, INVALID_POOL) with
    `detail`, or None; slices : those with devices for the node, in order; elsewhere : slices of the pool for other
    nodes, whose devices consume the same counters; counter_sets : of the pool.
    """

    id: PoolId
    table: DeviceTable
    slices: tuple[DeviceSlice, ...] = ()
    elsewhere: tuple[DeviceSlice, ...] = ()
    counter_sets: tuple[CounterSet, ...] = ()
    problem: RefusalKind | None = None
    detail: str = ""

    @property
    def has_binding_conditions(self) -> bool:
        """Whether some device needs conditions before it can be bound."""
        return any(content.has_binding_conditions for content, _ in self.table.groups)


class PoolIndex:
    """All slices of a cluster, by node and pool, and the pools of each node, kept once they are asked for."""

    def __init__(self, slices: Iterable[DeviceSlice], features: DeviceFeatures) -> None:
        self._features = features
        self._everywhere: list[tuple[int, DeviceSlice]] = []
        self._by_node: dict[str, list[DeviceSlice]] = {}
        self._by_pool: dict[PoolId, list[DeviceSlice]] = {}
        self._local_counters: dict[PoolId, list[tuple[int, DeviceSlice]]] = {}
        """Slices with counter sets that belong to one node, and up to 1.36 concern all others too."""
        for number, device_slice in enumerate(asking(slices)):
            id, name = PoolId(device_slice.driver, device_slice.pool), device_slice.nodes.node_name
            self._by_pool.setdefault(id, []).append(device_slice)
            if not name:
                self._everywhere.append((number, device_slice))
            elif device_slice.counter_sets and not features.behavior.finds_counters_by_node:
                self._local_counters.setdefault(id, []).append((number, device_slice))
            else:
                self._by_node.setdefault(name, []).append(device_slice)
        self._tables: dict[tuple[int, ...], DeviceTable] = {}
        self._hidden: dict[int, bool] = {}
        self._built_pools: dict[tuple[PoolId, tuple[int, ...]], DevicePool | None] = {}
        self._pools: dict[DeviceNode, tuple[DevicePool, ...] | DeviceInputError] = {}

    def pools(self, node: DeviceNode) -> tuple[DevicePool, ...]:
        """Return the pools of a node in the order of the search. Raises DeviceInputError for a node selector that
        cannot be parsed.
        """
        pools = self._pools.get(node)
        if pools is None:
            try:
                pools = self._gathered(node)
            except DeviceInputError as error:
                pools = error
            self._pools[node] = pools
        if isinstance(pools, DeviceInputError):
            raise pools
        return pools

    def _gathered(self, node: DeviceNode) -> tuple[DevicePool, ...]:
        labels = dict(node.labels)
        own = self._by_node.get(node.name, [])
        reached = {PoolId(device_slice.driver, device_slice.pool) for device_slice in own} | self._shared_pools
        late = [pair for id in reached for pair in self._local_counters.get(id, ())] + self._everywhere
        collected: dict[PoolId, list[DeviceSlice]] = {}
        check_limits()
        for device_slice in asking((*own, *(pair[1] for pair in sorted(late, key=lambda pair: pair[0])))):
            if self._is_relevant(device_slice, node, labels):
                _collect(collected, device_slice)
        pools = [pool for id, slices in asking(collected.items()) if (pool := self._pool(id, slices)) is not None]
        pools += [pool for pool in self._unusable if pool.id not in reached]
        return tuple(sorted(pools, key=lambda pool: (pool.has_binding_conditions, pool.id)))

    @cached_property
    def _shared_pools(self) -> set[PoolId]:
        return {PoolId(device_slice.driver, device_slice.pool) for _, device_slice in self._everywhere}

    @cached_property
    def _unusable(self) -> list[DevicePool]:
        """The pools of which a node reaches counters alone, and that have a problem; the others are nothing to it."""
        unusable: list[DevicePool] = []
        for id, numbered in self._local_counters.items():
            collected: dict[PoolId, list[DeviceSlice]] = {}
            for _, device_slice in numbered if self._features.partitionable_devices else ():
                _collect(collected, device_slice)
            pool = self._pool(id, collected[id]) if collected else None
            if pool is not None and pool.problem is not None:
                unusable.append(pool)
        return unusable

    def _is_relevant(self, device_slice: DeviceSlice, node: DeviceNode, labels: dict[str, str]) -> bool:
        if not self._features.partitionable_devices and (device_slice.per_device_nodes or device_slice.counter_sets):
            return False
        if device_slice.counter_sets and not self._features.behavior.finds_counters_by_node:
            return True
        if self._is_hidden(device_slice):
            return False
        if is_given(device_slice.nodes):
            return _reaches(device_slice.nodes, node, labels, device_slice.name, "spec.nodeSelector")
        if not device_slice.per_device_nodes:
            return False
        return any(
            _reaches(
                content.nodes or NodeSelection(), node, labels, device_slice.name, f"spec.devices[{at}].nodeSelector"
            )
            for at, content in enumerate(device_slice.devices.contents)
        )

    def _is_hidden(self, device_slice: DeviceSlice) -> bool:
        if not self._features.behavior.finds_counters_by_node:
            return False
        # Device sets live as long as the slices, which this object holds.
        key = identity(device_slice.devices)
        if key not in self._hidden:
            self._hidden[key] = any(content.in_compatibility_groups for content in device_slice.devices.contents)
        return self._hidden[key]

    def _pool(self, id: PoolId, slices: list[DeviceSlice]) -> DevicePool | None:
        """Return the pool, one object for all nodes that reach the same slices, or None if a newer generation of it
        replaces these slices.
        """
        # The slices live as long as this object.
        key = (id, tuple(map(identity, slices)))
        if key not in self._built_pools:
            self._built_pools[key] = self._completed(id, slices)
        return self._built_pools[key]

    def _completed(self, id: PoolId, slices: list[DeviceSlice]) -> DevicePool | None:
        first = slices[0]
        if len(slices) == first.slice_count:
            return self._built(id, slices, [])
        same: list[DeviceSlice] = []
        for device_slice in self._by_pool[id]:
            if device_slice.generation > first.generation:
                return None
            if device_slice.generation == first.generation and not self._is_hidden(device_slice):
                same.append(device_slice)
        if len(same) != first.slice_count:
            detail = f"{len(same)} of {first.slice_count} slices"
            return DevicePool(id, self._table([]), problem=RefusalKind.INCOMPLETE_POOL, detail=detail)
        return self._built(id, slices, same)

    def _built(self, id: PoolId, slices: list[DeviceSlice], same: list[DeviceSlice]) -> DevicePool:
        """Return a pool of which all slices are known. slices : those that the node reaches; same : all, if those are
        not all."""
        is_partitionable = self._features.partitionable_devices
        slices = sorted(slices, key=lambda device_slice: device_slice.name)
        here = {device_slice.name for device_slice in slices}
        others = [device_slice for device_slice in same if device_slice.name not in here] if is_partitionable else []
        every = [*slices, *others] if self._features.behavior.finds_counters_by_node else slices
        counter_sets = [published for device_slice in every for published in device_slice.counter_sets]
        slices = [device_slice for device_slice in slices if not device_slice.counter_sets]
        others = [device_slice for device_slice in others if not device_slice.counter_sets]
        table = self._table(slices)
        problem = _duplicate("device name", table.names) if len(table.position_of) < len(table.names) else ""
        if is_partitionable:
            problem = problem or _duplicate("counter set name", [counter_set.name for counter_set in counter_sets])
            contents = [content for content, _ in table.groups] if table.consumes_counters else []
            contents += [content for device_slice in others for content in device_slice.devices.contents]
            problem = problem or _unknown_counter(contents, counter_sets)
        if problem:
            return DevicePool(id, self._table([]), problem=RefusalKind.INVALID_POOL, detail=problem)
        return DevicePool(id, table, tuple(slices), tuple(others), tuple(counter_sets))

    def _table(self, slices: Sequence[DeviceSlice]) -> DeviceTable:
        # The sets live as long as the slices, which this object holds.
        key = tuple(identity(device_slice.devices) for device_slice in slices)
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = table_of([device_slice.devices for device_slice in slices])
        return table


def table_of(sets: Sequence[DeviceSet]) -> DeviceTable:
    """Return the table of the devices of some slices, given in order."""
    count = sum(len(device_set.names) for device_set in sets)
    reserve_memory(_DEVICE_BYTES * count, _POOLS)
    names = tuple(name for device_set in sets for name in device_set.names)
    contents = tuple(content for device_set in sets for content in device_set.contents)
    slice_of = tuple(at for at, device_set in enumerate(sets) for _ in device_set.names)
    index: dict[DeviceContent, int] = {}
    group_of = tuple([index.setdefault(content, len(index)) for content in asking(contents)])
    consuming = any(content.consumes_counters for content in index)
    members: list[list[int]] = [[] for _ in index]
    for at, group in enumerate(group_of):
        members[group].append(at)
    bits = [_bits(of) for of in asking(members)]
    position_of = {name: at for at, name in enumerate(names)}
    return DeviceTable(
        names, contents, slice_of, position_of, group_of, tuple(zip(index, bits, strict=True)), consuming
    )


def _bits(positions: Sequence[int]) -> int:
    """Return positions, ascending, as bits."""
    reserve_memory(positions[-1] // 8, _POOLS)
    if len(positions) < _FEW:
        return sum(1 << at for at in positions)
    marks = bytearray(positions[-1] // 8 + 1)
    for at in positions:
        marks[at >> 3] |= 1 << (at & 7)
    return int.from_bytes(marks, "little")


def _collect(collected: dict[PoolId, list[DeviceSlice]], device_slice: DeviceSlice) -> None:
    """Add a slice to its pool: an older generation is dropped, a newer one replaces what was collected."""
    id = PoolId(device_slice.driver, device_slice.pool)
    slices = collected.get(id)
    if slices is None or device_slice.generation > slices[0].generation:
        collected[id] = [device_slice]
    elif device_slice.generation == slices[0].generation:
        slices.append(device_slice)


def _reaches(nodes: NodeSelection, node: DeviceNode, labels: dict[str, str], slice_name: str, field: str) -> bool:
    try:
        return reaches(nodes, node, labels)
    except NodeSelectorError as error:
        raise DeviceInputError(DeviceError(f"ResourceSlice {slice_name}", field, str(error))) from None


def _duplicate(what: str, names: Iterable[str]) -> str:
    distinct: set[str] = set()
    for name in names:
        if name in distinct:
            return f"duplicate {what} {name}"
        distinct.add(name)
    return ""


def _unknown_counter(contents: Iterable[DeviceContent], counter_sets: list[CounterSet]) -> str:
    counters_of = {counter_set.name: {name for name, _ in counter_set.counters} for counter_set in counter_sets}
    for content in contents:
        for name, counters in content.consumes_counters:
            if name not in counters_of:
                return f"counter set {name} not found"
            for counter, _ in counters:
                if counter not in counters_of[name]:
                    return f"counter {counter} not found in counter set {name}"
    return ""
