"""Replace limits on pods by zone with classes for one zone each, if the limits leave no choice.

If the limits of a class do not add up to more than its pods, as with an even spread, every zone gets as many as it may
have. Then no loop has to count pods by zone, and the linear programme includes zones.
"""

import numpy as np

from trimtab.planner.cheapest.problem import NO_ZONE, Problem
from trimtab.planner.snapshot.columns import Bool, Int64


def split_by_zone(problem: Problem) -> tuple[Problem, Int64]:
    """Return the problem with classes split, and the original class of each of its classes. int64[C']."""
    zones, classes = problem.zone_most.shape[1], np.arange(len(problem.pods))
    if not zones:
        return problem._replace(zone=np.full_like(problem.zone, NO_ZONE)), classes
    limits = np.minimum(problem.zone_most, problem.pods[:, None])
    limits = np.where(_has_groups(problem, zones), limits, 0)
    outside = problem.allowed[:, problem.zone < 0].any(axis=1)
    bound = (limits < problem.pods[:, None]).any(axis=1) & ~outside & (limits.sum(axis=1) <= problem.pods)
    parts = np.nonzero((limits > 0) & bound[:, None])
    of_class = np.concatenate([classes[~bound], parts[0]])
    zone = np.concatenate([np.full(int((~bound).sum()), NO_ZONE), parts[1]])
    # In the order of classes, which is canonical.
    order = np.lexsort((zone, of_class))
    of_class, zone = of_class[order], zone[order]
    apart = zone >= 0
    unlimited = np.where(apart[:, None], problem.pods[of_class][:, None], problem.zone_most[of_class])
    split = problem._replace(
        demand=problem.demand[of_class],
        pods=np.where(apart, limits[of_class, zone], problem.pods[of_class]),
        allowed=problem.allowed[of_class] & (~apart[:, None] | (problem.zone == zone[:, None])),
        per_node=problem.per_node[of_class],
        zone_most=np.ascontiguousarray(unlimited),
    )
    return _without_zones(split), of_class


def _has_groups(problem: Problem, zones: int) -> Bool:
    """Return whether any group in a zone takes a class. bool[C, Z]."""
    return np.stack([problem.allowed[:, problem.zone == zone].any(axis=1) for zone in range(zones)], axis=1)


def _without_zones(problem: Problem) -> Problem:
    """Return the problem without zones if they limit nothing any more."""
    if (problem.zone_most < problem.pods[:, None]).any():
        return problem
    nothing = np.zeros((len(problem.pods), 0), np.int64)
    return problem._replace(zone=np.full_like(problem.zone, NO_ZONE), zone_most=nothing)
