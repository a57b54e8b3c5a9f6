"""Devices of dynamic resource allocation in canonical form: dictionaries without duplicates, slices and claims sorted.

Decides order and numbering; loops over rows of dictionaries only. An empty message costs nothing. Raises SnapshotError
with the row of the message. Source: `protos/trimtab/v1/snapshot.proto`.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from trimtab.planner.devices.model import DeviceContent, DeviceSet
from trimtab.planner.model.execution import asking, reserve_memory
from trimtab.planner.snapshot.checks import (
    MAX_PODS,
    Row,
    SnapshotError,
    check_index,
    check_range,
    check_unique,
    read_column,
    read_optional,
)
from trimtab.planner.snapshot.columns import (
    ClaimColumns,
    DeviceColumns,
    Int32,
    Int64,
    SliceColumns,
    TemplateSlice,
    Text,
)
from trimtab.planner.snapshot.device_values import (
    MOST_RESULTS,
    check_device_count,
    read_claim_spec,
    read_class,
    read_content,
    read_counter_sets,
    read_quantity,
    read_taint_rule,
)
from trimtab.planner.snapshot.dictionaries import canonical_strings, encoded, numbered, places_in, read_strings
from trimtab.planner.snapshot.rows import read_terms
from trimtab.planner.snapshot.texts import TextColumn, take_text
from trimtab.v1 import snapshot_pb2 as pb

_TABLE: Final = "devices"
_SLICES: Final = f"{_TABLE}.slices"
_CLAIMS: Final = f"{_TABLE}.claims"
_SLICE_FLAGS, _CLAIM_FLAGS, _RESULT_FLAGS = 3, 7, 3
_Value = TypeVar("_Value", bound=Hashable)


class _UsedValues(NamedTuple):
    """Distinct values in canonical order. moved : int32, the new index of each old one, at the end -1 for "none"."""

    values: tuple[Any, ...]
    moved: Int32


class _DeviceDictionaries(NamedTuple):
    """Dictionaries of the message, of which canonical ones have the values in use only. sets, counted : as in the
    message."""

    strings: Sequence[str]
    sets: Sequence[DeviceSet]
    counted: Sequence[Any]
    device_sets: _UsedValues
    counter_sets: _UsedValues
    selectors: _UsedValues
    claim_specs: _UsedValues


def read_devices(message: pb.Devices) -> DeviceColumns:
    """Return the devices of a cluster in canonical form."""
    if not message.ListFields():
        return no_devices()
    dictionaries = _dictionaries(message)
    slices = _slices(message.slices, dictionaries)
    claims, quantities = _claims(message.claims, dictionaries)
    used = [np.zeros(1, np.int32)]
    used += [getattr(table, name) for table, names in ((slices, _OF_SLICES), (claims, _OF_CLAIMS)) for name in names]
    strings, moved = canonical_strings(dictionaries.strings, used)
    row = Row(f"{_TABLE}.classes", ())
    classes = [read_class(row, device_class) for device_class in row.over(message.classes)]
    check_unique([device_class.name for device_class in classes], f"{_TABLE}.classes", "name")
    row = Row(f"{_TABLE}.taint_rules", ())
    rules = {read_taint_rule(row, rule) for rule in row.over(message.taint_rules)}
    return DeviceColumns(
        Row(_TABLE, ()).at_least(message.kubernetes_minor, 0, "kubernetes_minor"),
        tuple(sorted(set(message.feature_gates))),
        strings,
        dictionaries.device_sets.values,
        dictionaries.counter_sets.values,
        dictionaries.selectors.values,
        dictionaries.claim_specs.values,
        quantities,
        slices._replace(**{name: moved[getattr(slices, name)] for name in _OF_SLICES}),
        tuple(sorted(classes, key=lambda device_class: device_class.name)),
        claims._replace(**{name: moved[getattr(claims, name)] for name in _OF_CLAIMS}),
        tuple(sorted(rules, key=encoded)),
        _templates(message.templates, dictionaries),
    )


_OF_SLICES: Final = ("driver", "pool", "node")
_OF_CLAIMS: Final = (
    "namespace", "pod_claim", "node", "result_driver", "result_pool", "result_device", "result_request",
    "capacity_name",
)  # fmt: skip
"""The columns of strings."""


def _dictionaries(message: pb.Devices) -> _DeviceDictionaries:
    try:
        strings = read_strings(pb.ClusterSnapshot(strings=message.strings))
    except SnapshotError as error:
        raise SnapshotError(f"{_TABLE}.{error.table}", error.row, error.field, error.problem) from None

    def read(field: str, read_row: Callable[[Row, Any], Any]) -> list[Any]:
        row = Row(f"{_TABLE}.{field}", strings)
        return [read_row(row, value) for value in row.over(getattr(message, field))]

    selectors = read("node_selectors", lambda row, message: read_terms(row, message, "terms"))
    contents = read("contents", lambda row, message: read_content(row, message, selectors))
    sets = read("device_sets", lambda row, message: _device_set(row, message, contents))
    counters = read("counter_sets", read_counter_sets)
    specs = read("claim_specs", lambda row, message: read_claim_spec(row, message, ""))
    slices, claims = message.slices, message.claims
    for table, name in ((slices, _SLICES), (claims, _CLAIMS)):
        check_range(np.array([table.count]), 0, MAX_PODS, name, "count", "number of rows")
    of_slices = _references(slices, _SLICES, "node_selector", len(selectors))
    of_claims = _references(claims, _CLAIMS, "node_selector", len(selectors))
    spec = read_column(claims.spec, np.int32, claims.count, _CLAIMS, "spec")
    check_index(spec, len(specs), _CLAIMS, "spec", "claim_specs")
    return _DeviceDictionaries(
        strings,
        sets,
        counters,
        _dictionary(sets, [_references(slices, _SLICES, "device_set", len(sets))]),
        _dictionary(counters, [_references(slices, _SLICES, "counter_set", len(counters))]),
        _dictionary(selectors, [of_slices, of_claims]),
        _dictionary(specs, [spec]),
    )


def _dictionary(values: Sequence[Hashable], used: Sequence[Int32]) -> _UsedValues:
    """Return the values that are used, by the order of their encodings. used : int32, references, -1 = none."""
    needed = np.zeros(len(values) + 1, np.bool_)
    for column in used:
        needed[column] = True
    code_of: dict[int, bytes] = {}
    for row in asking(np.flatnonzero(needed[:-1]).tolist(), every=1):
        code_of[row] = encoded(values[row])
        # What has been made is counted; one more is at most as large as a value of the API.
        reserve_memory(len(code_of[row]), "dictionaries of devices")
    by_code = {code: values[row] for row, code in code_of.items()}
    moved = np.full(len(values) + 1, -1, np.int32)
    distinct, moved[list(code_of)] = numbered(list(code_of.values()))
    return _UsedValues(tuple([by_code[code] for code in distinct]), moved)


def _references(table: Any, name: str, field: str, size: int) -> Int32:
    """Return a column of indices plus 1 as indices, -1 = none."""
    column = read_optional(getattr(table, field), np.int32, table.count, name, field)
    check_range(column, 0, size, name, field, "index plus 1")
    return column - np.int32(1)


def _device_set(row: Row, m: pb.DeviceSet, contents: Sequence[DeviceContent]) -> DeviceSet:
    if len(m.names) != len(m.contents):
        row.refuse("contents", f"there are {len(m.contents)}, but {len(m.names)} names; they are parallel")
    for index in m.contents:
        if not 0 <= index < len(contents):
            row.refuse("contents", f"{index} is not an index into contents; there are {len(contents)}")
    devices = tuple([contents[index] for index in m.contents])
    check_device_count(row, devices)
    return DeviceSet(tuple([row.needed_text(index, "names") for index in m.names]), devices)


def _strings(table: Any, name: str, fields: Iterable[str], size: int, strings: int) -> list[Int32]:
    """Return REQUIRED columns of string indices."""
    rows = []
    for field in fields:
        rows.append(read_column(getattr(table, field), np.int32, size, name, field))
        check_index(rows[-1], strings, name, field, "strings")
    return rows


def _optional_strings(table: Any, name: str, field: str, strings: int) -> Int32:
    column = read_optional(getattr(table, field), np.int32, table.count, name, field)
    check_index(column, strings, name, field, "strings")
    return column


def _slices(table: pb.ResourceSliceTable, d: _DeviceDictionaries) -> SliceColumns:
    """Return the slices sorted by name, with the message's strings."""
    count = table.count
    text = TextColumn(_SLICES, "names", "name_lengths", count)
    names = text.read(table.names, table.name_lengths)
    order = text.order(np.zeros(count, np.int32), names, "; give each slice once")
    driver, pool = _strings(table, _SLICES, ("driver", "pool"), count, len(d.strings))
    flags = read_optional(table.flags, np.uint8, count, _SLICES, "flags")
    check_range(flags, 0, _SLICE_FLAGS, _SLICES, "flags", "set of flags")
    slices = SliceColumns(
        names,
        driver,
        pool,
        read_column(table.generation, np.int64, count, _SLICES, "generation"),
        read_column(table.slice_count, np.int64, count, _SLICES, "slice_count"),
        _optional_strings(table, _SLICES, "node", len(d.strings)),
        d.selectors.moved[_references(table, _SLICES, "node_selector", len(d.selectors.moved) - 1)],
        flags,
        d.device_sets.moved[_references(table, _SLICES, "device_set", len(d.sets))],
        d.counter_sets.moved[_references(table, _SLICES, "counter_set", len(d.counted))],
    )
    return slices if order is None else _in_order(slices, order)


def _in_order(table: Any, order: Int64) -> Any:
    """Return a table of columns with its rows in another order."""
    return type(table)(*_columns_in_order(table, order))


def _columns_in_order(columns: Iterable[Any], order: Int64) -> Iterator[Any]:
    return (take_text(column, order) if isinstance(column, Text) else column[order] for column in columns)


def _claims(table: pb.ResourceClaimTable, d: _DeviceDictionaries) -> tuple[ClaimColumns, tuple[int, ...]]:
    """Return the claims sorted by (namespace, name), with the message's strings, and the quantities in use."""
    count, strings = table.count, len(d.strings)
    (namespace,) = _strings(table, _CLAIMS, ("namespace",), count, strings)
    text = TextColumn(_CLAIMS, "names", "name_lengths", count)
    names = text.read(table.names, table.name_lengths)
    _, rank = canonical_strings(d.strings, [namespace])
    order = text.order(rank[namespace], names, "of the same namespace; give each claim once")
    pods = TextColumn(_CLAIMS, "pods", "pod_lengths", count)
    flags = read_optional(table.flags, np.uint8, count, _CLAIMS, "flags")
    check_range(flags, 0, _CLAIM_FLAGS, _CLAIMS, "flags", "set of flags")
    of_claims = (
        namespace,
        names,
        d.claim_specs.moved[read_column(table.spec, np.int32, count, _CLAIMS, "spec")],
        pods.read(table.pods, table.pod_lengths, may_be_empty=True),
        _optional_strings(table, _CLAIMS, "pod_claim", strings),
        flags,
        _optional_strings(table, _CLAIMS, "node", strings),
        d.selectors.moved[_references(table, _CLAIMS, "node_selector", len(d.selectors.moved) - 1)],
    )
    results, amounts, quantities = _results(table, d)
    _check_result_count(results.claim, namespace, names, d.strings)
    consumer_claim = _rows_of(table.consumer_claim, count, "consumer_claim", "claims")
    of_consumers = TextColumn(_CLAIMS, "consumers", "consumer_lengths", len(consumer_claim))
    consumers = of_consumers.read(table.consumers, table.consumer_lengths, may_be_empty=True)
    if order is not None:
        of_claims = tuple(_columns_in_order(of_claims, order))
        moved = places_in(order)
        results, amounts = _sorted_results(results, amounts, moved)
        consumer_claim = moved[consumer_claim]
    by_name = _by_name(consumer_claim, consumers)
    consumer_claim, consumers = consumer_claim[by_name], take_text(consumers, by_name)
    return ClaimColumns(*of_claims, *results, *amounts, consumer_claim, consumers), quantities


class _OfResults(NamedTuple):
    """The columns of length D, as in `ClaimColumns`."""

    claim: Int32
    driver: Int32
    pool: Int32
    device: Int32
    request: Int32
    flags: Any


class _OfAmounts(NamedTuple):
    """The columns of length E."""

    result: Int32
    name: Int32
    amount: Int32


def _rows_of(data: bytes, size: int, field: str, into: str) -> Int32:
    """Return a column of ascending row numbers; its bytes say how many there are."""
    column = read_column(data, np.int32, len(data) // 4, _CLAIMS, field)
    check_index(column, size, _CLAIMS, field, into)
    if (falls := np.flatnonzero(np.diff(column) < 0)).size:
        row = int(falls[0]) + 1
        raise SnapshotError(_CLAIMS, row, field, "it is smaller than the one before; sort the column")
    return column


def _results(table: pb.ResourceClaimTable, d: _DeviceDictionaries) -> tuple[_OfResults, _OfAmounts, tuple[int, ...]]:
    """Return the results and the amounts of their capacities, in the order of the message, and the quantities."""
    strings = len(d.strings)
    claim = _rows_of(table.result_claim, table.count, "result_claim", "claims")
    fields = ("result_driver", "result_pool", "result_device", "result_request")
    texts = _strings(table, _CLAIMS, fields, len(claim), strings)
    flags = read_column(table.result_flags, np.uint8, len(claim), _CLAIMS, "result_flags")
    check_range(flags, 0, _RESULT_FLAGS, _CLAIMS, "result_flags", "set of flags")
    result = _rows_of(table.capacity_result, len(claim), "capacity_result", "results")
    name, text = _strings(table, _CLAIMS, ("capacity_name", "capacity_amount"), len(result), strings)
    distinct, first, of = np.unique(text, return_index=True, return_inverse=True)
    row, parsed = Row(_CLAIMS, d.strings), list[int]()
    for row.index, index in zip(first.tolist(), asking(distinct.tolist()), strict=True):
        parsed.append(read_quantity(row, d.strings[index], "capacity_amount"))
    quantities, moved = numbered(parsed)
    driver, pool, device, request = texts
    return (
        _OfResults(claim, driver, pool, device, request, flags),
        _OfAmounts(result, name, moved[of].astype(np.int32)),
        tuple(quantities),
    )


def _check_result_count(claim: Int32, namespace: Int32, names: Text, strings: Sequence[str]) -> None:
    """Refuse the first claim with more devices than the API allows. claim : int32[D]."""
    count = np.bincount(claim)
    if (beyond := np.flatnonzero(count > MOST_RESULTS)).size:
        row = int(beyond[0])
        name = f"{strings[namespace[row]]}/{names.get(row)}"
        problem = f"claim {name!r} has {count[row]} devices; the API allows at most {MOST_RESULTS}"
        raise SnapshotError(_CLAIMS, row, "result_claim", problem)


def _sorted_results(results: _OfResults, amounts: _OfAmounts, moved: Int32) -> tuple[_OfResults, _OfAmounts]:
    """Return both in the order of the claims' new rows. moved : int32[C]."""
    order = np.argsort(moved[results.claim], kind="stable")
    in_order = _in_order(results._replace(claim=moved[results.claim]), order)
    row = places_in(order)
    of_amounts = np.argsort(row[amounts.result], kind="stable")
    return in_order, _in_order(amounts._replace(result=row[amounts.result]), of_amounts)


def _by_name(claim: Int32, names: Text) -> Int64:
    """Return the order of consumers by claim, then name. Names are read only where a claim has several."""
    several = np.flatnonzero((np.bincount(claim) > 1)[claim]) if len(claim) else np.zeros(0, np.int64)
    rank = np.zeros(len(claim), np.int32)
    _, rank[several] = numbered([names.get(at) for at in several.tolist()])
    return np.lexsort((rank, claim)).astype(np.int64)


def _templates(
    messages: Iterable[pb.TemplateSlices], d: _DeviceDictionaries
) -> tuple[tuple[str, tuple[TemplateSlice, ...]], ...]:
    table = f"{_TABLE}.templates"
    row = Row(table, d.strings)
    templates = [
        (row.needed(message.node_group, "node_group"), tuple([_template(row, m, d) for m in message.slices]))
        for message in row.over(messages)
    ]
    check_unique([group for group, _ in templates], table, "node_group")
    return tuple(sorted(templates, key=lambda row: row[0]))


def _template(row: Row, m: pb.TemplateSlice, d: _DeviceDictionaries) -> TemplateSlice:
    for index, values, field in ((m.device_set, d.sets, "device_set"), (m.counter_set, d.counted, "counter_set")):
        if not 0 <= index <= len(values):
            row.refuse(f"slices.{field}", f"{index} is no index plus 1; there are {len(values)}")
    return TemplateSlice(
        row.needed(m.driver, "slices.driver"),
        m.pool,
        d.sets[m.device_set - 1] if m.device_set else DeviceSet(),
        d.counted[m.counter_set - 1] if m.counter_set else (),
        m.per_device_node_selection,
    )


@cache
def no_devices() -> DeviceColumns:
    """Return the columns of a cluster without dynamic resource allocation, always the same object."""
    empty = pb.Devices(feature_gates=["-"])
    return read_devices(empty)._replace(feature_gates=())
