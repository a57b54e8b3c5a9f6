"""The last step to a canonical snapshot, for full ones and deltas: drop unused entries, check totals, set the version.

Cost: O(rows), vectorised; dictionaries without unused entries are kept as they are. Raises SnapshotError.

The version is a digest of the content: every array with its type and shape, every row, each under the name of its
field. Two snapshots have the same version only if they are equal bit by bit. Uses the first 128 bits of SHA-256, for
which processors have instructions. O(bytes) of the fields whose digests are not cached, about 2 GB/s; a quarter of that
without these instructions.

After a delta, equal parts are shared with the base (`share`):

- every field of `Snapshot` except `version`, every column of its pods, nodes, templates and label sets, and every text
  either *is* the base's or differs from it;
- a whole table (`snapshot.nodes`, `snapshot.pods`) is the base's if all its columns are;
- equal parts take memory once.

Columns of indices are compared as numbers. Such a column has the same meaning only with the same dictionary
(`pods.spec` with `specs`), so code that reuses an object derived from it must check both.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import compress
from operator import attrgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.snapshot.checks import MAX_PODS, MAX_TOTAL, WHOLE_TABLE, SnapshotError
from trimtab.planner.snapshot.columns import (
    Bool,
    ClaimColumns,
    Dangling,
    DanglingReferences,
    DeviceColumns,
    Int32,
    LabelSets,
    NodeColumns,
    PodColumns,
    SliceColumns,
    Snapshot,
    Text,
)
from trimtab.planner.snapshot.dictionaries import FIRST_RESOURCES, check_volumes, encoded, offsets_of
from trimtab.planner.snapshot.nodes import check_size
from trimtab.planner.snapshot.rows import spec_in


def seal(draft: Snapshot) -> Snapshot:
    """Return the snapshot in canonical form with its version; see `complete`."""
    snapshot = complete(draft)
    return snapshot._replace(version=digest(snapshot))


def complete(draft: Snapshot, base: Snapshot | None = None) -> Snapshot:
    """Return the snapshot in canonical form, without its version.

    `draft` is canonical except for unused dictionary entries; its arrays are not written. base : a complete snapshot
    that shares fields with it; a step is left out if all fields that it reads are shared.
    """
    snapshot = draft
    for fields, step in _STEPS:
        if base is None or not _shares(snapshot, base, fields):
            snapshot = step(snapshot)
    return snapshot


def _shares(snapshot: Snapshot, other: Snapshot, fields: Sequence[str]) -> bool:
    """Return whether two snapshots have the same objects in some fields, columns with a dot."""
    return all(attrgetter(field)(snapshot) is attrgetter(field)(other) for field in fields)


def _renumber(used: Bool) -> Int32:
    """Return the new index of each entry once unused ones are dropped."""
    return np.cumsum(used, dtype=np.int32) - np.int32(1)


def _mask(size: int, columns: Sequence[Int32 | Sequence[int]]) -> Bool:
    used = np.zeros(size, np.bool_)
    for column in columns:
        used[np.asarray(column, np.int32)] = True
    return used


def _drop_volumes(s: Snapshot) -> Snapshot:
    used = _mask(len(s.volumes), [s.pods.volume])
    if used.all():
        return s
    volumes = tuple(compress(s.volumes, used.tolist()))
    return s._replace(volumes=volumes, pods=s.pods._replace(volume=_renumber(used)[s.pods.volume]))


def _drop_specs(s: Snapshot) -> Snapshot:
    used = _mask(
        len(s.specs),
        [s.pods.spec, [eviction.spec for eviction in s.recent_evictions if eviction.spec >= 0]],
    )
    if used.all():
        return s
    new = _renumber(used)
    return s._replace(
        specs=tuple(compress(s.specs, used.tolist())),
        pods=s.pods._replace(spec=new[s.pods.spec]),
        recent_evictions=tuple(
            [eviction._replace(spec=spec_in(new, eviction.spec)) for eviction in s.recent_evictions]
        ),
    )


def _drop_label_sets(s: Snapshot) -> Snapshot:
    rows: list[Int32 | Sequence[int]] = [
        s.pods.label_set,
        s.nodes.label_set,
        s.templates.label_set,
        [0, *(label_set for _, label_set in s.namespaces)],
        [eviction.label_set for eviction in s.recent_evictions],
    ]
    sets = s.label_sets
    used = _mask(len(sets.offsets) - 1, rows)
    if used.all():
        return s
    new, sizes = _renumber(used), np.diff(sets.offsets)
    entries = np.repeat(used, sizes)
    label_sets = LabelSets(offsets_of(sizes[used]).astype(np.int32), sets.keys[entries], sets.values[entries])
    return s._replace(
        label_sets=label_sets,
        pods=s.pods._replace(label_set=new[s.pods.label_set]),
        nodes=s.nodes._replace(label_set=new[s.nodes.label_set]),
        templates=s.templates._replace(label_set=new[s.templates.label_set]),
        namespaces=tuple([(name, int(new[label_set])) for name, label_set in s.namespaces]),
        recent_evictions=tuple(
            [eviction._replace(label_set=int(new[eviction.label_set])) for eviction in s.recent_evictions]
        ),
    )


def _drop_strings(s: Snapshot) -> Snapshot:
    sets = s.label_sets
    used = _mask(len(s.strings), [s.pods.namespace, sets.keys, sets.values, s.pods.number_key, s.pods.group_name])
    if used.all():
        return s
    new = _renumber(used)
    return s._replace(
        strings=tuple(compress(s.strings, used.tolist())),
        label_sets=sets._replace(keys=new[sets.keys], values=new[sets.values]),
        pods=s.pods._replace(
            namespace=new[s.pods.namespace],
            number_key=new[s.pods.number_key],
            group_name=new[s.pods.group_name],
        ),
    )


def _drop_resources(s: Snapshot) -> Snapshot:
    used = np.zeros(len(s.resources), np.bool_)
    used[: len(FIRST_RESOURCES)] = True
    for nodes in (s.nodes, s.templates):
        used |= nodes.allocatable.any(axis=0) | nodes.capacity.any(axis=0)
    if used.all():
        return s
    specs = (
        *s.specs,
        *(pod.spec for group in s.groups for pod in group.daemonset_pods),
        *(owner.pod_template.spec for owner in s.owners if owner.pod_template is not None),
        *(group.pod_template.spec for group in s.pod_groups if group.pod_template is not None),
    )
    wanted = {name for spec in specs for name, _ in spec.requests}
    used |= np.array([name in wanted for name in s.resources])
    if used.all():
        return s
    columns = np.flatnonzero(used)
    nodes, templates = (
        table._replace(
            allocatable=np.ascontiguousarray(table.allocatable[:, columns]),
            capacity=np.ascontiguousarray(table.capacity[:, columns]),
        )
        for table in (s.nodes, s.templates)
    )
    return s._replace(resources=tuple([s.resources[i] for i in columns]), nodes=nodes, templates=templates)


def _check_volumes(s: Snapshot) -> Snapshot:
    """Return the same snapshot. Refuses two volumes that have one id but differ."""
    check_volumes(s.volumes)
    return s


def _check_sizes(s: Snapshot) -> Snapshot:
    """Return the same snapshot. Refuses too many nodes times resources, or pods."""
    check_size(len(s.nodes.name), len(s.resources), "nodes")
    if len(s.pods.spec) > MAX_PODS:
        raise SnapshotError("pods", WHOLE_TABLE, "", f"there are {len(s.pods.spec)}; at most {MAX_PODS} may be")
    return s


def _check_totals(s: Snapshot) -> Snapshot:
    """Return the same snapshot. Refuses amounts whose sum does not fit int64."""
    pods = np.bincount(s.pods.spec, minlength=len(s.specs)).tolist()
    for eviction in s.recent_evictions:
        if eviction.spec >= 0:
            pods[eviction.spec] += 1
    requested = dict.fromkeys(s.resources, 0)
    for spec, count in zip(s.specs, pods, strict=True):
        for name, amount in spec.requests:
            requested[name] += amount * count
    for table, totals in (
        ("pod_specs", requested),
        ("nodes", dict(zip(s.resources, s.nodes.allocatable.sum(axis=0, dtype=np.float64).tolist(), strict=True))),
        ("nodes", dict(zip(s.resources, s.nodes.capacity.sum(axis=0, dtype=np.float64).tolist(), strict=True))),
    ):
        for name, total in totals.items():
            if total > MAX_TOTAL:
                problem = f"the amounts of {name!r} add up to {total:g}; use at most 2^62 (check the unit)"
                raise SnapshotError(table, WHOLE_TABLE, "", problem)
    return s


_STEPS: Final[Sequence[tuple[Sequence[str], Callable[[Snapshot], Snapshot]]]] = (
    (("volumes", "pods.volume"), _drop_volumes),
    (("specs", "pods.spec", "recent_evictions"), _drop_specs),
    (
        ("label_sets", "pods.label_set", "nodes.label_set", "templates.label_set", "namespaces", "recent_evictions"),
        _drop_label_sets,
    ),
    (
        ("strings", "pods.namespace", "label_sets.keys", "label_sets.values", "pods.number_key", "pods.group_name"),
        _drop_strings,
    ),
    (("resources", "specs", "groups", "owners", "nodes", "templates", "pod_groups"), _drop_resources),
    (("volumes",), _check_volumes),
    (("nodes.name", "resources", "pods.spec"), _check_sizes),
    (
        ("resources", "specs", "pods.spec", "recent_evictions", "nodes.allocatable", "nodes.capacity"),
        _check_totals,
    ),
)
"""The steps, in their order, each with all fields that it reads."""
_WORTH_NARROWING = 1024
_NESTED: Final = (
    LabelSets, NodeColumns, PodColumns, DanglingReferences, Dangling, DeviceColumns, SliceColumns, ClaimColumns,
)  # fmt: skip
Kept = Callable[[str, object], bytes]
"""Returns the digest of a field, given its path and value, cached or computed."""


def compute_uncached(path: str, value: object) -> bytes:  # noqa: ARG001
    """Compute a digest without caching."""
    return digest_of(value)


def digest(snapshot: Snapshot, field_digest: Kept = compute_uncached) -> str:
    """Return 32 hex digits over all fields but `version`: a digest of the digests of the fields, each under its path.

    field_digest : returns the digest of one field, cached or computed.
    """
    sink = sha256()
    for path, value in _fields(snapshot, ""):
        sink.update(encoded((path, field_digest(path, value))))
    return str(sink.hexdigest())[:32]


def _fields(table: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a snapshot with their paths, those of its tables one by one."""
    for name, value in table._asdict().items():
        if isinstance(value, _NESTED):
            yield from _fields(value, f"{path}{name}.")
        elif name != "version":
            yield f"{path}{name}", value


def digest_of(value: Any) -> bytes:
    """Return the digest of one field."""
    sink: Any
    if isinstance(value, np.ndarray):
        narrow = _narrowed(value)
        sink = sha256(encoded((narrow.dtype.str, value.shape, narrow.size)))
        sink.update(narrow)
    elif isinstance(value, Text):
        # Lengths of one byte replace offsets of eight: names and uids have at most 255 bytes.
        sink = sha256(encoded((len(value.offsets), len(value.data))))
        sink.update(np.diff(value.offsets).astype(np.uint8))
        sink.update(value.data)
    else:
        sink = sha256(encoded(value))
    return bytes(sink.digest())


def _narrowed(column: NDArray[Any]) -> NDArray[Any]:
    """Return the same values in fewer bytes; hashing dominates the cost of a large snapshot's digest.

    A constant column becomes a single value; integers become 16 or 32 bits wide where they fit.
    """
    if column.size < _WORTH_NARROWING or column.dtype.kind not in "iu":
        return column
    least, largest = column.min(), column.max()
    if least == largest:
        return column.reshape(-1)[:1]
    if column.dtype.itemsize > 2 and least >= np.iinfo(np.int16).min and largest <= np.iinfo(np.int16).max:
        return column.astype(np.int16)
    if column.dtype.itemsize > 4 and least >= np.iinfo(np.int32).min and largest <= np.iinfo(np.int32).max:
        return column.astype(np.int32)
    return column


_EARLY = 4096


def share(base: Snapshot, snapshot: Snapshot) -> Snapshot:
    """Return `snapshot` with the base's objects wherever they are equal."""
    shared: Snapshot = _share(base, snapshot)
    return shared


def _share(old: Any, new: Any) -> Any:
    if new is old:
        return old
    if isinstance(new, np.ndarray):
        return old if _equal(old, new) else new
    if hasattr(new, "_fields"):
        fields = [_share(before, other) for before, other in zip(old, new, strict=True)]
        same = all(field is other for field, other in zip(fields, old, strict=True))
        return old if same else type(new)._make(fields)
    # Tuples compare by identity first: a row that the delta does not touch costs one pointer comparison.
    return old if type(old) is type(new) and old == new else new


def _equal(old: Any, new: Any) -> bool:
    """Return whether two arrays are equal bit by bit, in type and shape too. Most unequal ones differ early."""
    if old.dtype != new.dtype or old.shape != new.shape:
        return False
    if old.dtype.kind == "f":  # NaN is not equal to itself
        old, new = old.view(np.int64), new.view(np.int64)
    return bool((old[:_EARLY] == new[:_EARLY]).all()) and bool((old == new).all())
