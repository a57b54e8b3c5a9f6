"""Counters of placed pods of one kind in each domain, which predicates require to be 0 or not 0.

Contract: one counter for each (kind of pod, topology row), shared by all predicates; a class lists the counters that it
increments, those that must be 0 on its node (with the reason if not), and those that must not be. Host ports, disks and
inter-pod (anti-)affinity all have this form. The kernels are in `trimtab.planner.predicates.kernels.presence`.
"""

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.predicates.listing import ListBuilder
from trimtab.planner.predicates.topologies import Topologies
from trimtab.planner.snapshot.columns import Int32, Int64, UInt8


class PresenceCounters(NamedTuple):
    """T counters over domains, S classes.

    domain : int32[rows, N] domain of each node, -1 = none; row : int32[T]; start : int64[T] place of domain 0 in
    `counts`; counts : int32[all domains of all counters]; total : int32[T] sum of a counter over its domains;
    added : int32[n, 1] counters that a class adds to; empty : int32[n, 2] counters that must be 0, and the reason;
    filled : int32[n, 1] counters that must not be 0; each with offsets : int32[S+1];
    starts_group : uint8[S] the class meets its own affinity terms, so that it may be the first of its group.
    """

    domain: Int32
    row: Int32
    start: Int64
    counts: Int32
    total: Int32
    added_offsets: Int32
    added: Int32
    empty_offsets: Int32
    empty: Int32
    filled_offsets: Int32
    filled: Int32
    starts_group: UInt8


class PresenceBuilder:
    """Collects counters and the classes that use them. Classes are given as int64 arrays of their numbers."""

    def __init__(self, class_count: int, topologies: Topologies) -> None:
        self._topologies = topologies
        self._classes = class_count
        self._number: dict[Hashable, int] = {}
        self._rows: list[int] = []
        self._added = ListBuilder(class_count, 1, topologies.effort)
        self._empty = ListBuilder(class_count, 2, topologies.effort)
        self._filled = ListBuilder(class_count, 1, topologies.effort)
        self._starts_group = np.zeros(class_count, np.uint8)

    def counter(self, content: Hashable, row: int) -> tuple[int, bool]:
        """Return the counter of a kind of pod in a topology row, and whether it is new."""
        key = (content, row)
        known = self._number.get(key)
        if known is not None:
            return known, False
        self._number[key] = len(self._rows)
        self._rows.append(row)
        return len(self._rows) - 1, True

    def adds(self, classes: NDArray[np.int64], counter: int) -> None:
        """Count pods of these classes."""
        self._added.add(classes, counter)

    def needs_empty(self, classes: NDArray[np.int64], counter: int, reason: int) -> None:
        """Keep pods of these classes out of domains where the counter is not 0."""
        self._empty.add(classes, counter, reason)

    def needs_filled(self, classes: NDArray[np.int64], counter: int) -> None:
        """Restrict pods of these classes to domains where the counter is not 0."""
        self._filled.add(classes, counter)

    def starts_group(self, class_number: int) -> None:
        """Mark a class that meets its own affinity terms."""
        self._starts_group[class_number] = 1

    def build(self) -> PresenceCounters:
        """Return the counters, all 0."""
        sizes = np.array([self._topologies.size(row) for row in self._rows], np.int64)
        self._topologies.effort.take(4 * int(sizes.sum()), "terms times topology domains")
        ends = np.cumsum(sizes)
        added, empty, filled = self._added.build(), self._empty.build(), self._filled.build()
        return PresenceCounters(
            self._topologies.matrix(),
            np.array(self._rows, np.int32),
            np.ascontiguousarray(ends - sizes),
            np.zeros(int(sizes.sum()), np.int32),
            np.zeros(len(self._rows), np.int32),
            added.offsets,
            added.items,
            empty.offsets,
            empty.items,
            filled.offsets,
            filled.items,
            self._starts_group,
        )
