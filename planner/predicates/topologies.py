"""Topology domains: the value of a label key on each node, as small numbers.

Contract: one row per key that some term uses, and one in which each node is its own domain. Domains of a key are
numbered by the position of their value in the snapshot's strings. Cost: O(labels of the nodes) for each key.
"""

from typing import Final

import numpy as np

from trimtab.common.kubernetes.signals import well_known
from trimtab.planner.classes.label_columns import label_entries
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.snapshot.columns import Int32, LabelSets, UInt8
from trimtab.planner.snapshot.texts import string_index

_COPIES = 3
"""Copies of a row: here, and in the presence and spread counters."""
HOSTNAME: Final = well_known.HOSTNAME.key
"""The label whose value is the node's name."""
OWN_NODE = 0
"""The row in which each node is its own domain."""


class Topologies:
    """Rows of domains by label key, built on first use."""

    def __init__(
        self,
        strings: tuple[str, ...],
        sets: LabelSets,
        node_label_set: Int32,
        limits: RequestLimits = UNLIMITED,
        *,
        has_spare_nodes: bool = False,
    ) -> None:
        self._has_spare_nodes = has_spare_nodes
        self.limits = limits
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
            self.limits.check()
            self.limits.reserve(_COPIES * 4 * self._count, "topology keys times nodes")
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

    def own_rows(self) -> UInt8:
        """Return in which rows each virtual node is its own domain : uint8[rows]."""
        return np.array([row == OWN_NODE or key == HOSTNAME for row, key in enumerate(self.keys)], np.uint8)

    def single_rows(self) -> UInt8:
        """Return in which rows no domain has two nodes, and none will have : uint8[rows]."""
        single = [size == int((row >= 0).sum()) for size, row in zip(self._sizes, self._rows, strict=True)]
        # Several spare nodes may join the domain of one template.
        return np.array(single, np.uint8) & (self.own_rows() if self._has_spare_nodes else np.uint8(1))

    def matrix(self) -> Int32:
        """Return all rows : int32[rows, N]."""
        return np.ascontiguousarray(np.stack(self._rows))
