"""Places for all pods that a plan serves, with one new node fewer.

A plan places waiting pods where there is room, and then grows groups for the rest. How well the rest fills new nodes
depends on which pods take that room. Here the new nodes are given, one fewer than in a plan, and all pods that it
serves are placed again, on existing and new nodes together, trying several orders. Contract: the result is only a
proposal, to be carried out in the usual order (`trimtab.planner.scale_up.decision`) and compared like any plan
(`trimtab.planner.scale_up.variants`). Pods with precedence keep it: those of nodes being deleted, recently evicted
ones, more important ones; pods placed on their nodes of the last loop stay there. No new node is removed if amounts
alone show that the others do not suffice. Bounded by work and by time; pure.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.nodes import group_prices
from trimtab.planner.model.tuning import MIXED_ORDERS, REPACKING_ORDERS, REPACKINGS_PER_GROUP
from trimtab.planner.new_nodes.progress import PlanInProgress
from trimtab.planner.placement.group_bounds import fresh_amounts, group_bounds
from trimtab.planner.placement.kernels.search import Search, place_all
from trimtab.planner.placement.packing import place_on_new_nodes
from trimtab.planner.placement.waiting import (
    NodeOrder,
    PlacementOrder,
    PodOrder,
    close_leaving,
    in_order,
    place_where,
    places,
    priorities,
)
from trimtab.planner.predicates.counters import shared_domains
from trimtab.planner.scale_up.plan import ScaleUpPlan, placeholders
from trimtab.planner.simulation.build import branch
from trimtab.planner.simulation.growth import NO_TEMPLATE_NODE
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log, current_mark
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Float64, Int32, Int64

_ODD: Final = 0x9E3779B97F4A7C15
AT_ONCE: Final = 1 << 22
"""Number of comparisons of nodes with groups for which there is memory at a time."""


class RepackedNodes(NamedTuple):
    """group_of : group of each new node; node : int32[P'] destination of each pod, new nodes in that order being the
    first spare ones; -1 = nowhere; order : int32 pods in the order in which new nodes get them, None = any."""

    group_of: list[int]
    node: Int32
    order: Int32 | None = None


def may_shrink(plan: ScaleUpPlan) -> list[int]:
    """Return the groups of which a plan may need one node fewer, the most expensive first. To be called while the
    simulation contains the plan's moves.

    All-or-nothing groups are excluded; among balanced groups only the largest is included; and a group is excluded if
    amounts show that all other nodes have too little room for the pods of the new ones.
    """
    progress, context, waiting = plan.progress, plan.context, plan.unplaced
    nodes = np.concatenate([waiting.where.order, progress.opened])
    work = (len(waiting.pods) + len(waiting.placeholders)) * len(nodes)
    if not progress.group_of or work > context.request.settings.search.repacking_checks:
        return []
    added, groups = progress.limits.added, []
    sizes, spare = context.sizes + added, np.maximum(progress.state.resources.free[nodes], 0).sum(axis=0)
    fresh = fresh_amounts(progress.packer.simulation, progress.packer.growth)
    for group in sorted(set(progress.group_of)):
        others = context.similarity.to(group)
        others = others[(added[others] > 0) & context.request.settings.balance_similar]
        even = bool((sizes[others] <= sizes[group]).all())
        if even and not progress.groups[group].zero_or_max and (fresh[group] <= spare).all():
            groups.append(group)
    price = np.nan_to_num(group_prices(progress.groups[group] for group in groups))
    return [groups[at] for at in np.argsort(-price, kind="stable").tolist()]


def repackings(plan: ScaleUpPlan, groups: Sequence[int], start: int) -> Iterator[RepackedNodes]:
    """Yield proposals with one new node of a group fewer, at most one for each of the groups.

    Among groups whose new nodes are the same for these pods, only the first is tried. start : mark before anything was
    placed. To be called while the simulation contains the plan's moves; it is not changed. Raises MoveLogFullError.
    """
    task = _Task(plan, start) if groups else None
    tried: set[int] = set()
    for group in groups:
        assert task is not None
        kind = task.kind(group)
        group_of = list(plan.progress.group_of)
        group_of.remove(group)
        if kind not in tried and task.suffice(group_of):
            node = task.place(group_of)
            check_log(task.state)
            if node is not None:
                yield RepackedNodes(group_of, node)
        tried.add(kind)


class _Order(NamedTuple):
    """pods : int32 in the order in which they are placed, each on the first node that admits it; nodes : int32 in the
    order in which they are tried; in_turn : each pod first tries one existing node, the next pod the next one."""

    pods: Int32
    nodes: Int32
    in_turn: bool


class _Task:
    """The pods to place, and the orders; on a copy of the simulation in which nodes being deleted are closed and pods
    placed by the last loop are on their nodes.

    left : int32[J] all other pods with a place in the plan; turn : int64[P'], pods with the smallest come first; young
    : int32 pods for which no node may be added; growing : int64[Q] groups that grow; bounds : of these.
    """

    def __init__(self, plan: ScaleUpPlan, start: int) -> None:
        packer, unplaced = plan.progress.packer, plan.unplaced
        self.context, self.where = plan.context, unplaced.where
        self.state = branch(packer.simulation.state)
        self.simulation = packer.simulation._replace(state=self.state)
        self.packer = packer._replace(simulation=self.simulation)
        held = placeholders(self.context, self.simulation)
        pods = np.concatenate([unplaced.pods, held])
        self.turn = np.full(len(self.state.pod_node), 2)
        self.turn[self.simulation.pod_count :] = 1
        self.turn[held], self.turn[unplaced.moving] = 3, 0
        self.young = unplaced.pending.pods[~unplaced.pending.may_add]
        pods = pods[self.state.pod_node[pods] != NO_NODE]
        revert(self.state, start)
        self._begin(unplaced.moving, pods)
        self.left: Int32 = pods[self.state.pod_node[pods] == NO_NODE]
        self.progress = np.unique(np.array(plan.progress.group_of, np.int64))
        growth = packer.growth._replace(template_node=packer.growth.template_node[self.progress])
        self.bounds = group_bounds(self.simulation, growth, self.left)
        self.begun = current_mark(self.state)
        self.most_checks = self.context.request.settings.search.repacking_checks
        self.checks_left = REPACKINGS_PER_GROUP * self.most_checks
        self.emptiest = self._room(NodeOrder.EMPTIEST_FIRST)
        self.fullest = self._room(NodeOrder.FULLEST_FIRST)

    def _begin(self, moving: Int32, pods: Int32) -> None:
        close_leaving(self.simulation, self.context.request.leaving, moving)
        hint = np.full(len(self.state.pod_node), NO_NODE, np.int32)
        hint[: len(self.context.hint)] = self.context.hint
        place_where(self.simulation.state, self.where.allowed, pods, hint)

    def kind(self, group: int) -> int:
        """Return a number that is equal for groups whose new nodes are the same for the pods left."""
        return int(self.bounds.same_as[np.searchsorted(self.progress, group)])

    def suffice(self, group_of: list[int]) -> bool:
        """Return whether, by amounts, the pods left may fit these new nodes."""
        new = self.bounds.free[np.searchsorted(self.progress, group_of)].sum(axis=0)
        anywhere, only_new, free = self._asked
        return bool((anywhere <= new + free).all() and (only_new <= new).all())

    @cached_property
    def _asked(self) -> tuple[Int64, Int64, Int64]:
        """Return the requests of the pods left, the part of them that no existing node admits, and the free amounts of
        those nodes.

        int64[R] each. O(classes · nodes).
        """
        amounts = self.state.resources
        classes, counts = np.unique(self.state.pod_class[self.left], return_counts=True)
        free = np.maximum(amounts.free[self.where.order], 0)
        requested = amounts.request[classes] * counts[:, None]
        fits = (amounts.need[classes][:, None] <= free[None]).all(axis=2)
        fits &= self.state.blocked[classes][:, self.state.node_class[self.where.order]] == 0
        return requested.sum(axis=0), requested[~fits.any(axis=1)].sum(axis=0), free.sum(axis=0)

    def place(self, group_of: list[int]) -> Int32 | None:
        """Return the destinations of all pods with these new nodes, int32[P']; None if no tried order
        places them all.
        """
        pods, state = self.left, self.state
        revert(state, self.begun)
        place_on_new_nodes(self.packer, group_of, pods[:0], pods[:0])
        opened, new = current_mark(state), self.packer.growth.spare_nodes[: len(group_of)].astype(np.int32)
        checks = max(1, len(pods) * (len(new) + len(self.where.order)))
        tries = min(REPACKING_ORDERS, min(self.most_checks, self.checks_left) // checks)
        for number, order in enumerate(self._orders(new)):
            if number >= tries or not self.context.request.round.in_time():
                break
            revert(state, opened)
            self.checks_left -= checks
            if self._all_placed(order) and not np.isin(state.pod_node[self.young], new).any():
                return state.pod_node.astype(np.int32)
        return None

    def _all_placed(self, way: _Order) -> bool:
        """Place pods in their order; return whether all have a place."""
        state, pods = self.state, way.pods
        alone = bool(state.local_class[state.pod_class[pods]].all())
        hint = np.full(len(state.pod_node), NO_NODE, np.int32)
        if way.in_turn and len(self.where.order):
            hint[pods] = self.where.order[np.arange(len(pods)) % len(self.where.order)]
        search = Search(
            way.nodes, np.ones(len(state.node_state), bool), *np.zeros((2, len(state.local_class)), np.int64)
        )
        before = -1
        while len(pods) not in {0, before}:
            # Pods placed since may satisfy an affinity or a spread constraint.
            before = len(pods)
            place_all(state, search, hint, hint.copy(), np.zeros(2, np.int64), pods, alone)
            pods = pods[state.pod_node[pods] == NO_NODE]
            if alone:
                break
        return not len(pods)

    def _orders(self, new: Int32) -> Iterator[_Order]:
        """Yield orders: pods by size and name, then increasingly mixed, each with several orders of the nodes.

        New nodes come first only if no pod is more important than another, which would otherwise lose precedence.
        """
        nodes = [
            (np.concatenate([self.fullest, new]), False),
            (np.concatenate([self.emptiest, new]), False),
            (np.concatenate([self.emptiest, new]), True),
        ]
        waiting, priority = self.left, priorities(self.simulation, self.left)
        turn = self.turn[waiting]
        if len(np.unique(turn)) == 1 and len(np.unique(priority)) == 1:
            nodes.append((np.concatenate([new, self.fullest]), False))
        for order in PodOrder:
            pods = in_order(self.simulation, waiting, order)
            pods = pods[np.argsort(self.turn[pods], kind="stable")]
            yield from (_Order(pods, *node_order) for node_order in nodes)
        names = np.argsort(np.argsort(waiting)).astype(np.uint64) + np.uint64(1)
        for number in range(1, MIXED_ORDERS + 1):
            mixed = (names * np.uint64((2 * number + 1) * _ODD % 2**64)) >> np.uint64(32)
            pods = waiting[np.lexsort((mixed, -priority, turn))]
            yield from (_Order(pods, *node_order) for node_order in nodes)

    def _room(self, order: NodeOrder) -> Int32:
        request = self.context.request
        usable, way = request.round.ready & ~self.context.request.leaving, PlacementOrder(PodOrder.LISTED, order)
        return places(self.simulation, usable, request.growth.upcoming, way).order


class _Content(NamedTuple):
    """used : int64[M, R] amounts in use on each new node; node, of_class : int64[E] nodes, ascending, with the classes
    of their pods."""

    used: Int64
    node: Int64
    of_class: Int64


def in_cheaper_groups(plan: ScaleUpPlan) -> RepackedNodes | None:
    """Return the new nodes of a plan, each in the cheapest group that takes its pods by amounts and static predicates;
    None if that is the case already, or the limits do not allow them together.

    The nodes of the most expensive groups come first; groups of equal price are taken in their order. All-or-nothing
    groups and those of unknown price keep their nodes, and get no others. To be called while the simulation contains
    the plan's moves. O(M·G·R).
    """
    progress = plan.progress
    before = np.array(progress.group_of, np.int64)
    is_atomic = np.array([group.zero_or_max for group in progress.groups], bool)
    price = np.where(is_atomic, np.nan, group_prices(progress.groups))
    if not len(before) or np.isnan(price).all():
        return None
    group_of = _cheapest(progress, before, price)
    change = np.bincount(group_of, minlength=len(price)) - np.bincount(before, minlength=len(price))
    if (group_of == before).all() or not progress.limits.admit(change):
        return None
    return RepackedNodes(group_of.tolist(), progress.state.pod_node.astype(np.int32), progress.pods)


def _cheapest(progress: PlanInProgress, before: Int64, price: Float64) -> Int64:
    """Return the group of each new node. int64[M]. before : the present ones."""
    group_of, room = before.copy(), progress.limits.may_add.copy()
    by_price = np.argsort(price, kind="stable")
    for node, groups in _options(progress, before, price):
        free = by_price[groups[by_price] & (room[by_price] > 0)]
        if len(free):
            group_of[node] = free[0]
            room[free[0]] -= 1
            room[before[node]] += 1
    return group_of


def _options(progress: PlanInProgress, before: Int64, price: Float64) -> Iterator[tuple[int, Bool]]:
    """Yield nodes that have cheaper groups, the most expensive first, with these groups. bool[G]."""
    content, fresh = _content(progress, before), fresh_amounts(progress.packer.simulation, progress.packer.growth)
    domains = _domains(progress)
    order = np.argsort(-price[before], kind="stable")
    step = max(1, AT_ONCE // max(1, fresh.size))
    for first in range(0, len(order), step):
        nodes = order[first : first + step]
        may = price[None] < price[before[nodes]][:, None]
        may &= domains[None] == domains[before[nodes]][:, None]
        may &= (content.used[nodes][:, None] <= fresh[None]).all(axis=2)
        may &= _admitted(progress, content, nodes)
        for row in np.flatnonzero(may.any(axis=1)).tolist():
            yield int(nodes[row]), may[row]


def _content(progress: PlanInProgress, before: Int64) -> _Content:
    state = progress.state
    fresh = fresh_amounts(progress.packer.simulation, progress.packer.growth)
    opened = progress.opened
    number = np.full(len(state.node_state), -1, np.int64)
    number[opened] = np.arange(len(opened))
    placed = np.flatnonzero(state.pod_node >= 0)
    node = number[state.pod_node[placed]]
    classes = len(state.local_class)
    pairs = np.unique(node[node >= 0] * classes + state.pod_class[placed[node >= 0]])
    return _Content(fresh[before] - state.resources.free[opened], *np.divmod(pairs, classes))


def _admitted(progress: PlanInProgress, content: _Content, nodes: Int64) -> Bool:
    """Return which groups' static predicates admit all pods of nodes. bool[len(nodes), G]."""
    state, template_node = progress.state, progress.packer.growth.template_node
    has_template_node = template_node != NO_TEMPLATE_NODE
    node_class = state.node_class[np.where(has_template_node, template_node, 0)]
    out = np.repeat(has_template_node[None], len(nodes), axis=0)
    first, last = (np.searchsorted(content.node, nodes, side) for side in ("left", "right"))
    for row, (begin, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        classes = content.of_class[begin:end]
        out[row] &= (state.blocked[classes] == 0).all(axis=0)[node_class]
    return out


def _domains(progress: PlanInProgress) -> Int64:
    """Return a number by group that is equal for groups whose nodes are in the same topology domains. int64[G]."""
    state, template_node = progress.state, progress.packer.growth.template_node
    at = np.where(template_node == NO_TEMPLATE_NODE, 0, template_node)
    columns = shared_domains(state.counters, at)
    rows = [np.ascontiguousarray(column).reshape(len(at), -1).view(np.uint8) for column in columns if column.size]
    numbers: dict[bytes, int] = {}
    table = np.concatenate(rows, axis=1) if rows else np.zeros((len(at), 0), np.uint8)
    return np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in table], np.int64)
