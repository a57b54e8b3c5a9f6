"""Which of the unneeded nodes go now: one check after the other, in upstream's order, longest unneeded first, or, if
balance is required, the largest of similar node groups first; drains that use up a disruption budget come last. Empty
nodes go before drains, all-or-nothing groups and gangs that move whole only as a whole. Limits count deletions in
progress; one all-or-nothing group may exceed them if anything is left at all, as it could never go otherwise. Minimums
need no check: the whole unneeded set respects them.

While slack is built up, a placeholder without room is counted on a new node, and no node goes that could hold it: one
would only replace the other. A placeholder for which no new node comes keeps no node. A node that can go because slack
requests less after the whole plan does not go with a few of its nodes while slack still lacks room.
Source: Cluster Autoscaler, planner.NodesToDelete, unneeded.RemovableAt, AtomicResizeFilteringProcessor,
ScaleDownBudgetProcessor.CropNodes.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.drainability.limits import admitted, deletions_by_group, limits_of_budgets
from trimtab.planner.facts.nodes import of_nodes
from trimtab.planner.model.settings import ScaleDownSettings
from trimtab.planner.round.round import Round
from trimtab.planner.scale_down.balance import level, uneven
from trimtab.planner.scale_down.context import ScaleDownContext
from trimtab.planner.scale_down.search.fewer_placeholders import SlackDependentNodes
from trimtab.planner.scale_down.whole_gangs import complete_groups, whole_gangs, whole_sizes
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, Snapshot, UInt8
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2


class Room(NamedTuple):
    """Nodes that may still be deleted, and among them drained."""

    total: int
    drain: int


class Crop(NamedTuple):
    """Nodes that go now, in the order in which they were chosen. int32 each."""

    empty: Int32
    drain: Int32

    @property
    def both(self) -> Int32:
        """Empty nodes, then the others. int32."""
        return np.concatenate([self.empty, self.drain])


def room(max_parallelism: int, max_drain: int, deleting: int, draining: int) -> Room:
    """Return the remaining limits. deleting : all deletions in progress, `draining` among them."""
    total = max(max_parallelism - deleting, 0)
    return Room(total, min(max(max_drain - draining, 0), total))


def crop(empty: Int32, drain: Int32, group: Int32, size: Int64, room_left: Room) -> Crop:
    """Return which of the empty nodes : int32 and of those to be drained : int32 go now, in their order. group :
    int32[N], -1 = none; size : int64[G+1], how many nodes of a group go together or not at all, 0 = each goes alone.
    """
    (total, drains), may_overflow = room_left, True
    chosen_empty, chosen_drain = [empty[:0]], [drain[:0]]
    # Groups with empty nodes first; a group that may not go ends its half of the list, as upstream's does.
    for half in (empty, drain):
        for row in dict.fromkeys(group[half[size[group[half]] > 0]].tolist()):
            bare, full = empty[group[empty] == row], drain[group[drain] == row]
            count = len(bare) + len(full)
            if count != size[row] or (half is drain and len(bare)):
                continue
            overflows = count > total or len(full) > drains
            if overflows and not (may_overflow and total > 0 and (drains > 0 or not len(full))):
                break
            may_overflow = False
            total = max(total - count, 0)
            drains = min(max(drains - len(full), 0), total)
            chosen_empty.append(bare)
            chosen_drain.append(full)
    chosen_empty.append(empty[size[group[empty]] == 0][:total])
    total -= len(chosen_empty[-1])
    chosen_drain.append(drain[size[group[drain]] == 0][: min(drains, total)])
    return Crop(np.concatenate(chosen_empty), np.concatenate(chosen_drain))


def awaited_by_slack(context: ScaleDownContext, nodes: Int32) -> Bool:
    """Return which of the unneeded nodes : int32[U], their pods moved, could hold a placeholder that is on a new node.

    bool[U]. For a placeholder, only amounts and static predicates are checked. O(placeholders + kinds · U · R).
    """
    held = np.zeros(len(nodes), np.bool_)
    count = len(context.request.round.placeholders)
    if not count:
        return held
    simulation = context.request.round.simulation
    state = simulation.state
    waiting = state.pod_node[-count:] >= simulation.node_count
    for kind in np.unique(state.pod_class[-count:][waiting]).tolist():
        enough = (state.resources.free[nodes] >= state.resources.need[kind]).all(axis=1)
        held |= enough & (state.blocked[kind, state.node_class[nodes]] == 0)
    return held


def leaves_too_little(context: ScaleDownContext, going: Int32, slack_dependent: SlackDependentNodes) -> bool:
    """Return whether slack, once `going` : int32 are gone, requests more than the whole plan leaves room for.

    Only checked if one of them goes because slack requests less without the whole plan. O(N).
    """
    if not np.isin(going, slack_dependent.nodes).any():
        return False
    room = context.request.round.room
    return bool((np.diff(room.bounds) - slack_dependent.dropped < room.demand.without(going)).any())


Reason = reason_pb2.UnremovableReason


class UnneededNodes(NamedTuple):
    """Nodes that can go. nodes : int32[U] ascending; pods, destination : int32[M] their pods to move, those of nodes[i]
    being pods[bounds[i]:bounds[i+1]], and where each goes; bounds : int64[U+1]; waiting, risky : bool[U], a pod must
    complete first; the drain uses up a shared budget; slack_dependent : those that can go only because slack requests
    less without all of them; wave : int32[U], from 1.
    """

    nodes: Int32
    bounds: Int64
    pods: Int32
    destination: Int32
    waiting: Bool
    risky: Bool
    slack_dependent: SlackDependentNodes
    wave: Int32


class Removal(NamedTuple):
    """not_now : uint8[U] `UnremovableReason.Code`, 0 = goes now; ends_ns : int64[U], when the timer ends that keeps a
    node, 0 = none does; delete_empty, drain : nodes ascending."""

    not_now: UInt8
    ends_ns: Int64
    delete_empty: Int32
    drain: Int32
    room: Room


def select(context: ScaleDownContext, unneeded: UnneededNodes, since_ns: Int64) -> Removal:
    """Select the nodes that go now. since_ns : int64[U] since when they are unneeded. O(U log U)."""
    request = context.request
    snapshot, settings = request.snapshot, request.settings
    ready = context.request.ready & ~context.nodes.utilization.awaits_gpu
    ends_ns = since_ns + waiting_ns(snapshot, settings, unneeded.nodes, ready)
    too_early = np.where(ready[unneeded.nodes], Reason.NOT_UNNEEDED_LONG_ENOUGH, Reason.NOT_UNREADY_LONG_ENOUGH)
    not_now: UInt8 = np.where(request.now_ns < ends_ns, too_early, 0).astype(np.uint8)
    useless = of_no_use(request.round, unneeded.nodes) & (np.diff(unneeded.bounds) == 0)
    not_now[useless] = 0
    _mark(not_now, unneeded.wave > 1, Reason.LATER_WAVE)
    _keep_groups_whole(context, unneeded, not_now)
    _mark(not_now, unneeded.waiting, Reason.BLOCKED_BY_ON_COMPLETION_POD)
    _mark(not_now, awaited_by_slack(context, unneeded.nodes), Reason.NEEDED_FOR_SLACK)
    if request.now_ns < context.undone.until_ns:
        _mark(not_now, np.diff(unneeded.bounds) > 0, Reason.NEEDED_FOR_SLACK)
    # A group that waits for one of its nodes is no longer complete.
    _keep_groups_whole(context, unneeded, not_now)
    # Of budgets for nodes the first to go take what is left.
    order = np.lexsort((unneeded.nodes, since_ns, unneeded.risky))
    order = unneeded.nodes[order[not_now[order] == 0]]
    goes, _ = admitted(limits_of_budgets(context.nodes.budgets), order, len(order))
    _mark(not_now, ~np.isin(unneeded.nodes, goes), Reason.DISRUPTION_BUDGET)
    deleting = deletions_by_group(snapshot, request.leaving)
    draining = sum(deletion.drain for deletion in snapshot.deletions)
    room_left = room(settings.max_parallelism, settings.max_drain_parallelism, len(deleting), draining)
    if context.unhealthy:
        _mark(not_now, not_now == 0, Reason.CLUSTER_UNHEALTHY)
    if context.cooldown.cluster:
        _mark(not_now, (not_now == 0) & ~useless, Reason.IN_COOLDOWN)
    chosen = _even_crop(context, unneeded, since_ns, not_now, room_left)
    is_chosen = np.isin(unneeded.nodes, chosen.both)
    if leaves_too_little(context, unneeded.nodes[is_chosen], unneeded.slack_dependent):
        _mark(not_now, np.isin(unneeded.nodes, unneeded.slack_dependent.nodes), Reason.NEEDED_FOR_SLACK)
        chosen = _even_crop(context, unneeded, since_ns, not_now, room_left)
        is_chosen = np.isin(unneeded.nodes, chosen.both)
    _mark(not_now, ~is_chosen, Reason.NOT_UNNEEDED_OTHER_REASON)
    ends_ns[~np.isin(not_now, (Reason.NOT_UNNEEDED_LONG_ENOUGH, Reason.NOT_UNREADY_LONG_ENOUGH))] = 0
    return Removal(not_now, ends_ns, np.sort(chosen.empty), np.sort(chosen.drain), room_left)


def of_no_use(this: Round, nodes: Int32) -> Bool:
    """Return which nodes : int32[U] scale-up has named as added for a gang that cannot be whole: they go without
    waiting. bool[U]."""
    decided = this.decided.get(pb.Decision.SCALE_UP)
    names = {name for gang in decided.result.gangs for name in gang.release.nodes} if decided is not None else set()
    if not names:
        return np.zeros(len(nodes), bool)
    return np.array([this.snapshot.nodes.name[node] in names for node in nodes.tolist()], bool)


def _mark(not_now: UInt8, mask: Bool, reason: int) -> None:
    np.copyto(not_now, np.uint8(reason), where=mask & (not_now == 0))


def _keep_groups_whole(context: ScaleDownContext, unneeded: UnneededNodes, not_now: UInt8) -> None:
    going = np.zeros(len(context.request.leaving), bool)
    going[unneeded.nodes[not_now == 0]] = True
    _mark(not_now, ~complete_groups(context, going)[unneeded.nodes], Reason.ATOMIC_SCALE_DOWN_FAILED)


def _even_crop(
    context: ScaleDownContext, unneeded: UnneededNodes, since_ns: Int64, not_now: UInt8, room_left: Room
) -> Crop:
    """Return the nodes that go; those that have to wait for balance, or for other nodes of a gang that moves whole, are
    marked in `not_now` : uint8[U], in place."""
    gangs = whole_gangs(context)
    while True:
        torn = gangs.torn(unneeded.nodes[not_now == 0])
        _mark(not_now, np.isin(unneeded.nodes, torn), Reason.NOT_UNNEEDED_OTHER_REASON)
        chosen = _crop(context, unneeded, since_ns, not_now == 0, room_left)
        going = chosen.both
        torn = gangs.torn(going)
        wait = going[uneven(context.balance, going)] if context.balance else going[:0]
        if len(wait) == 0 and len(torn) == 0:
            return chosen
        _mark(not_now, np.isin(unneeded.nodes, torn), Reason.NOT_UNNEEDED_OTHER_REASON)
        _mark(not_now, np.isin(unneeded.nodes, wait), Reason.BALANCE)


def _crop(context: ScaleDownContext, unneeded: UnneededNodes, since_ns: Int64, ready: Bool, room_left: Room) -> Crop:
    order = np.lexsort((unneeded.nodes, since_ns, unneeded.risky))
    rows = order[ready[order]]
    empty, risky = (np.diff(unneeded.bounds) == 0)[rows], unneeded.risky[rows]
    nodes = unneeded.nodes[rows]
    first, second, last = nodes[empty], nodes[~empty & ~risky], nodes[~empty & risky]
    if context.balance and context.request.settings.balance:
        first = level(context.balance, first, first[:0])
        second = level(context.balance, second, first)
        last = level(context.balance, last, np.concatenate([first, second]))
    size = np.append(whole_sizes(context), 0)
    return crop(first, np.concatenate([second, last]), context.request.snapshot.nodes.group, size, room_left)


def since(context: ScaleDownContext, unneeded: Int32) -> Int64:
    """Return since when each of the nodes `unneeded` : int32[U] has been unneeded. int64[U]."""
    previous, now_ns = context.previous, context.request.now_ns
    start = np.full(len(context.request.leaving), now_ns, np.int64)
    start[previous.planned()] = np.minimum(previous.planned_since_ns(), now_ns)
    return start[unneeded]


def waiting_ns(snapshot: Snapshot, settings: ScaleDownSettings, nodes: Int32, ready: Bool) -> Int64:
    """Return for how long each of nodes : int32[U] has to be unneeded before it goes. int64[U].

    ready : bool[N], as the Cluster Autoscaler counts it.
    """
    unneeded = of_nodes(snapshot, settings, lambda group: group.unneeded_time_ns)
    unready = of_nodes(snapshot, settings, lambda group: group.unready_time_ns)
    needed: Int64 = np.where(ready, unneeded, unready)[nodes].astype(np.int64)
    return needed
