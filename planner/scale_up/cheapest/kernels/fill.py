"""Fill one node of a group with pods worth as much as possible: a greedy knapsack, tried in several ways.

The worth of a pod is the `value` of its class; its size is a weighted sum of its shares of the node. Each step takes
the class with the highest worth per size. Ways: the less of a resource is left, the larger its weight (0), in which
case only half of the large pods that fit are placed before weights are recomputed; all weigh the same (1); or one
weighs most (2 … R + 1). Source: greedy heuristics of multidimensional knapsacks (Puchinger et al. 2010; Panigrahy et
al. 2011).
"""

from typing import NamedTuple

from trimtab.planner.model.by_reference import by_reference
from trimtab.planner.model.jit import inlined_kernel, inner_kernel, kernel, widened
from trimtab.planner.scale_up.cheapest.problem import Float64
from trimtab.planner.snapshot.columns import Bool, Int32, Int64

LARGE = 0.25
"""Share of the remaining amount beyond which placed pods change the weights."""
HEAVY = 8.0
"""Weight of the resource that weighs most; the others have 1."""
EXCHANGES = 4
"""Rounds of exchanges of pods."""
SLIGHT = 1e-9
"""Share of a fill's worth by which an exchange has to improve it."""
NOTHING = 1e-12
"""Added to the size of a pod, which may be 0."""


POURS = 1
"""In Bench.numbers: how often pods were put into a node, a measure of work."""


@by_reference()
class Shapes(NamedTuple):
    """Data that do not change while nodes are planned.

    demand : int64[C, R]; capacity : int64[G, R]; allowed : bool[G, C]; per_node : int64[C]; zone : int32[G];
    cost : float64[G] > 0
    """

    demand: Int64
    capacity: Int64
    allowed: Bool
    per_node: Int64
    zone: Int32
    cost: Float64


@by_reference()
class Rest(NamedTuple):
    """Pods still to be planned, and the remaining limits. pods : int64[C]; nodes : int64[G]; zone_pods :
    int64[C, Z].
    """

    pods: Int64
    nodes: Int64
    zone_pods: Int64


@by_reference()
class Bench(NamedTuple):
    """Scratch: the current node and the best one found.

    free : int64[R], weight : float64[R], fill : int64[C] of the current node; open : int32[C] classes of which it may
    take more; best : int64[C] fill; live : int32[C] classes considered, ascending: fill and best are zero for all
    others; numbers : int64[2] how many are live, POURS
    """

    free: Int64
    weight: Float64
    fill: Int64
    open: Int32
    best: Int64
    live: Int32
    numbers: Int64


@kernel
def look_at_left(rest: Rest, bench: Bench) -> None:
    """Restrict the considered classes to those with pods left."""
    count = 0
    for of_class in range(len(rest.pods)):
        bench.fill[of_class] = 0
        bench.best[of_class] = 0
        if rest.pods[of_class] > 0:
            bench.live[count] = of_class
            count += 1
    bench.numbers[0] = count


@inlined_kernel
def wanted(shapes: Shapes, rest: Rest, bench: Bench, group: int, of_class: int) -> int:
    """Return how many more pods of a class the current node may have, regardless of its room."""
    most = min(rest.pods[of_class], shapes.per_node[of_class])
    zone = shapes.zone[group]
    if zone >= 0:
        most = min(most, rest.zone_pods[of_class, zone])
    return int(most - bench.fill[of_class])


@inlined_kernel
def takes_one(shapes: Shapes, rest: Rest, bench: Bench, group: int, of_class: int) -> bool:
    """Return whether the current node takes one more pod of a class."""
    for resource in range(len(bench.free)):
        if shapes.demand[of_class, resource] > bench.free[resource]:
            return False
    return bool(wanted(shapes, rest, bench, group, of_class) > 0)


@inlined_kernel
def room(shapes: Shapes, rest: Rest, bench: Bench, group: int, of_class: int) -> int:
    """Return how many more pods of a class the current node takes."""
    most = wanted(shapes, rest, bench, group, of_class)
    for resource in range(len(bench.free)):
        takes = shapes.demand[of_class, resource]
        if takes > 0:
            most = min(most, bench.free[resource] // takes)
    return int(most)


@inlined_kernel
def weigh(shapes: Shapes, bench: Bench, group: int, way: int) -> None:
    """Set the weight of each resource, for one unit of it."""
    for resource in range(len(bench.free)):
        of_all = shapes.capacity[group, resource] if way else bench.free[resource]
        factor = HEAVY if way == resource + 2 else 1.0
        bench.weight[resource] = factor / of_all if of_all > 0 else 0.0


@inlined_kernel
def share(shapes: Shapes, bench: Bench, of_class: int) -> float:
    """Return the largest share of a resource's remaining amount that a pod takes, with resources weighted by remaining
    amounts.
    """
    largest = 0.0
    for resource in range(len(bench.free)):
        largest = max(largest, shapes.demand[of_class, resource] * bench.weight[resource])
    return largest


@inlined_kernel
def start(shapes: Shapes, bench: Bench, group: int) -> None:
    """Start with an empty node of a group."""
    for at in range(bench.numbers[0]):
        bench.fill[bench.live[at]] = 0
    for resource in range(len(bench.free)):
        bench.free[resource] = shapes.capacity[group, resource]


@inlined_kernel
def put(shapes: Shapes, bench: Bench, of_class: int, pods: int) -> None:
    """Put pods of a class onto the current node."""
    bench.fill[of_class] += pods
    for resource in range(len(bench.free)):
        bench.free[resource] -= shapes.demand[of_class, resource] * pods


@inner_kernel
def pour(shapes: Shapes, rest: Rest, value: Float64, bench: Bench, group: int, way: int) -> float:
    """Put as many more pods onto the current node as fit; return their worth."""
    resources, count, worth = len(bench.free), 0, 0.0
    bench.numbers[POURS] += 1
    for at in range(bench.numbers[0]):
        of_class = widened(bench.live[at])
        if shapes.allowed[group, of_class] and takes_one(shapes, rest, bench, group, of_class):
            bench.open[count] = of_class
            count += 1
    weigh(shapes, bench, group, way)
    while count > 0:
        best, best_density, kept = -1, -1.0, 0
        for at in range(count):
            of_class = widened(bench.open[at])
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
        if way == 0 and pods > 1 and share(shapes, bench, best) * pods > LARGE:
            pods = (pods + 1) // 2
        put(shapes, bench, best, pods)
        worth += value[best] * pods
        if way == 0:
            weigh(shapes, bench, group, way)
    return worth


@inlined_kernel
def keep(bench: Bench) -> None:
    """Save the current fill as the best."""
    for at in range(bench.numbers[0]):
        bench.best[bench.live[at]] = bench.fill[bench.live[at]]


@inner_kernel
def fill_one_way(shapes: Shapes, rest: Rest, value: Float64, bench: Bench, group: int, way: int) -> float:
    """Fill an empty node; return the worth of its pods."""
    start(shapes, bench, group)
    return pour(shapes, rest, value, bench, group, way)


@inner_kernel
def without(shapes: Shapes, rest: Rest, value: Float64, bench: Bench, group: int, out: int) -> float:
    """Fill a node with the best fill minus one pod of a class, plus others instead; return how much more
    it is worth.
    """
    start(shapes, bench, group)
    for at in range(bench.numbers[0]):
        of_class = widened(bench.live[at])
        if bench.best[of_class] > 0:
            put(shapes, bench, of_class, bench.best[of_class] - (1 if of_class == out else 0))
    left = rest.pods[out]
    rest.pods[out] = bench.fill[out]
    worth = pour(shapes, rest, value, bench, group, 0)
    rest.pods[out] = left
    return float(worth + pour(shapes, rest, value, bench, group, 0) - value[out])


@inner_kernel
def refine(shapes: Shapes, rest: Rest, value: Float64, bench: Bench, group: int, worth: float) -> float:
    """Exchange pods of bench.best, of the given worth, for others that are worth more; return its new worth."""
    for _ in range(EXCHANGES):
        helped = False
        for at in range(bench.numbers[0]):
            out = widened(bench.live[at])
            if bench.best[out] > 0:
                more = without(shapes, rest, value, bench, group, out)
                if more > SLIGHT * worth:
                    keep(bench)
                    worth += more
                    helped = True
        if not helped:
            break
    return worth


@kernel
def fill_node(shapes: Shapes, rest: Rest, value: Float64, bench: Bench, group: int, ways: int) -> float:
    """Write the pods of the best of the first `ways` ways to bench.best : int64[C]; return their worth.

    value : float64[C] >= 0. Ties: the first way. O(ways · steps · C · R).
    """
    best_worth = -1.0
    for way in range(ways):
        worth = fill_one_way(shapes, rest, value, bench, group, way)
        if worth > best_worth:
            best_worth = worth
            keep(bench)
    return best_worth
