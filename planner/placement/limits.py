"""How many nodes each node group may still get in a plan, and why not more.

Applies the group's maximum, the number of nodes that one plan may add, and limits on resources and on numbers of nodes:
of the whole cluster or of the nodes of a selector, in total or added by one plan. The capacity of nodes that are not
being deleted counts against a limit, and so does that of requested nodes that have not registered, which are assumed to
match their group's template. An all-or-nothing group gets all its nodes, even if pods do not need all of them, or none.
Groups that cannot grow, by their health for example, get none.
Source: Cluster Autoscaler, resourcequotas, IsNodeGroupSafeToScaleUp, GetCappedNewNodeCount.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.labels import LabelIndex, index_of
from trimtab.planner.facts.readiness import unregistered
from trimtab.planner.model.settings import NODES, ResourceLimit
from trimtab.planner.model.values import NodeGroupInfo
from trimtab.planner.simulation.virtual_rows import GroupTemplate
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, Snapshot
from trimtab.v1.reason_pb2 import NodeGroupReason
from trimtab.v1.snapshot_pb2 import NodeGroupHealth
from trimtab.words import amount

UNLIMITED: Final = 2**62


class LimitInputs(NamedTuple):
    """The inputs of limits. leaving : bool[N] nodes that are being deleted; now_ns : Unix nanoseconds."""

    snapshot: Snapshot
    templates: Sequence[GroupTemplate | None]
    leaving: Bool
    now_ns: int


class _GroupRooms(NamedTuple):
    """Room by group. room : int64[G] nodes that may still be added; reason : int32[G] why none, 0 if some may."""

    room: Int64
    reason: Int32


class Limits:
    """The remaining room within the limits while a plan uses it up."""

    def __init__(self, cluster: LimitInputs, limits: Sequence[ResourceLimit], max_new_nodes: int) -> None:
        groups = cluster.snapshot.groups
        self._unable = np.array(
            [_unable(*pair, cluster.now_ns) for pair in zip(groups, cluster.templates, strict=True)], np.int32
        )
        self._whole = np.array([group.zero_or_max for group in groups], bool)
        self._most = np.array([group.max_size - group.target_size for group in groups], np.int64)
        quotas = list(_quotas(cluster, limits))
        self._limits = [limit for limit, _, _ in quotas]
        self._amount = np.array([counts for _, counts, _ in quotas], np.int64).reshape(len(quotas), len(groups))
        self._left = np.array([rest for _, _, rest in quotas], np.int64)
        self._nodes_left = max_new_nodes
        self._rooms: _GroupRooms | None = None
        self.added = np.zeros(len(groups), np.int64)
        """int64[G] nodes added by the plan."""

    @property
    def may_add(self) -> Int64:
        """How many nodes each group may still get. int64[G]."""
        return self._current().room

    def after(self, added: Int64, removed: Int64, plans: int = 1) -> "Limits":
        """Return the limits on as many plans together that come after others. added, removed : int64[G] nodes by the
        others. A removed node gives back its place in its group, but nothing of limits on resources, as it may be
        another amount of them; each plan may add as many nodes as any."""
        other = self.copy()
        other.added += added - removed
        other._left -= self._amount @ added
        other._nodes_left *= plans
        other._rooms = None
        return other

    @property
    def nodes_left(self) -> int:
        """How many nodes the plan may still add at most."""
        return self._nodes_left

    @property
    def reasons(self) -> Int32:
        """Why each group may get none: `NodeGroupReason.Code`, UNSPECIFIED if it may get some. int32[G]."""
        return self._current().reason

    def reasons_when_full(self) -> Int32:
        """Return why each group, if it alone got all the nodes that it may get, may get no more. int32[G]."""
        room = self.may_add
        rest = self._left[:, None] - self._amount * room
        return self._rooms_of(self.added + room, rest, self._nodes_left - room).reason

    def binding(self, group: int) -> str | None:
        """Return the first limit that keeps a group from growing, in words; None if it is not one of these limits."""
        needed, by_limit = self._needed(self.added)[group], self._by_limit(self._left[:, None])
        first = next(iter(np.flatnonzero(by_limit[:, group] < needed).tolist()), None)
        return None if first is None else _limit_text(self._limits[first], int(self._left[first]))

    def binding_resources(self) -> dict[int, str]:
        """Return the limit that keeps a group from growing, in words, by group."""
        groups = np.flatnonzero(self.reasons == NodeGroupReason.RESOURCE_LIMIT_REACHED).tolist()
        texts = {group: self.binding(group) for group in groups}
        return {group: text for group, text in texts.items() if text is not None}

    def closed(self, groups: Bool, reason: int = NodeGroupReason.NOT_CHOSEN) -> "Limits":
        """Return limits within which these groups, bool[G], get no node, for a reason; see `reopened`."""
        other = self.copy()
        is_able = groups & (self._unable == NodeGroupReason.UNSPECIFIED)
        other._unable = np.where(is_able, np.int32(reason), self._unable)
        other._rooms = None
        return other

    def reopened(self, before: "Limits") -> "Limits":
        """Return limits within which the groups may get nodes that might before `closed`; nodes count that were added
        since."""
        other = self.copy()
        other._unable, other._rooms = before._unable, None
        return other

    def copy(self) -> "Limits":
        """Return limits that count further nodes on their own."""
        other = copy(self)
        other.added, other._left = self.added.copy(), self._left.copy()
        return other

    def count_nodes(self, group: int, count: int) -> None:
        """Count nodes added to a group. Raises ValueError if it may not have them."""
        room = int(self.may_add[group])
        if not 0 <= count <= room or (count and self._whole[group] and count != room):
            raise ValueError(f"{count} nodes of group {group} are used, and {room} are left")
        self.added[group] += count
        self._left -= self._amount[:, group] * count
        self._nodes_left -= count
        self._rooms = None

    def admit(self, added: Int64) -> bool:
        """Return whether groups may get these nodes all together. added : int64[G], each within its room."""
        wanted = self._amount @ added
        return int(added.sum()) <= self._nodes_left and bool(((wanted <= self._left) | (wanted == 0)).all())

    def _needed(self, added: Int64) -> Int64:
        """Return the fewest nodes that each group can take. added : int64[G]. int64[G]."""
        return np.where(self._whole, np.maximum(self._most - added, 1), 1)

    def _by_limit(self, rest: Int64) -> Int64:
        """Return how many nodes each limit leaves to each group. rest : int64[Q, G], or int64[Q, 1]. int64[Q, G]."""
        room = np.full(self._amount.shape, UNLIMITED, np.int64)
        np.floor_divide(np.maximum(rest, 0), self._amount, out=room, where=self._amount > 0)
        return room

    def _current(self) -> _GroupRooms:
        if self._rooms is None:
            self._rooms = self._rooms_of(self.added, self._left[:, None], self._nodes_left)
        return self._rooms

    def _rooms_of(self, added: Int64, rest: Int64, nodes_left: int | Int64) -> _GroupRooms:
        """Return what groups may get after others. added : int64[G]; rest : as for `_by_limit`; nodes_left : of the
        plan, for all groups or int64[G] for each."""
        needed, of_group = self._needed(added), self._most - added
        by_limit = self._by_limit(rest).min(axis=0, initial=UNLIMITED)
        # The first that applies is reported.
        causes = (
            (self._unable != NodeGroupReason.UNSPECIFIED, self._unable),
            (of_group < needed, np.full_like(self._unable, NodeGroupReason.MAX_SIZE_REACHED)),
            ((by_limit > 0) & (by_limit < needed), np.full_like(self._unable, NodeGroupReason.NOT_WHOLE)),
            (by_limit < needed, np.full_like(self._unable, NodeGroupReason.RESOURCE_LIMIT_REACHED)),
            (needed > nodes_left, np.full_like(self._unable, NodeGroupReason.MAX_NEW_NODES_REACHED)),
        )
        reason = np.select([holds for holds, _ in causes], [cause for _, cause in causes], NodeGroupReason.UNSPECIFIED)
        room = np.minimum(np.minimum(of_group, by_limit), nodes_left)
        return _GroupRooms(np.where(reason == NodeGroupReason.UNSPECIFIED, room, 0), reason.astype(np.int32))


def _unable(group: NodeGroupInfo, template: GroupTemplate | None, now_ns: int) -> int:
    """Return why a group cannot grow regardless of limits, UNSPECIFIED if it can."""
    if group.target_size > group.max_size:
        return NodeGroupReason.NODE_GROUP_INVALID
    reason = health_reason(group, now_ns)
    return NodeGroupReason.NO_TEMPLATE if reason == NodeGroupReason.UNSPECIFIED and template is None else reason


def health_reason(group: NodeGroupInfo, now_ns: int) -> int:
    """Return why a group cannot grow because of its health, UNSPECIFIED if it can."""
    if group.health == NodeGroupHealth.BACKED_OFF and not 0 < group.backoff_until_ns <= now_ns:
        return NodeGroupReason.BACKED_OFF
    return NodeGroupReason.UNHEALTHY if group.health == NodeGroupHealth.UNHEALTHY else NodeGroupReason.UNSPECIFIED


def _quotas(cluster: LimitInputs, limits: Sequence[ResourceLimit]) -> Iterator[tuple[ResourceLimit, Int64, int]]:
    """Yield each maximum with the amount by which a node of each group counts, int64[G], and with the rest of it."""
    snapshot, templates = cluster.snapshot, cluster.templates
    limits = [limit for limit in limits if limit.maximum is not None or limit.maximum_added is not None]
    if not limits:
        return
    present = LabelIndex(snapshot.strings, snapshot.label_sets)
    new = index_of([template.template.labels if template else () for template in templates])
    capacity = [dict(template.capacity) if template else {} for template in templates]
    missing = unregistered(snapshot).tolist()
    for limit in limits:
        is_nodes = limit.resource == NODES
        each = [1 if is_nodes else offered.get(limit.resource, 0) for offered in capacity]
        counts = np.where(new.matching(limit.nodes)[: len(each)], np.array(each, np.int64), 0)
        if limit.maximum is not None:
            counted = present.matching(limit.nodes)[snapshot.nodes.label_set] & ~cluster.leaving
            # Python's integers: a wrong target size times an amount may exceed 64 bits.
            coming = sum(each * count for each, count in zip(counts.tolist(), missing, strict=True) if count)
            used = int(_offered(snapshot, limit.resource)[counted].sum()) + coming
            yield limit, counts, max(limit.maximum - used, -UNLIMITED)
        if limit.maximum_added is not None:
            yield limit, counts, limit.maximum_added


def _offered(snapshot: Snapshot, resource: str) -> Int64:
    """Return the amount by which each node counts. int64[N]."""
    if resource == NODES:
        return np.ones(len(snapshot.nodes.name), np.int64)
    if resource not in snapshot.resources:
        return np.zeros(len(snapshot.nodes.name), np.int64)
    offered: Int64 = snapshot.nodes.capacity[:, snapshot.resources.index(resource)]
    return offered


def _limit_text(limit: ResourceLimit, rest: int) -> str:
    """Return the resource of a limit, with the labels of its nodes and what is used: "cpu of nodes with pool=spot
    (18 cores of 20 cores used)". rest : what a plan may still add.
    """
    labels = [f"{label.key}={'|'.join(label.values)}" if label.values else label.key for label in limit.nodes]
    what = limit.resource if limit.resource == NODES or not labels else f"{limit.resource} of nodes"
    maximum, verb = (limit.maximum_added or 0, "added") if limit.maximum is None else (limit.maximum, "used")
    used = f"{amount(limit.resource, maximum - rest)} of {amount(limit.resource, maximum)} {verb}"
    return f"{what} with {', '.join(labels)} ({used})" if labels else f"{what} ({used})"
