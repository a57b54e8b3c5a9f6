"""Whether a set of nodes that the programme of `money` chose can go in waves by the rules that it leaves out: budgets
hold in each wave, whose pods are evicted together, and each pod is placed by the scheduler's rule for spread, with the
pods of later waves still where they were.

A search: orders of nodes are tried, each filled wave by wave; "no" means only that none of these was found. Shares no
code with the planner.
"""

from collections import Counter
from random import Random

from tests.builders.priced_clusters import PricedCluster

ORDERS = 200
"""Orders of nodes that are tried."""


def goes_in_waves(
    cluster: PricedCluster, nodes: tuple[int, ...], comes: dict[tuple[int, int], int], waves: int
) -> bool:
    """Return whether an order of nodes was found in which they go in so many waves. comes : how many pods of each
    workload come to each node in the end."""
    random, order = Random(0), sorted(nodes)
    for _ in range(ORDERS):
        if _Waves(cluster, comes, waves).take(order):
            return True
        random.shuffle(order)
    return False


class _Waves:
    """on : pods of each workload on each node; due : pods that still come to each node, by workload and node."""

    def __init__(self, cluster: PricedCluster, comes: dict[tuple[int, int], int], waves: int) -> None:
        self._cluster, self._most = cluster, waves
        self._on = Counter(cluster.placed)
        self._due = Counter(comes)

    def take(self, order: list[int]) -> bool:
        """Return whether the nodes go, each in the first wave in which it can, in this order."""
        waiting = order
        for _ in range(self._most):
            start, wave = (self._on, self._due), list[int]()
            for node in waiting:
                end = self._on, self._due
                self._on, self._due = start[0].copy(), start[1].copy()
                if self._go([*wave, node]):
                    wave.append(node)
                else:
                    self._on, self._due = end
            waiting = [node for node in waiting if node not in wave]
            if not waiting:
                return True
        return False

    def _go(self, wave: list[int]) -> bool:
        """Evict all pods of nodes at once and place them; return whether budgets and spread allow it. A node with more
        pods than a budget ever allows at once takes all of it."""
        evicted, needed, workloads = Counter[int](), Counter[int](), self._cluster.workloads
        for of, at in [place for place, count in self._on.items() if place[1] in wave and count]:
            count = self._on.pop((of, at))
            evicted[of] += count
            needed[of] += min(count, workloads[of].allowed or count)
        if any(0 <= workloads[of].allowed < count for of, count in needed.items()):
            return False
        return all(self._place(of) for of, count in evicted.items() for _ in range(count))

    def _place(self, of: int) -> bool:
        """Place a pod on one of the nodes to which pods of its workload still come, in the emptiest of their zones."""
        in_zones, nodes = self._in_zones(of), self._cluster.nodes
        targets = [at for (row, at), count in self._due.items() if row == of and count]
        at = min(targets, key=lambda one: (in_zones[nodes[one].zone], one))
        skew = self._cluster.workloads[of].skew
        if skew and in_zones[nodes[at].zone] + 1 - min(in_zones.values()) > skew:
            return False
        self._due[of, at] -= 1
        self._on[of, at] += 1
        return True

    def _in_zones(self, of: int) -> dict[str, int]:
        """Return the workload's pods by zone of nodes that it tolerates; a zone counts although all its nodes go."""
        one = self._cluster.workloads[of]
        zones = {there.zone: 0 for there in self._cluster.nodes if not there.taint or there.taint == one.tolerates}
        for (row, at), count in self._on.items():
            if row == of and self._cluster.nodes[at].zone in zones:
                zones[self._cluster.nodes[at].zone] += count
        return zones
