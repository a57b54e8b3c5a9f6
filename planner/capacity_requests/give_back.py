"""Nodes to give back at once: ordered for a request that can no longer be completed, without pods and needed by none.

A cloud may deliver fewer nodes than were ordered. Then others are tried (`trimtab.planner.capacity_requests.loop`); if
none can be had, those that came are of no use, and they would cost until scale-down finds them unneeded.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from trimtab.planner.capacity_requests.loop import CapacityLoop
from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.round.ordered_nodes import nodes_in_use, unused_since
from trimtab.v1 import plan_pb2 as pb

KEPT_S: Final = 3600
"""How long an order is remembered, seconds: longer than any cloud takes to deliver."""


def nodes_to_give_back(loop: CapacityLoop, orders: Sequence[pb.CapacityOrder], kept: frozenset[str]) -> list[str]:
    """Return the names of the nodes, sorted. kept : requests, as "namespace/name", that hold room."""
    snapshot = loop.this.snapshot
    useless = [order for order in orders if order.request not in kept]
    if not useless:
        return []
    in_use = nodes_in_use(loop.this, loop.state, loop.leaving)
    group_at = {group.id: number for number, group in enumerate(snapshot.groups)}
    sizes = [group.target_size - group.min_size for group in snapshot.groups]
    found: list[int] = []
    for order in useless:
        if order.node_group not in group_at:
            continue
        group = group_at[order.node_group]
        most = min(order.count, max(sizes[group], 0))
        chosen = unused_since(snapshot, group, order.time, in_use)[:most]
        in_use[chosen] = True
        sizes[group] -= len(chosen)
        found += chosen.tolist()
    return sorted(snapshot.nodes.name[node] for node in found)


def next_orders(
    loop: CapacityLoop, orders: Iterable[pb.CapacityOrder], new: Iterable[pb.CapacityOrder]
) -> list[pb.CapacityOrder]:
    """Return the orders to remember: those of the last hour, the oldest first."""
    now_s = loop.this.now_ns // SECOND_NS
    return [*(order for order in orders if now_s - order.time < KEPT_S), *new]
