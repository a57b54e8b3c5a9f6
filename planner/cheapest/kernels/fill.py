"""Fill one node of a group with pods worth as much as possible: a greedy knapsack, tried with several weightings.

The worth of a pod is the `value` of its class; its size is a weighted sum of its shares of the node. Each step takes
the class with the highest worth per size. Weightings: the less of a resource is left, the larger its weight (0), in
which case only half of the large pods that fit are placed before weights are recomputed; all weigh the same (1); or one
weighs most (2 … R + 1). Source: greedy heuristics of multidimensional knapsacks (Puchinger et al. 2010; Panigrahy et
al. 2011).
"""

from typing import NamedTuple

from trimtab.planner.compiled.by_reference import by_reference
from trimtab.planner.compiled.decorators import inlined_kernel, inner_kernel, kernel, widened
from trimtab.planner.model.tuning import EXCHANGE_ROUNDS, HEAVY_WEIGHT, LARGE_SHARE, TOLERANCE
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64

FILLS_TRIED = 1
"""In FillState.numbers: how often pods were put into a node, a measure of work."""


@by_reference()
class FillState(NamedTuple):
    """The problem, what is still to be planned, and the node being filled.

    demand, capacity, per_node, zone : as in `Problem`; allowed : bool[G, C]; cost : float64[G] > 0 of a node; pods :
    int64[C] still to be planned; nodes : int64[G] that may still be added; zone_pods : int64[C, Z] pods that may still
    be planned in a zone; free : int64[R], weight : float64[R], fill : int64[C] of the current node; open : int32[C]
    classes of which it may take more; best : int64[C] the best fill found; considered : int32[C] classes with pods to
    plan, ascending: fill and best are zero for all others; numbers : int64[2] how many are considered, FILLS_TRIED
    """

    demand: Int64
    capacity: Int64
    allowed: Bool
    per_node: Int64
    zone: Int32
    cost: Float64
    pods: Int64
    nodes: Int64
    zone_pods: Int64
    free: Int64
    weight: Float64
    fill: Int64
    open: Int32
    best: Int64
    considered: Int32
    numbers: Int64


@kernel
def consider_remaining(state: FillState) -> None:
    """Restrict the considered classes to those with pods left."""
    count = 0
    for of_class in range(len(state.pods)):
        state.fill[of_class] = 0
        state.best[of_class] = 0
        if state.pods[of_class] > 0:
            state.considered[count] = of_class
            count += 1
    state.numbers[0] = count


@inlined_kernel
def pods_allowed(state: FillState, group: int, of_class: int) -> int:
    """Return how many more pods of a class the current node may have, regardless of its room."""
    allowed = min(state.pods[of_class], state.per_node[of_class])
    zone = state.zone[group]
    if zone >= 0:
        allowed = min(allowed, state.zone_pods[of_class, zone])
    return int(allowed - state.fill[of_class])


@inlined_kernel
def one_fits(state: FillState, group: int, of_class: int) -> bool:
    """Return whether the current node takes one more pod of a class."""
    for resource in range(len(state.free)):
        if state.demand[of_class, resource] > state.free[resource]:
            return False
    return bool(pods_allowed(state, group, of_class) > 0)


@inlined_kernel
def pods_that_fit(state: FillState, group: int, of_class: int) -> int:
    """Return how many more pods of a class the current node takes."""
    count = pods_allowed(state, group, of_class)
    for resource in range(len(state.free)):
        takes = state.demand[of_class, resource]
        if takes > 0:
            count = min(count, state.free[resource] // takes)
    return int(count)


@inlined_kernel
def weigh(state: FillState, group: int, weighting: int) -> None:
    """Set the weight of each resource, for one unit of it."""
    for resource in range(len(state.free)):
        of_all = state.capacity[group, resource] if weighting else state.free[resource]
        factor = HEAVY_WEIGHT if weighting == resource + 2 else 1.0
        state.weight[resource] = factor / of_all if of_all > 0 else 0.0


@inlined_kernel
def share(state: FillState, of_class: int) -> float:
    """Return the largest share of a resource's remaining amount that a pod takes, with resources weighted by remaining
    amounts.
    """
    largest = 0.0
    for resource in range(len(state.free)):
        largest = max(largest, state.demand[of_class, resource] * state.weight[resource])
    return largest


@inlined_kernel
def start(state: FillState, group: int) -> None:
    """Start with an empty node of a group."""
    for at in range(state.numbers[0]):
        state.fill[state.considered[at]] = 0
    for resource in range(len(state.free)):
        state.free[resource] = state.capacity[group, resource]


@inlined_kernel
def put_pods(state: FillState, of_class: int, pods: int) -> None:
    """Put pods of a class onto the current node."""
    state.fill[of_class] += pods
    for resource in range(len(state.free)):
        state.free[resource] -= state.demand[of_class, resource] * pods


@inner_kernel
def add_pods(state: FillState, value: Float64, group: int, weighting: int) -> float:
    """Put as many more pods onto the current node as fit; return their worth."""
    resources, count, worth = len(state.free), 0, 0.0
    state.numbers[FILLS_TRIED] += 1
    for at in range(state.numbers[0]):
        of_class = widened(state.considered[at])
        if state.allowed[group, of_class] and one_fits(state, group, of_class):
            state.open[count] = of_class
            count += 1
    weigh(state, group, weighting)
    while count > 0:
        best, best_density, open_count = -1, -1.0, 0
        for at in range(count):
            of_class = widened(state.open[at])
            if not one_fits(state, group, of_class):
                continue
            state.open[open_count] = of_class
            open_count += 1
            takes = TOLERANCE
            for resource in range(resources):
                takes += state.demand[of_class, resource] * state.weight[resource]
            density = value[of_class] / takes
            if density > best_density:
                best, best_density = of_class, density
        count = open_count
        if best < 0:
            break
        pods = pods_that_fit(state, group, best)
        if weighting == 0 and pods > 1 and share(state, best) * pods > LARGE_SHARE:
            pods = (pods + 1) // 2
        put_pods(state, best, pods)
        worth += value[best] * pods
        if weighting == 0:
            weigh(state, group, weighting)
    return worth


@inlined_kernel
def save_best(state: FillState) -> None:
    """Save the current fill as the best."""
    for at in range(state.numbers[0]):
        state.best[state.considered[at]] = state.fill[state.considered[at]]


@inner_kernel
def fill_by(state: FillState, value: Float64, group: int, weighting: int) -> float:
    """Fill an empty node; return the worth of its pods."""
    start(state, group)
    return add_pods(state, value, group, weighting)


@inner_kernel
def without(state: FillState, value: Float64, group: int, out: int) -> float:
    """Fill a node with the best fill minus one pod of a class, plus others instead; return how much more
    it is worth.
    """
    start(state, group)
    for at in range(state.numbers[0]):
        of_class = widened(state.considered[at])
        if state.best[of_class] > 0:
            put_pods(state, of_class, state.best[of_class] - (1 if of_class == out else 0))
    amount = state.pods[out]
    state.pods[out] = state.fill[out]
    worth = add_pods(state, value, group, 0)
    state.pods[out] = amount
    return float(worth + add_pods(state, value, group, 0) - value[out])


@inner_kernel
def refine(state: FillState, value: Float64, group: int, worth: float) -> float:
    """Exchange pods of state.best, of the given worth, for others that are worth more; return its new worth."""
    for _ in range(EXCHANGE_ROUNDS):
        helped = False
        for at in range(state.numbers[0]):
            out = widened(state.considered[at])
            if state.best[out] > 0:
                more = without(state, value, group, out)
                if more > TOLERANCE * worth:
                    save_best(state)
                    worth += more
                    helped = True
        if not helped:
            break
    return worth


@kernel
def fill_node(state: FillState, value: Float64, group: int, weightings: int) -> float:
    """Write the pods of the best of the first `weightings` weightings to state.best : int64[C]; return their worth.

    value : float64[C] >= 0. Ties: the first weighting. O(weightings · steps · C · R).
    """
    best_worth = -1.0
    for weighting in range(weightings):
        worth = fill_by(state, value, group, weighting)
        if worth > best_worth:
            best_worth = worth
            save_best(state)
    return best_worth
