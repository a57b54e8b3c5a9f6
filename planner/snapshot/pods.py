"""The pod table as columns, sorted by (namespace, name).

Decides order and resolution of the columns; checks each one. Loops over pods only in kernels. A sorted table is read as
it is; otherwise it is sorted first. Raises SnapshotError with the row of the message.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.snapshot.checks import (
    MAX_PODS,
    MAX_TIME_S,
    SnapshotError,
    check_index,
    check_range,
    read_column,
    read_optional,
)
from trimtab.planner.snapshot.columns import Dangling, Int32, Int64, PodColumns, UInt8
from trimtab.planner.snapshot.pod_groups import read_grouped_pods
from trimtab.planner.snapshot.pod_numbers import read_numbers
from trimtab.planner.snapshot.references import resolve
from trimtab.planner.snapshot.text_columns import TextColumn, take_text
from trimtab.v1 import snapshot_pb2 as pb

TABLE: Final = "pods"
_MAX_UID: Final = 255
_KNOWN_FLAGS: Final = 127
_LAST_PHASE: Final = max(pb.PodPhase.Code.values())


class PodDictionaries(NamedTuple):
    """The dictionaries that the pod table refers to.

    strings : of the message; moved, label_sets, specs, volumes : int32, the canonical number of each string, label
    set, spec and volume of the message; nodes, owners : canonical index by name or uid.
    """

    strings: Sequence[str]
    moved: Int32
    label_sets: Int32
    specs: Int32
    volumes: Int32
    nodes: Mapping[str, int]
    owners: Mapping[str, int]


class DanglingPods(NamedTuple):
    """Dangling references of the pods' columns of these names."""

    node: Dangling
    owner: Dangling
    pinned: Dangling
    nominated: Dangling


def read_namespace(table: pb.PodTable, strings: Sequence[str]) -> Int32:
    """Return the column `namespace` in the message's string numbers; also check the number of pods."""
    check_range(np.array([table.count]), 0, MAX_PODS, TABLE, "count", "number of pods")
    namespace = read_column(table.namespace, np.int32, table.count, TABLE, "namespace")
    check_index(namespace, len(strings), TABLE, "namespace", "strings")
    used = np.zeros(len(strings), np.bool_)
    used[namespace] = True
    for i in np.flatnonzero(used).tolist():
        if not strings[i] or "/" in strings[i]:
            row = int(np.flatnonzero(namespace == i)[0])
            raise SnapshotError(TABLE, row, "namespace", f"{strings[i]!r} is not the name of a namespace")
    return namespace


def read_pods(table: pb.PodTable, namespace: Int32, dictionaries: PodDictionaries) -> tuple[PodColumns, DanglingPods]:
    """Return the pods in canonical order, and the dangling references. namespace : int32[P], from `read_namespace`."""
    rank = dictionaries.moved[namespace]
    of_names = TextColumn(TABLE, "names", "name_lengths", table.count)
    names = of_names.read(table.names, table.name_lengths)
    uids = TextColumn(TABLE, "uids", "uid_lengths", table.count).read(table.uids, table.uid_lengths, _MAX_UID)
    if b"/" in table.names:
        offset = table.names.index(b"/")
        row = int(np.searchsorted(names.offsets, offset, "right")) - 1
        raise SnapshotError(TABLE, row, "names", f"{names.get(row)!r} has a slash; names of pods have none")
    order = of_names.order(rank, names, "of the same namespace; give each pod once")
    columns = _read_indices(table, dictionaries)
    plain = _read_plain(table)
    mounts = _read_mounts(table, dictionaries, order)
    numbers = read_numbers(table, dictionaries.strings, dictionaries.moved, order)
    grouped = read_grouped_pods(table, dictionaries.strings, dictionaries.moved, order)
    if order is not None:
        rank, names, uids = rank[order], take_text(names, order), take_text(uids, order)
        columns = _Indices(*(column[order] for column in columns))
        plain = _Plain._make(column[order] for column in plain)
    node, no_node = resolve(columns.node, dictionaries.strings, dictionaries.nodes)
    owner, no_owner = resolve(columns.owner, dictionaries.strings, dictionaries.owners)
    pinned, not_pinned = resolve(columns.pinned, dictionaries.strings, dictionaries.nodes)
    nominated, not_nominated = resolve(columns.nominated, dictionaries.strings, dictionaries.nodes)
    pods = PodColumns(
        namespace=rank,
        name=names,
        uid=uids,
        spec=columns.spec,
        label_set=columns.label_set,
        node=node,
        owner=owner,
        created_s=plain.created_s,
        deletion_s=plain.deletion_s,
        phase=plain.phase,
        flags=plain.flags,
        deletion_cost=plain.deletion_cost,
        pinned=pinned,
        nominated=nominated,
        volume_pod=mounts[0],
        volume=mounts[1],
        number_pod=numbers.pod,
        number_key=numbers.key,
        number=numbers.value,
        **grouped._asdict(),
    )
    return pods, DanglingPods(no_node, no_owner, not_pinned, not_nominated)


class _Indices(NamedTuple):
    """Columns of references: spec, label_set in canonical numbers; the others in the message's strings."""

    spec: Int32
    label_set: Int32
    node: Int32
    owner: Int32
    pinned: Int32
    nominated: Int32


class _Plain(NamedTuple):
    """Columns of plain values, see `PodColumns`. created_s, deletion_s : int64[P]; phase, flags : uint8[P];
    deletion_cost : int32[P].
    """

    created_s: Int64
    deletion_s: Int64
    phase: UInt8
    flags: UInt8
    deletion_cost: Int32


def _read_indices(table: pb.PodTable, dictionaries: PodDictionaries) -> _Indices:
    count, strings = table.count, len(dictionaries.strings)
    spec = read_column(table.spec, np.int32, count, TABLE, "spec")
    check_index(spec, len(dictionaries.specs), TABLE, "spec", "pod_specs")
    label_set = read_optional(table.label_set, np.int32, count, TABLE, "label_set")
    check_index(label_set, len(dictionaries.label_sets), TABLE, "label_set", "label_sets")
    node = read_column(table.node, np.int32, count, TABLE, "node")
    owner = read_optional(table.owner, np.int32, count, TABLE, "owner")
    pinned = read_optional(table.pinned_node, np.int32, count, TABLE, "pinned_node")
    nominated = read_optional(table.nominated_node, np.int32, count, TABLE, "nominated_node")
    columns = (node, "node"), (owner, "owner"), (pinned, "pinned_node"), (nominated, "nominated_node")
    for column, field in columns:
        check_index(column, strings, TABLE, field, "strings")
    return _Indices(dictionaries.specs[spec], dictionaries.label_sets[label_set], node, owner, pinned, nominated)


def _read_plain(table: pb.PodTable) -> _Plain:
    count = table.count
    created_s = read_optional(table.created, np.int64, count, TABLE, "created")
    deletion_s = read_optional(table.deletion, np.int64, count, TABLE, "deletion")
    phase = read_column(table.phase, np.uint8, count, TABLE, "phase")
    flags = read_optional(table.flags, np.uint8, count, TABLE, "flags")
    deletion_cost = read_optional(table.deletion_cost, np.int32, count, TABLE, "deletion_cost")
    check_range(created_s, 0, MAX_TIME_S, TABLE, "created", "time in Unix seconds")
    check_range(deletion_s, 0, MAX_TIME_S, TABLE, "deletion", "time in Unix seconds")
    check_range(phase, 0, _LAST_PHASE, TABLE, "phase", "PodPhase")
    check_range(flags, 0, _KNOWN_FLAGS, TABLE, "flags", "set of flags")
    return _Plain(created_s, deletion_s, phase, flags, deletion_cost)


def _read_mounts(table: pb.PodTable, dictionaries: PodDictionaries, order: Int64 | None) -> tuple[Int32, Int32]:
    """Return (pod, volume) in canonical numbers, ascending, each once."""
    pod = read_column(table.volume_pod, np.int32, len(table.volume_pod) // 4, TABLE, "volume_pod")
    volume = read_column(table.volume, np.int32, len(pod), TABLE, "volume")
    check_index(pod, table.count, TABLE, "volume_pod", "pods")
    check_index(volume, len(dictionaries.volumes), TABLE, "volume", "volumes")
    if (falls := np.flatnonzero(np.diff(pod) < 0)).size:
        raise SnapshotError(
            TABLE, int(falls[0]) + 1, "volume_pod", "it is smaller than the one before; sort the column"
        )
    if order is not None:
        rank = np.empty(table.count, np.int32)
        rank[order] = np.arange(table.count, dtype=np.int32)
        pod = rank[pod]
    return sort_mounts(pod, dictionaries.volumes[volume])


def sort_mounts(pod: Int32, volume: Int32) -> tuple[Int32, Int32]:
    """Return pairs of (pod, volume) ascending, each once. pod, volume : int32[M]; returns the same."""
    pairs = np.unique((pod.astype(np.int64) << 32) | volume)
    return (pairs >> 32).astype(np.int32), (pairs & 0x7FFFFFFF).astype(np.int32)
