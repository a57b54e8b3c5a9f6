"""Join the dictionaries and the small tables of a base and a delta: a changed row replaces that of the base.

Dictionaries keep their canonical order: a column that ascends by old numbers ascends by new ones. Cost: O(entries of
the delta) if it adds none and the base's numbers are cached, else O(entries) with a merge of sorted runs. Raises
SnapshotError for a deleted key that is not in the base, or that is also changed.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, NamedTuple, TypeVar

import numpy as np

from trimtab.planner.model.values import (
    DeletionInProgress,
    DisruptionBudget,
    MountedVolume,
    NodeGroupInfo,
    Owner,
    PodGroup,
    PodRequirements,
    RecentEviction,
)
from trimtab.planner.snapshot.caches import UNCACHED, SnapshotCache, SnapshotKey
from trimtab.planner.snapshot.checks import SnapshotError
from trimtab.planner.snapshot.columns import Dangling, Int32, Int64, LabelSets, NodeColumns, Snapshot
from trimtab.planner.snapshot.dictionaries import (
    canonical_resources,
    decoded_sets,
    encoded,
    encoded_sets,
    numbered,
    row_of_key,
)
from trimtab.planner.snapshot.nodes import check_size, take_nodes
from trimtab.planner.snapshot.references import NONE, is_identity, resolve, unresolve
from trimtab.planner.snapshot.rows import spec_in
from trimtab.v1 import snapshot_pb2 as pb

_Row = TypeVar("_Row")


class Numbers(NamedTuple):
    """The new numbers of one side's entries. strings, label_sets, specs, volumes, resources : int32, by the old number
    of each entry of the dictionary with this name.
    """

    strings: Int32
    label_sets: Int32
    specs: Int32
    volumes: Int32
    resources: Int32


class JoinedDictionaries(NamedTuple):
    """The joined dictionaries, as in `Snapshot`: strings, label_sets, specs, volumes, resources. base, changed : the
    new numbers of each side's entries.
    """

    strings: tuple[str, ...]
    label_sets: LabelSets
    specs: tuple[PodRequirements, ...]
    volumes: tuple[MountedVolume, ...]
    resources: tuple[str, ...]
    base: Numbers
    changed: Numbers


class JoinedTables(NamedTuple):
    """All tables but the pods, as in `Snapshot`: nodes, templates, groups, owners, budgets, namespaces, deletions,
    recent_evictions, pod_groups. no_group : the dangling references of the nodes' column `group`.
    """

    nodes: NodeColumns
    templates: NodeColumns
    groups: tuple[NodeGroupInfo, ...]
    owners: tuple[Owner, ...]
    budgets: tuple[DisruptionBudget, ...]
    namespaces: tuple[tuple[str, int], ...]
    deletions: tuple[DeletionInProgress, ...]
    recent_evictions: tuple[RecentEviction, ...]
    pod_groups: tuple[PodGroup, ...]
    no_group: Dangling


class Deleted(NamedTuple):
    """The keys to remove, and the name of the field with them."""

    field: str
    keys: Sequence[str]


@dataclass(frozen=True)
class RanksKey(SnapshotKey[dict[Any, int]]):
    """The place of each entry of a dictionary, by its encoding. field : the dictionary's in `Snapshot`."""

    field: str


def join_dictionaries(base: Snapshot, changed: Snapshot, cache: SnapshotCache = UNCACHED) -> JoinedDictionaries:
    """Join the dictionaries of two snapshots. cache : that of the base."""
    ranks = cache.get(RanksKey("strings"), base, lambda view: row_of_key(view.strings))
    strings, string_numbers = _join_sorted(base.strings, changed.strings, ranks, changed.strings)
    label_sets, set_numbers = _join_label_sets(base, changed, *string_numbers, cache)
    ranks_of_specs = cache.get(RanksKey("specs"), base, lambda view: row_of_key(map(encoded, view.specs)))
    specs, spec_numbers = _join_sorted(
        base.specs, changed.specs, ranks_of_specs, [encoded(spec) for spec in changed.specs]
    )
    ranks_of_volumes = cache.get(RanksKey("volumes"), base, lambda view: row_of_key(map(encoded, view.volumes)))
    volumes, volume_numbers = _join_sorted(
        base.volumes, changed.volumes, ranks_of_volumes, [encoded(volume) for volume in changed.volumes]
    )
    resources = canonical_resources((*base.resources, *changed.resources))
    place = row_of_key(resources)
    resource_numbers = [np.array([place[name] for name in side.resources], np.int32) for side in (base, changed)]
    sides = zip(string_numbers, set_numbers, spec_numbers, volume_numbers, resource_numbers, strict=True)
    first, second = (Numbers(*side) for side in sides)
    return JoinedDictionaries(tuple(strings), label_sets, tuple(specs), tuple(volumes), resources, first, second)


def renumbered(numbers: Int32, column: Int32) -> Int32:
    """Return a column : int32[P] in new numbers, int32[P]; the same object if the numbers do not change. numbers :
    int32, by old number.
    """
    return column if is_identity(numbers) else numbers[column]


def _join_sorted(
    first: Sequence[Any], second: Sequence[Any], first_ranks: dict[Any, int], second_keys: Sequence[Any]
) -> tuple[Sequence[Any], tuple[Int32, Int32]]:
    """Join two lists in ascending order of keys, equal keys once. first_ranks : the first one's keys, numbered."""
    if all(key in first_ranks for key in second_keys):
        same = np.arange(len(first), dtype=np.int32)
        return first, (same, np.array([first_ranks[key] for key in second_keys], np.int32))
    value = dict(zip(second_keys, second, strict=True)) | dict(zip(first_ranks, first, strict=True))
    ordered = sorted(value)
    rank = row_of_key(ordered)
    first_numbers = np.fromiter((rank[key] for key in first_ranks), np.int32, len(first))
    second_numbers = np.fromiter((rank[key] for key in second_keys), np.int32, len(second))
    return [value[key] for key in ordered], (first_numbers, second_numbers)


def _join_label_sets(
    base: Snapshot, changed: Snapshot, base_strings: Int32, changed_strings: Int32, cache: SnapshotCache
) -> tuple[LabelSets, tuple[Int32, Int32]]:
    """Join label sets; the sides' strings have new numbers in the same order, so each side stays sorted.

    base_strings, changed_strings : int32[strings of the side], their numbers in the joined snapshot.
    """
    if is_identity(base_strings):
        # The strings keep their numbers, so these do not matter.
        ranks = cache.get(RanksKey("label_sets"), base, lambda view: row_of_key(_rows(view.label_sets, base_strings)))
    else:
        ranks = row_of_key(_rows(base.label_sets, base_strings))
    rows = _rows(changed.label_sets, changed_strings)
    joined, numbers = _join_sorted(tuple(ranks), rows, ranks, rows)
    if len(joined) == len(ranks) and is_identity(base_strings):
        return base.label_sets, numbers
    return decoded_sets(joined), numbers


def _rows(sets: LabelSets, numbers: Int32) -> list[bytes]:
    """Return each set as bytes with the same order as the sets."""
    return encoded_sets(LabelSets(sets.offsets, numbers[sets.keys], numbers[sets.values]))


def join_tables(
    base: Snapshot, changed: Snapshot, delta: pb.SnapshotDelta, dictionaries: JoinedDictionaries
) -> JoinedTables:
    """Join all tables but the pods."""
    first, second = dictionaries.base, dictionaries.changed
    groups, templates = _join_groups(base, changed, delta, dictionaries)
    nodes, no_group = _join_nodes(base, changed, delta, dictionaries, groups)
    owners = _join(
        base.owners, changed.owners, Deleted("deleted_owners", delta.deleted_owners), lambda owner: owner.uid
    )
    budgets = _join(
        base.budgets,
        changed.budgets,
        Deleted("deleted_pod_disruption_budgets", delta.deleted_pod_disruption_budgets),
        lambda budget: f"{budget.namespace}/{budget.name}",
    )
    namespaces = _join(
        [(name, int(first.label_sets[i])) for name, i in base.namespaces],
        [(name, int(second.label_sets[i])) for name, i in changed.namespaces],
        Deleted("deleted_namespaces", delta.deleted_namespaces),
        lambda row: row[0],
    )
    pod_groups = _join(
        base.pod_groups,
        changed.pod_groups,
        Deleted("deleted_pod_groups", delta.deleted_pod_groups),
        lambda pod_group: f"{pod_group.namespace}/{pod_group.name}",
    )
    acting, numbers = (changed, second) if delta.changed.HasField("actuation_status") else (base, first)
    return JoinedTables(
        nodes=nodes,
        templates=templates,
        groups=groups,
        owners=tuple(owners),
        budgets=tuple(sorted(budgets, key=lambda budget: (budget.namespace, budget.name))),
        namespaces=tuple(namespaces),
        deletions=acting.deletions,
        recent_evictions=tuple(
            row._replace(spec=spec_in(numbers.specs, row.spec), label_set=int(numbers.label_sets[row.label_set]))
            for row in acting.recent_evictions
        ),
        pod_groups=tuple(sorted(pod_groups, key=lambda pod_group: (pod_group.namespace, pod_group.name))),
        no_group=no_group,
    )


def check_deleted(deleted: Deleted, base: Iterable[str], changed: Iterable[str]) -> set[str]:
    """Return the keys to remove. Refuses one that is not in the base, is given twice or is also changed."""
    if not deleted.keys:
        return set()
    of_base, again, checked = set(base), set(changed), set[str]()
    for row, key in enumerate(deleted.keys):
        if key not in of_base:
            raise SnapshotError(deleted.field, row, "", f"the base has no {key!r}; send the whole snapshot")
        if key in again:
            raise SnapshotError(deleted.field, row, "", f"{key!r} is also changed; either change or delete it")
        if key in checked:
            raise SnapshotError(deleted.field, row, "", f"{key!r} is given twice; give each key once")
        checked.add(key)
    return checked


def _join(
    base: Sequence[_Row], changed: Sequence[_Row], deleted: Deleted, key: Callable[[_Row], str]
) -> Sequence[_Row]:
    """Join rows that ascend by key."""
    if not changed and not deleted.keys:
        return base
    rows = {key(row): row for row in base}
    replaced = {key(row): row for row in changed}
    for gone in check_deleted(deleted, rows, replaced):
        del rows[gone]
    rows.update(replaced)
    return [rows[name] for name in sorted(rows)]


def _order(base: Sequence[str], changed: Sequence[str], deleted: Deleted) -> tuple[list[str], Int64]:
    """Return (the names joined, sorted; int64: the row of each, those of `changed` counted after those of `base`)."""
    row = row_of_key(base)
    replaced = {name: len(base) + i for i, name in enumerate(changed)}
    for gone in check_deleted(deleted, row, replaced):
        del row[gone]
    row.update(replaced)
    names = sorted(row)
    return names, np.array([row[name] for name in names], np.int64)


def _join_groups(
    base: Snapshot, changed: Snapshot, delta: pb.SnapshotDelta, dictionaries: JoinedDictionaries
) -> tuple[tuple[NodeGroupInfo, ...], NodeColumns]:
    """Join node groups and, with them, their templates."""
    deleted = Deleted("deleted_node_groups", delta.deleted_node_groups)
    if not changed.groups and not deleted.keys and _keeps_numbers(base, dictionaries):
        return base.groups, base.templates
    _, source = _order([g.id for g in base.groups], [g.id for g in changed.groups], deleted)
    groups, templates = [], []
    both = stack_nodes(base, changed, dictionaries, "templates")
    for row in source.tolist():
        from_base = row < len(base.groups)
        group = base.groups[row] if from_base else changed.groups[row - len(base.groups)]
        if group.template >= 0:
            templates.append(group.template + (0 if from_base else len(base.templates.name)))
            group = group._replace(template=len(templates) - 1)
        groups.append(group)
    owner = np.array([i for i, group in enumerate(groups) if group.template >= 0], np.int32)
    return tuple(groups), _drop_unused_taint_sets(take_nodes(both, np.array(templates, np.int64)))._replace(group=owner)


def _join_nodes(
    base: Snapshot,
    changed: Snapshot,
    delta: pb.SnapshotDelta,
    dictionaries: JoinedDictionaries,
    groups: tuple[NodeGroupInfo, ...],
) -> tuple[NodeColumns, Dangling]:
    deleted = Deleted("deleted_nodes", delta.deleted_nodes)
    if groups is base.groups and not changed.nodes.name and not deleted.keys and _keeps_numbers(base, dictionaries):
        return base.nodes, base.dangling.group
    _, source = _order(base.nodes.name, changed.nodes.name, deleted)
    nodes = _drop_unused_taint_sets(take_nodes(stack_nodes(base, changed, dictionaries, "nodes"), source))
    target, names = stack_references(
        (base.nodes.group, [g.id for g in base.groups], base.dangling.group),
        (changed.nodes.group, [g.id for g in changed.groups], changed.dangling.group),
    )
    group, missing = resolve(target[source], names, row_of_key(group.id for group in groups))
    return nodes._replace(group=np.maximum(group, np.int32(NONE))), missing


def _keeps_numbers(base: Snapshot, dictionaries: JoinedDictionaries) -> bool:
    """Return whether label sets keep the base's numbers and no resource was added."""
    return is_identity(dictionaries.base.label_sets) and dictionaries.resources == base.resources


Reference = tuple[Int32, Sequence[str], Dangling]
"""A column, the names that it indexes, and its dangling references."""


def stack_references(first: Reference, second: Reference) -> tuple[Int32, list[str]]:
    """Return the columns one after the other, as indices into the names of both."""
    target, names = unresolve(*first)
    more, more_names = unresolve(*second)
    return np.concatenate((target, more + np.int32(len(names)))), names + more_names


def stack_nodes(base: Snapshot, changed: Snapshot, dictionaries: JoinedDictionaries, table: str) -> NodeColumns:
    """Return the rows of both, one after the other, in the numbers of the joined dictionaries, except `group`."""
    a, b = getattr(base, table), getattr(changed, table)
    taint_sets, of_sets = numbered([*a.taint_sets, *b.taint_sets])
    taints = of_sets[: len(a.taint_sets)][a.taint_set], of_sets[len(a.taint_sets) :][b.taint_set]
    numbers = (dictionaries.base, dictionaries.changed)
    sets = [number.label_sets[side.label_set] for side, number in zip((a, b), numbers, strict=True)]
    width = len(dictionaries.resources)
    check_size(max(len(a.name), len(b.name)), width, table)
    amounts: dict[str, Any] = {}
    for field in ("allocatable", "capacity"):
        whole = np.zeros((len(a.name) + len(b.name), width), np.int64)
        whole[: len(a.name), numbers[0].resources] = getattr(a, field)
        whole[len(a.name) :, numbers[1].resources] = getattr(b, field)
        amounts[field] = whole
    plain = (
        *("unschedulable", "ready", "ready_ns", "created_ns", "group"),
        *("scale_down_disabled", "deletion_delayed", "do_not_disrupt", "being_deleted", "own_price"),
    )
    return NodeColumns(
        name=a.name + b.name,
        provider_id=a.provider_id + b.provider_id,
        label_set=np.concatenate(sets),
        taint_set=np.concatenate(taints),
        taint_sets=tuple(taint_sets),
        traits=a.traits + b.traits,
        **amounts,
        **{field: np.concatenate((getattr(a, field), getattr(b, field))) for field in plain},
    )


def _drop_unused_taint_sets(nodes: NodeColumns) -> NodeColumns:
    """Drop taint sets without rows; the empty one, number 0, stays."""
    used = np.zeros(len(nodes.taint_sets), np.bool_)
    used[nodes.taint_set] = True
    used[0] = True
    if used.all():
        return nodes
    new = np.cumsum(used, dtype=np.int32) - np.int32(1)
    taint_sets = tuple(compress(nodes.taint_sets, used.tolist()))
    return nodes._replace(taint_set=new[nodes.taint_set], taint_sets=taint_sets)
