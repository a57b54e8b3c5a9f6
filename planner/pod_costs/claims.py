"""Which controllers select which label sets; used to find controllers that claim the same pods. Decides which owners
count: those with a selector that control pods directly (a Deployment does not) and want pods. An owner without a known
selector claims no pods. Cost: O(label entries + requirements) for selectors of exact labels, and
a query of the label index for each other one.
"""

from typing import Final

import numpy as np

from trimtab.planner.facts.label_index import LabelIndex
from trimtab.planner.model.values import Owner, Selector
from trimtab.planner.pod_costs.kernels.claims import Claims
from trimtab.planner.snapshot.columns import Int32, Int64, Snapshot
from trimtab.planner.snapshot.lookup import string_index
from trimtab.planner.snapshot.offsets import entries_of
from trimtab.planner.snapshot.references import take_or
from trimtab.v1.snapshot_pb2 import LabelOperator

_ABOVE_OTHERS: Final = frozenset({"Deployment"})
"""Kinds whose selector also covers the pods of the controllers that they own."""


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
        if owner.selector and _counts(owner):
            (exact if _is_exact(owner.selector) else others).append(number)
    sets, owners = _exact_pairs(snapshot, exact)
    index = LabelIndex(snapshot.strings, snapshot.label_sets)
    parts = [index.sets_matching(snapshot.owners[number].selector).astype(np.int64) for number in others]
    sizes = [len(part) for part in parts]
    more = np.repeat(np.array(others, np.int32), sizes)
    return np.concatenate((sets, *parts)), np.concatenate((owners, more))


def _counts(owner: Owner) -> bool:
    return owner.desired_replicas != 0 and owner.kind not in _ABOVE_OTHERS


def _is_exact(selector: Selector) -> bool:
    return {(one.operator, len(one.values)) for one in selector} == {(LabelOperator.IN, 1)}


def _exact_pairs(snapshot: Snapshot, owners: list[int]) -> tuple[Int64, Int32]:
    """Return the pairs of selectors that name one value for each key. Candidates are the label sets with the rarest of
    a selector's labels; they are selected if they also have the others.
    """
    labels, bounds = _wanted(snapshot, owners)
    sets = snapshot.label_sets
    of_entry = np.repeat(np.arange(len(sets.offsets) - 1, dtype=np.int64), np.diff(sets.offsets))
    distinct, entry = np.unique((sets.keys.astype(np.int64) << 32) | sets.values, return_inverse=True)
    order = np.argsort(entry, kind="stable")
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(entry, minlength=len(distinct)))))
    number = np.minimum(np.searchsorted(distinct, labels), max(len(distinct) - 1, 0))
    number[(distinct[number] if len(distinct) else labels + 1) != labels] = -1
    count = take_or(np.diff(starts), number, 0)
    rarest = _rarest(count, bounds)
    sizes = count[rarest]
    place = np.arange(sizes.sum()) + np.repeat(starts[number[rarest]] - (np.cumsum(sizes) - sizes), sizes)
    candidate, of = of_entry[order[place]], np.repeat(np.arange(len(owners)), sizes)
    # For each candidate and each label of its selector: whether the set has it.
    asked = np.diff(bounds)[of]
    pair = np.repeat(np.arange(len(of)), asked)
    label = number[entries_of(bounds, of)]
    having = np.sort((of_entry << 32) | entry)
    wanted = (candidate[pair] << 32) | label
    found = np.minimum(np.searchsorted(having, wanted), max(len(having) - 1, 0))
    lacks = (having[found] if len(having) else wanted + 1) != wanted
    is_met = np.bincount(pair[lacks], minlength=len(of)) == 0
    return candidate[is_met], np.array(owners, np.int32)[of[is_met]]


def _wanted(snapshot: Snapshot, owners: list[int]) -> tuple[Int64, Int64]:
    """Return (labels in selectors, as key times 2^32 plus value, -1 for unknown ones; int64[owners+1] bounds)."""
    selectors = [snapshot.owners[number].selector or () for number in owners]
    keys = [one.key for selector in selectors for one in selector]
    values = [one.values[0] for selector in selectors for one in selector]
    # Nearly all strings are needed: one pass over them is faster than a search for each.
    texts = {*keys, *values}
    known = {text: number for number, text in enumerate(snapshot.strings) if text in texts}
    key, value = (np.array([known.get(text, -1) for text in of], np.int64) for of in (keys, values))
    bounds = np.zeros(len(owners) + 1, np.int64)
    np.cumsum([len(selector) for selector in selectors], out=bounds[1:])
    return np.where((key >= 0) & (value >= 0), (key << 32) | value, -1), bounds


def _rarest(count: Int64, bounds: Int64) -> Int64:
    """Return the position of the smallest count within each of the bounds, none of which is empty."""
    group = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    return np.lexsort((count, group))[bounds[:-1]]
