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
    fields = {one.key: node.name if one.key == NAME_FIELD else "" for one in term.match_fields}
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
        for number, one in enumerate(asking(slices)):
            id, name = PoolId(one.driver, one.pool), one.nodes.node_name
            self._by_pool.setdefault(id, []).append(one)
            if not name:
                self._everywhere.append((number, one))
            elif one.counter_sets and not features.behavior.finds_counters_by_node:
                self._local_counters.setdefault(id, []).append((number, one))
            else:
                self._by_node.setdefault(name, []).append(one)
        self._tables: dict[tuple[int, ...], DeviceTable] = {}
        self._hidden: dict[int, bool] = {}
        self._built_pools: dict[tuple[PoolId, tuple[int, ...]], DevicePool | None] = {}
        self._pools: dict[DeviceNode, tuple[DevicePool, ...] | DeviceInputError] = {}

    def pools(self, node: DeviceNode) -> tuple[DevicePool, ...]:
        """Return the pools of a node in the order of the search. Raises DeviceInputError for a node selector that
        cannot be parsed.
        """
        found = self._pools.get(node)
        if found is None:
            try:
                found = self._gathered(node)
            except DeviceInputError as error:
                found = error
            self._pools[node] = found
        if isinstance(found, DeviceInputError):
            raise found
        return found

    def _gathered(self, node: DeviceNode) -> tuple[DevicePool, ...]:
        labels = dict(node.labels)
        own = self._by_node.get(node.name, [])
        reached = {PoolId(one.driver, one.pool) for one in own} | self._shared_pools
        late = [found for id in reached for found in self._local_counters.get(id, ())] + self._everywhere
        collected: dict[PoolId, list[DeviceSlice]] = {}
        check_limits()
        for one in asking((*own, *(one for _, one in sorted(late, key=lambda found: found[0])))):
            if self._is_relevant(one, node, labels):
                _collect(collected, one)
        pools = [pool for id, slices in asking(collected.items()) if (pool := self._pool(id, slices)) is not None]
        pools += [pool for pool in self._unusable if pool.id not in reached]
        return tuple(sorted(pools, key=lambda pool: (pool.has_binding_conditions, pool.id)))

    @cached_property
    def _shared_pools(self) -> set[PoolId]:
        return {PoolId(one.driver, one.pool) for _, one in self._everywhere}

    @cached_property
    def _unusable(self) -> list[DevicePool]:
        """The pools of which a node reaches counters alone, and that have a problem; the others are nothing to it."""
        found: list[DevicePool] = []
        for id, numbered in self._local_counters.items():
            collected: dict[PoolId, list[DeviceSlice]] = {}
            for _, one in numbered if self._features.partitionable_devices else ():
                _collect(collected, one)
            pool = self._pool(id, collected[id]) if collected else None
            if pool is not None and pool.problem is not None:
                found.append(pool)
        return found

    def _is_relevant(self, one: DeviceSlice, node: DeviceNode, labels: dict[str, str]) -> bool:
        if not self._features.partitionable_devices and (one.per_device_nodes or one.counter_sets):
            return False
        if one.counter_sets and not self._features.behavior.finds_counters_by_node:
            return True
        if self._is_hidden(one):
            return False
        if is_given(one.nodes):
            return _reaches(one.nodes, node, labels, one.name, "spec.nodeSelector")
        if not one.per_device_nodes:
            return False
        return any(
            _reaches(content.nodes or NodeSelection(), node, labels, one.name, f"spec.devices[{at}].nodeSelector")
            for at, content in enumerate(one.devices.contents)
        )

    def _is_hidden(self, one: DeviceSlice) -> bool:
        if not self._features.behavior.finds_counters_by_node:
            return False
        # Device sets live as long as the slices, which this object holds.
        key = identity(one.devices)
        if key not in self._hidden:
            self._hidden[key] = any(content.in_compatibility_groups for content in one.devices.contents)
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
        for one in self._by_pool[id]:
            if one.generation > first.generation:
                return None
            if one.generation == first.generation and not self._is_hidden(one):
                same.append(one)
        if len(same) != first.slice_count:
            detail = f"{len(same)} of {first.slice_count} slices"
            return DevicePool(id, self._table([]), problem=RefusalKind.INCOMPLETE_POOL, detail=detail)
        return self._built(id, slices, same)

    def _built(self, id: PoolId, slices: list[DeviceSlice], same: list[DeviceSlice]) -> DevicePool:
        """Return a pool of which all slices are known. slices : those that the node reaches; same : all, if those are
        not all."""
        is_partitionable = self._features.partitionable_devices
        slices = sorted(slices, key=lambda one: one.name)
        here = {one.name for one in slices}
        others = [one for one in same if one.name not in here] if is_partitionable else []
        every = [*slices, *others] if self._features.behavior.finds_counters_by_node else slices
        counter_sets = [found for one in every for found in one.counter_sets]
        slices = [one for one in slices if not one.counter_sets]
        others = [one for one in others if not one.counter_sets]
        table = self._table(slices)
        problem = _duplicate("device name", table.names) if len(table.position_of) < len(table.names) else ""
        if is_partitionable:
            problem = problem or _duplicate("counter set name", [one.name for one in counter_sets])
            contents = [content for content, _ in table.groups] if table.consumes_counters else []
            contents += [content for one in others for content in one.devices.contents]
            problem = problem or _unknown_counter(contents, counter_sets)
        if problem:
            return DevicePool(id, self._table([]), problem=RefusalKind.INVALID_POOL, detail=problem)
        return DevicePool(id, table, tuple(slices), tuple(others), tuple(counter_sets))

    def _table(self, slices: Sequence[DeviceSlice]) -> DeviceTable:
        # The sets live as long as the slices, which this object holds.
        key = tuple(identity(one.devices) for one in slices)
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = table_of([one.devices for one in slices])
        return table


def table_of(sets: Sequence[DeviceSet]) -> DeviceTable:
    """Return the table of the devices of some slices, given in order."""
    count = sum(len(one.names) for one in sets)
    reserve_memory(_DEVICE_BYTES * count, _POOLS)
    names = tuple(name for one in sets for name in one.names)
    contents = tuple(content for one in sets for content in one.contents)
    slice_of = tuple(at for at, one in enumerate(sets) for _ in one.names)
    index: dict[DeviceContent, int] = {}
    group_of = tuple([index.setdefault(content, len(index)) for content in asking(contents)])
    consuming = any(one.consumes_counters for one in index)
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


def _collect(collected: dict[PoolId, list[DeviceSlice]], one: DeviceSlice) -> None:
    """Add a slice to its pool: an older generation is dropped, a newer one replaces what was collected."""
    id = PoolId(one.driver, one.pool)
    slices = collected.get(id)
    if slices is None or one.generation > slices[0].generation:
        collected[id] = [one]
    elif one.generation == slices[0].generation:
        slices.append(one)


def _reaches(nodes: NodeSelection, node: DeviceNode, labels: dict[str, str], slice_name: str, field: str) -> bool:
    try:
        return reaches(nodes, node, labels)
    except NodeSelectorError as error:
        raise DeviceInputError(DeviceError(f"ResourceSlice {slice_name}", field, str(error))) from None


def _duplicate(what: str, names: Iterable[str]) -> str:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return f"duplicate {what} {name}"
        seen.add(name)
    return ""


def _unknown_counter(contents: Iterable[DeviceContent], counter_sets: list[CounterSet]) -> str:
    known = {one.name: {name for name, _ in one.counters} for one in counter_sets}
    for content in contents:
        for name, counters in content.consumes_counters:
            if name not in known:
                return f"counter set {name} not found"
            for counter, _ in counters:
                if counter not in known[name]:
                    return f"counter {counter} not found in counter set {name}"
    return ""
