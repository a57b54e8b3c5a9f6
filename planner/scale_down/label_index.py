"""Which label sets a selector matches, answered from an index of the label sets by key.

Decides nothing about namespaces. Cost: building O(entries of the keys asked for), each question O(sets that have the
key). Operators are those of label selectors; GT and LT belong to nodes only and match nothing here.
Source: apimachinery, labels.Requirement.Matches.
"""

from bisect import bisect_left
from typing import NamedTuple

import numpy as np
from trimtab.v1 import snapshot_pb2 as pb

from planner.model.values import LabelRequirement, Selector
from planner.snapshot.columns import Bool, Int32, LabelSets


class _KeyEntries(NamedTuple):
    """Entries of one key, by value. sets, values : int32[E_key], `values` ascending."""

    sets: Int32
    values: Int32


def string_index(strings: tuple[str, ...], text: str) -> int:
    """Return the index of a text in the sorted dictionary of a snapshot, -1 if it is not there. O(log)."""
    at = bisect_left(strings, text)
    return at if at < len(strings) and strings[at] == text else -1


class LabelIndex:
    """Answers which label sets match. Keeps the entries of each key it was asked for, nothing else."""

    def __init__(self, strings: tuple[str, ...], label_sets: LabelSets) -> None:
        self._label_sets = label_sets
        self._count = max(len(label_sets.offsets) - 1, 1)
        self._strings = strings
        self._set_of_entry: Int32 | None = None
        self._by_key: dict[str, _KeyEntries] = {}

    def matching(self, selector: Selector | None) -> Bool:
        """Return bool[L]: the sets that meet every requirement; None matches no set, () matches all."""
        if selector is None:
            return np.zeros(self._count, bool)
        matches = np.ones(self._count, bool)
        for requirement in selector:
            matches &= self._meeting(requirement)
        return matches

    def _meeting(self, requirement: LabelRequirement) -> Bool:
        entries = self._entries(requirement.key)
        operator = requirement.operator
        meeting = np.zeros(self._count, bool)
        if operator in {pb.LabelOperator.EXISTS, pb.LabelOperator.DOES_NOT_EXIST}:
            meeting[entries.sets] = True
        elif operator in {pb.LabelOperator.IN, pb.LabelOperator.NOT_IN}:
            for value in requirement.values:
                wanted = string_index(self._strings, value)
                first, last = np.searchsorted(entries.values, np.array([wanted, wanted + 1], np.int32))
                meeting[entries.sets[first:last]] = True
        negative = operator in {pb.LabelOperator.NOT_IN, pb.LabelOperator.DOES_NOT_EXIST}
        return ~meeting if negative else meeting

    def _entries(self, key: str) -> _KeyEntries:
        known = self._by_key.get(key)
        if known is None:
            known = self._by_key[key] = self._collect(string_index(self._strings, key))
        return known

    def _collect(self, key: int) -> _KeyEntries:
        if self._set_of_entry is None:
            lengths = np.diff(self._label_sets.offsets)
            self._set_of_entry = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        at = np.flatnonzero(self._label_sets.keys == key)
        values = self._label_sets.values[at]
        order = np.argsort(values, kind="stable")
        return _KeyEntries(self._set_of_entry[at][order], values[order])
