"""Virtual nodes with which node groups grow in a simulation. Contract: pure. Each group with a template has one
*prototype*, a node that is never opened and serves as the model of a new node; its *upcoming* nodes, requested from the
cloud but not registered yet, are open from the start. A number of *blank* nodes, shared by all groups, become nodes of
a group when `planner.simulation.kernels.open_as` opens them like its prototype. The residents of all these nodes are
the template's DaemonSet pods. Their names are unique.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np

from planner.simulation.virtual_rows import GroupTemplate, NodeTemplate, VirtualNodes
from planner.snapshot.columns import Int64, Snapshot

NO_PROTOTYPE: Final = -1
"""The prototype of a group without a template."""


class Growth(NamedTuple):
    """Positions of the virtual nodes of growth among the N nodes of a simulation.

    prototype : int64[G] by group, NO_PROTOTYPE = none; upcoming_offsets : int64[G+1]; upcoming : int64[U] nodes, by
    group; blanks : int64[B]; blank_names : names of the blank nodes.
    """

    prototype: Int64
    upcoming_offsets: Int64
    upcoming: Int64
    blanks: Int64
    blank_names: tuple[str, ...]

    def upcoming_of(self, group: int) -> Int64:
        """Return the upcoming nodes of a group."""
        return self.upcoming[self.upcoming_offsets[group] : self.upcoming_offsets[group + 1]]


class GrowthRows(NamedTuple):
    """Virtual rows for the simulation, and their positions in it. No other virtual nodes may precede them."""

    nodes: tuple[VirtualNodes, ...]
    growth: Growth


class GrowthNeed(NamedTuple):
    """A decision's requirements for groups to grow in the simulation. key : short digest of what `templates` depends on
    besides the snapshot; templates : returns the template of each group, None = it cannot grow; called only if nothing
    is cached under the key; upcoming : by group, number of upcoming nodes; blanks : returns how many new nodes can be
    open at the same time, given the number of virtual pods, which may all need new nodes.
    """

    key: str
    templates: Callable[[], Sequence[GroupTemplate | None]]
    upcoming: tuple[int, ...]
    blanks: Callable[[int], int]

    def whole_key(self, blanks: int) -> str:
        """Return the key of the laid-out rows."""
        return f"{self.key} {blanks} {blake2b(repr(self.upcoming).encode(), digest_size=8).hexdigest()}"


NO_GROWTH: Final = GrowthRows(
    (), Growth(np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64), ())
)


def growth_rows(
    templates: Sequence[GroupTemplate | None], upcoming: Sequence[int], blanks: int, snapshot: Snapshot
) -> GrowthRows:
    """Lay out the virtual nodes. templates, upcoming : by group; a group without a template has no upcoming nodes.

    O(groups + upcoming + blanks).
    """
    names = _Names(snapshot)
    nodes: list[VirtualNodes] = []
    prototype = np.full(len(templates), NO_PROTOTYPE, np.int64)
    counts = np.zeros(len(templates), np.int64)
    row = first = len(snapshot.nodes.name)
    for group, template in enumerate(templates):
        if template is not None:
            prototype[group] = row
            counts[group] = upcoming[group]
            nodes.append(
                VirtualNodes(
                    template.template, names.take(f"{_id(snapshot, group)}-template", 1), template.daemonset_pods
                )
            )
            row += 1
    for group in np.flatnonzero(counts).tolist():
        at = int(prototype[group]) - first
        row += int(counts[group])
        new = names.take(f"{_id(snapshot, group)}-upcoming", int(counts[group]))
        nodes.append(nodes[at]._replace(names=new, is_open=True))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    rows = np.arange(row - int(offsets[-1]), row, dtype=np.int64)
    blank_names: tuple[str, ...] = ()
    if blanks > 0:
        # One more blank node, which stays closed.
        all_blank = names.take("new", blanks + 1)
        nodes.append(VirtualNodes(NodeTemplate(), all_blank, is_blank=True))
        blank_names = all_blank[1:]
    blank_rows = np.arange(row + 1, row + 1 + len(blank_names), dtype=np.int64)
    return GrowthRows(tuple(nodes), Growth(prototype, offsets, rows, blank_rows, blank_names))


def _id(snapshot: Snapshot, group: int) -> str:
    return snapshot.groups[group].id


class _Names:
    """Generates names that no node and no label of the snapshot has."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._taken: tuple[Container[str], ...] = (set(snapshot.nodes.name), set(snapshot.strings))

    def take(self, prefix: str, count: int) -> tuple[str, ...]:
        """Return that many names, "prefix-1" and so on, without names in use. Call once for each prefix."""
        found = self._free(prefix)
        return tuple(next(found) for _ in range(count))

    def _free(self, prefix: str) -> Iterator[str]:
        number = 0
        while True:
            number += 1
            name = f"{prefix}-{number}"
            if not any(name in one for one in self._taken):
                yield name
