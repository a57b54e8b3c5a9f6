"""Nodes, and templates of nodes, as columns.

Rows keep the order of the message. Cost: about 5 us per node. Raises SnapshotError.
"""

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from trimtab.planner.model.values import NO_TRAITS, NodeTraits, TaintSpec
from trimtab.planner.snapshot.checks import (
    MAX_AMOUNT,
    MAX_NODE_CELLS,
    MAX_NODES,
    WHOLE_TABLE,
    Row,
    SnapshotError,
    check_index,
)
from trimtab.planner.snapshot.columns import Float64, Int32, Int64, NodeColumns
from trimtab.planner.snapshot.dictionaries import numbered, row_of_key
from trimtab.v1 import snapshot_pb2 as pb

_TAINT_EFFECTS: Final = frozenset(pb.TaintEffect.Code.values()) - {pb.TaintEffect.UNSPECIFIED}
Limits = tuple[tuple[str, int], ...]
Taints = tuple[TaintSpec, ...]


class NodeDictionaries(NamedTuple):
    """The dictionaries that rows of nodes refer to.

    strings, resources : of the message; label_sets : int32, the canonical number of each label set of the message;
    canonical_resources : the columns of the result, with every resource that some row offers; table : its name
    in errors.
    """

    table: str
    strings: Sequence[str]
    resources: Sequence[str]
    label_sets: Int32
    canonical_resources: Sequence[str]


def read_nodes(messages: Sequence[pb.Node], dictionaries: NodeDictionaries, group: Int32) -> NodeColumns:
    """Return nodes in the order of their rows. `group` : int32[N] is the column of that name."""
    table = dictionaries.table
    check_size(len(messages), len(dictionaries.canonical_resources), table)
    label_set = np.fromiter((m.label_set for m in messages), np.int32, len(messages))
    check_index(label_set, len(dictionaries.label_sets), table, "label_set", "label_sets")
    row = Row(table, dictionaries.strings)
    taints, traits = _rows_of_taints(row, messages), _rows_of_traits(row, messages)
    taint_sets, taint_set = numbered(taints, [()])
    allocatable = _amounts(row, [m.allocatable for m in messages], dictionaries, "allocatable")
    capacity = [m.capacity or m.allocatable for m in messages]
    return NodeColumns(
        name=tuple([m.name for m in messages]),
        provider_id=tuple([m.provider_id for m in messages]),
        label_set=dictionaries.label_sets[label_set],
        taint_set=taint_set,
        taint_sets=tuple(taint_sets),
        unschedulable=_flags([m.unschedulable for m in messages]),
        allocatable=allocatable,
        capacity=_amounts(row, capacity, dictionaries, "capacity"),
        ready=_flags([m.ready for m in messages]),
        ready_ns=_times(row, messages, "ready_transition_time"),
        created_ns=_times(row, messages, "create_time"),
        group=group,
        scale_down_disabled=_flags([m.scale_down_disabled for m in messages]),
        deletion_delayed=_flags([m.deletion_delayed for m in messages]),
        do_not_disrupt=_flags([m.do_not_disrupt for m in messages]),
        being_deleted=_flags([m.being_deleted for m in messages]),
        own_price=_prices(row, messages),
        traits=tuple(traits),
    )


def check_size(count: int, width: int, table: str) -> None:
    """Refuse a table of `count` rows over `width` resources that would need too much memory."""
    if count > MAX_NODES:
        raise SnapshotError(table, WHOLE_TABLE, "", f"{count} rows are too many; send at most {MAX_NODES}")
    cells = count * width
    if cells > MAX_NODE_CELLS:
        problem = f"{cells} amounts (nodes times resources) are too many; send at most {MAX_NODE_CELLS}"
        raise SnapshotError("resources", WHOLE_TABLE, "", problem)


def _flags(values: list[bool]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array(values, np.bool_)


def _times(row: Row, messages: Sequence[pb.Node], field: str) -> Int64:
    times = np.zeros(len(messages), np.int64)
    for message in row.over(messages):
        times[row.index] = row.time_ns(message, field)
    return times


def _prices(row: Row, messages: Sequence[pb.Node]) -> Float64:
    prices = np.full(len(messages), np.nan)
    for message in row.over(messages):
        if message.HasField("price_per_hour"):
            prices[row.index] = row.price(message.price_per_hour)
    return prices


class _Given(NamedTuple):
    """Amounts as they were sent; missing ones are 0. row : int64[A]; resource, amount : int64[A]."""

    row: Int64
    resource: Int64
    amount: Int64


def _given(rows: Sequence[Sequence[int]]) -> _Given:
    """Return the amounts of all rows. O(amounts sent)."""
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    resource = np.arange(total, dtype=np.int64) - np.repeat(ends - sizes, sizes)
    amount = np.fromiter(chain.from_iterable(rows), np.int64, total)
    return _Given(np.repeat(np.arange(len(rows), dtype=np.int64), sizes), resource, amount)


def offered_resources(messages: Sequence[pb.Node] | Sequence[pb.NodeTemplate], resources: Sequence[str]) -> set[str]:
    """Return the resources that some row offers."""
    offered = np.zeros(len(resources), np.bool_)
    for amounts in ([m.allocatable for m in messages], [m.capacity for m in messages]):
        columns = _given(amounts)
        counts = (columns.amount != 0) & (columns.resource < len(resources))
        offered[columns.resource[counts]] = True
    return {resources[i] for i in np.flatnonzero(offered).tolist()}


def _amounts(row: Row, rows: Sequence[Sequence[int]], dictionaries: NodeDictionaries, field: str) -> Int64:
    """Return int64[N, R] in the canonical order of resources."""
    width = len(dictionaries.resources)
    for row.index, amounts in enumerate(rows):
        if len(amounts) > width:
            row.refuse(field, f"{len(amounts)} amounts for {width} resources; give one for each resource at most")
    columns = _given(rows)
    bad = np.flatnonzero((columns.amount < 0) | (columns.amount > MAX_AMOUNT))
    if bad.size:
        row.index = int(columns.row[bad[0]])
        name = dictionaries.resources[int(columns.resource[bad[0]])]
        row.amount(int(columns.amount[bad[0]]), f"{field}[{name!r}]")
    place = row_of_key(dictionaries.canonical_resources)
    # No node offers a resource that has no column.
    column = np.array([place.get(name, -1) for name in dictionaries.resources], np.int64)[columns.resource]
    has_column = column >= 0
    whole = np.zeros((len(rows), len(place)), np.int64)
    whole[columns.row[has_column], column[has_column]] = columns.amount[has_column]
    return whole


def _rows_of_taints(row: Row, messages: Sequence[pb.Node]) -> list[Taints]:
    taint_sets = (message.taints for message in row.over(messages))
    return [tuple(sorted({_taint(row, taint) for taint in taints})) if taints else () for taints in taint_sets]


def _taint(row: Row, m: pb.Taint) -> TaintSpec:
    key, value = row.needed_text(m.key, "taints.key"), row.text(m.value, "taints.value")
    return TaintSpec(key, value, row.code(m.effect, _TAINT_EFFECTS, "taints.effect"))


def _rows_of_traits(row: Row, messages: Sequence[pb.Node]) -> list[NodeTraits]:
    return [
        _traits(row, message)
        if message.attach_limits or message.declared_features or message.HasField("volume_drivers")
        else NO_TRAITS
        for message in row.over(messages)
    ]


def _traits(row: Row, m: pb.Node) -> NodeTraits:
    has_drivers = m.HasField("volume_drivers")
    return NodeTraits(
        _limits(row, m.attach_limits),
        _names(row, m.declared_features, "declared_features"),
        _names(row, m.volume_drivers.names, "volume_drivers.names") if has_drivers else None,
    )


def _names(row: Row, indices: Sequence[int], field: str) -> tuple[str, ...]:
    names = sorted([row.needed_text(index, field) for index in indices])
    for name, following in pairwise(names):
        if name == following:
            row.refuse(field, f"{name!r} is given twice; give each name once")
    return tuple(names)


def _limits(row: Row, messages: Sequence[pb.AttachLimit]) -> Limits:
    driver, count = "attach_limits.driver", "attach_limits.count"
    limits = sorted([(row.needed_text(m.driver, driver), row.at_least(m.count, 0, count)) for m in messages])
    for (name, _), (following, _) in pairwise(limits):
        if name == following:
            row.refuse(driver, f"{name!r} is given twice; give each driver once")
    return tuple(limits)


def check_names(messages: Sequence[pb.Node]) -> list[str]:
    """Return the names of nodes in the order of their rows; templates have none."""
    row = Row("nodes", ())
    names = [m.name for m in messages]
    first_row: dict[str, int] = {}
    for row.index, name in enumerate(names):
        if first_row.setdefault(row.needed(name, "name"), row.index) != row.index:
            row.refuse("name", f"{name!r} is also row {first_row[name]}; give each node once")
    return names


def take_nodes(nodes: NodeColumns, order: Int64) -> NodeColumns:
    """Return the rows `order` : int64[Q] of the columns."""
    rows = order.tolist()
    texts: dict[str, Any] = {
        name: tuple([getattr(nodes, name)[i] for i in rows]) for name in ("name", "provider_id", "traits")
    }
    columns: dict[str, Any] = {
        name: value[order] for name, value in nodes._asdict().items() if isinstance(value, np.ndarray)
    }
    return nodes._replace(**texts, **columns)
