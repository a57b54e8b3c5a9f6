"""Fill one node of a group with pods worth as much as possible: a greedy knapsack, tried in several ways.

A pod is worth `value` of its class, and takes a weighted sum of its shares of the node. In each step the class comes
next that is worth most for what it takes. Ways: all resources weigh the same (0), one weighs most (1 … R), or each
weighs the more, the less of it is left (R + 1), in which case only half of the pods that fit are put before weights are
taken anew. Source: greedy heuristics of multidimensional knapsacks (Puchinger et al. 2010; Panigrahy et al. 2011).
"""

from typing import NamedTuple

from planner.model.jit import inner_kernel, kernel
from planner.scale_up.cheapest.problem import Float64
from planner.snapshot.columns import Bool, Int32, Int64

HEAVY = 8.0
"""Weight of the one resource that weighs most, beside 1 of the others."""
NOTHING = 1e-12
"""Added to what a pod takes, which may be nothing."""


class Shapes(NamedTuple):
    """What does not change while nodes are planned.

    demand : int64[C, R]; capacity : int64[G, R]; allowed : bool[G, C]; per_node : int64[C]; zone : int32[G];
    cost : float64[G] > 0
    """

    demand: Int64
    capacity: Int64
    allowed: Bool
    per_node: Int64
    zone: Int32
    cost: Float64


class Rest(NamedTuple):
    """What is still to be planned, and within what. pods : int64[C]; nodes : int64[G]; zone_pods : int64[C, Z]."""

    pods: Int64
    nodes: Int64
    zone_pods: Int64


class Bench(NamedTuple):
    """Scratch. free : int64[R]; weight : float64[R]; open : int32[C]; fill, best : int64[C]."""

    free: Int64
    weight: Float64
    open: Int32
    fill: Int64
    best: Int64


@inner_kernel
def wanted(shapes: Shapes, rest: Rest, bench: Bench, group: int, of_class: int) -> int:
    """Return how many more pods of a class the node under way may have, whatever its room."""
    most = min(rest.pods[of_class], shapes.per_node[of_class])
    zone = shapes.zone[group]
    if zone >= 0:
        most = min(most, rest.zone_pods[of_class, zone])
    return int(most - bench.fill[of_class])


@inner_kernel
def takes_one(shapes: Shapes, rest: Rest, bench: Bench, group: int, of_class: int) -> bool:
    """Say whether the node under way takes one more pod of a class."""
    for resource in range(len(bench.free)):
        if shapes.demand[of_class, resource] > bench.free[resource]:
            return False
    return bool(wanted(shapes, rest, bench, group, of_class) > 0)


@inner_kernel
def room(shapes: Shapes, rest: Rest, bench: Bench, group: int, of_class: int) -> int:
    """Return how many more pods of a class the node under way takes."""
    most = wanted(shapes, rest, bench, group, of_class)
    for resource in range(len(bench.free)):
        takes = shapes.demand[of_class, resource]
        if takes > 0:
            most = min(most, bench.free[resource] // takes)
    return int(most)


@inner_kernel
def weigh(shapes: Shapes, bench: Bench, group: int, way: int) -> None:
    """Set the weight of each resource, for one unit of it."""
    resources = len(bench.free)
    for resource in range(resources):
        of_all = bench.free[resource] if way > resources else shapes.capacity[group, resource]
        factor = HEAVY if way == resource + 1 else 1.0
        bench.weight[resource] = factor / of_all if of_all > 0 else 0.0


@inner_kernel
def fill_one_way(shapes: Shapes, rest: Rest, value: Float64, bench: Bench, group: int, way: int) -> float:
    """Fill bench.fill with pods for a node of the group; return what they are worth."""
    resources, count, worth = len(bench.free), 0, 0.0
    for of_class in range(len(rest.pods)):
        bench.fill[of_class] = 0
    for resource in range(resources):
        bench.free[resource] = shapes.capacity[group, resource]
    for of_class in range(len(rest.pods)):
        if shapes.allowed[group, of_class] and takes_one(shapes, rest, bench, group, of_class):
            bench.open[count] = of_class
            count += 1
    weigh(shapes, bench, group, way)
    while count > 0:
        best, best_density, kept = -1, -1.0, 0
        for at in range(count):
            of_class = int(bench.open[at])
            if not takes_one(shapes, rest, bench, group, of_class):
                continue
            bench.open[kept] = of_class
            kept += 1
            takes = NOTHING
            for resource in range(resources):
                takes += shapes.demand[of_class, resource] * bench.weight[resource]
            density = value[of_class] / takes
            if density > best_density:
                best, best_density = of_class, density
        count = kept
        if best < 0:
            break
        pods = room(shapes, rest, bench, group, best)
        if way > resources:
            pods = (pods + 1) // 2
        bench.fill[best] += pods
        worth += value[best] * pods
        for resource in range(resources):
            bench.free[resource] -= shapes.demand[best, resource] * pods
        if way > resources:
            weigh(shapes, bench, group, way)
    return worth


@kernel
def fill_node(shapes: Shapes, rest: Rest, value: Float64, bench: Bench, group: int, ways: int) -> float:
    """Leave the pods of the best of the last `ways` ways in bench.best : int64[C]; return what they are worth.

    value : float64[C] >= 0. The last way is tried first, and wins ties. O(ways · steps · C · R).
    """
    best_worth = -1.0
    for back in range(ways):
        worth = fill_one_way(shapes, rest, value, bench, group, len(bench.free) + 1 - back)
        if worth > best_worth:
            best_worth = worth
            for of_class in range(len(rest.pods)):
                bench.best[of_class] = bench.fill[of_class]
    return best_worth
