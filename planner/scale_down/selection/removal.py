"""Which of the unneeded nodes go now.

One check after the other, in upstream's order: unneeded (or unready) for long enough; of the first wave (our own);
all-or-nothing groups complete; not waiting for a pod to complete or (our own check) for slack; no cool-down; room
within the limits. Nodes that slack can spare only together with others go with them, as do those of a gang that moves
whole. Longest unneeded first, or, if balance is required, the largest of similar node groups first; drains that use up
a disruption budget come last.
Minimums need no check: the whole unneeded set respects them, with deletions in progress.
Source: Cluster Autoscaler, planner.NodesToDelete, unneeded.RemovableAt, AtomicResizeFilteringProcessor.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.facts.node_budgets import beyond
from trimtab.planner.model.settings import ScaleDownSettings
from trimtab.planner.round.round import Round
from trimtab.planner.scale_down.balance import level, uneven
from trimtab.planner.scale_down.context import ScaleDownContext
from trimtab.planner.scale_down.search.fewer_placeholders import SlackDependentNodes
from trimtab.planner.scale_down.selection.awaited_room import awaited_by_slack, leaves_too_little
from trimtab.planner.scale_down.selection.deletion_limits import Bucket, Crop, Room, crop, room
from trimtab.planner.scale_down.selection.whole_groups import sizes
from trimtab.planner.scale_down.whole_gangs import whole_gangs
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, Snapshot, UInt8
from trimtab.planner.snapshot.references import take_or
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2

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
    delete_empty: tuple[int, ...]
    drain: tuple[int, ...]
    left: Room


def select(context: ScaleDownContext, unneeded: UnneededNodes, since_ns: Int64) -> Removal:
    """Select the nodes that go now. since_ns : int64[U] since when they are unneeded. O(U log U)."""
    request = context.request
    snapshot, settings = request.snapshot, request.settings
    ready = context.nodes.ready & ~context.nodes.utilization.awaits_gpu
    ends_ns = since_ns + waiting_ns(snapshot, settings, unneeded.nodes, ready)
    too_early = np.where(ready[unneeded.nodes], Reason.NOT_UNNEEDED_LONG_ENOUGH, Reason.NOT_UNREADY_LONG_ENOUGH)
    not_now: UInt8 = np.where(request.now_ns < ends_ns, too_early, 0).astype(np.uint8)
    useless = of_no_use(request.round, unneeded.nodes) & (np.diff(unneeded.bounds) == 0)
    not_now[useless] = 0
    _mark(not_now, unneeded.wave > 1, Reason.LATER_WAVE)
    whole = _whole_groups(context, unneeded, not_now == 0)
    _mark(not_now, ~whole, Reason.ATOMIC_SCALE_DOWN_FAILED)
    _mark(not_now, unneeded.waiting, Reason.BLOCKED_BY_ON_COMPLETION_POD)
    _mark(not_now, awaited_by_slack(context, unneeded.nodes), Reason.NEEDED_FOR_SLACK)
    if request.now_ns < context.undone.until_ns:
        _mark(not_now, np.diff(unneeded.bounds) > 0, Reason.NEEDED_FOR_SLACK)
    # A group that waits for one of its nodes is no longer complete.
    _mark(not_now, ~_whole_groups(context, unneeded, not_now == 0), Reason.ATOMIC_SCALE_DOWN_FAILED)
    _keep_budgets(context, unneeded, since_ns, not_now)
    left = room_left(context)
    if context.unhealthy:
        _mark(not_now, not_now == 0, Reason.CLUSTER_UNHEALTHY)
    if context.cooldown.cluster:
        _mark(not_now, (not_now == 0) & ~useless, Reason.IN_COOLDOWN)
    chosen = _even_crop(context, unneeded, since_ns, not_now, left)
    goes = np.isin(unneeded.nodes, np.array(chosen.empty + chosen.drain, np.int32))
    if leaves_too_little(context, unneeded.nodes[goes], unneeded.slack_dependent):
        _mark(not_now, np.isin(unneeded.nodes, unneeded.slack_dependent.nodes), Reason.NEEDED_FOR_SLACK)
        chosen = _even_crop(context, unneeded, since_ns, not_now, left)
        goes = np.isin(unneeded.nodes, np.array(chosen.empty + chosen.drain, np.int32))
    _mark(not_now, ~goes, Reason.NOT_UNNEEDED_OTHER_REASON)
    ends_ns[~np.isin(not_now, (Reason.NOT_UNNEEDED_LONG_ENOUGH, Reason.NOT_UNREADY_LONG_ENOUGH))] = 0
    return Removal(not_now, ends_ns, tuple(sorted(chosen.empty)), tuple(sorted(chosen.drain)), left)


def _keep_budgets(context: ScaleDownContext, unneeded: UnneededNodes, since_ns: Int64, not_now: UInt8) -> None:
    """Mark the nodes that no budget for nodes lets go now, in place: the first to go take what is left."""
    if not context.nodes.budgets:
        return
    order = np.lexsort((unneeded.nodes, since_ns, unneeded.risky))
    order = unneeded.nodes[order[not_now[order] == 0]]
    kept = beyond(context.nodes.budgets, order, len(context.nodes.leaving))
    _mark(not_now, kept[unneeded.nodes], Reason.DISRUPTION_BUDGET)


def of_no_use(this: Round, nodes: Int32) -> Bool:
    """Return which nodes : int32[U] scale-up has named as added for a gang that cannot be whole: they go without
    waiting. bool[U]."""
    decided = this.decided.get(pb.Decision.SCALE_UP)
    names = {name for gang in decided.result.gangs for name in gang.release.nodes} if decided is not None else set()
    if not names:
        return np.zeros(len(nodes), bool)
    return np.array([this.snapshot.nodes.name[node] in names for node in nodes.tolist()], bool)


def room_left(context: ScaleDownContext) -> Room:
    """Return how many nodes may still be deleted, and how many of them drained."""
    request = context.request
    deletions = request.snapshot.deletions
    reported = {deletion.node for deletion in deletions}
    names = request.snapshot.nodes.name
    marked_only = sum(names[int(node)] not in reported for node in np.flatnonzero(context.nodes.leaving))
    draining = sum(deletion.drain for deletion in deletions)
    settings = request.settings
    return room(settings.max_parallelism, settings.max_drain_parallelism, len(deletions) + marked_only, draining)


def _mark(not_now: UInt8, mask: Bool, reason: int) -> None:
    np.copyto(not_now, np.uint8(reason), where=mask & (not_now == 0))


def _whole_groups(context: ScaleDownContext, unneeded: UnneededNodes, ready: Bool) -> Bool:
    """Return for each unneeded node whether its group, if all-or-nothing, has all its nodes among those ready to go.
    bool[U].
    """
    groups = context.request.snapshot.groups
    row = context.request.snapshot.nodes.group[unneeded.nodes]
    count = np.bincount(row[ready], minlength=len(groups))
    size = sizes(context)
    complete = [not group.zero_or_max or count[i] == size[i] for i, group in enumerate(groups)]
    whole: Bool = np.array([*complete, True], bool)[row]
    return whole


def _even_crop(context: ScaleDownContext, unneeded: UnneededNodes, since_ns: Int64, not_now: UInt8, left: Room) -> Crop:
    """Return the nodes that go; those that have to wait for balance, or for other nodes of a gang that moves whole, are
    marked in `not_now` : uint8[U], in place."""
    gangs = whole_gangs(context)
    while True:
        torn = gangs.torn(unneeded.nodes[not_now == 0])
        _mark(not_now, np.isin(unneeded.nodes, torn), Reason.NOT_UNNEEDED_OTHER_REASON)
        chosen = _crop(context, unneeded, since_ns, not_now == 0, left)
        going = np.array(chosen.empty + chosen.drain, np.int32)
        torn = gangs.torn(going)
        wait = going[uneven(context.balance, going)] if context.balance else going[:0]
        if len(wait) == 0 and len(torn) == 0:
            return chosen
        _mark(not_now, np.isin(unneeded.nodes, torn), Reason.NOT_UNNEEDED_OTHER_REASON)
        _mark(not_now, np.isin(unneeded.nodes, wait), Reason.BALANCE)


def _crop(context: ScaleDownContext, unneeded: UnneededNodes, since_ns: Int64, ready: Bool, left: Room) -> Crop:
    order = np.lexsort((unneeded.nodes, since_ns, unneeded.risky))
    rows = order[ready[order]]
    empty, risky = (np.diff(unneeded.bounds) == 0)[rows], unneeded.risky[rows]
    nodes = unneeded.nodes[rows]
    first, second, last = nodes[empty], nodes[~empty & ~risky], nodes[~empty & risky]
    if context.balance and context.request.settings.balance:
        first = level(context.balance, first, first[:0])
        second = level(context.balance, second, first)
        last = level(context.balance, last, np.concatenate([first, second]))
    return crop(_buckets(context, first), _buckets(context, np.concatenate([second, last])), left)


def _buckets(context: ScaleDownContext, nodes: Int32) -> tuple[Bucket, ...]:
    """Return the nodes in order: one bucket for each all-or-nothing group, then one for all the others."""
    snapshot = context.request.snapshot
    group = snapshot.nodes.group[nodes]
    whole = take_or(np.array([one.zero_or_max for one in snapshot.groups], bool), group, False)
    rows, first = np.unique(group[whole], return_index=True)
    size = sizes(context)
    atomic = [
        Bucket(snapshot.groups[row].id, tuple(nodes[group == row].tolist()), True, int(size[row]))
        for row in rows[np.argsort(first)].tolist()
    ]
    return (*atomic, Bucket("", tuple(nodes[~whole].tolist()), False, 0))


def since(context: ScaleDownContext, unneeded: Int32) -> Int64:
    """Return since when each of the nodes `unneeded` : int32[U] has been unneeded. int64[U]."""
    previous, now_ns = context.previous, context.request.now_ns
    start = np.full(len(context.nodes.leaving), now_ns, np.int64)
    start[previous.planned()] = np.minimum(previous.planned_since_ns(), now_ns)
    return start[unneeded]


def waiting_ns(snapshot: Snapshot, settings: ScaleDownSettings, nodes: Int32, ready: Bool) -> Int64:
    """Return for how long each of nodes : int32[U] has to be unneeded before it goes. int64[U].

    ready : bool[N], as the Cluster Autoscaler counts it.
    """
    of_groups = [settings.of_group(group.id) for group in snapshot.groups]
    rows = [(one.unneeded_time_ns, one.unready_time_ns) for one in [*of_groups, settings.general]]
    times = np.array(rows, np.int64)[snapshot.nodes.group[nodes]]
    needed: Int64 = np.where(ready[nodes], times[:, 0], times[:, 1])
    return needed
