"""The cheapest nodes for pods of one class, exactly: a knapsack over the number of pods.

For problems with one row and without limits of zones, where all groups that admit the pods have prices, or none has.
O(pods · G · log(pods)).
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.cheapest.problem import UNLIMITED, Plan, Problem
from trimtab.planner.model.tuning import KNAPSACK_PODS, NODE_COST
from trimtab.planner.snapshot.columns import Bool, Float64, Int64


class _KnapsackItem(NamedTuple):
    """Some equal nodes, to take all or not at all. takes : bool[pods + 1], whether the best nodes for that many pods
    have them, of the batches up to this one."""

    group: int
    node_count: int
    pods: int
    takes: Bool


def single_class_plan(problem: Problem) -> Plan | None:
    """Return the cheapest plan for all pods; None if the problem is of another form, or not all pods have a place."""
    count = int(problem.pods[0]) if len(problem.pods) == 1 else 0
    if not 0 < count <= KNAPSACK_PODS or (problem.zone_most < UNLIMITED).any():
        return None
    room, price = _room(problem, count), _prices(problem)
    if price is None:
        return None
    order = np.lexsort((np.arange(len(room)), -room, price))
    cost = np.full(count + 1, np.inf)
    cost[0] = 0.0
    batches: list[_KnapsackItem] = []
    for group in order[room[order] > 0].tolist():
        most = min(int(problem.most[group]), -(-count // int(room[group])))
        for nodes in _parts(most):
            pods = min(nodes * int(room[group]), count)
            other = np.concatenate([np.full(pods, cost[0]), cost[: count + 1 - pods]]) + price[group] * nodes
            takes = other < cost
            cost = np.where(takes, other, cost)
            batches.append(_KnapsackItem(group, nodes, pods, takes))
    return None if np.isinf(cost[count]) else _plan(problem, room, batches, count)


def _room(problem: Problem, count: int) -> Int64:
    """Return how many of the pods a new node of each group takes. int64[G]."""
    demand = problem.demand[0]
    by_amount = (problem.capacity[:, demand > 0] // np.maximum(demand[demand > 0], 1)).min(axis=1, initial=count)
    room: Int64 = np.minimum(np.minimum(by_amount, problem.per_node[0]), count)
    return np.where(problem.allowed[0] & (problem.most > 0), np.maximum(room, 0), 0)


def _prices(problem: Problem) -> Float64 | None:
    """Return what a node of each group costs, the same for all if no price is known; None if some are."""
    used = problem.allowed[0] & (problem.most > 0)
    unknown = np.isnan(problem.price)
    if unknown[used].all():
        return np.ones(len(used))
    if unknown[used].any():
        return None
    top = float(problem.price[used].max()) or 1.0
    return np.where(unknown, 0.0, problem.price) + NODE_COST * top


def _parts(most: int) -> list[int]:
    """Return numbers of which sums make every number up to `most`."""
    parts, size = [], 1
    while size <= most:
        parts.append(size)
        most -= size
        size *= 2
    return [*parts, most] if most else parts


def _plan(problem: Problem, room: Int64, batches: list[_KnapsackItem], count: int) -> Plan:
    """Return the plan: nodes as full as possible, the last one of the last group with the rest."""
    nodes, left = np.zeros(len(room), np.int64), count
    for batch in reversed(batches):
        if batch.takes[left]:
            nodes[batch.group] += batch.node_count
            left = max(left - batch.pods, 0)
    group: list[int] = []
    sizes: list[int] = []
    pods: list[int] = []
    left = count
    for of in np.flatnonzero(nodes).tolist():
        full = min(int(nodes[of]), left // int(room[of]))
        rest = min(left - full * int(room[of]), int(room[of])) if full < nodes[of] else 0
        for number, held in ((full, int(room[of])), (1 if rest else 0, rest)):
            if number:
                group.append(of)
                sizes.append(number)
                pods.append(held)
                left -= number * held
    price = sum(float(problem.price[of]) * number for of, number in zip(group, sizes, strict=True))
    return Plan(
        np.array(group, np.int32),
        np.array(sizes, np.int64),
        np.arange(len(group) + 1, dtype=np.int64),
        np.zeros(len(group), np.int32),
        np.array(pods, np.int64),
        np.array([left], np.int64),
        0.0 if np.isnan(price) else price,
    )
