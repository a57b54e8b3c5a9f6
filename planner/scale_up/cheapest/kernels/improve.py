"""Repeatedly take a few nodes out of a plan and plan their pods again, if that is cheaper.

Nodes are chosen with a fixed pseudo-random sequence, of each two the one with less worth for its price. The worth of
pods and, in half of the tries, the cost of nodes are varied with the same sequence, which leads to other fills and
groups. Source: ruin and recreate (Schrimpf et al. 2000), accepting plans that are not more expensive.
"""

from typing import NamedTuple

from trimtab.planner.model.by_reference import by_reference
from trimtab.planner.model.jit import inlined_kernel, inner_kernel, kernel, widened
from trimtab.planner.scale_up.cheapest.kernels.build import Batches, build
from trimtab.planner.scale_up.cheapest.kernels.fill import POURS, Bench, Rest, Shapes
from trimtab.planner.scale_up.cheapest.kernels.generate import Watch
from trimtab.planner.scale_up.cheapest.problem import Float64
from trimtab.planner.snapshot.columns import Int32, Int64

FEW, MANY = 2, 7
"""Number of nodes taken out at once: minimum, and exclusive maximum."""
STIR = 0.5
"""Largest share by which the worth of a class's pods, and the cost of a group's node, are varied."""
SAME = 1e-12


@by_reference()
class Trial(NamedTuple):
    """Scratch.

    value : float64[C]; cost, ratio : float64[H]; taken : int64[MANY] batches from which a node was taken; number :
    int64[2] last of the sequence, and how many tries are left
    """

    value: Float64
    cost: Float64
    ratio: Float64
    taken: Int64
    number: Int64


@inlined_kernel
def next_number(trial: Trial, below: int) -> int:
    """Return the next number of the sequence, 0 … below - 1. Source: Park and Miller 1988."""
    trial.number[0] = trial.number[0] * 48271 % 2147483647
    return int(trial.number[0] % below)


@inner_kernel
def worth_less(shapes: Shapes, watch: Watch, made: Batches, first: int, second: int) -> int:
    """Return which of two batches has nodes worth less for their price, the first of equals."""
    found, ratio = first, 0.0
    for turn in range(2):
        batch = first if turn == 0 else second
        worth = 0.0
        for at in range(made.offsets[batch], made.offsets[batch + 1]):
            worth += watch.value[made.classes[at]] * made.pods[at]
        its = worth / shapes.cost[made.group[batch]]
        if turn == 0 or its < ratio:
            found, ratio = batch, its
    return found


@inner_kernel
def move_node(shapes: Shapes, rest: Rest, made: Batches, batch: int, by: int) -> None:
    """Take out a node of a batch (by = -1), leaving its pods to be planned again, or put it back (1)."""
    group = widened(made.group[batch])
    zone = shapes.zone[group]
    made.nodes[batch] += by
    rest.nodes[group] -= by
    for at in range(made.offsets[batch], made.offsets[batch + 1]):
        rest.pods[made.classes[at]] -= by * made.pods[at]
        if zone >= 0:
            rest.zone_pods[made.classes[at], zone] -= by * made.pods[at]


@inner_kernel
def take_out(shapes: Shapes, rest: Rest, watch: Watch, trial: Trial, made: Batches) -> float:
    """Take out some nodes; return their cost. trial.taken names their batches, ended by -1."""
    count, cost = FEW + next_number(trial, MANY - FEW), 0.0
    for turn in range(MANY):
        trial.taken[turn] = -1
    for turn in range(count):
        first = next_number(trial, int(made.counts[0]))
        second = next_number(trial, int(made.counts[0]))
        batch = worth_less(shapes, watch, made, first, second)
        if made.nodes[batch] == 0:
            batch = first if made.nodes[first] > 0 else second
        if made.nodes[batch] > 0:
            move_node(shapes, rest, made, batch, -1)
            trial.taken[turn] = batch
            cost += shapes.cost[made.group[batch]]
    return cost


@inner_kernel
def undo(shapes: Shapes, rest: Rest, trial: Trial, made: Batches, before: int) -> None:
    """Discard the batches planned since, and put back the nodes taken out."""
    for batch in range(before, made.counts[0]):
        while made.nodes[batch] > 0:
            move_node(shapes, rest, made, batch, -1)
    made.counts[0] = before
    made.counts[1] = made.offsets[before]
    for turn in range(MANY):
        if trial.taken[turn] >= 0:
            move_node(shapes, rest, made, widened(trial.taken[turn]), 1)


@inner_kernel
def plan_again(
    shapes: Shapes, rest: Rest, bench: Bench, watch: Watch, groups: Int32, trial: Trial, made: Batches
) -> None:
    """Plan the pods left, with varied worth and, in half of the tries, varied costs; costs are restored afterwards."""
    for of_class in range(len(rest.pods)):
        by = next_number(trial, 1000) / 1000.0
        trial.value[of_class] = watch.value[of_class] * (1.0 + STIR * by)
    stirred = next_number(trial, 2) == 1
    for at in range(len(groups)):
        trial.cost[at] = shapes.cost[groups[at]]
        if stirred:
            shapes.cost[groups[at]] *= 1.0 + STIR * (next_number(trial, 1000) / 1000.0)
    build(shapes, rest, trial.value, bench, groups, trial.ratio, 1 + next_number(trial, 2), made)
    for at in range(len(groups)):
        shapes.cost[groups[at]] = trial.cost[at]


@kernel
def improve(
    shapes: Shapes, rest: Rest, bench: Bench, watch: Watch, groups: Int32, trial: Trial, pours: int, made: Batches
) -> int:
    """Make the plan in `made` cheaper until about the given number of nodes have been filled; return how many tries
    succeeded.

    At most the number of tries in trial.number is made, and subtracted from it. groups : int32[H] to which nodes may
    belong. Batches may end up without nodes. Ends early if made is full. rest.pods : zero.
    """
    better, until = 0, bench.numbers[POURS] + pours
    while bench.numbers[POURS] < until and trial.number[1] > 0:
        trial.number[1] -= 1
        before = made.counts[0]
        if before == 0 or made.counts[1] + len(made.pods) // 2 > len(made.pods):
            return better
        cost = take_out(shapes, rest, watch, trial, made)
        plan_again(shapes, rest, bench, watch, groups, trial, made)
        left = 0
        for of_class in range(len(rest.pods)):
            left += rest.pods[of_class]
        for batch in range(before, made.counts[0]):
            cost -= made.nodes[batch] * shapes.cost[made.group[batch]]
        if left > 0 or cost < -SAME:
            undo(shapes, rest, trial, made, widened(before))
        elif cost > SAME:
            better += 1
    return better
