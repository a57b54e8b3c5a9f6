"""Join the dictionaries of two canonical snapshots, with the new number of each entry of both.

Canonical order is kept: a column that ascends by old numbers ascends by new ones. Cost: O(entries of the delta) if it
adds none and the base's numbers are cached, else O(entries) with a merge of sorted runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from trimtab.planner.model.values import MountedVolume, PodRequirements
from trimtab.planner.snapshot.caches import UNCACHED, SnapshotCache, SnapshotKey
from trimtab.planner.snapshot.columns import Int32, LabelSets, Snapshot
from trimtab.planner.snapshot.dictionaries import canonical_resources, offsets_of
from trimtab.planner.snapshot.encoding import encoded
from trimtab.planner.snapshot.references import is_identity


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


@dataclass(frozen=True)
class RanksKey(SnapshotKey[dict[Any, int]]):
    """The place of each entry of a dictionary, by its encoding. field : the dictionary's in `Snapshot`."""

    field: str


def join_dictionaries(base: Snapshot, changed: Snapshot, cache: SnapshotCache = UNCACHED) -> JoinedDictionaries:
    """Join the dictionaries of two snapshots. cache : that of the base."""
    ranks = cache.get(RanksKey("strings"), base, lambda view: _ranks(view.strings))
    strings, string_numbers = _join(base.strings, changed.strings, ranks, changed.strings)
    label_sets, set_numbers = _join_label_sets(base, changed, *string_numbers, cache)
    ranks_of_specs = cache.get(RanksKey("specs"), base, lambda view: _ranks(list(map(encoded, view.specs))))
    specs, spec_numbers = _join(base.specs, changed.specs, ranks_of_specs, [encoded(one) for one in changed.specs])
    ranks_of_volumes = cache.get(RanksKey("volumes"), base, lambda view: _ranks(list(map(encoded, view.volumes))))
    volumes, volume_numbers = _join(
        base.volumes, changed.volumes, ranks_of_volumes, [encoded(one) for one in changed.volumes]
    )
    resources = canonical_resources((*base.resources, *changed.resources))
    place = {name: i for i, name in enumerate(resources)}
    resource_numbers = [np.array([place[name] for name in one.resources], np.int32) for one in (base, changed)]
    sides = zip(string_numbers, set_numbers, spec_numbers, volume_numbers, resource_numbers, strict=True)
    first, second = (Numbers(*side) for side in sides)
    return JoinedDictionaries(tuple(strings), label_sets, tuple(specs), tuple(volumes), resources, first, second)


def renumbered(numbers: Int32, column: Int32) -> Int32:
    """Return a column : int32[P] in new numbers, int32[P]; the same object if the numbers do not change. numbers :
    int32, by old number.
    """
    return column if is_identity(numbers) else numbers[column]


def _ranks(ascending: Sequence[Any]) -> dict[Any, int]:
    return {key: i for i, key in enumerate(ascending)}


def _join(
    first: Sequence[Any], second: Sequence[Any], first_ranks: dict[Any, int], second_keys: Sequence[Any]
) -> tuple[Sequence[Any], tuple[Int32, Int32]]:
    """Join two lists in ascending order of keys, equal keys once. first_ranks : the first one's keys, numbered."""
    if all(key in first_ranks for key in second_keys):
        same = np.arange(len(first), dtype=np.int32)
        return first, (same, np.array([first_ranks[key] for key in second_keys], np.int32))
    value = dict(zip(second_keys, second, strict=True)) | dict(zip(first_ranks, first, strict=True))
    ordered = sorted(value)
    rank = _ranks(ordered)
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
        ranks = cache.get(RanksKey("label_sets"), base, lambda view: _ranks(_rows(view.label_sets, base_strings)))
    else:
        ranks = _ranks(_rows(base.label_sets, base_strings))
    rows = _rows(changed.label_sets, changed_strings)
    joined, numbers = _join(tuple(ranks), rows, ranks, rows)
    if len(joined) == len(ranks) and is_identity(base_strings):
        return base.label_sets, numbers
    entries = np.frombuffer(b"".join(joined), ">i4").reshape(-1, 2)
    sizes = np.fromiter((len(row) // 8 for row in joined), np.int32, len(joined))
    keys, values = (np.ascontiguousarray(entries[:, i], dtype=np.int32) for i in (0, 1))
    return LabelSets(offsets_of(sizes).astype(np.int32), keys, values), numbers


def _rows(sets: LabelSets, numbers: Int32) -> list[bytes]:
    """Return each set as bytes with the same order as the sets."""
    entries = np.empty((len(sets.keys), 2), ">i4")
    entries[:, 0], entries[:, 1] = numbers[sets.keys], numbers[sets.values]
    blob, bounds = entries.tobytes(), (sets.offsets.astype(np.int64) * 8).tolist()
    return [blob[start:end] for start, end in pairwise(bounds)]
