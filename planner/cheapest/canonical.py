"""Bring a problem into an order that does not depend on the numbering of its classes and groups.

Classes and groups are sorted by their own numbers, then by those of the groups or classes they are allowed with, in a
few rounds, like colour refinement of a graph. Those that stay equal are interchangeable, or differ too little to affect
the price.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.cheapest.problem import Problem
from trimtab.planner.snapshot.columns import Int64

ROUNDS: Final = 2
"""Rounds of refinement; one distinguishes entries that differ in their own numbers or in those of their partners."""
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_MIXER: Final = np.uint64(0xBF58476D1CE4E5B9)


def canonical_order(problem: Problem) -> tuple[Int64, Int64]:
    """Return the classes and the groups in canonical order. int64[C], int64[G]."""
    classes = _ranks(problem.demand, problem.pods, problem.per_node, np.sort(problem.zone_most, axis=1))
    groups = _ranks(np.nan_to_num(problem.price, nan=-1.0), problem.capacity, problem.most)
    for _ in range(ROUNDS):
        seen_by_class = _sums(problem.allowed, _mixed(groups))
        seen_by_group = _sums(problem.allowed.T, _mixed(classes))
        in_zones = _in_zones(problem, classes)
        classes, groups = _ranks(classes, seen_by_class), _ranks(groups, seen_by_group, in_zones)
    return np.argsort(classes, kind="stable"), np.argsort(groups, kind="stable")


def _ranks(*columns: NDArray[Any]) -> Int64:
    """Return the rank of each row among all rows, equal rows having equal ranks. int64[rows]."""
    flat = [column for one in columns for column in (one.T if one.ndim > 1 else [one])]
    order = np.lexsort(flat[::-1])
    rises = np.zeros(len(order), bool)
    for column in flat:
        rises[1:] |= column[order][1:] != column[order][:-1]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(rises)
    return ranks


def _mixed(ranks: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a number for each rank, such that sums of these numbers almost never collide."""
    spread = (ranks.astype(np.uint64) + np.uint64(1)) * _MULTIPLIER
    spread = (spread ^ (spread >> np.uint64(30))) * _MIXER
    return spread ^ (spread >> np.uint64(27))


def _sums(related: NDArray[np.bool_], numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return for each row the sum of the numbers of its related entries, with overflow."""
    total: NDArray[np.uint64] = np.where(related, numbers, np.uint64(0)).sum(axis=1, dtype=np.uint64)
    return total


def _in_zones(problem: Problem, classes: Int64) -> NDArray[np.uint64]:
    """Return for each group a number that depends on how many pods of which classes may be planned in its zone.
    uint64[G].
    """
    zones = _mixed(problem.zone_most.T.astype(np.uint64) * _mixed(classes)).sum(axis=1, dtype=np.uint64)
    return np.append(zones, np.uint64(0))[problem.zone]
