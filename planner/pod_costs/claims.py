"""Which controllers select which label sets: what two controllers that claim the same pods are found by.

Decides which owners count: those with a selector that control pods themselves (a Deployment does not) and want pods. An
owner without a known selector claims nobody. Cost: O(label entries + requirements) for selectors of exact labels, and
a query of the label index for each other one.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from trimtab.v1.snapshot_pb2 import LabelOperator

from planner.facts.label_index import LabelIndex
from planner.model.values import Owner, Selector
from planner.pod_costs.kernels.claims import Claims
from planner.snapshot.columns import Int32, Int64, Snapshot
from planner.snapshot.lookup import string_index

READ: Final = ("owners", "strings", "label_sets.offsets", "label_sets.keys", "label_sets.values")
"""Fields of the snapshot that `by_label_set` reads."""
_ABOVE_OTHERS: Final = frozenset({"Deployment"})
"""Kinds whose selector covers the pods of the controllers that they own."""


def by_label_set(snapshot: Snapshot) -> Claims:
    """Return the owners that select each label set."""
    sets, owners = _pairs(snapshot)
    order = np.argsort(sets, kind="stable")
    count = max(len(snapshot.label_sets.offsets) - 1, 1)
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(sets, minlength=count))))
    spaces: dict[str, int] = {}
    for owner in snapshot.owners:
        if owner.namespace not in spaces:
            spaces[owner.namespace] = string_index(snapshot.strings, owner.namespace)
    namespace = np.array([spaces[owner.namespace] for owner in snapshot.owners], np.int32)
    return Claims(offsets.astype(np.int64), owners[order], namespace)


def _pairs(snapshot: Snapshot) -> tuple[Int64, Int32]:
    """Return (label set, owner) of each claim."""
    exact: list[int] = []
    others: list[int] = []
    for number, owner in enumerate(snapshot.owners):
        if _counts(owner) and owner.selector is not None:
            (exact if _is_exact(owner.selector) else others).append(number)
    sets, owners = _exact_pairs(snapshot, exact)
    index = LabelIndex(snapshot.strings, snapshot.label_sets)
    parts = [index.sets_matching(snapshot.owners[number].selector).astype(np.int64) for number in others]
    sizes = [len(part) for part in parts]
    more = np.repeat(np.array(others, np.int32), sizes)
    return np.concatenate((sets, *parts)), np.concatenate((owners, more))


def _counts(owner: Owner) -> bool:
    return bool(owner.selector) and owner.kind not in _ABOVE_OTHERS and owner.desired_replicas != 0


def _is_exact(selector: Selector) -> bool:
    return all(one.operator == LabelOperator.IN and len(one.values) == 1 for one in selector)


def _exact_pairs(snapshot: Snapshot, owners: list[int]) -> tuple[Int64, Int32]:
    """Return the pairs of selectors that name one value for each key: label sets with its rarest label, then
    checked."""
    sets = snapshot.label_sets
    of_entry = np.repeat(np.arange(len(sets.offsets) - 1, dtype=np.int64), np.diff(sets.offsets))
    label = (sets.keys.astype(np.int64) << 32) | sets.values
    order = np.argsort(label, kind="stable")
    sorted_labels, sorted_sets = label[order], of_entry[order]
    wanted = [list(_labels(snapshot, snapshot.owners[number].selector or ())) for number in owners]
    sizes = [len(one) for one in wanted]
    labels = np.array([one for labels in wanted for one in labels], np.int64)
    low, high = np.searchsorted(sorted_labels, labels, "left"), np.searchsorted(sorted_labels, labels, "right")
    # A set is selected if it has as many of a selector's labels as the selector names; keys are unique within a set.
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)))
    place_of: set[tuple[int, int]] | None = None
    found_sets: list[int] = []
    found_owners: list[int] = []
    for at, number in enumerate(owners):
        mine = range(int(starts[at]), int(starts[at + 1]))
        rarest = min(mine, key=lambda one: int(high[one] - low[one]))
        candidates = sorted_sets[low[rarest] : high[rarest]].tolist()
        if len(mine) > 1 and candidates:
            if place_of is None:
                place_of = set(zip(of_entry.tolist(), label.tolist(), strict=True))
            named = labels[starts[at] : starts[at + 1]].tolist()
            candidates = [one for one in candidates if all((one, label) in place_of for label in named)]
        found_sets.extend(candidates)
        found_owners.extend([number] * len(candidates))
    return np.array(found_sets, np.int64), np.array(found_owners, np.int32)


def _labels(snapshot: Snapshot, selector: Selector) -> Iterator[int]:
    """Yield the labels that a selector names, as key times 2^32 plus value; -1 for one that no label set has."""
    for one in selector:
        key, value = string_index(snapshot.strings, one.key), string_index(snapshot.strings, one.values[0])
        yield (key << 32) | value if key >= 0 and value >= 0 else -1
