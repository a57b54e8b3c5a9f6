"""The pods of a base and a delta joined. Vectorised: every column is copied once; keys are looked up in a kernel."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from planner.snapshot.columns import Bool, DanglingReferences, Int32, Int64, PodColumns, Snapshot
from planner.snapshot.errors import SnapshotError
from planner.snapshot.joined_dictionaries import JoinedDictionaries
from planner.snapshot.joined_rows import JoinedTables, stack_references
from planner.snapshot.pod_keys import find_pods, keys_of, locate
from planner.snapshot.pods import gather_text, sort_mounts
from planner.snapshot.references import resolve

_PLAIN = ("created_s", "deletion_s", "phase", "flags", "deletion_cost")


def join_pods(
    base: Snapshot, changed: Snapshot, deleted: Sequence[str], joined: tuple[JoinedDictionaries, JoinedTables]
) -> tuple[PodColumns, DanglingReferences]:
    """Return the pods in canonical order, and all that the new snapshot lacks."""
    dictionaries, tables = joined
    first, second = dictionaries.base, dictionaries.changed
    source = _source(base, changed, deleted, dictionaries)
    a, b = base.pods, changed.pods

    def stacked(name: str, numbers: str) -> Int32:
        one, other = getattr(a, name), getattr(b, name)
        return np.concatenate((getattr(first, numbers)[one], getattr(second, numbers)[other]))[source]

    def referring(name: str, base_names: Sequence[str], changed_names: Sequence[str], known: Any) -> Any:
        target, names = stack_references(
            (getattr(a, name), base_names, getattr(base.dangling, name)),
            (getattr(b, name), changed_names, getattr(changed.dangling, name)),
        )
        # Most often the table has the rows it had; then the base's numbers hold and no name is looked up.
        settled = len(known) if len(base_names) == len(known) and tuple(known) == tuple(base_names) else 0
        return resolve(target[source], names, known, settled)

    nodes = {name: i for i, name in enumerate(tables.nodes.name)}
    node, no_node = referring("node", base.nodes.name, changed.nodes.name, nodes)
    pinned, not_pinned = referring("pinned", base.nodes.name, changed.nodes.name, nodes)
    owners = {owner.uid: i for i, owner in enumerate(tables.owners)}
    owner_uids = ([one.uid for one in base.owners], [one.uid for one in changed.owners])
    owner, no_owner = referring("owner", *owner_uids, owners)
    mounts = _mounts(base, changed, source, dictionaries)
    pods = PodColumns(
        namespace=stacked("namespace", "strings"),
        name=gather_text(a.name, b.name, source),
        uid=gather_text(a.uid, b.uid, source),
        spec=stacked("spec", "specs"),
        label_set=stacked("label_set", "label_sets"),
        node=node,
        owner=owner,
        pinned=pinned,
        volume_pod=mounts[0],
        volume=mounts[1],
        **{name: np.concatenate((getattr(a, name), getattr(b, name)))[source] for name in _PLAIN},
    )
    return pods, DanglingReferences(no_node, no_owner, not_pinned, tables.no_group)


def _source(base: Snapshot, changed: Snapshot, deleted: Sequence[str], dictionaries: JoinedDictionaries) -> Int64:
    """Return the row of each pod of the result : int64; rows of `changed` are counted after those of `base`."""
    keys = keys_of(base, dictionaries.base.strings[base.pods.namespace])
    wanted = keys_of(changed, dictionaries.changed.strings[changed.pods.namespace])
    position, found = locate(keys, wanted)
    kept = np.ones(len(base.pods.spec), np.bool_)
    kept[position[found]] = False
    _delete(base, changed, deleted, kept)
    before = np.zeros(len(kept) + 1, np.int64)
    np.cumsum(kept, out=before[1:])
    inserted = np.cumsum(np.bincount(position, minlength=len(kept) + 1))[: len(kept)]
    rows = np.flatnonzero(kept)
    source = np.empty(len(rows) + len(position), np.int64)
    source[before[rows] + inserted[rows]] = rows
    added = np.arange(len(position), dtype=np.int64)
    source[before[position] + added] = len(kept) + added
    return source


def _delete(base: Snapshot, changed: Snapshot, deleted: Sequence[str], kept: Bool) -> None:
    """Mark the rows of deleted pods as not kept."""
    if not deleted:
        return
    row, found = find_pods(base, deleted)
    _, again = find_pods(changed, deleted)
    for i in np.flatnonzero(~found | again).tolist():
        problem = "is changed as well; either change or delete it" if found[i] else "is not in the base; send all"
        raise SnapshotError("deleted_pods", i, "", f"{deleted[i]!r} {problem}")
    rows, first = np.unique(row, return_index=True)
    if len(rows) < len(row):
        twice = sorted(set(range(len(row))) - set(first.tolist()))[0]
        raise SnapshotError("deleted_pods", twice, "", f"{deleted[twice]!r} is there twice; give each key once")
    kept[rows] = False


def _mounts(base: Snapshot, changed: Snapshot, source: Int64, dictionaries: JoinedDictionaries) -> tuple[Int32, Int32]:
    """Return (pod, volume) of the pods that stay."""
    count = len(base.pods.spec)
    rank = np.full(count + len(changed.pods.spec), -1, np.int32)
    rank[source] = np.arange(len(source), dtype=np.int32)
    pod = rank[np.concatenate((base.pods.volume_pod, changed.pods.volume_pod + np.int32(count)))]
    volume = np.concatenate(
        (dictionaries.base.volumes[base.pods.volume], dictionaries.changed.volumes[changed.pods.volume])
    )
    return sort_mounts(pod[pod >= 0], volume[pod >= 0])
