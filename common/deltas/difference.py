"""The difference of two interned snapshots, as a message with its own dictionaries. Decides which rows have changed.
Returns None if it is better to send the whole snapshot.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from trimtab.common.deltas.alignment import Alignment, align
from trimtab.common.deltas.interning import InternedSnapshot, Interner
from trimtab.common.deltas.pod_columns import Int64, PodTableColumns
from trimtab.common.deltas.writing import DeltaWriter
from trimtab.v1 import snapshot_pb2 as pb

Bool = NDArray[np.bool_]
MOST_CHANGED: Final = 0.3
"""Share of changed pods above which the whole snapshot is sent: a delta would cost as much."""
_DELETED: Final = {
    "nodes": "deleted_nodes",
    "node_groups": "deleted_node_groups",
    "owners": "deleted_owners",
    "pod_disruption_budgets": "deleted_pod_disruption_budgets",
    "namespaces": "deleted_namespaces",
    "pod_groups": "deleted_pod_groups",
}


def difference(before: InternedSnapshot, after: InternedSnapshot, interner: Interner) -> pb.SnapshotDelta | None:
    """Return the delta from `before` to `after`, both numbered by `interner`; None = send the whole snapshot."""
    if before.resources != after.resources or (before.actuation is not None and after.actuation is None):
        return None
    names = list(interner.strings)
    most = int(MOST_CHANGED * len(before.pods.namespace)) + 16
    alignment = align(before.pods, after.pods, names, most)
    if alignment is None:
        return None
    rows = np.union1d(_changed_pods(before.pods, after.pods, alignment), alignment.new)
    if len(rows) > most:
        return None
    delta = pb.SnapshotDelta(changed=pb.ClusterSnapshot(resources=after.resources))
    writer = DeltaWriter(after, delta.changed)
    for table, field in _DELETED.items():
        old, new = before.rows[table], after.rows[table]
        if old is new:
            continue
        getattr(delta, field).extend(sorted(old.keys() - new.keys()))
        changed = [i for i, (key, row) in enumerate(new.items()) if old.get(key) != row]
        writer.add_rows(table, changed)
    if after.actuation != before.actuation:
        writer.add_actuation()
    for table, content in after.replaced_whole.items():
        if content != before.replaced_whole[table]:
            getattr(delta.changed, table).CopyFrom(getattr(after.message, table))
            getattr(delta.changed, table).SetInParent()
    gone = before.pods.keys(alignment.gone)
    delta.deleted_pods.extend([f"{names[namespace]}/{name.decode()}" for namespace, name in gone])
    writer.add_pods(rows)
    writer.finish()
    return delta


def _changed_pods(before: PodTableColumns, after: PodTableColumns, alignment: Alignment) -> Int64:
    """Return the rows of `after` of pods that exist on both sides and differ. Vectorised."""
    differs = np.zeros(len(after.namespace), np.bool_)
    differs[alignment.other_uid] = True
    for old, new in zip(before.columns, after.columns, strict=True):
        if not alignment.in_place:
            differs[alignment.after] |= old[alignment.before] != new[alignment.after]
        elif old is not new:
            differs |= old != new
    if not alignment.in_place or before.mounts is not after.mounts or before.number_bits is not after.number_bits:
        row_of = np.full(len(before.namespace), -1, np.int64)
        row_of[alignment.before] = alignment.after
        remains = np.zeros(len(after.namespace), np.bool_)
        remains[alignment.after] = True
        differs[_pods_with_other_mounts(before, after, row_of, remains)] = True
        differs[_pods_with_other_numbers(before, after, row_of, remains)] = True
    return np.flatnonzero(differs)


def _pods_with_other_mounts(before: PodTableColumns, after: PodTableColumns, row_of: Int64, remains: Bool) -> Int64:
    """Return rows of `after`. row_of : int64, the new row of each old one or -1; remains : bool, by new row."""
    if not len(before.mounts) and not len(after.mounts):
        return np.zeros(0, np.int64)
    mounts = _moved(before.mounts, row_of)
    return np.setxor1d(mounts[mounts >= 0], after.mounts[remains[after.mounts >> 32]]) >> 32


def _pods_with_other_numbers(before: PodTableColumns, after: PodTableColumns, row_of: Int64, remains: Bool) -> Int64:
    """Return rows of `after`, likewise."""
    if not len(before.number_places) and not len(after.number_places):
        return np.zeros(0, np.int64)
    places = _moved(before.number_places, row_of)
    stays, kept = places >= 0, remains[after.number_places >> 32]
    old, old_bits = places[stays], before.number_bits[stays]
    order = np.argsort(old, kind="stable")
    old, old_bits = old[order], old_bits[order]
    new, new_bits = after.number_places[kept], after.number_bits[kept]
    both, first, second = np.intersect1d(old, new, assume_unique=True, return_indices=True)
    differing = both[old_bits[first] != new_bits[second]]
    return np.concatenate((np.setxor1d(old, new), differing)) >> 32


def _moved(places: Int64, row_of: Int64) -> Int64:
    """Return the places, whose upper half is a row, with new rows; -1 if the row is gone."""
    row = row_of[places >> 32]
    return np.where(row >= 0, (row << 32) | (places & 0xFFFFFFFF), -1)
