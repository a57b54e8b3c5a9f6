"""Why a pod's claims get no devices on an empty new node of a node group: the planner is asked about such nodes."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from trimtab.clients.cli.causes import OF_DEVICES, device_cause
from trimtab.clients.cluster_view import ClusterView, ShownPod, first_indices
from trimtab.clients.planner_client import PlannerClient
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

_COLUMNS = {
    "driver": "<i4", "pool": "<i4", "generation": "<i8", "slice_count": "<i8", "node": "<i4", "node_selector": "<i4",
    "flags": "u1", "device_set": "<i4", "counter_set": "<i4",
}  # fmt: skip
"""The columns of slices beside their names, and their types."""
_PREFIX = "new/"
"""No node has such a name."""
_PER_DEVICE = 2


class _NewSlice(NamedTuple):
    """A slice of a new node, but for the node and the pool. pool : number of it among those of the node."""

    driver: int
    pool: int
    slice_count: int
    flags: int
    device_set: int
    counter_set: int


def device_causes_on_new_nodes(
    planner: PlannerClient, view: ClusterView, pod: ShownPod, groups: Iterable[str], request: plan_pb2.PlanRequest
) -> dict[str, str]:
    """Return by node group why the claims of a pod get no devices on a new node, where they are what is lacking."""
    example = {node.node_group: node for node in reversed(view.snapshot.nodes)}
    examples = {
        group: view.groups[group].template if view.groups[group].HasField("template") else example[group]
        for group in groups
        if view.groups[group].HasField("template") or group in example
    }
    if not examples or not view.snapshot.HasField("devices"):
        return {}
    fit = plan_pb2.PlanRequest(request_id="explain", fit_pods=[pod.key], now=request.now, settings=request.settings)
    (answer,) = planner.check_fit(_with_new_nodes(view, examples), fit)
    return {
        node.node.removeprefix(_PREFIX): device_cause(node.devices)
        for node in answer.nodes
        if node.devices and set(node.reasons) & set(OF_DEVICES)
    }


def _with_new_nodes(view: ClusterView, examples: Mapping[str, Any]) -> pb.ClusterSnapshot:
    """Return the cluster with one empty new node of each group in place of its nodes. examples : a node or template of
    each group."""
    made = pb.ClusterSnapshot()
    made.CopyFrom(view.snapshot)
    del made.nodes[:]
    columns = _columns(view.snapshot.devices)
    texts, rows, names = made.devices.strings, list[tuple[int, ...]](), list[str]()
    index = {text: at for at, text in enumerate(texts)}

    def string(text: str) -> int:
        if text not in index:
            index[text] = len(texts)
            texts.append(text)
        return index[text]

    for group, of in examples.items():
        name = f"{_PREFIX}{group}"
        made.nodes.add(name=name, label_set=of.label_set, taints=of.taints, allocatable=of.allocatable, ready=True)
        for at, new_slice in enumerate(_new_slices(view, columns, group, string)):
            names.append(f"{name}/{at}")
            pool = string(f"{name}-{new_slice.pool}" if new_slice.pool else name)
            rows.append((new_slice.driver, pool, 1, new_slice.slice_count, string(name), 0, *new_slice[3:]))
    _replace_slices(made.devices.slices, columns, names, rows)
    return made


def _new_slices(
    view: ClusterView, columns: Mapping[str, np.ndarray], group: str, string: Callable[[str], int]
) -> list[_NewSlice]:
    """Return the slices that a group declares, or else those that most of its nodes have published."""
    devices = view.snapshot.devices
    declared = next((one.slices for one in devices.templates if one.node_group == group), None)
    if declared is not None:
        pools = [(one.driver, one.pool) for one in declared]
        number = {pool: at for at, pool in enumerate(dict.fromkeys(pools))}
        return [
            _NewSlice(
                string(one.driver), number[pool], pools.count(pool), _PER_DEVICE * one.per_device_node_selection,
                one.device_set, one.counter_set,
            )
            for one, pool in zip(declared, pools, strict=True)
        ]  # fmt: skip
    of_string = dict(zip(devices.strings, first_indices(devices.strings).tolist(), strict=True))
    members = [of_string[one.name] for one in view.snapshot.nodes if one.node_group == group and one.name in of_string]
    kinds = Counter(_published(columns, node) for node in members)
    most = sorted((kind for kind in kinds if kind), key=lambda kind: -kinds[kind])
    return list(most[0]) if most else []


def _published(columns: Mapping[str, np.ndarray], node: int) -> tuple[_NewSlice, ...]:
    """Return the slices of a node. node : index of its name."""
    rows = np.flatnonzero(columns["node"] == node)
    number: dict[tuple[int, int], int] = {}
    found = []
    for row in rows.tolist():
        one = {name: int(column[row]) for name, column in columns.items()}
        pool = number.setdefault((one["driver"], one["pool"]), len(number))
        found.append(
            _NewSlice(one["driver"], pool, one["slice_count"], one["flags"], one["device_set"], one["counter_set"])
        )
    return tuple(sorted(found))


def _columns(devices: pb.Devices) -> dict[str, np.ndarray]:
    """Return the columns of slices, those that are left out as zeros; equal texts have one index."""
    table, first = devices.slices, first_indices(devices.strings)
    columns = {
        name: np.frombuffer(getattr(table, name), type_)
        if getattr(table, name)
        else np.zeros(table.count, type_)
        for name, type_ in _COLUMNS.items()
    }  # fmt: skip
    return columns | {name: first[columns[name]] for name in _OF_STRINGS if len(first)}


_OF_STRINGS: Final = ("driver", "pool", "node")


def _replace_slices(
    table: pb.ResourceSliceTable, columns: Mapping[str, np.ndarray], names: list[str], rows: list[tuple[int, ...]]
) -> None:
    """Keep the slices that belong to no single node, and add those of new nodes."""
    kept = np.flatnonzero(columns["node"] == 0)
    lengths = np.frombuffer(table.name_lengths, "<i4") if table.count else np.zeros(0, np.int32)
    ends = np.cumsum(lengths)
    before = [table.names[ends[row] - lengths[row] : ends[row]] for row in kept.tolist()]
    every = [*before, *(name.encode() for name in names)]
    added = zip(*rows, strict=True) if rows else [()] * len(columns)
    for (name, column), more in zip(columns.items(), added, strict=True):
        setattr(table, name, np.concatenate((column[kept], np.array(more, column.dtype))).tobytes())
    table.count, table.names = len(every), b"".join(every)
    table.name_lengths = np.array([len(one) for one in every], "<i4").tobytes()
