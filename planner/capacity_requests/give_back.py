"""Nodes to give back at once: ordered for a request that can no longer be completed, without pods and needed by none.

A cloud may deliver fewer nodes than were ordered. Then others are tried (`trimtab.planner.capacity_requests.loop`); if
none can be had, those that came are of no use, and those that are still to come will be: they would cost until
scale-down finds them unneeded. Only after all decisions of a plan is it known which nodes none of them uses.
"""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

import numpy as np

from trimtab.planner.facts.nodes import being_deleted
from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.round.ordered_nodes import nodes_in_use, unused_since
from trimtab.planner.round.round import Round
from trimtab.planner.snapshot.columns import Int32, Int64
from trimtab.v1 import plan_pb2 as pb

Outcome = pb.CapacityRequestOutcome
KEPT_S: Final = 3600
"""How long an order is remembered, seconds: longer than any cloud takes to deliver."""
HOLDS_ROOM: Final = frozenset((Outcome.FOUND, Outcome.PROVISIONED, Outcome.COMING, Outcome.BOOKED))


def useless_orders(
    answers: Iterable[pb.CapacityRequestAnswer], state: pb.CapacityRequestsState | None
) -> list[pb.NodeOrder]:
    """Return the earlier orders of requests that hold no room and have not started either, the oldest first."""
    served = {(_key(one), one.uid) for one in answers if one.outcome in HOLDS_ROOM or one.outcome == Outcome.CONSUMED}
    return [one for one in (state.orders if state is not None else ()) if (one.name, one.uid) not in served]


def add_useless(result: pb.CapacityRequestsDecision, state: pb.CapacityRequestsState | None, this: Round) -> Int32:
    """Name the nodes to give back, in the result and in the answers to their requests; return them, ascending. this :
    the round in which the last decision was taken, with its moves.
    """
    orders = useless_orders(result.requests, state)
    if not orders:
        return np.zeros(0, np.int32)
    answers = {(_key(one), one.uid): one for one in result.requests}
    search, touched = (
        _UselessNodes(this, {split.node_group for split in result.splits}),
        list[pb.CapacityRequestAnswer](),
    )
    for order in orders:
        nodes, coming = search.of(order)
        own = answers.get((order.name, order.uid))
        for release in (result.release, *([own.release] if own is not None else ())) if nodes or coming else ():
            release.nodes.extend(nodes)
            release.nodes.sort()
            if coming:
                release.upcoming[order.node_group] += coming
        if own is not None and (nodes or coming):
            touched.append(own)
    for own in {id(one): one for one in touched}.values():
        own.detail = f"{own.detail}; {_sentence(own)}" if own.detail else _sentence(own)
    return np.array([bisect_left(this.snapshot.nodes.name, name) for name in result.release.nodes], np.int32)


class _UselessNodes:
    """Finds the unused nodes of one order after the other; those of an order are no other one's."""

    def __init__(self, this: Round, grows: set[str]) -> None:
        """grows : ids of the groups that get nodes for requests in this plan: what is to come of them may be these."""
        self._snapshot = this.snapshot
        self._growth = this.growth_of(pb.Decision.CAPACITY_REQUESTS)
        self._in_use = nodes_in_use(this, this.simulation.state, being_deleted(this.snapshot, this.now_ns))
        self._group_at = {group.id: number for number, group in enumerate(this.snapshot.groups)}
        self._above_min = [max(group.target_size - group.min_size, 0) for group in this.snapshot.groups]
        self._grows = grows

    def of(self, order: pb.NodeOrder) -> tuple[list[str], int]:
        """Return the names of the nodes that have come, and how many are to come. No group gets below its minimum."""
        if order.node_group not in self._group_at:
            return [], 0
        group = self._group_at[order.node_group]
        most = min(order.count, self._above_min[group])
        here = unused_since(self._snapshot, group, order.order_time.seconds, self._in_use)[:most]
        coming = self._upcoming(group)
        coming = coming[~self._in_use[coming]][: most - len(here)]
        self._in_use[here] = self._in_use[coming] = True
        self._above_min[group] -= len(here) + len(coming)
        return [self._snapshot.nodes.name[node] for node in here.tolist()], len(coming)

    def _upcoming(self, group: int) -> Int64:
        """Return the nodes of a group that are to come; none if no decision has asked for upcoming nodes."""
        is_known = group + 1 < len(self._growth.upcoming_offsets) and self._snapshot.groups[group].id not in self._grows
        return self._growth.upcoming_of(group) if is_known else np.zeros(0, np.int64)


def _sentence(one: pb.CapacityRequestAnswer) -> str:
    count, coming = len(one.release.nodes), sum(one.release.upcoming.values())
    here = f"{count} that {'has' if count == 1 else 'have'} come" if count else ""
    later = f"{coming} still to come" if coming else ""
    return f"nodes ordered for it are given back: {' and '.join(filter(None, (here, later)))}"


def _key(one: pb.CapacityRequestAnswer) -> str:
    return f"{one.namespace}/{one.name}"


def next_orders(
    answers: Iterable[pb.CapacityRequestAnswer],
    orders: Iterable[pb.NodeOrder],
    new: Iterable[pb.NodeOrder],
    now_ns: int,
) -> list[pb.NodeOrder]:
    """Return the orders to remember, the oldest first: those of the last hour, except of requests all of whose pods
    have started. The nodes of these have done their service, and go as all others do."""
    over = {(_key(one), one.uid) for one in answers if one.outcome == Outcome.CONSUMED}
    recent = (one for one in orders if now_ns // SECOND_NS - one.order_time.seconds < KEPT_S)
    return [*(one for one in recent if (one.name, one.uid) not in over), *new]
