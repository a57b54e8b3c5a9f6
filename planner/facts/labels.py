"""Label sets: which of them a selector matches, with an index by key, and the values of one label.

Knows nothing of namespaces. Cost: building O(entries of the keys used), each query O(sets that have its keys), or O(L)
if every requirement is negative. Operators are those of label selectors; GT and LT belong to nodes
only and match nothing here.
Source: apimachinery, labels.Requirement.Matches.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.model.values import LabelRequirement, Selector
from trimtab.planner.snapshot.columns import Bool, Int32, LabelSets, Snapshot
from trimtab.planner.snapshot.texts import string_index
from trimtab.v1 import snapshot_pb2 as pb

_NEGATIVE: Final = frozenset({pb.LabelOperator.NOT_IN, pb.LabelOperator.DOES_NOT_EXIST})


class _KeyEntries(NamedTuple):
    """Entries of one key, by value. sets : int32[E_key]; runs : by value, first and end of its sets."""

    sets: Int32
    runs: dict[int, tuple[int, int]]


def _is_among(some: Int32, others: Int32) -> Bool:
    """Return for each of `some` whether it is one of `others`; both ascending. O(some · log others)."""
    if len(others) == 0:
        return np.zeros(len(some), bool)
    is_there: Bool = others[np.minimum(others.searchsorted(some), len(others) - 1)] == some
    return is_there


class LabelIndex:
    """Index of label sets; keeps the entries of each key that was queried."""

    def __init__(self, strings: tuple[str, ...], label_sets: LabelSets) -> None:
        self._label_sets = label_sets
        self._count = max(len(label_sets.offsets) - 1, 1)
        self._strings = strings
        self._set_of_entry: Int32 | None = None
        self._by_key: dict[str, _KeyEntries] = {}

    def matching(self, selector: Selector | None) -> Bool:
        """Return bool[L]: the sets that meet every requirement; None matches no set, () matches all."""
        matches = np.zeros(self._count, bool)
        matches[self.sets_matching(selector)] = True
        return matches

    def sets_matching(self, selector: Selector | None) -> Int32:
        """Return the sets that meet every requirement, ascending. int32."""
        if selector is None:
            return np.zeros(0, np.int32)
        # Positive requirements first: they leave fewer sets for the others.
        requirements = sorted(selector, key=lambda requirement: requirement.operator in _NEGATIVE)
        sets = np.arange(self._count, dtype=np.int32)
        for at, requirement in enumerate(requirements):
            having = self._having(requirement)
            if requirement.operator in _NEGATIVE:
                sets = sets[~_is_among(sets, having)]
            elif at == 0:
                sets = having
            else:
                fewer, more = (having, sets) if len(having) < len(sets) else (sets, having)
                sets = fewer[_is_among(fewer, more)]
        return sets

    def _having(self, requirement: LabelRequirement) -> Int32:
        """Return the sets that have the key, with one of the values if the operator has values. Ascending."""
        entries = self._entries(requirement.key)
        operator = requirement.operator
        if operator in {pb.LabelOperator.EXISTS, pb.LabelOperator.DOES_NOT_EXIST}:
            return np.sort(entries.sets)
        if operator not in {pb.LabelOperator.IN, pb.LabelOperator.NOT_IN}:
            return np.zeros(0, np.int32)
        runs = []
        for value in set(requirement.values):
            first, last = entries.runs.get(string_index(self._strings, value), (0, 0))
            runs.append(entries.sets[first:last])
        return runs[0] if len(runs) == 1 else np.sort(np.concatenate([np.zeros(0, np.int32), *runs]))

    def _entries(self, key: str) -> _KeyEntries:
        entries = self._by_key.get(key)
        if entries is None:
            entries = self._by_key[key] = self._collect(string_index(self._strings, key))
        return entries

    def _collect(self, key: int) -> _KeyEntries:
        if self._set_of_entry is None:
            lengths = np.diff(self._label_sets.offsets)
            self._set_of_entry = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        at = np.flatnonzero(self._label_sets.keys == key)
        values = self._label_sets.values[at]
        order = np.argsort(values, kind="stable")
        values = values[order]
        first = np.flatnonzero(np.diff(values, prepend=-1))
        last = np.flatnonzero(np.diff(values, append=-1)) + 1
        runs = zip(first.tolist(), last.tolist(), strict=True)
        return _KeyEntries(self._set_of_entry[at][order], dict(zip(values[first].tolist(), runs, strict=True)))


def label_sets_of(labels: Sequence[Sequence[tuple[str, str]]]) -> tuple[tuple[str, ...], LabelSets]:
    """Return (strings, label sets over them) of rows of (key, value) pairs, each sorted by key, in their order."""
    strings = tuple(sorted({text for labels_of_set in labels for pair in labels_of_set for text in pair}))
    place = {text: at for at, text in enumerate(strings)}
    offsets = np.cumsum([0, *(len(labels_of_set) for labels_of_set in labels)], dtype=np.int32)
    keys = np.array([place[key] for labels_of_set in labels for key, _ in labels_of_set], np.int32)
    values = np.array([place[value] for labels_of_set in labels for _, value in labels_of_set], np.int32)
    return strings, LabelSets(offsets, keys, values)


def index_of(labels: Sequence[Sequence[tuple[str, str]]]) -> LabelIndex:
    """Return an index of rows of (key, value) pairs."""
    return LabelIndex(*label_sets_of(labels))


def codes_by_label_set(snapshot: Snapshot, key: str) -> Int32:
    """Return the value of a label in each label set as an index of the snapshot's strings, -1 = it lacks the label.
    int32[max(L, 1)]. O(entries)."""
    sets = snapshot.label_sets
    codes = np.full(max(len(sets.offsets) - 1, 1), -1, np.int32)
    entries = np.flatnonzero(sets.keys == string_index(snapshot.strings, key))
    codes[np.searchsorted(sets.offsets, entries, "right") - 1] = sets.values[entries]
    return codes


def values_by_label_set(snapshot: Snapshot, key: str) -> list[str | None]:
    """Return the value of a label in each label set, None = it lacks the label. O(entries)."""
    return [None if code < 0 else snapshot.strings[code] for code in codes_by_label_set(snapshot, key).tolist()]
