"""The sets of nodes with which the search for a wave begins, and the nodes that it tries in exchange. Candidates are
ordered by what a node costs above the worth of room for its pods. Pure.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from trimtab.planner.replacement.survey import ReplacementContext
from trimtab.planner.replacement.wave_limits import WaveLimits
from trimtab.planner.snapshot.columns import Float64, Int32

SIZES: Final = (1, 2, 3, 4, 5, 6, 8, 10, 14, 20, 30, 45, 70, 100, 150, 220, 320, 500, 750, 1100, 1600, 2400, 3600, 5000)
"""Numbers of nodes of the sets tried of each order."""
MOST_SUBSETS: Final = 5
"""Candidates of which all sets are tried."""
CLEAR_SHARES: Final = (0.5, 0.6)
"""Shares of their price by which nodes clearly cost too much: pods of others are moved for little."""
POOL: Final = 24
"""Nodes that are tried in exchange for others."""


class CandidateSets:
    """The candidates of one wave. nodes : int32; surplus : float64[N] what each node costs above the worth of room for
    its pods; use : float64[N] share in use; most : nodes that may leave together; whole : int32 each, the nodes of each
    order that may leave together."""

    def __init__(
        self,
        context: ReplacementContext,
        nodes: Int32,
        surplus: Float64,
        use: Float64,
        limits: WaveLimits,
        most: int,
    ) -> None:
        self._context, self._nodes, self._surplus, self._use = context, nodes, surplus, use
        self._limits, self._most = limits, most
        self._first = self._ordered()
        self.whole = [limits.admitted(order, most) for order in self._first]

    def seeds(self) -> Iterator[Int32]:
        """Yield sets of nodes to try, ascending each."""
        most, nodes = self._most, self._nodes
        for chosen in self.whole[:1]:
            yield np.sort(chosen)
            excess = self._surplus[chosen] / self._context.price[chosen]
            yield from (np.sort(chosen[excess >= share]) for share in CLEAR_SHARES)
        for chosen in self.whole[1:]:
            yield np.sort(chosen)
        if len(nodes) <= MOST_SUBSETS:
            for bits in range(1, 1 << len(nodes)):
                some = nodes[[at for at in range(len(nodes)) if bits >> at & 1]]
                if len(some) <= most and self._limits.admit(some):
                    yield some
            return
        for size in SIZES:
            for chosen in self.whole:
                if size < len(chosen):
                    yield np.sort(chosen[:size])

    def pool(self, leaving: Int32) -> Int32:
        """Return other candidates to try, the most promising first. int32."""
        found: list[int] = []
        there = set(leaving.tolist())
        for at in range(POOL):
            for order in self._first[:3]:
                node = int(order[at]) if at < len(order) else -1
                if node >= 0 and node not in there:
                    found.append(node)
                    there.add(node)
        return np.array(found[:POOL], np.int32)

    def _ordered(self) -> list[Int32]:
        """Return the candidates in several orders, most promising first. int32 each."""
        nodes, context = self._nodes, self._context
        surplus, cost = self._surplus[nodes], context.pods.cost[nodes]
        per_cost = surplus / (1.0 + cost)
        by_surplus = nodes[np.lexsort((nodes, cost, -surplus))]
        by_cost = nodes[np.lexsort((nodes, -surplus, -per_cost))]
        by_use = nodes[np.lexsort((nodes, -surplus, self._use[nodes]))]
        group = context.request.snapshot.nodes.group
        found = [by_surplus, by_cost, by_use]
        mean = [
            (-float(self._surplus[by_surplus[group[by_surplus] == one]].mean()), one) for one in np.unique(group[nodes])
        ]
        found += [by_surplus[group[by_surplus] == one] for _, one in sorted(mean)[:8]]
        return found
