"""Apply a delta to a snapshot; the result equals, bit by bit, the new snapshot sent in full.

Both sides are brought into canonical form; their dictionaries are merged in order without sorting again, rows are taken
from one side or the other, and unused entries are dropped as for a full snapshot. Cost: one copy of the columns, and
O(changes * log rows); keys of pods are looked up in a kernel. Raises SnapshotError, SnapshotMalformedError.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.snapshot.caches import UNCACHED, SnapshotCache, SnapshotKey
from trimtab.planner.snapshot.checks import SnapshotError, SnapshotMalformedError
from trimtab.planner.snapshot.columns import (
    Bool,
    Dangling,
    DanglingReferences,
    Int32,
    Int64,
    PodColumns,
    Snapshot,
    Text,
)
from trimtab.planner.snapshot.decode import ReadSpecs, draft
from trimtab.planner.snapshot.dictionaries import row_of_key
from trimtab.planner.snapshot.joined_rows import (
    JoinedDictionaries,
    JoinedTables,
    join_dictionaries,
    join_tables,
    renumbered,
)
from trimtab.planner.snapshot.pod_specs import read_pod_specs
from trimtab.planner.snapshot.pods import GroupedPods, PodNumbers, sort_mounts, sorted_numbers
from trimtab.planner.snapshot.references import Followed, dangling, follow
from trimtab.planner.snapshot.sealing import complete, digest, digest_of, share
from trimtab.planner.snapshot.texts import find_pods, gather_text, keys_of, locate
from trimtab.v1 import snapshot_pb2 as pb

_BYTES_OF_CELL: Final = 40
_BYTES_OF_POD: Final = 150
"""Memory of a pod's columns, some of which exist twice while they are joined."""
_Names = tuple[Sequence[str], Sequence[str]]
"""The names of a table, before and in the delta."""
_PLAIN = ("created_s", "deletion_s", "phase", "flags", "deletion_cost")


def parse_delta(data: bytes) -> pb.SnapshotDelta:
    """Return the message. Raises SnapshotMalformedError."""
    message = pb.SnapshotDelta()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise SnapshotMalformedError(f"these {len(data)} bytes are not a SnapshotDelta: {error}") from error
    return message


def apply_delta(
    base: Snapshot,
    delta: pb.SnapshotDelta,
    cache: SnapshotCache = UNCACHED,
    limits: RequestLimits = UNLIMITED,
    read_specs: ReadSpecs = read_pod_specs,
) -> Snapshot:
    """Return the base with the delta's rows added or replaced and its deleted keys removed.

    The base is not changed; equal parts are shared with it (`trimtab.planner.snapshot.sealing`). cache : that of the
    base; read_specs : see `trimtab.planner.snapshot.decode.draft`.
    """
    changed = draft(delta.changed, limits, read_specs)
    limits.check()
    nodes = len(base.nodes.name) + len(base.templates.name) + len(changed.nodes.name) + len(changed.templates.name)
    width = len({*base.resources, *changed.resources})
    limits.reserve(_BYTES_OF_CELL * nodes * width + _BYTES_OF_POD * len(base.pods.spec), "the base, changed")
    dictionaries = join_dictionaries(base, changed, cache)
    tables = join_tables(base, changed, delta, dictionaries)
    pods, dangling = join_pods(base, changed, delta.deleted_pods, dictionaries, tables, cache)
    joined = Snapshot(
        version="",
        strings=dictionaries.strings,
        resources=dictionaries.resources,
        label_sets=dictionaries.label_sets,
        specs=dictionaries.specs,
        volumes=dictionaries.volumes,
        pods=pods,
        nodes=tables.nodes,
        templates=tables.templates,
        groups=tables.groups,
        owners=tables.owners,
        budgets=tables.budgets,
        namespaces=tables.namespaces,
        deletions=tables.deletions,
        recent_evictions=tables.recent_evictions,
        slack_requests=(changed if delta.changed.HasField("slack_requests") else base).slack_requests,
        devices=(changed if delta.changed.HasField("devices") else base).devices,
        capacity_requests=(changed if delta.changed.HasField("capacity_requests") else base).capacity_requests,
        pod_groups=tables.pod_groups,
        dangling=dangling,
    )
    shared = share(base, complete(share(base, joined), base))
    version = digest(shared, partial(_kept_digest, base, shared, cache))
    return base if version == base.version else shared._replace(version=version)


@dataclass(frozen=True)
class FieldDigestKey(SnapshotKey[bytes]):
    """The digest of a field. path : of the field."""

    path: str


def _kept_digest(base: Snapshot, shared: Snapshot, cache: SnapshotCache, path: str, value: object) -> bytes:
    """Return the digest of a field; if the base has the same field, its digest is cached with the base."""
    field = attrgetter(path)
    if field(shared) is not field(base):
        return digest_of(value)
    return cache.get(FieldDigestKey(path), base, lambda view: digest_of(field(view)))


def join_pods(
    base: Snapshot,
    changed: Snapshot,
    deleted: Sequence[str],
    dictionaries: JoinedDictionaries,
    tables: JoinedTables,
    cache: SnapshotCache = UNCACHED,
) -> tuple[PodColumns, DanglingReferences]:
    """Return the pods in canonical order, and the new dangling references. cache : that of the base."""
    first, second, a, b = dictionaries.base, dictionaries.changed, base.pods, changed.pods
    merge = _merge(base, changed, deleted, dictionaries)
    rank = np.full(len(base.pods.spec) + len(changed.pods.spec), -1, np.int32)
    rank[merge.source] = np.arange(len(merge.source), dtype=np.int32)

    def stacked(name: str, numbers: str) -> Int32:
        sides = (renumbered(getattr(first, numbers), getattr(a, name)), getattr(second, numbers)[getattr(b, name)])
        column: Int32 = merge.column(*sides)
        return column

    def referring(name: str, names: _Names, row_of_name: Mapping[str, int]) -> tuple[Int32, Dangling]:
        followed = follow(getattr(a, name), names[0], getattr(base.dangling, name), row_of_name)
        other = follow(getattr(b, name), names[1], getattr(changed.dangling, name), row_of_name)
        return merge.column(followed.column, other.column), _joined_dangling(followed, other, rank)

    nodes = _rows_of_nodes(base, tables, cache)
    names, to_nodes = (base.nodes.name, changed.nodes.name), ("node", "pinned", "nominated")
    columns, missing = zip(*(referring(column, names, nodes) for column in to_nodes), strict=True)
    owners = row_of_key(owner.uid for owner in tables.owners)
    uids = [owner.uid for owner in base.owners], [owner.uid for owner in changed.owners]
    owner, no_owner = referring("owner", uids, owners)
    mounts = _mounts(base, changed, rank, dictionaries)
    numbers = _numbers(base, changed, rank, dictionaries)
    pods = PodColumns(
        namespace=stacked("namespace", "strings"),
        name=merge.text(a.name, b.name),
        uid=merge.text(a.uid, b.uid),
        spec=stacked("spec", "specs"),
        label_set=stacked("label_set", "label_sets"),
        owner=owner,
        volume_pod=mounts[0],
        volume=mounts[1],
        number_pod=numbers.pod,
        number_key=numbers.key,
        number=numbers.value,
        **_grouped(base, changed, rank, dictionaries)._asdict(),
        **dict(zip(to_nodes, columns, strict=True)),
        **{name: merge.column(getattr(a, name), getattr(b, name)) for name in _PLAIN},
    )
    return pods, DanglingReferences(missing[0], no_owner, missing[1], missing[2], tables.no_group)


def _rows_of_nodes(base: Snapshot, tables: JoinedTables, cache: SnapshotCache) -> Mapping[str, int]:
    """Return the rows of the joined nodes by name; those of the base are cached with it."""
    if tables.nodes.name is base.nodes.name:
        return rows_of_nodes(base, cache)
    return row_of_key(tables.nodes.name)


def rows_of_nodes(snapshot: Snapshot, cache: SnapshotCache) -> Mapping[str, int]:
    """Return the row of each node by its name."""
    return cache.get(NodeRowsKey(), snapshot, lambda view: row_of_key(view.nodes.name))


class NodeRowsKey(SnapshotKey[Mapping[str, int]]):
    """The row of each node by its name."""


class _Merge(NamedTuple):
    """The places of both sides' pods in the result. source : int64[Q], the row of each, rows of `changed` counted after
    those of `base`; position : int64[C], the places of those of `changed`; in_place : the rows are those of `base`; no
    pod is added or removed.
    """

    source: Int64
    position: Int64
    in_place: bool

    def column(self, base: Any, changed: Any) -> Any:
        """Return a column of the result; the base's own object where nothing in it has changed."""
        if not self.in_place:
            return np.concatenate((base, changed))[self.source]
        if np.array_equal(base[self.position], changed):
            return base
        column = base.copy()
        column[self.position] = changed
        return column

    def text(self, base: Text, changed: Text) -> Text:
        """Return a text column of the result, likewise."""
        if self.in_place:
            first = base.offsets[self.position]
            sizes = np.diff(changed.offsets)
            if np.array_equal(base.offsets[self.position + 1] - first, sizes):
                return _overwritten(base, changed, np.repeat(first - changed.offsets[:-1], sizes))
        return gather_text(base, changed, self.source)


def _overwritten(base: Text, changed: Text, shift: Int64) -> Text:
    """Return the base with texts of equal sizes in place of some of its own; the base itself if nothing changes. shift
    : int64[bytes], how far each byte of `changed` moves.
    """
    at = shift + np.arange(len(shift))
    if np.array_equal(base.data[at], changed.data):
        return base
    data = base.data.copy()
    data[at] = changed.data
    return Text(data, base.offsets)


def _joined_dangling(followed: Followed, other: Followed, rank: Int32) -> Dangling:
    """Return the dangling references of the pods of both sides. rank : int32, the new row of each, -1 = deleted."""
    count = len(rank) - len(other.column)
    rows = rank[np.concatenate((followed.rows, other.rows + np.int32(count)))]
    target = np.concatenate((followed.target, other.target + np.int32(len(followed.names))))
    order = np.argsort(rows, kind="stable")
    order = order[rows[order] >= 0]
    return dangling(rows[order], target[order], [*followed.names, *other.names] if len(order) else ())


def _merge(base: Snapshot, changed: Snapshot, deleted: Sequence[str], dictionaries: JoinedDictionaries) -> _Merge:
    """Find the place of each pod of either side."""
    keys = keys_of(base, renumbered(dictionaries.base.strings, base.pods.namespace))
    wanted = keys_of(changed, dictionaries.changed.strings[changed.pods.namespace])
    position, is_there = locate(keys, wanted)
    stays = np.ones(len(base.pods.spec), np.bool_)
    stays[position[is_there]] = False
    _delete(base, changed, deleted, stays)
    rows = np.flatnonzero(stays)
    before = position - np.searchsorted(np.flatnonzero(~stays), position)
    added = np.arange(len(position), dtype=np.int64)
    in_place = bool(is_there.all()) and not deleted
    return _Merge(np.insert(rows, before, len(stays) + added), before + added, in_place)


def _delete(base: Snapshot, changed: Snapshot, deleted: Sequence[str], stays: Bool) -> None:
    """Mark the rows of deleted pods as not kept."""
    if not deleted:
        return
    row, is_there = find_pods(base, deleted)
    _, again = find_pods(changed, deleted)
    for i in np.flatnonzero(~is_there | again).tolist():
        problem = "is also changed; either change or delete it" if is_there[i] else "is not in the base; send all"
        raise SnapshotError("deleted_pods", i, "", f"{deleted[i]!r} {problem}")
    rows, first = np.unique(row, return_index=True)
    if len(rows) < len(row):
        twice = sorted(set(range(len(row))) - set(first.tolist()))[0]
        raise SnapshotError("deleted_pods", twice, "", f"{deleted[twice]!r} is given twice; give each key once")
    stays[rows] = False


def _mounts(base: Snapshot, changed: Snapshot, rank: Int32, dictionaries: JoinedDictionaries) -> tuple[Int32, Int32]:
    """Return (pod, volume) of the pods that stay."""
    count = np.int32(len(base.pods.spec))
    pod = rank[np.concatenate((base.pods.volume_pod, changed.pods.volume_pod + count))]
    volume = np.concatenate(
        (dictionaries.base.volumes[base.pods.volume], dictionaries.changed.volumes[changed.pods.volume])
    )
    return sort_mounts(pod[pod >= 0], volume[pod >= 0])


def _numbers(base: Snapshot, changed: Snapshot, rank: Int32, dictionaries: JoinedDictionaries) -> PodNumbers:
    """Return the numbers of the pods that stay."""
    a, b = base.pods, changed.pods
    pod = rank[np.concatenate((a.number_pod, b.number_pod + np.int32(len(a.spec))))]
    key = np.concatenate(
        (renumbered(dictionaries.base.strings, a.number_key), dictionaries.changed.strings[b.number_key])
    )
    stays = pod >= 0
    return sorted_numbers(PodNumbers(pod[stays], key[stays], np.concatenate((a.number, b.number))[stays]))


def _grouped(base: Snapshot, changed: Snapshot, rank: Int32, dictionaries: JoinedDictionaries) -> GroupedPods:
    """Return the pods in groups that stay."""
    a, b = base.pods, changed.pods
    pod = rank[np.concatenate((a.group_pod, b.group_pod + np.int32(len(a.spec))))]
    name = np.concatenate(
        (renumbered(dictionaries.base.strings, a.group_name), dictionaries.changed.strings[b.group_name])
    )
    order = np.argsort(pod, kind="stable")
    order = order[pod[order] >= 0]
    return GroupedPods(pod[order], name[order])
