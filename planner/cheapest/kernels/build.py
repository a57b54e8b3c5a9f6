"""Plan nodes one after the other, each time for the group whose fill has the highest worth for its price.

As thousands of pods belong to few classes, a fill is repeated as often as pods and limits allow: a batch. The worth of
a group's node only decreases as the number of pods does, so a group is filled again only if its last fill is the best,
and planned if it still is, approximately. Source: greedy set covering, with lazy evaluation (Minoux 1978).
"""

from typing import NamedTuple

from trimtab.planner.cheapest.kernels.fill import FillState, consider_remaining, fill_node
from trimtab.planner.compiled.by_reference import by_reference
from trimtab.planner.compiled.decorators import inner_kernel, kernel, widened
from trimtab.planner.model.tuning import CLOSE_TO_BEST
from trimtab.planner.snapshot.columns import Float64, Int32, Int64

ALL = 1 << 40
"""A number of nodes that is never reached."""


@by_reference()
class Batches(NamedTuple):
    """Nodes planned, in the order of planning; counts[0] batches, counts[1] entries.

    group : int32[B]; nodes : int64[B]; offsets : int64[B+1]; classes : int32[E]; pods : int64[E]; counts : int64[2].
    Capacity for as many batches and entries as there are pods always suffices.
    """

    group: Int32
    nodes: Int64
    offsets: Int64
    classes: Int32
    pods: Int64
    counts: Int64


@kernel
def build(
    state: FillState,
    value: Float64,
    groups: Int32,
    ratio: Float64,
    weightings: int,
    batches: Batches,
) -> None:
    """Append batches until no group in `groups` : int32[H] takes any more pods; remaining is lowered.

    value : float64[C] >= 0; ratio : float64[H] scratch. Ties: the group named first. Cost: batches times that of
    filling a few nodes, plus one fill for each group.
    """
    consider_remaining(state)
    for at in range(len(groups)):
        ratio[at] = worth_for_price(state, value, widened(groups[at]), weightings)
    while True:
        at = first_best(ratio, -1)
        if at < 0:
            return
        group = widened(groups[at])
        ratio[at] = worth_for_price(state, value, group, weightings)
        rival = first_best(ratio, at)
        if ratio[at] >= 0.0 and (rival < 0 or ratio[at] >= CLOSE_TO_BEST * ratio[rival]):
            append_nodes(state, groups, group, ALL, batches)
            consider_remaining(state)


@inner_kernel
def worth_for_price(state: FillState, value: Float64, group: int, weightings: int) -> float:
    """Fill a node of the group; return its worth for its price, -1 if no pod fits."""
    if state.nodes[group] <= 0:
        return -1.0
    worth = fill_node(state, value, group, weightings)
    for at in range(state.numbers[0]):
        if state.best[state.considered[at]] > 0:
            return float(worth / state.cost[group])
    return -1.0


@inner_kernel
def first_best(ratio: Float64, but: int) -> int:
    """Return the first position with the largest ratio >= 0, excluding one; -1 = there is none."""
    best = -1
    for at in range(len(ratio)):
        if at != but and ratio[at] >= 0.0 and (best < 0 or ratio[at] > ratio[best]):
            best = at
    return best


@inner_kernel
def holds(state: FillState, group: int) -> bool:
    """Return whether a node of a group can take the pods in state.best."""
    zone = state.zone[group]
    for resource in range(len(state.free)):
        state.free[resource] = state.capacity[group, resource]
    for at in range(state.numbers[0]):
        of_class = widened(state.considered[at])
        pods = state.best[of_class]
        if pods > 0:
            if not state.allowed[group, of_class] or (zone >= 0 and state.zone_pods[of_class, zone] < pods):
                return False
            for resource in range(len(state.free)):
                state.free[resource] -= state.demand[of_class, resource] * pods
                if state.free[resource] < 0:
                    return False
    return True


@inner_kernel
def cheapest_holder(state: FillState, groups: Int32, group: int) -> int:
    """Return the cheapest group, the given one or one in `groups`, whose nodes can take the pods in state.best."""
    cheapest = group
    for at in range(len(groups)):
        other = widened(groups[at])
        if state.cost[other] < state.cost[cheapest] and state.nodes[other] > 0 and holds(state, other):
            cheapest = other
    return int(cheapest)


@inner_kernel
def append_nodes(state: FillState, groups: Int32, group: int, limit: int, batches: Batches) -> None:
    """Append as many nodes, up to `limit`, as can be filled like state.best; lower remaining.

    They belong to the group, or to a cheaper one in `groups` : int32[H] that holds as much.
    """
    group = cheapest_holder(state, groups, group)
    zone, nodes = state.zone[group], min(state.nodes[group], limit)
    for at in range(state.numbers[0]):
        of_class = widened(state.considered[at])
        pods = state.best[of_class]
        if pods > 0:
            nodes = min(nodes, state.pods[of_class] // pods)
            if zone >= 0:
                nodes = min(nodes, state.zone_pods[of_class, zone] // pods)
    batch, entry = batches.counts[0], batches.counts[1]
    for at in range(state.numbers[0]):
        of_class = widened(state.considered[at])
        pods = state.best[of_class]
        if pods > 0 and nodes > 0:
            batches.classes[entry] = of_class
            batches.pods[entry] = pods
            entry += 1
            state.pods[of_class] -= pods * nodes
            if zone >= 0:
                state.zone_pods[of_class, zone] -= pods * nodes
    if entry > batches.counts[1]:
        state.nodes[group] -= nodes
        batches.group[batch] = group
        batches.nodes[batch] = nodes
        batches.offsets[batch + 1] = entry
        batches.counts[0] = batch + 1
        batches.counts[1] = entry
