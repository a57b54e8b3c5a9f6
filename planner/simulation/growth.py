"""Virtual nodes with which node groups grow in a simulation. Contract: pure. Each group with a template has one
*template node*, a node that is never opened and serves as the model of a new node; its *upcoming* nodes, requested from
the cloud but not registered yet, are open from the start. A number of *spare* nodes, shared by all groups, become nodes
of a group when `trimtab.planner.simulation.kernels.open_from_template` opens them like its template node. The residents
of all these nodes are the template's DaemonSet pods. Their names are unique. All nodes together, and all pods, stay
within the limits of a
snapshot: a wrong size, from a cloud for instance, gets a note instead of nodes.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.simulation.virtual_rows import GroupTemplate, NodeTemplate, VirtualNodes
from trimtab.planner.snapshot.checks import MAX_NODE_CELLS, MAX_NODES, MAX_PODS
from trimtab.planner.snapshot.columns import Int32, Int64, Snapshot

NO_TEMPLATE_NODE: Final = -1
"""The template node of a group without a template."""
_BYTES_OF_NODE: Final = 1024
"""Memory of the name and labels of a virtual node while its row is built; of each label besides: `_BYTES_OF_LABEL`."""
_BYTES_OF_LABEL: Final = 16
_BYTES_OF_RESIDENT: Final = 16
"""Memory of a DaemonSet pod on a virtual node."""
_NAMES_AT_A_TIME: Final = 4096
"""Names generated between two checks of the deadline: some milliseconds."""

SPARE: Final = 1
"""Spare nodes of each simulation that no group gets: used to determine why a pod does not fit one more node."""


class Growth(NamedTuple):
    """Positions of the virtual nodes of growth among the N nodes of a simulation.

    template_node : int64[G] by group, NO_TEMPLATE_NODE = none; upcoming_offsets : int64[G+1]; upcoming : int64[U]
    nodes, by group; spare_nodes : int64[B]; spare_names : names of the spare nodes.
    """

    template_node: Int64
    upcoming_offsets: Int64
    upcoming: Int64
    spare_nodes: Int64
    spare_names: tuple[str, ...]

    def upcoming_of(self, group: int) -> Int64:
        """Return the upcoming nodes of a group."""
        return self.upcoming[self.upcoming_offsets[group] : self.upcoming_offsets[group + 1]]

    def numbered(self, node_count: int, new: Sequence[int] | Int32) -> tuple[Int64, Int32]:
        """Return the group of each coming node of the simulation, -1 = it is none, and its number in the group, from 0,
        -1 = it has none. int64[N], int32[N]. Upcoming nodes come before new ones. new : group of each of these."""
        group, number = np.full(node_count, -1, np.int64), np.full(node_count, -1, np.int32)
        on_their_way = np.diff(self.upcoming_offsets)
        coming = np.concatenate([self.upcoming, self.spare_nodes[: len(new)]])
        of = np.concatenate([np.repeat(np.arange(len(on_their_way)), on_their_way), new]).astype(np.int64)
        group[coming] = of
        order = np.argsort(of, kind="stable")
        starts = np.flatnonzero(np.diff(of[order], prepend=-1))
        sizes = np.diff(np.append(starts, len(order)))
        number[coming[order]] = np.arange(len(order)) - np.repeat(starts, sizes)
        return group, number


class GrowthRows(NamedTuple):
    """Virtual rows for the simulation, and their positions in it. No other virtual nodes may precede them. notes : on
    groups whose upcoming nodes are left out because there are too many.
    """

    nodes: tuple[VirtualNodes, ...]
    growth: Growth
    notes: tuple[str, ...] = ()


class GrowthNeed(NamedTuple):
    """A decision's requirements for groups to grow in the simulation. key : short digest of what `templates` depends on
    besides the snapshot; templates : returns the template of each group, None = it cannot grow; called only if nothing
    is cached under the key; upcoming : by group, number of upcoming nodes; spare_nodes : returns how many new nodes can
    be open at the same time, given the number of virtual pods, which may all need new nodes.
    """

    key: str
    templates: Callable[[RequestLimits], Sequence[GroupTemplate | None]]
    upcoming: tuple[int, ...]
    spare_nodes: Callable[[int], int]

    def whole_key(self, spare_nodes: int) -> str:
        """Return the key of the laid-out rows."""
        return f"{self.key} {spare_nodes} {blake2b(repr(self.upcoming).encode(), digest_size=8).hexdigest()}"


NO_GROWTH: Final = GrowthRows(
    (), Growth(np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64), ())
)


def growth_rows(
    templates: Sequence[GroupTemplate | None],
    upcoming: Sequence[int],
    spare_nodes: int,
    snapshot: Snapshot,
    limits: RequestLimits = UNLIMITED,
) -> GrowthRows:
    """Lay out the virtual nodes. templates, upcoming : by group; a group without a template has no upcoming nodes.

    limits : see `RequestLimits`. O(groups + upcoming + spare_nodes).
    """
    first = len(snapshot.nodes.name)
    with_template = [group for group, template in enumerate(templates) if template is not None]
    largest = _Most(snapshot, first + len(with_template))
    counts = largest.upcoming_of(templates, upcoming)
    # One more spare node, which stays closed.
    spare_nodes = min(spare_nodes, max(largest.nodes - largest.node_count - 1, 1)) if spare_nodes > 0 else 0
    _reserve_memory(limits, templates, counts, spare_nodes)
    names = _UnusedNames(snapshot, limits)
    nodes: list[VirtualNodes] = []
    template_node = np.full(len(templates), NO_TEMPLATE_NODE, np.int64)
    for row, group in enumerate(with_template, start=first):
        template = templates[group]
        assert template is not None
        template_node[group] = row
        name = names.generate(f"{_id(snapshot, group)}-template", 1)
        nodes.append(VirtualNodes(template.template, name, template.daemonset_pods))
    for group in np.flatnonzero(counts).tolist():
        new = names.generate(f"{_id(snapshot, group)}-upcoming", int(counts[group]))
        nodes.append(nodes[int(template_node[group]) - first]._replace(names=new, is_open=True))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    rows = first + len(with_template) + np.arange(int(offsets[-1]), dtype=np.int64)
    spare_names: tuple[str, ...] = ()
    if spare_nodes > 0:
        all_spare = names.generate("new", spare_nodes + 1)
        nodes.append(VirtualNodes(NodeTemplate(), all_spare, is_spare=True))
        spare_names = all_spare[1:]
    spare_rows = first + len(with_template) + len(rows) + 1 + np.arange(len(spare_names), dtype=np.int64)
    growth = Growth(template_node, offsets, rows, spare_rows, spare_names)
    return GrowthRows(tuple(nodes), growth, tuple(largest.notes))


class _Most:
    """The most nodes and DaemonSet pods that may be added to a snapshot.

    nodes : the maximum of nodes; node_count : those counted so far; notes : on groups whose nodes are left out.
    """

    def __init__(self, snapshot: Snapshot, node_count: int) -> None:
        self.nodes = min(MAX_NODES, MAX_NODE_CELLS // max(len(snapshot.resources), 1))
        self.node_count = node_count
        self.notes: list[str] = []
        self._snapshot = snapshot
        self._pod_count = len(snapshot.pods.spec)

    def upcoming_of(self, templates: Sequence[GroupTemplate | None], upcoming: Sequence[int]) -> Int64:
        """Return how many upcoming nodes each group gets: all of them, or none if there is no room for all. int64[G].

        Groups with fewer nodes come first, so that one wrong size leaves out no other group.
        """
        counts = np.zeros(len(templates), np.int64)
        for group in np.argsort(np.array(upcoming, np.int64), kind="stable").tolist():
            template, count = templates[group], upcoming[group]
            if template is None or not count:
                continue
            residents = count * len(template.daemonset_pods)
            if self.node_count + count > self.nodes or self._pod_count + residents > MAX_PODS:
                self.notes.append(self._note(group, count, len(template.daemonset_pods)))
                continue
            counts[group] = count
            self.node_count += count
            self._pod_count += residents
        return counts

    def _note(self, group: int, count: int, daemonset_pods: int) -> str:
        info = self._snapshot.groups[group]
        pods = f", with {daemonset_pods} DaemonSet pods each (template.daemonset_pods)" if daemonset_pods else ""
        return (
            f"node group {info.id}: none of its {count} upcoming nodes{pods} counts, because a cluster may have "
            f"{self.nodes} nodes and {MAX_PODS} pods; target_size is {info.target_size}: check the size that the cloud "
            "reports"
        )


def _reserve_memory(
    limits: RequestLimits, templates: Sequence[GroupTemplate | None], counts: Int64, spare_nodes: int
) -> None:
    byte_count = _BYTES_OF_NODE * (spare_nodes + 1)
    for template, count in zip(templates, counts.tolist(), strict=True):
        if template is not None:
            labels, residents = len(template.template.labels), len(template.daemonset_pods)
            of_node = _BYTES_OF_NODE + _BYTES_OF_LABEL * labels + _BYTES_OF_RESIDENT * residents
            byte_count += of_node * (count + 1)
    limits.reserve(byte_count, "upcoming and new nodes of node groups")


def _id(snapshot: Snapshot, group: int) -> str:
    return snapshot.groups[group].id


class _UnusedNames:
    """Generates names that no node and no label of the snapshot has."""

    def __init__(self, snapshot: Snapshot, limits: RequestLimits) -> None:
        self._in_use: Container[str] = {*snapshot.nodes.name, *snapshot.strings}
        self._limits = limits

    def generate(self, prefix: str, count: int) -> tuple[str, ...]:
        """Return that many names, "prefix-1" and so on, without names in use. Call once for each prefix."""
        free, names = self._free(prefix), list[str]()
        while len(names) < count:
            self._limits.check()
            names += islice(free, min(_NAMES_AT_A_TIME, count - len(names)))
        return tuple(names)

    def _free(self, prefix: str) -> Iterator[str]:
        number = 0
        while True:
            number += 1
            name = f"{prefix}-{number}"
            if name not in self._in_use:
                yield name
