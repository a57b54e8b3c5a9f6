"""The pod table as columns, sorted by (namespace, name); numbers in annotations of pods by pod and key; pod groups, and
the pods that name them.

Decides order and resolution of the columns; checks each one. Loops over pods only in kernels. A sorted table is read as
it is; otherwise it is sorted first. Raises SnapshotError with the row of the message. Source:
`protos/trimtab/v1/snapshot.proto`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from trimtab.planner.model.execution import asking
from trimtab.planner.model.values import PodGroup, TemplatePod
from trimtab.planner.snapshot.checks import (
    MAX_PODS,
    MAX_TIME_S,
    Row,
    SnapshotError,
    check_index,
    check_range,
    check_unique,
    read_column,
    read_optional,
)
from trimtab.planner.snapshot.columns import Dangling, Float64, Int32, Int64, PodColumns
from trimtab.planner.snapshot.dictionaries import places_in
from trimtab.planner.snapshot.references import resolve
from trimtab.planner.snapshot.rows import UNKNOWN_COUNT
from trimtab.planner.snapshot.texts import TextColumn, take_text
from trimtab.v1 import snapshot_pb2 as pb

TABLE: Final = "pods"
_MAX_UID: Final = 255
_KNOWN_FLAGS: Final = 127
_LAST_PHASE: Final = max(pb.PodPhase.Code.values())
NO_NUMBER: Final = np.inf
"""Value for an annotation that is not a number. Unlike NaN it equals itself, so equal columns compare equal."""


class PodNumbers(NamedTuple):
    """One entry per pod and key, ascending. pod, key : int32[A]; value : float64[A] or NO_NUMBER."""

    pod: Int32
    key: Int32
    value: Float64


def number_keys(table: pb.PodTable, strings: Sequence[str]) -> Int32:
    """Return the column of keys, checked, in the message's strings."""
    count = len(table.number_pod) // 4
    keys = read_column(table.number_key, np.int32, count, TABLE, "number_key")
    check_index(keys, len(strings), TABLE, "number_key", "strings")
    for key in np.unique(keys).tolist():
        if not strings[key]:
            row = int(np.flatnonzero(keys == key)[0])
            raise SnapshotError(TABLE, row, "number_key", "it is empty; name the annotation")
    return keys


def read_numbers(table: pb.PodTable, strings: Sequence[str], moved: Int32, order: Int64 | None) -> PodNumbers:
    """Return the numbers. moved : int32[strings], their canonical numbers; order : int64[P] new row to old one."""
    keys = number_keys(table, strings)
    pod = read_column(table.number_pod, np.int32, len(keys), TABLE, "number_pod")
    check_index(pod, table.count, TABLE, "number_pod", "pods")
    value = read_column(table.number, np.float64, len(keys), TABLE, "number")
    value[~np.isfinite(value)] = NO_NUMBER
    # Turns -0.0 into 0.0: equal content has equal bytes.
    value += 0.0
    if order is not None:
        pod = places_in(order)[pod]
    return sorted_numbers(PodNumbers(pod, moved[keys], value))


def sorted_numbers(numbers: PodNumbers) -> PodNumbers:
    """Return the entries ascending by pod and key. Refuses a key that a pod has twice."""
    place = (numbers.pod.astype(np.int64) << 32) | numbers.key
    order = np.argsort(place, kind="stable")
    twice = np.flatnonzero(np.diff(place[order]) == 0)
    if len(twice):
        row = int(order[twice[0] + 1])
        raise SnapshotError(TABLE, row, "number_key", "the pod has this annotation twice; give it once")
    return PodNumbers(numbers.pod[order], numbers.key[order], numbers.value[order])


_TABLE: Final = "pod_groups"
_POLICIES: Final = frozenset(pb.PodGroupPolicy.Code.values()) - {pb.PodGroupPolicy.UNSPECIFIED}
_MODES: Final = frozenset(pb.PodGroupDisruptionMode.Code.values())


class GroupedPods(NamedTuple):
    """The pods that name a group. group_pod : int32[B] ascending; group_name : int32[B] index of its name in the
    strings."""

    group_pod: Int32
    group_name: Int32


def read_pod_groups(
    messages: Sequence[pb.PodGroup], strings: Sequence[str], pod_of: Callable[[Row, pb.TemplatePod], TemplatePod]
) -> tuple[PodGroup, ...]:
    """Return the groups sorted by (namespace, name). pod_of : reads a pod template."""
    row = Row(_TABLE, strings)
    groups = [_pod_group(row, index, m, pod_of) for index, m in enumerate(asking(messages))]
    check_unique([row[:2] for row in groups], _TABLE, "name")
    return tuple(sorted(groups, key=lambda row: row[:2]))


def _pod_group(row: Row, index: int, m: pb.PodGroup, pod_of: Callable[[Row, pb.TemplatePod], TemplatePod]) -> PodGroup:
    row.index = index
    namespace, name = row.name(m.namespace, "namespace"), row.name(m.name, "name")
    kind = m.object or f"PodGroup/{namespace}/{name}"
    if m.problem:
        return PodGroup(namespace, name, kind, m.problem)
    is_gang = m.policy == pb.PodGroupPolicy.GANG
    row.code(m.policy, _POLICIES, "policy")
    return PodGroup(
        namespace=namespace,
        name=name,
        object=kind,
        min_count=row.at_least(m.min_count, 1, "min_count") if is_gang else 0,
        topology_key=row.text(m.topology_key, "topology_key"),
        moves_whole=row.code(m.disruption_mode, _MODES, "disruption_mode") == pb.PodGroupDisruptionMode.POD_GROUP,
        priority=m.priority if m.HasField("priority") else None,
        created_ns=row.time_ns(m, "create_time"),
        desired_count=row.at_least(m.desired_count, 0, "desired_count")
        if m.HasField("desired_count")
        else UNKNOWN_COUNT,
        pod_template=pod_of(row, m.pod_template) if m.HasField("pod_template") else None,
        slack=m.slack,
    )


def group_names(table: pb.PodTable, strings: Sequence[str]) -> Int32:
    """Return the column of names, checked, in the message's strings, 0 = in none. int32[P], int32[0] if no pod is in
    any."""
    if not table.pod_group:
        return np.zeros(0, np.int32)
    names = read_optional(table.pod_group, np.int32, table.count, "pods", "pod_group")
    check_index(names, len(strings), "pods", "pod_group", "strings")
    return names


def read_grouped_pods(table: pb.PodTable, strings: Sequence[str], moved: Int32, order: Int64 | None) -> GroupedPods:
    """Return the pods in groups. moved : int32[strings], the canonical numbers; order : int64[P] new row to old one."""
    names = group_names(table, strings)
    if not len(names):
        return GroupedPods(names, names)
    names = names if order is None else names[order]
    is_named = np.fromiter(map(bool, strings), np.bool_, len(strings))
    pod = np.flatnonzero(is_named[names]).astype(np.int32)
    return GroupedPods(pod, moved[names[pod]])


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
    columns = _read_indices(table, dictionaries) | _read_plain(table)
    mounts = _read_mounts(table, dictionaries, order)
    numbers = read_numbers(table, dictionaries.strings, dictionaries.moved, order)
    grouped = read_grouped_pods(table, dictionaries.strings, dictionaries.moved, order)
    if order is not None:
        rank, names, uids = rank[order], take_text(names, order), take_text(uids, order)
        columns = {name: column[order] for name, column in columns.items()}
    dangling = dict[str, Dangling]()
    for name in DanglingPods._fields:
        rows = dictionaries.owners if name == "owner" else dictionaries.nodes
        columns[name], dangling[name] = resolve(columns[name], dictionaries.strings, rows)
    pods = PodColumns(
        namespace=rank,
        name=names,
        uid=uids,
        volume_pod=mounts[0],
        volume=mounts[1],
        number_pod=numbers.pod,
        number_key=numbers.key,
        number=numbers.value,
        **grouped._asdict(),
        **columns,
    )
    return pods, DanglingPods(**dangling)


def _read_indices(table: pb.PodTable, dictionaries: PodDictionaries) -> dict[str, Any]:
    """Return columns of references by name: spec, label_set in canonical numbers; others in the message's strings."""
    count, strings = table.count, len(dictionaries.strings)
    spec = read_column(table.spec, np.int32, count, TABLE, "spec")
    check_index(spec, len(dictionaries.specs), TABLE, "spec", "pod_specs")
    label_set = read_optional(table.label_set, np.int32, count, TABLE, "label_set")
    check_index(label_set, len(dictionaries.label_sets), TABLE, "label_set", "label_sets")
    columns: dict[str, Any] = {"node": read_column(table.node, np.int32, count, TABLE, "node")}
    for name, field in _OPTIONAL_NAMES.items():
        columns[name] = read_optional(getattr(table, field), np.int32, count, TABLE, field)
    for name, column in columns.items():
        check_index(column, strings, TABLE, _OPTIONAL_NAMES.get(name, name), "strings")
    return columns | {"spec": dictionaries.specs[spec], "label_set": dictionaries.label_sets[label_set]}


_OPTIONAL_NAMES: Final = {"owner": "owner", "pinned": "pinned_node", "nominated": "nominated_node"}
"""The message's field of each column."""


def _read_plain(table: pb.PodTable) -> dict[str, Any]:
    """Return columns of plain values by name."""
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
    times = {"created_s": created_s, "deletion_s": deletion_s}
    return {**times, "phase": phase, "flags": flags, "deletion_cost": deletion_cost}


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
        pod = places_in(order)[pod]
    return sort_mounts(pod, dictionaries.volumes[volume])


def sort_mounts(pod: Int32, volume: Int32) -> tuple[Int32, Int32]:
    """Return pairs of (pod, volume) ascending, each once. pod, volume : int32[M]; returns the same."""
    pairs = np.unique((pod.astype(np.int64) << 32) | volume)
    return (pairs >> 32).astype(np.int32), (pairs & 0x7FFFFFFF).astype(np.int32)
