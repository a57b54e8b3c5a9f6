"""What all waves together should do: the nodes that leave, new nodes, and how many pods of each class go where.

Found by a search that takes all waves as one (`search`); the waves follow it as far as their limits allow. Pods of a
class are interchangeable, so a place of the target is one for any pod of its class. Symbols: E places, K new nodes of
the target, S pod classes. Pure.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from trimtab.planner.facts.nodes import total
from trimtab.planner.model.tuning import TOLERANCE
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64

NOT_OPEN = -1


class Target(NamedTuple):
    """leaving : bool[N] nodes that are to leave; new : int64[E] new node of the target of a place, NOT_OPEN = a node
    that stays; node : int32[E] node of the simulation, NOT_OPEN = of a new node that is not open; pod_class : int32[E];
    room : int64[E] pods that are still to come; group_of : int64[K]; value : float64[S] worth of room for a pod."""

    leaving: Bool
    new: Int64
    node: Int32
    pod_class: Int32
    room: Int64
    group_of: Int64
    value: Float64

    def open_places(self) -> Bool:
        """Return the places on nodes that are there and have room. bool[E]."""
        return (self.node >= 0) & (self.room > 0)

    def chosen_new(self, pod_class: Int64, price: Float64, may_add: Int64, limit: int) -> list[int]:
        """Return new nodes of the target for pods, those first that take most of them for their price, by the worth of
        room. pod_class : int64[M] of the pods; price : float64[G]; may_add : int64[G]; limit : at most so many."""
        here = np.flatnonzero((self.node < 0) & (self.room > 0))
        classes, need = np.unique(pod_class, return_counts=True)
        column = np.searchsorted(classes, self.pod_class[here])
        fits = classes[np.minimum(column, len(classes) - 1)] == self.pod_class[here]
        here, column = here[fits], column[fits]
        rows, row = np.unique(self.new[here], return_inverse=True)
        takes = np.zeros((len(rows), len(classes)), np.int64)
        np.add.at(takes, (row.reshape(-1), column), self.room[here])
        worth = np.maximum(self.value[classes], TOLERANCE)
        group, room = self.group_of[rows], may_add.copy()
        cost, chosen = np.maximum(price[group], TOLERANCE), list[int]()
        # A new node takes no more than before of the pods that are left, so only the first of the queue is valued anew.
        gains = (np.minimum(takes, need) * worth).sum(axis=1) / cost
        queue = [(-gain, at) for at, gain in enumerate(gains.tolist()) if gain > 0]
        heapify(queue)
        while len(chosen) < limit and queue:
            _, best = heappop(queue)
            served = np.minimum(takes[best], need)
            gain = total(served * worth) / float(cost[best])
            if gain <= 0 or room[group[best]] <= 0:
                continue
            if queue and (-gain, best) > queue[0]:
                heappush(queue, (-gain, best))
                continue
            chosen.append(int(rows[best]))
            room[group[best]] -= 1
            need = need - served
        return chosen

    def opened(self, new: Sequence[int], nodes: Int64) -> "Target":
        """Return the target with new nodes open. new : those of it, NOT_OPEN = a node that is none; nodes : int64 node
        of the simulation of each."""
        node_of, number = np.full(len(self.group_of) + 1, NOT_OPEN, np.int32), np.array(new, np.int64)
        node_of[number[number >= 0]] = nodes[number >= 0]
        return self._replace(node=np.where(self.node < 0, node_of[self.new], self.node).astype(np.int32))

    def filled(self, pod_class: Int64, node: Int32) -> "Target":
        """Return the target without places that pods have taken. pod_class : int64[M], node : int32[M] of the pods."""
        return self._replace(room=self.room - self._taken(pod_class, node))

    def in_place(self, pod_class: Int64, node: Int32) -> tuple[float, float]:
        """Return the worth of room for pods that are where the target has pods of their class, and for those on other
        nodes than any of the target. pod_class : int64[M], node : int32[M] of the pods; its new nodes are open."""
        counts = self._taken(pod_class, node)
        elsewhere = ~np.isin(node, self.node[self.node >= 0])
        return total(self.value[self.pod_class] * counts), total(self.value[pod_class[elsewhere]])

    def _taken(self, pod_class: Int64, node: Int32) -> Int64:
        """Return how many pods are at each place, as far as it has room. int64[E]."""
        if not len(node):
            return np.zeros(len(self.room), np.int64)
        width = np.int64(len(self.value))
        keys, counts = np.unique(node.astype(np.int64) * width + pod_class, return_counts=True)
        mine = np.where(self.node >= 0, self.node.astype(np.int64) * width + self.pod_class, -1)
        at = np.minimum(np.searchsorted(keys, mine), len(keys) - 1)
        return np.minimum(np.where(keys[at] == mine, counts[at], 0), self.room)

    def unopened(self, price: Float64) -> float:
        """Return the price for one hour of the new nodes that are still to come. price : float64[G]."""
        return total(price[self.group_of[np.unique(self.new[(self.node < 0) & (self.room > 0)])]])


def target_of(
    leaving: Bool, group_of: tuple[int, ...], pod_class: Int64, node: Int32, node_count: int, value: Float64
) -> Target:
    """Return the target of a set of moves. leaving : bool[N]; group_of : group of each new node; pod_class, node :
    int32[M] of the pods that move, a new node as node_count + its position; value : float64[S]."""
    width = np.int64(len(value))
    keys, room = np.unique(node.astype(np.int64) * width + pod_class, return_counts=True)
    at, of_class = keys // width, (keys % width).astype(np.int32)
    is_new = at >= node_count
    return Target(
        leaving=leaving,
        new=np.where(is_new, at - node_count, NOT_OPEN),
        node=np.where(is_new, NOT_OPEN, at).astype(np.int32),
        pod_class=of_class,
        room=room.astype(np.int64),
        group_of=np.array(group_of, np.int64),
        value=value,
    )
