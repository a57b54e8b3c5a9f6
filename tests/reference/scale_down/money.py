"""The largest saving of any set of nodes: a mixed-integer programme over nodes and places, solved by HiGHS.

It knows cores, memory, numbers of pods, taints, budgets, minimums of pools, hostname anti-affinity and zonal spread as
they are in the end; the order in which pods can be placed is left out, so that no plan saves more. Shares no code with
the planner.
"""

from collections import Counter
from typing import Any, NamedTuple

import highspy
import numpy as np

from tests.builders.priced_clusters import PricedCluster, Workload


class MostSaved(NamedTuple):
    """saving : the largest found; bound : no plan saves more, equal to it if it is proven; nodes : that go in it;
    comes : how many pods of each workload come to each node."""

    saving: float
    bound: float
    nodes: tuple[int, ...]
    comes: dict[tuple[int, int], int]


def most_saved(cluster: PricedCluster, threshold: float, time_limit_s: float = 20.0, waves: int = 1) -> MostSaved:
    """Return the largest saving by nodes at most this much used. threshold : of cores and memory, 0 to 1; waves : in
    which nodes may go, each with all that budgets allow; spread has to hold in the end only."""
    return _Programme(cluster, threshold, waves).solve(time_limit_s)


class _Programme:
    """Columns: whether each candidate goes; pods of each workload that come to each node; of spread, the least number
    in any zone, and whether any pod comes to a zone."""

    def __init__(self, cluster: PricedCluster, threshold: float, waves: int) -> None:
        self._cluster, self._waves = cluster, waves
        self._on = [Counter(of for of, at in cluster.placed if at == number) for number in range(len(cluster.nodes))]
        self._solver: Any = highspy.Highs()
        self._solver.setOptionValue("output_flag", False)
        self._solver.setOptionValue("threads", 1)
        self._solver.setOptionValue("mip_rel_gap", 1e-6)
        self._columns = 0
        self._goes = {
            number: self._column(1, -one.price)
            for number, one in enumerate(cluster.nodes)
            if not one.stays and self._use(number) <= threshold and self._may_go(number)
        }
        self._comes = {
            (of, at): self._column(sum(self._on[node][of] for node in self._goes), 0.0)
            for of, one in enumerate(cluster.workloads)
            for at, there in enumerate(cluster.nodes)
            if not there.taint or there.taint == one.tolerates
        }

    def _use(self, number: int) -> float:
        one, pods = self._cluster.nodes[number], self._on[number]
        cpu = sum(self._cluster.workloads[of].cpu_milli * count for of, count in pods.items()) / one.cpu_milli
        memory = sum(self._cluster.workloads[of].memory_mib * count for of, count in pods.items()) / one.memory_mib
        return max(cpu, memory)

    def _may_go(self, number: int) -> bool:
        """Return whether budgets ever allow evictions of all pods of a node."""
        return all(self._cluster.workloads[of].allowed or not count for of, count in self._on[number].items())

    def _column(self, most: float, cost: float) -> int:
        self._solver.addVar(0.0, float(most))
        self._solver.changeColCost(self._columns, cost)
        self._solver.changeColIntegrality(self._columns, highspy.HighsVarType.kInteger)
        self._columns += 1
        return self._columns - 1

    def _row(self, terms: list[tuple[int, float]], low: float, high: float) -> None:
        columns, values = np.array([one for one, _ in terms], np.int32), np.array([one for _, one in terms], float)
        self._solver.addRow(low, min(high, highspy.kHighsInf), len(terms), columns, values)

    def solve(self, time_limit_s: float) -> MostSaved:
        """Return the optimum, or the best within the time and its bound."""
        self._solver.setOptionValue("time_limit", time_limit_s)
        for of, one in enumerate(self._cluster.workloads):
            leaving = [(column, float(self._on[at][of])) for at, column in self._goes.items() if self._on[at][of]]
            coming = [(column, 1.0) for (row, _), column in self._comes.items() if row == of]
            self._row([*coming, *((column, -count) for column, count in leaving)], 0.0, 0.0)
            if one.allowed >= 0 and leaving:
                # A node with more pods than the budget ever allows at once takes all of it.
                needs = [(column, min(count, float(one.allowed))) for column, count in leaving]
                self._row(needs, -highspy.kHighsInf, float(one.allowed * self._waves))
            if one.skew and leaving:
                self._spread(of, one)
        self._room()
        for pool in {one.pool for one in self._cluster.nodes}:
            mine = [number for number, one in enumerate(self._cluster.nodes) if one.pool == pool and not one.stays]
            going = [(self._goes[number], 1.0) for number in mine if number in self._goes]
            self._row(going, -highspy.kHighsInf, float(max(len(mine) - self._cluster.keeps[pool], 0)))
        self._solver.run()
        info = self._solver.getInfo()
        value = self._solver.getSolution().col_value
        taken = {column: round(number) for column, number in enumerate(value) if number > 0.5}
        nodes = tuple(number for number, column in self._goes.items() if column in taken)
        comes = {place: taken[column] for place, column in self._comes.items() if column in taken}
        return MostSaved(max(-info.objective_function_value, 0.0), max(-info.mip_dual_bound, 0.0), nodes, comes)

    def _room(self) -> None:
        for at, there in enumerate(self._cluster.nodes):
            has = (there.cpu_milli, there.memory_mib, 110)
            for resource in range(3):
                takes = [(one.cpu_milli, one.memory_mib, 1)[resource] for one in self._cluster.workloads]
                free = has[resource] - sum(takes[of] * count for of, count in self._on[at].items())
                terms = [(column, float(takes[of])) for (of, node), column in self._comes.items() if node == at]
                terms += [(self._goes[at], float(free))] if at in self._goes else []
                self._row(terms, -highspy.kHighsInf, float(free))
            for of, one in enumerate(self._cluster.workloads):
                if one.apart and (of, at) in self._comes:
                    gone = [(self._goes[at], 1.0)] if at in self._goes and not self._on[at][of] else []
                    self._row([(self._comes[of, at], 1.0), *gone], -highspy.kHighsInf, 1.0 - self._on[at][of])

    def _spread(self, of: int, one: Workload) -> None:
        nodes = self._cluster.nodes
        zones = {there.zone for there in nodes}
        total = sum(row == of for row, _ in self._cluster.placed)
        least = self._column(total, 0.0)
        for zone in sorted(zones):
            at = [number for number, there in enumerate(nodes) if there.zone == zone]
            terms = [(self._comes[of, number], 1.0) for number in at if (of, number) in self._comes]
            terms += [(self._goes[number], -float(self._on[number][of])) for number in at if number in self._goes]
            there_now = float(sum(self._on[number][of] for number in at))
            # Nodes being drained are cordoned but still there: a zone counts although all its nodes go.
            self._row([*terms, (least, -1.0)], -there_now, highspy.kHighsInf)
            comes = self._column(1, 0.0)
            arriving = [(self._comes[of, number], 1.0) for number in at if (of, number) in self._comes]
            self._row([*arriving, (comes, -float(total))], -highspy.kHighsInf, 0.0)
            self._row(
                [*terms, (least, -1.0), (comes, float(total))], -highspy.kHighsInf,
                one.skew + total - there_now,
            )  # fmt: skip
