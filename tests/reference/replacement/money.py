"""The cheapest cluster that some set of leaving nodes and new nodes leads to: a mixed-integer programme for HiGHS.

It knows cores, memory, numbers of pods, taints, hostname anti-affinity and zonal spread as they are in the end. Pods of
nodes that stay keep their places; waves and the order of moves are left out. Shares no code with the planner.
"""

from collections import Counter
from typing import Any, NamedTuple

import highspy
import numpy as np

from tests.builders.mid_size_clusters import MidSizeCluster, Offer
from tests.builders.priced_clusters import PricedNode, Workload

PODS = 110
"""Pods that a node takes."""


class LeastPrice(NamedTuple):
    """found : the price of the cheapest cluster found; bound : no plan leads to less."""

    found: float
    bound: float


def least_price(cluster: MidSizeCluster, time_limit_s: float = 20.0, gap: float = 1e-4) -> LeastPrice:
    """Return the least price for one hour. gap : share of it that may remain unproven."""
    return _Programme(cluster).solve(time_limit_s, gap)


class _Programme:
    """Columns: whether each node goes; whether each possible new node comes; pods of each workload that come to each
    node, old or new; of spread, the least number in any zone, and whether any pod comes to a zone."""

    def __init__(self, cluster: MidSizeCluster) -> None:
        self._nodes, self._workloads = cluster.present.nodes, cluster.present.workloads
        self._placed = cluster.present.placed
        self._on = [Counter(of for of, at in self._placed if at == number) for number in range(len(self._nodes))]
        self._totals = Counter(of for of, _ in self._placed)
        self._solver: Any = highspy.Highs()
        self._solver.setOptionValue("output_flag", False)
        self._solver.setOptionValue("threads", 1)
        self._columns = 0
        self._goes = [self._column(1, -one.price) for one in self._nodes]
        self._new = [
            (offer, self._column(1, offer.price)) for offer in cluster.offers for _ in range(self._most(offer))
        ]
        self._places: list[PricedNode | Offer] = [*self._nodes, *(offer for offer, _ in self._new)]
        self._comes = {
            (of, at): self._column(self._totals[of], 0.0)
            for of, one in enumerate(self._workloads)
            for at, there in enumerate(self._places)
            if not there.taint or there.taint == one.tolerates
        }

    def _most(self, offer: Offer) -> int:
        """Return how many new nodes of an offer can be worth their price: no more than those that go cost, nor than
        hold all pods by any amount twice over."""
        by_price = int(sum(one.price for one in self._nodes) / offer.price)
        pods = [self._workloads[of] for of, _ in self._placed]
        amounts = (sum(one.cpu_milli for one in pods), sum(one.memory_mib for one in pods))
        by_amount = max(-(-2 * amounts[0] // offer.cpu_milli), -(-2 * amounts[1] // offer.memory_mib))
        apart = max((count for of, count in self._totals.items() if self._workloads[of].apart), default=1)
        return min(by_price, max(by_amount, apart))

    def _column(self, most: float, cost: float) -> int:
        self._solver.addVar(0.0, float(most))
        self._solver.changeColCost(self._columns, cost)
        self._solver.changeColIntegrality(self._columns, highspy.HighsVarType.kInteger)
        self._columns += 1
        return self._columns - 1

    def _row(self, terms: list[tuple[int, float]], low: float, high: float) -> None:
        columns, values = np.array([one for one, _ in terms], np.int32), np.array([one for _, one in terms], float)
        self._solver.addRow(low, min(high, highspy.kHighsInf), len(terms), columns, values)

    def solve(self, time_limit_s: float, gap: float) -> LeastPrice:
        """Return the optimum, or the best within the time and its bound."""
        self._solver.setOptionValue("time_limit", time_limit_s)
        self._solver.setOptionValue("mip_rel_gap", gap)
        for of, one in enumerate(self._workloads):
            leaving = [(column, -float(self._on[at][of])) for at, column in enumerate(self._goes) if self._on[at][of]]
            coming = [(column, 1.0) for (row, _), column in self._comes.items() if row == of]
            self._row([*coming, *leaving], 0.0, 0.0)
            if one.skew:
                self._spread(of, one)
        for at, there in enumerate(self._nodes):
            self._room(at, there, self._goes[at], self._on[at])
        for at, (offer, column) in enumerate(self._new):
            self._room(len(self._nodes) + at, offer, column, None)
            if at and self._new[at - 1][0] == offer:
                # Equal new nodes come in order, the fullest first.
                self._row([(self._new[at - 1][1], 1.0), (column, -1.0)], 0.0, highspy.kHighsInf)
        self._solver.run()
        info, now = self._solver.getInfo(), sum(one.price for one in self._nodes)
        return LeastPrice(now + info.objective_function_value, now + info.mip_dual_bound)

    def _room(self, at: int, there: PricedNode | Offer, column: int, on: Counter[int] | None) -> None:
        """Limit the pods that come to a node by what is free if it stays, and to a new one if it comes. on : pods there
        now; None = it is new."""
        has = (there.cpu_milli, there.memory_mib, PODS)
        sign = 1.0 if on is not None else -1.0
        there_now = on or Counter[int]()
        for resource in range(3):
            takes = [(one.cpu_milli, one.memory_mib, 1)[resource] for one in self._workloads]
            free = float(has[resource] - sum(takes[of] * count for of, count in there_now.items()))
            terms = [(come, float(takes[of])) for (of, node), come in self._comes.items() if node == at]
            self._row([*terms, (column, sign * free)], -highspy.kHighsInf, free if on is not None else 0.0)
        for of, one in enumerate(self._workloads):
            if (of, at) in self._comes:
                most = float(1 - there_now[of] if one.apart else self._totals[of])
                self._row(
                    [(self._comes[of, at], 1.0), (column, sign * most)], -highspy.kHighsInf, most if sign > 0 else 0.0
                )

    def _spread(self, of: int, one: Workload) -> None:
        """Limit the skew of the pods that come. A zone counts although all its nodes go: drained nodes are there."""
        total = float(self._totals[of])
        least = self._column(total, 0.0)
        for zone in sorted({there.zone for there in self._nodes}):
            inside = [number for number, there in enumerate(self._places) if there.zone == zone]
            at = [number for number in inside if (of, number) in self._comes]
            old = [number for number, there in enumerate(self._nodes) if there.zone == zone]
            arriving = [(self._comes[of, number], 1.0) for number in at]
            terms = [*arriving, *((self._goes[number], -float(self._on[number][of])) for number in old)]
            there_now = float(sum(self._on[number][of] for number in old))
            self._row([*terms, (least, -1.0)], -there_now, highspy.kHighsInf)
            comes = self._column(1, 0.0)
            self._row([*arriving, (comes, -total)], -highspy.kHighsInf, 0.0)
            self._row([*terms, (least, -1.0), (comes, total)], -highspy.kHighsInf, one.skew + total - there_now)
