"""The capacity of nodes, to which rates refer, and the room for placeholders on an empty node.

Room is allocatable minus the requests of the pods that each node has anyway: those of DaemonSets and static ones. The
largest pods are determined here, too. Depends on the snapshot only; vectorised over pods and nodes. N nodes, T
templates, S specs, R resources.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.labels import LabelIndex
from trimtab.planner.model.settings import ScaleUpSettings
from trimtab.planner.placement.group_templates import group_templates
from trimtab.planner.slack import sizes
from trimtab.planner.slack.parts import Part
from trimtab.planner.slack.settings import PodSelector
from trimtab.planner.slack.sizes import Amounts
from trimtab.planner.snapshot.caches import UNCACHED, SnapshotCache, SnapshotKey
from trimtab.planner.snapshot.columns import FLAG_DAEMON, FLAG_MIRROR, Bool, Int64, Snapshot
from trimtab.planner.snapshot.references import take_or
from trimtab.planner.snapshot.texts import string_index

_AS_THE_GROUP_SAYS: Final = ScaleUpSettings()
"""Settings with which a new node is as its group's template, if it has one, whatever nodes it has."""


class LargestPods(NamedTuple):
    """Requests of the pod with the most cpu and of that with the most memory; is_one : they are equal."""

    by_cpu: Amounts
    by_memory: Amounts
    is_one: bool


class NodeRooms(NamedTuple):
    """nodes : int64[N, R] room of empty nodes, templates : int64[T, R] of new ones, at least 0."""

    nodes: Int64
    templates: Int64


class Rooms:
    """Capacity, room and largest pods of one snapshot. rooms : returns the result of `node_rooms`."""

    def __init__(self, snapshot: Snapshot, rooms: Callable[[], NodeRooms], ignored: tuple[PodSelector, ...]) -> None:
        self._snapshot = snapshot
        self._rooms = rooms
        self._ignored = ignored
        self._counted: Bool | None = None

    def capacity(self, part: Part, having: str = "") -> tuple[dict[str, int], int]:
        """Return the total capacity of the nodes of a part, and their number; `having` : only nodes with
        this resource.
        """
        return self._sum(self._snapshot.nodes.allocatable, part.nodes, having)

    def template_capacity(self, part: Part, having: str = "") -> tuple[dict[str, int], int]:
        """Return the same for one new node of each group."""
        return self._sum(self._snapshot.templates.allocatable, part.templates, having)

    def _sum(self, allocatable: Int64, rows: Bool, having: str) -> tuple[dict[str, int], int]:
        resources = self._snapshot.resources
        if having:
            if having not in resources:
                return {}, 0
            rows = rows & (allocatable[:, resources.index(having)] > 0)
        amounts = (rows.astype(np.int64) @ allocatable).tolist()
        return dict(zip(resources, amounts, strict=True)), int(rows.sum())

    def fitted(self, part: Part, size: Amounts) -> tuple[dict[str, int], bool]:
        """Return a size that fits an empty node of a part, and whether it is the given one."""
        rooms, resources = self._rooms(), self._snapshot.resources
        if not set(size) <= set(resources):
            return sizes.fitted(size, ())
        columns = [resources.index(name) for name in size]
        amounts = list(zip(columns, size.values(), strict=True))
        if _is_enough(rooms.nodes, part.nodes, amounts) or _is_enough(rooms.templates, part.templates, amounts):
            return dict(size), True
        both = np.concatenate([rooms.nodes[part.nodes][:, columns], rooms.templates[part.templates][:, columns]])
        distinct = np.unique(both, axis=0).tolist()
        return sizes.fitted(size, [dict(zip(size, room, strict=True)) for room in distinct])

    def of_node(self, node: int) -> tuple[bytes, bytes]:
        """Return the properties of a node on which capacity and room depend, as a key."""
        return self._snapshot.nodes.allocatable[node].tobytes(), self._rooms().nodes[node].tobytes()

    def largest_pods(self, part: Part) -> LargestPods | None:
        """Return the largest pods of a part, None if no pod counts. Pods on no node count in the whole cluster."""
        pods = self._snapshot.pods
        inside = self._counts()
        if part.pool.name:
            inside = inside & take_or(part.nodes, pods.node, False)
        used = np.flatnonzero(np.bincount(pods.spec[inside], minlength=len(self._snapshot.specs)))
        requests = [dict(self._snapshot.specs[spec].requests) for spec in used.tolist()]
        if not requests:
            return None
        by_cpu = max(requests, key=lambda amounts: _rank(amounts, "cpu", "memory"))
        by_memory = max(requests, key=lambda amounts: _rank(amounts, "memory", "cpu"))
        return LargestPods(by_cpu, by_memory, by_cpu == by_memory)

    def _counts(self) -> Bool:
        if self._counted is None:
            snapshot = self._snapshot
            pods = snapshot.pods
            ignored = np.array([spec.ignored_by_slack for spec in snapshot.specs], np.bool_)
            counted = ((pods.flags & (FLAG_DAEMON | FLAG_MIRROR)) == 0) & ~pods.is_terminal()
            if len(ignored):
                counted &= ~ignored[pods.spec]
            labels = LabelIndex(snapshot.strings, snapshot.label_sets)
            for selector in self._ignored:
                chosen = labels.matching(selector.labels)[pods.label_set]
                if selector.namespaces:
                    numbers = [string_index(snapshot.strings, name) for name in selector.namespaces]
                    chosen &= np.isin(pods.namespace, np.array(numbers, np.int32))
                counted &= ~chosen
            self._counted = counted
        return self._counted


def _is_enough(rooms: Int64, rows: Bool, amounts: Sequence[tuple[int, int]]) -> bool:
    """Return whether one of some rows has room for all amounts, by column. rooms : int64[N, R]; rows : bool[N]."""
    enough = rows.copy()
    for column, amount in amounts:
        enough &= rooms[:, column] >= amount
    return bool(enough.any())


def _rank(request: Amounts, first: str, second: str) -> tuple[int, int, tuple[tuple[str, int], ...]]:
    return request.get(first, 0), request.get(second, 0), tuple(sorted(request.items()))


class NodeRoomsKey(SnapshotKey[NodeRooms]):
    """The room of empty nodes."""


def node_rooms(snapshot: Snapshot, cache: SnapshotCache = UNCACHED) -> NodeRooms:
    """Return the room of empty nodes and of new ones, cached or computed."""
    return cache.get(NodeRoomsKey(), snapshot, lambda view: _node_rooms(view, cache))


def _node_rooms(snapshot: Snapshot, cache: SnapshotCache) -> NodeRooms:
    nodes, pods, resources = snapshot.nodes, snapshot.pods, snapshot.resources
    room = nodes.allocatable.copy()
    stays = np.flatnonzero(((pods.flags & (FLAG_DAEMON | FLAG_MIRROR)) != 0) & (pods.node >= 0) & ~pods.is_terminal())
    # Amounts are computed once per spec of such pods, then looked up by pod.
    used, number = np.unique(pods.spec[stays], return_inverse=True)
    column = {name: at for at, name in enumerate(resources)}
    requested = np.zeros((len(used), len(resources)), np.int64)
    for row, spec in enumerate(used.tolist()):
        for name, amount in snapshot.specs[spec].requests:
            requested[row, column[name]] = amount
    for at in np.flatnonzero(requested.any(axis=0)).tolist():
        np.subtract.at(room[:, at], pods.node[stays], requested[number, at])
    new = snapshot.templates.allocatable.copy()
    templates = group_templates(snapshot, _AS_THE_GROUP_SAYS, np.zeros(len(nodes.name), np.bool_), 0, cache)
    for row, group in enumerate(snapshot.templates.group.tolist()):
        template = templates[group]
        for pod in template.daemonset_pods if template is not None else ():
            for name, amount in pod.spec.requests:
                new[row, column[name]] -= amount
    return NodeRooms(np.maximum(room, 0), np.maximum(new, 0))
