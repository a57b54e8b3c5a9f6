"""Nodes to give back at once: ordered for a request that can no longer be completed, without pods and needed by none.

A cloud may deliver fewer nodes than were ordered. Then others are tried (`trimtab.planner.capacity_requests.loop`); if
none can be had, those that came are of no use, and they would cost until scale-down finds them unneeded.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from trimtab.planner.capacity_requests.loop import CapacityLoop
from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.snapshot.columns import FLAG_DAEMON, FLAG_MIRROR
from trimtab.v1 import plan_pb2 as pb

KEPT_S: Final = 3600
"""How long an order is remembered, seconds: longer than any cloud takes to deliver."""


def nodes_to_give_back(loop: CapacityLoop, orders: Sequence[pb.CapacityOrder], kept: frozenset[str]) -> list[str]:
    """Return the names of the nodes, sorted. kept : requests, as "namespace/name", that hold room."""
    snapshot = loop.this.snapshot
    useless = [order for order in orders if order.request not in kept]
    if not useless:
        return []
    pods, in_use = snapshot.pods, np.zeros(len(loop.state.node_state), bool)
    at = loop.state.pod_node
    stays = np.ones(len(at), bool)
    stays[: len(pods.spec)] = ((pods.flags & (FLAG_DAEMON | FLAG_MIRROR)) == 0) & ~pods.is_terminal()
    in_use[at[stays & (at >= 0)]] = True
    group_at = {group.id: number for number, group in enumerate(snapshot.groups)}
    sizes = {group.id: group.target_size - group.min_size for group in snapshot.groups}
    found: list[int] = []
    for order in useless:
        group = group_at.get(order.node_group, -1)
        nodes = np.flatnonzero(
            (snapshot.nodes.group == group)
            & (snapshot.nodes.created_ns >= order.time * SECOND_NS)
            & ~in_use[: len(snapshot.nodes.name)]
            & ~loop.leaving
        )
        most = min(order.count, max(sizes.get(order.node_group, 0), 0)) if group >= 0 else 0
        chosen = [node for node in nodes.tolist() if node not in found][:most]
        if chosen:
            sizes[order.node_group] -= len(chosen)
        found += chosen
    return sorted(snapshot.nodes.name[node] for node in found)


def next_orders(
    loop: CapacityLoop, orders: Iterable[pb.CapacityOrder], new: Iterable[pb.CapacityOrder]
) -> list[pb.CapacityOrder]:
    """Return the orders to remember: those of the last hour, the oldest first."""
    now_s = loop.this.now_ns // SECOND_NS
    return [*(order for order in orders if now_s - order.time < KEPT_S), *new]
