"""The pods of a round that wait: their places, before a decision looks at the room that is left (the moves stay); and
nodes that were ordered for such pods and may be of no use: those that came since the order, on which no pod is and none
is planned.
"""

from collections.abc import Container
from dataclasses import dataclass

import numpy as np

from trimtab.planner.facts.gangs import gangs_of
from trimtab.planner.facts.readiness import may_start
from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.placement.waiting import close_leaving, place_waiting, places, pods_to_move
from trimtab.planner.round.round import Round
from trimtab.planner.simulation.kernels import remove
from trimtab.planner.snapshot.caches import SnapshotKey
from trimtab.planner.snapshot.columns import FLAG_DAEMON, FLAG_GATED, FLAG_MIRROR, NO_NODE, Bool, Int32, Snapshot
from trimtab.v1 import plan_pb2 as pb


def place_waiting_pods(this: Round, code: "pb.Decision.Code.ValueType", pending: Int32) -> None:
    """Place the pods of nodes being deleted, recently evicted pods and pending ones, as far as they have room on nodes,
    upcoming ones included. A gang has places for its minimum, or none. code : of the decision; pending : int32. O(P).
    """
    gangs = gangs_of(this.snapshot, this.work.cache)
    if gangs:
        elsewhere = [gang.pending for gang in gangs if gang.held or gang.topology_key]
        pending = pending[~np.isin(pending, np.concatenate([pending[:0], *elsewhere]))]
    simulation, settings = this.simulation, this.settings
    moving = pods_to_move(this.snapshot, this.leaving, settings.expendable_priority)
    close_leaving(simulation, this.leaving, moving)
    first = simulation.pod_count
    evicted = np.arange(first, first + len(this.evictions), dtype=np.int32)
    if not (len(moving) or len(evicted) or len(pending)):
        return
    where = places(simulation, this.ready & ~this.leaving, this.growth_of(code).upcoming)
    place_waiting(simulation, where, evicted, pending, np.zeros(0, np.int32), moving)
    for gang in gangs:
        placed = gang.pending[simulation.state.pod_node[gang.pending] != NO_NODE]
        if gang.is_bound_together and 0 < len(placed) < gang.need:
            for pod in placed.tolist():
                remove(simulation.state, pod)


@dataclass(frozen=True)
class PendingPodsKey(SnapshotKey[Int32]):
    """The pods that wait. least_priority : of these."""

    least_priority: int


def pods_that_wait(snapshot: Snapshot, least_priority: int) -> Int32:
    """Return the pods that wait for a node and can be scheduled, whether the scheduler has tried them or not. int32."""
    pods = snapshot.pods
    waits = (pods.node == NO_NODE) & (pods.deletion_s == 0) & ~pods.is_terminal() & ((pods.flags & FLAG_GATED) == 0)
    return np.flatnonzero(waits & (snapshot.spec_priorities() >= least_priority)[pods.spec]).astype(np.int32)


def starting_for_pods(this: Round) -> Bool:
    """Return the starting nodes that have to come for the pods which the plan has placed on upcoming nodes: of each
    group, as many as have pods, the first by name. bool[N].
    """
    snapshot, rules = this.snapshot, this.settings.readiness
    needed = may_start(snapshot, rules, this.now_ns) & ~this.ready & ~this.leaving & (snapshot.nodes.group >= 0)
    growth, at = this.growth_of(0), this.simulation.state.pod_node
    if not needed.any() or not len(growth.upcoming):
        return np.zeros(len(needed), bool)
    group_of = np.repeat(np.arange(len(snapshot.groups)), np.diff(growth.upcoming_offsets))
    count = np.bincount(group_of[np.isin(growth.upcoming, at)], minlength=len(snapshot.groups))
    rows = np.flatnonzero(needed)
    for group in np.unique(snapshot.nodes.group[rows]).tolist():
        needed[rows[snapshot.nodes.group[rows] == group][count[group] :]] = False
    return needed


class UnusedNodes:
    """Finds the unused nodes of one order after the other; those of an order are no other one's. To be made while the
    round's simulation has the moves of its decisions."""

    def __init__(self, this: Round, code: int, growing: Container[str] = ()) -> None:
        """code : of the decision that ordered; growing : ids of the groups of which nodes that are to come may be those
        that this plan orders."""
        self._snapshot, self._growth, self._growing = this.snapshot, this.growth_of(code), growing
        self._group_at = {group.id: number for number, group in enumerate(this.snapshot.groups)}
        self._above_min = [max(group.target_size - group.min_size, 0) for group in this.snapshot.groups]
        pods, state = this.snapshot.pods, this.simulation.state
        counts = np.zeros(len(state.pod_node), bool)
        counts[: len(pods.flags)] = ((pods.flags & (FLAG_DAEMON | FLAG_MIRROR)) == 0) & ~pods.is_terminal()
        counts[len(pods.flags) : len(pods.flags) + len(this.evictions) + len(this.placeholders)] = True
        at = state.pod_node[counts]
        self._in_use = np.zeros(len(state.node_state), bool)
        self._in_use[: len(this.leaving)] = this.leaving
        self._in_use[at[at >= 0]] = True

    def release(self, order: pb.NodeOrder, *releases: pb.Release) -> bool:
        """Name the nodes of an order that have come, and count those that are to come, in each of the releases; return
        whether there are any. Only nodes count that came since the order; no group gets below its minimum."""
        if order.node_group not in self._group_at:
            return False
        group, nodes = self._group_at[order.node_group], self._snapshot.nodes
        limit = min(order.count, self._above_min[group])
        since = (nodes.group == group) & (nodes.created_ns >= order.order_time.seconds * SECOND_NS)
        here = np.flatnonzero(since & ~self._in_use[: len(nodes.name)])[:limit]
        is_known = group + 1 < len(self._growth.upcoming_offsets) and order.node_group not in self._growing
        coming = self._growth.upcoming_of(group) if is_known else np.zeros(0, np.int64)
        coming = coming[~self._in_use[coming]][: limit - len(here)]
        self._in_use[here] = self._in_use[coming] = True
        self._above_min[group] -= len(here) + len(coming)
        for release in releases:
            release.nodes.extend(nodes.name[node] for node in here.tolist())
            release.nodes.sort()
            if len(coming):
                release.upcoming[order.node_group] += len(coming)
        return len(here) + len(coming) > 0
