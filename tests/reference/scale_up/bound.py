"""A lower bound of the cost of any plan: the linear relaxation of the planning problem, solved by HiGHS.

Variables: nodes of each group, pods of each class on each group. A group's nodes together have room for its pods'
total, and the number of pods of a class is at most what fits one node, times the nodes. With `whole` the numbers of
nodes are integers, as in every plan.
"""

from collections.abc import Sequence
from typing import Any

import highspy
import numpy as np


def bound(asked: Any, count: np.ndarray, whole: bool, values: Sequence[np.ndarray] = ()) -> float:
    """Return the lowest total price of nodes for `count` pods of each class, int64[C]; every group has a price.

    values : float64[C] each, >= 0: whatever value is assigned to pods, nodes that hold all pods hold at least the pods'
    total value, and a node of a group at most the value of its best knapsack. So each is an additional valid row.
    """
    classes, groups = asked.allowed.shape
    pairs, fit = _pairs(asked)
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("mip_rel_gap", 1e-4)
    solver.setOptionValue("mip_max_nodes", 500)
    for group in range(groups):
        solver.addVar(0.0, float(asked.max_nodes[group]))
        solver.changeColCost(group, float(asked.price[group]))
        if whole:
            solver.changeColIntegrality(group, highspy.HighsVarType.kInteger)
    for of_class, _ in pairs:
        solver.addVar(0.0, float(count[of_class]))
    columns = np.arange(groups, groups + len(pairs))
    its_class, its_group = (np.array(one, int) for one in zip(*pairs, strict=True))
    for of_class in range(classes):
        mine = columns[its_class == of_class]
        _row(solver, mine, np.ones(len(mine)), float(count[of_class]), float(count[of_class]))
        for zone in range(asked.zone_most.shape[1]):
            mine = columns[(its_class == of_class) & (asked.zone[its_group] == zone)]
            _row(solver, mine, np.ones(len(mine)), 0.0, float(asked.zone_most[of_class, zone]))
    for group in range(groups):
        mine = its_group == group
        for resource in range(asked.demand.shape[1]):
            unit = float(max(asked.capacity[group, resource], 1))
            takes = asked.demand[its_class[mine], resource] / unit
            if takes.any():
                has = asked.capacity[group, resource] / unit
                _row(solver, np.append(columns[mine], group), np.append(takes, -has), -np.inf, 0.0)
    for at, (_, group) in enumerate(pairs):
        _row(solver, np.array([groups + at, group]), np.array([1.0, -float(fit[at])]), -np.inf, 0.0)
    for value in values:
        best = np.array([most_worth(asked, value, group, count) for group in range(groups)])
        _row(solver, np.arange(groups), best, float(value @ count), np.inf)
    solver.run()
    if whole:
        return float(solver.getInfo().mip_dual_bound)
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return float(solver.getInfo().objective_function_value)


def most_worth(asked: Any, value: np.ndarray, group: int, count: np.ndarray) -> float:
    """Return an upper bound of the value of pods on one node of a group: a bounded knapsack, solved by HiGHS."""
    fits = asked.allowed[:, group] & (asked.demand <= asked.capacity[group]).all(axis=1) & (count > 0) & (value > 0)
    of_class = np.flatnonzero(fits & (asked.per_node > 0))
    if not len(of_class):
        return 0.0
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("mip_rel_gap", 1e-3)
    solver.setOptionValue("mip_max_nodes", 200)
    for at, one in enumerate(of_class):
        solver.addVar(0.0, float(min(count[one], asked.per_node[one])))
        solver.changeColCost(at, -float(value[one]))
        solver.changeColIntegrality(at, highspy.HighsVarType.kInteger)
    for resource in range(asked.demand.shape[1]):
        takes = asked.demand[of_class, resource]
        if takes.any():
            unit = float(max(asked.capacity[group, resource], 1))
            _row(solver, np.arange(len(of_class)), takes / unit, 0.0, asked.capacity[group, resource] / unit)
    solver.run()
    return -float(solver.getInfo().mip_dual_bound) * (1 + 1e-9)


def _pairs(asked: Any) -> tuple[list[tuple[int, int]], list[int]]:
    """Return classes with the groups that they fit, and how many fit one node."""
    pairs, fit = [], []
    for of_class, takes in enumerate(asked.demand):
        for group in np.flatnonzero(asked.allowed[of_class]):
            of_resource = [int(has // one) for has, one in zip(asked.capacity[group], takes, strict=True) if one > 0]
            most = min([*of_resource, int(asked.per_node[of_class])])
            if most > 0:
                pairs.append((of_class, int(group)))
                fit.append(most)
    return pairs, fit


def _row(solver: Any, columns: np.ndarray, values: np.ndarray, low: float, high: float) -> None:
    solver.addRow(low, min(high, highspy.kHighsInf), len(columns), columns.astype(np.int32), values.astype(float))


def optimum(asked: Any) -> float:
    """Return the lowest price, ignoring limits of nodes and zones. Every fill is a column: for few pods only."""
    fills = np.array(list(np.ndindex(*(asked.pods + 1))))[1:]
    takes = fills @ asked.demand
    fits = (takes[:, None, :] <= asked.capacity[None]).all(axis=2) & (fills <= asked.per_node).all(axis=1)[:, None]
    fits &= (fills @ ~asked.allowed) == 0
    price = np.where(fits, asked.price, np.inf).min(axis=1)
    fills, price = fills[np.isfinite(price)], price[np.isfinite(price)]
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    for at, one in enumerate(price):
        solver.addVar(0.0, highspy.kHighsInf)
        solver.changeColCost(at, float(one))
        solver.changeColIntegrality(at, highspy.HighsVarType.kInteger)
    for of_class, count in enumerate(asked.pods):
        _row(solver, np.arange(len(price)), fills[:, of_class], float(count), float(count))
    solver.run()
    return float(solver.getInfo().mip_dual_bound)
