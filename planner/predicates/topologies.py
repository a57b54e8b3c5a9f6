"""Topology domains: the value of a label key on each node, as small numbers.

Contract: one row per key that some term uses, and one in which each node is its own domain. Domains of a key are
numbered by the position of their value in the snapshot's strings. Cost: O(labels of the nodes) for each key.
"""

import numpy as np

from trimtab.planner.classes.label_columns import label_entries
from trimtab.planner.model.effort import UNLIMITED, Effort
from trimtab.planner.snapshot.columns import Int32, LabelSets
from trimtab.planner.snapshot.lookup import string_index

_COPIES = 3
"""Copies of a row: here, and in the presence and spread counters."""
OWN_NODE = 0
"""The row in which each node is its own domain."""


class Topologies:
    """Rows of domains by label key, built on first use."""

    def __init__(
        self, strings: tuple[str, ...], sets: LabelSets, node_label_set: Int32, effort: Effort = UNLIMITED
    ) -> None:
        self.effort = effort
        self._strings = strings
        self._entries = label_entries(sets, node_label_set)
        self._count = len(node_label_set)
        self._rows = [np.arange(self._count, dtype=np.int32)]
        self._sizes = [self._count]
        self._number: dict[str, int] = {}
        self.keys = [""]

    def row(self, key: str) -> int:
        """Return the row of a label key."""
        number = self._number.get(key)
        if number is None:
            self.effort.check()
            self.effort.take(_COPIES * 4 * self._count, "topology keys times nodes")
            number = self._number[key] = len(self._rows)
            node, keys, values = self._entries
            mine = keys == string_index(self._strings, key)
            distinct, domain = np.unique(values[mine], return_inverse=True)
            row = np.full(self._count, -1, np.int32)
            row[node[mine]] = domain
            self._rows.append(row)
            self._sizes.append(len(distinct))
            self.keys.append(key)
        return number

    def domains(self, row: int) -> Int32:
        """Return each node's domain in a row, -1 where it lacks the key : int32[N]."""
        return self._rows[row]

    def size(self, row: int) -> int:
        """Return the number of domains of a row."""
        return self._sizes[row]

    def matrix(self) -> Int32:
        """Return all rows : int32[rows, N]."""
        return np.ascontiguousarray(np.stack(self._rows))
