"""Counters of placed pods of one kind in each domain, which predicates require to be 0 or not 0.

Contract: one counter for each (kind of pod, topology row), shared by all predicates; a class lists the counters that it
increments, those that must be 0 on its node (with the reason if not), and those that must not be. Host ports, disks and
inter-pod (anti-)affinity all have this form. The kernels are in `trimtab.planner.predicates.kernels.presence`.
"""

from collections.abc import Hashable, Iterator
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.predicates.counter_kind import (
    CounterKind,
    ListBuilder,
    Lists,
    NodeLimit,
    items_of,
    rows_by_number,
)
from trimtab.planner.predicates.topologies import Topologies
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, UInt8


class PresenceCounters(NamedTuple):
    """T counters over domains, S classes.

    domain : int32[rows, N] domain of each node, -1 = none; own_row, single_row : uint8[rows] each virtual node, or each
    node, is its own domain; row : int32[T]; start : int64[T] place of domain 0 in `counts`; counts : int32[all domains
    of all counters]; total : int32[T] sum of a counter over its domains; added : int32[n, 1] counters that a class adds
    to; empty, filled : int32[n, 2] counters that must be 0, or must not be 0, and the reason if not;
    `…_offsets` : int32[S+1], those of each class; starts_group : uint8[S] the class meets its own affinity terms, so
    that it may be the first of its group.
    """

    domain: Int32
    own_row: UInt8
    single_row: UInt8
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


class PresenceNotes(NamedTuple):
    """failed_total : int32[A], by entry of `filled`, the total of its counter when no node admitted the class."""

    failed_total: Int32


def presence_notes(presence: PresenceCounters) -> PresenceNotes:
    """Return notes in which nothing is noted."""
    return PresenceNotes(np.zeros(len(presence.filled), np.int32))


def _together(presence: PresenceCounters) -> Bool:
    """Return the classes whose pods have to be together on one node, and of which none has a place. bool[S]."""
    count = len(presence.starts_group)
    owner = np.repeat(np.arange(count), np.diff(presence.filled_offsets))
    counter = presence.filled[:, 0]
    together: Bool = presence.starts_group != 0
    by_node = np.bincount(owner, presence.own_row[presence.row[counter]] != 0, count)
    counted = np.bincount(owner, presence.total[counter], count)
    together &= (by_node > 0) & (counted == 0)
    return together


def _local(presence: PresenceCounters) -> Bool:
    """Return the classes that depend on the node alone : bool[S]. Their domains never have two nodes."""
    single = presence.single_row != 0
    local: Bool = np.diff(presence.filled_offsets) == 0
    owner = np.repeat(np.arange(len(local)), np.diff(presence.empty_offsets))
    local[owner[~single[presence.row[presence.empty[:, 0]]]]] = False
    return local


def _takes_one(presence: PresenceCounters) -> Bool:
    """Return the classes that add to a counter which they need to be empty : bool[S]."""
    count = len(presence.starts_group)
    adding, emptying = (
        np.repeat(np.arange(count), np.diff(offsets)) for offsets in (presence.added_offsets, presence.empty_offsets)
    )
    added = adding * len(presence.row) + presence.added[:, 0]
    empty = emptying * len(presence.row) + presence.empty[:, 0]
    takes: Bool = np.zeros(count, np.bool_)
    takes[emptying[np.isin(empty, added)]] = True
    return takes


def _node_limits(presence: PresenceCounters, classes: Int64) -> Iterator[NodeLimit]:
    """Yield the sets of classes whose pods exclude each other on a node: of all of them a node takes one pod."""
    counter, row = np.divmod(
        np.intersect1d(
            items_of(Lists(presence.empty_offsets, presence.empty), classes)[0],
            items_of(Lists(presence.added_offsets, presence.added), classes)[0],
        ),
        len(classes),
    )
    by_node = presence.own_row[presence.row[counter]] != 0
    yield from (NodeLimit(rows, 1) for rows in rows_by_number(counter[by_node], row[by_node]))


def _kept_out(presence: PresenceCounters, classes: Int64) -> Bool:
    """Return the classes with affinity, and those that need a counter to be empty which is not, or to which one of the
    classes adds. bool[C]."""
    count = len(classes)
    added = items_of(Lists(presence.added_offsets, presence.added), classes)[0]
    empty = items_of(Lists(presence.empty_offsets, presence.empty), classes)[0]
    filled = items_of(Lists(presence.filled_offsets, presence.filled), classes)[0]
    keeps_out = np.isin(empty, added) | (presence.total[empty // max(count, 1)] > 0)
    out: Bool = np.zeros(count, np.bool_)
    for counters in (empty[keeps_out], filled):
        out[counters % max(count, 1)] = True
    return out


class PresenceBuilder:
    """Collects counters and the classes that use them. Classes are given as int64 arrays of their numbers."""

    def __init__(self, class_count: int, topologies: Topologies) -> None:
        self._topologies = topologies
        self._classes = class_count
        self._number: dict[Hashable, int] = {}
        self._rows: list[int] = []
        self._added = ListBuilder(class_count, 1, topologies.limits)
        self._empty = ListBuilder(class_count, 2, topologies.limits)
        self._filled = ListBuilder(class_count, 2, topologies.limits)
        self._starts_group = np.zeros(class_count, np.uint8)

    def counter(self, content: Hashable, row: int) -> tuple[int, bool]:
        """Return the counter of a kind of pod in a topology row, and whether it is new."""
        key = (content, row)
        number = self._number.get(key)
        if number is not None:
            return number, False
        self._number[key] = len(self._rows)
        self._rows.append(row)
        return len(self._rows) - 1, True

    def adds(self, classes: Int64, counter: int) -> None:
        """Count pods of these classes : int64[C]."""
        self._added.add(classes, counter)

    def needs_empty(self, classes: Int64, counter: int, reason: int) -> None:
        """Keep pods of these classes : int64[C] out of domains where the counter is not 0."""
        self._empty.add(classes, counter, reason)

    def needs_filled(self, classes: Int64, counter: int, reason: int) -> None:
        """Restrict pods of these classes : int64[C] to domains where the counter is not 0. All counters of a class have
        one reason."""
        self._filled.add(classes, counter, reason)

    def starts_group(self, class_number: int) -> None:
        """Mark a class that meets its own affinity terms."""
        self._starts_group[class_number] = 1

    def build(self) -> PresenceCounters:
        """Return the counters, all 0."""
        sizes = np.array([self._topologies.size(row) for row in self._rows], np.int64)
        self._topologies.limits.reserve(4 * int(sizes.sum()), "terms times topology domains")
        ends = np.cumsum(sizes)
        added, empty, filled = self._added.build(), self._empty.build(), self._filled.build()
        return PresenceCounters(
            self._topologies.matrix(),
            self._topologies.own_rows(),
            self._topologies.single_rows(),
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


PRESENCE: Final = CounterKind(
    "presence",
    cost=2,
    builder=lambda context: PresenceBuilder(context.classes.size, context.topologies),
    notes=presence_notes,
    written=("counts", "total"),
    of_nodes=("domain",),
    by_row=("domain",),
    lists=("added", "empty", "filled"),
    of_classes=("starts_group",),
    local=_local,
    takes_one=_takes_one,
    node_limits=_node_limits,
    kept_out=_kept_out,
    together=_together,
)
