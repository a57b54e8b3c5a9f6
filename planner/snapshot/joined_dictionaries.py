"""The dictionaries of two canonical snapshots as one, with the new number of each entry of either.

Canonical order is kept: a column that ascends by old numbers ascends by new ones. Cost: O(entries), no sort but of two
sorted runs.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np

from planner.model.values import PodSpec, Volume
from planner.snapshot.columns import Int32, LabelSets, Snapshot
from planner.snapshot.dictionaries import canonical_resources, offsets_of


class Numbers(NamedTuple):
    """The new numbers of one side's entries: int32 each."""

    strings: Int32
    label_sets: Int32
    specs: Int32
    volumes: Int32
    resources: Int32


class JoinedDictionaries(NamedTuple):
    """What both sides have together; `base` and `changed` number their own entries in it."""

    strings: tuple[str, ...]
    label_sets: LabelSets
    specs: tuple[PodSpec, ...]
    volumes: tuple[Volume, ...]
    resources: tuple[str, ...]
    base: Numbers
    changed: Numbers


def join_dictionaries(base: Snapshot, changed: Snapshot) -> JoinedDictionaries:
    """Join the dictionaries of two snapshots."""
    strings, string_numbers = _join(base.strings, changed.strings, base.strings, changed.strings)
    label_sets, set_numbers = _join_label_sets((base.label_sets, changed.label_sets), string_numbers)
    encode = msgspec.msgpack.Encoder().encode
    specs, spec_numbers = _join(base.specs, changed.specs, *_codes(base.specs, changed.specs, encode))
    volumes, volume_numbers = _join(base.volumes, changed.volumes, *_codes(base.volumes, changed.volumes, encode))
    resources = canonical_resources((*base.resources, *changed.resources))
    place = {name: i for i, name in enumerate(resources)}
    resource_numbers = [np.array([place[name] for name in one.resources], np.int32) for one in (base, changed)]
    sides = zip(string_numbers, set_numbers, spec_numbers, volume_numbers, resource_numbers, strict=True)
    first, second = (Numbers(*side) for side in sides)
    return JoinedDictionaries(tuple(strings), label_sets, tuple(specs), tuple(volumes), resources, first, second)


def _codes(first: Sequence[Any], second: Sequence[Any], encode: Any) -> tuple[list[bytes], list[bytes]]:
    return [encode(one) for one in first], [encode(one) for one in second]


def _join(
    first: Sequence[Any], second: Sequence[Any], first_keys: Sequence[Any], second_keys: Sequence[Any]
) -> tuple[list[Any], tuple[Int32, Int32]]:
    """Join two lists that ascend by their keys, equal keys once."""
    known = set(first_keys)
    if known.issuperset(second_keys):
        rank = {key: i for i, key in enumerate(first_keys)}
        same = np.arange(len(first), dtype=np.int32)
        return list(first), (same, np.array([rank[key] for key in second_keys], np.int32))
    value = dict(zip(second_keys, second, strict=True)) | dict(zip(first_keys, first, strict=True))
    ordered = sorted([*first_keys, *(key for key in second_keys if key not in known)])
    rank = {key: i for i, key in enumerate(ordered)}
    first_numbers = np.fromiter((rank[key] for key in first_keys), np.int32, len(first_keys))
    second_numbers = np.fromiter((rank[key] for key in second_keys), np.int32, len(second_keys))
    return [value[key] for key in ordered], (first_numbers, second_numbers)


def _join_label_sets(
    sides: tuple[LabelSets, LabelSets], strings: tuple[Int32, Int32]
) -> tuple[LabelSets, tuple[Int32, Int32]]:
    """Join label sets; the sides' strings have new numbers in the same order, so each side stays sorted."""
    rows = [_rows(sets, numbers) for sets, numbers in zip(sides, strings, strict=True)]
    joined, numbers = _join(rows[0], rows[1], rows[0], rows[1])
    entries = np.frombuffer(b"".join(joined), ">i4").reshape(-1, 2)
    sizes = np.fromiter((len(row) // 8 for row in joined), np.int32, len(joined))
    keys, values = (np.ascontiguousarray(entries[:, i], dtype=np.int32) for i in (0, 1))
    return LabelSets(offsets_of(sizes).astype(np.int32), keys, values), numbers


def _rows(sets: LabelSets, numbers: Int32) -> list[bytes]:
    """Return each set as bytes that compare as the sets do."""
    entries = np.empty((len(sets.keys), 2), ">i4")
    entries[:, 0], entries[:, 1] = numbers[sets.keys], numbers[sets.values]
    blob, bounds = entries.tobytes(), (sets.offsets.astype(np.int64) * 8).tolist()
    return [blob[start:end] for start, end in pairwise(bounds)]
