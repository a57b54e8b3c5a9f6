"""Repeatedly take a few nodes out of a plan and plan their pods again, if that is cheaper.

Nodes are chosen with a fixed pseudo-random sequence, of each two the one with less worth for its price. The worth of
pods and, in half of the tries, the cost of nodes are varied with the same sequence, which leads to other fills and
groups. Source: ruin and recreate (Schrimpf et al. 2000), accepting plans that are not more expensive.
"""

from typing import NamedTuple

from trimtab.planner.cheapest.kernels.build import Batches, build
from trimtab.planner.cheapest.kernels.fill import FILLS_TRIED, FillState
from trimtab.planner.cheapest.kernels.generate import PricingState
from trimtab.planner.compiled.by_reference import by_reference
from trimtab.planner.compiled.decorators import inlined_kernel, inner_kernel, kernel, widened
from trimtab.planner.model.tuning import FEWEST_TAKEN, MOST_TAKEN, STIR, TOLERANCE
from trimtab.planner.snapshot.columns import Float64, Int32, Int64


@by_reference()
class RuinRecreateScratch(NamedTuple):
    """Scratch.

    value : float64[C]; cost, ratio : float64[H]; batches_out : int64[MOST_TAKEN] batches from which a node was taken;
    number : int64[2] last of the sequence, and how many tries are left
    """

    value: Float64
    cost: Float64
    ratio: Float64
    batches_out: Int64
    number: Int64


@inlined_kernel
def next_number(ruin: RuinRecreateScratch, below: int) -> int:
    """Return the next number of the sequence, 0 … below - 1. Source: Park and Miller 1988."""
    ruin.number[0] = ruin.number[0] * 48271 % 2147483647
    return int(ruin.number[0] % below)


@inner_kernel
def worth_less(state: FillState, pricing: PricingState, batches: Batches, first: int, second: int) -> int:
    """Return which of two batches has nodes worth less for their price, the first of equals."""
    worst, ratio = first, 0.0
    for number in range(2):
        batch = first if number == 0 else second
        worth = 0.0
        for at in range(batches.offsets[batch], batches.offsets[batch + 1]):
            worth += pricing.value[batches.classes[at]] * batches.pods[at]
        its = worth / state.cost[batches.group[batch]]
        if number == 0 or its < ratio:
            worst, ratio = batch, its
    return worst


@inner_kernel
def move_node(state: FillState, batches: Batches, batch: int, by: int) -> None:
    """Take out a node of a batch (by = -1), leaving its pods to be planned again, or put it back (1)."""
    group = widened(batches.group[batch])
    zone = state.zone[group]
    batches.nodes[batch] += by
    state.nodes[group] -= by
    for at in range(batches.offsets[batch], batches.offsets[batch + 1]):
        state.pods[batches.classes[at]] -= by * batches.pods[at]
        if zone >= 0:
            state.zone_pods[batches.classes[at], zone] -= by * batches.pods[at]


@inner_kernel
def take_out(state: FillState, pricing: PricingState, ruin: RuinRecreateScratch, batches: Batches) -> float:
    """Take out some nodes; return their cost. trial.batches_out names their batches, ended by -1."""
    count, cost = FEWEST_TAKEN + next_number(ruin, MOST_TAKEN - FEWEST_TAKEN), 0.0
    for number in range(MOST_TAKEN):
        ruin.batches_out[number] = -1
    for number in range(count):
        first = next_number(ruin, int(batches.counts[0]))
        second = next_number(ruin, int(batches.counts[0]))
        batch = worth_less(state, pricing, batches, first, second)
        if batches.nodes[batch] == 0:
            batch = first if batches.nodes[first] > 0 else second
        if batches.nodes[batch] > 0:
            move_node(state, batches, batch, -1)
            ruin.batches_out[number] = batch
            cost += state.cost[batches.group[batch]]
    return cost


@inner_kernel
def undo(state: FillState, ruin: RuinRecreateScratch, batches: Batches, before: int) -> None:
    """Discard the batches planned since, and put back the nodes taken out."""
    for batch in range(before, batches.counts[0]):
        while batches.nodes[batch] > 0:
            move_node(state, batches, batch, -1)
    batches.counts[0] = before
    batches.counts[1] = batches.offsets[before]
    for number in range(MOST_TAKEN):
        if ruin.batches_out[number] >= 0:
            move_node(state, batches, widened(ruin.batches_out[number]), 1)


@inner_kernel
def plan_again(
    state: FillState,
    pricing: PricingState,
    groups: Int32,
    ruin: RuinRecreateScratch,
    batches: Batches,
) -> None:
    """Plan the pods left, with varied worth and, in half of the tries, varied costs; costs are restored afterwards."""
    for of_class in range(len(state.pods)):
        by = next_number(ruin, 1000) / 1000.0
        ruin.value[of_class] = pricing.value[of_class] * (1.0 + STIR * by)
    stirred = next_number(ruin, 2) == 1
    for at in range(len(groups)):
        ruin.cost[at] = state.cost[groups[at]]
        if stirred:
            state.cost[groups[at]] *= 1.0 + STIR * (next_number(ruin, 1000) / 1000.0)
    build(state, ruin.value, groups, ruin.ratio, 1 + next_number(ruin, 2), batches)
    for at in range(len(groups)):
        state.cost[groups[at]] = ruin.cost[at]


@kernel
def improve(
    state: FillState,
    pricing: PricingState,
    groups: Int32,
    ruin: RuinRecreateScratch,
    most_fills: int,
    batches: Batches,
) -> int:
    """Make the plan in `batches` cheaper until about the given number of nodes have been filled; return how many tries
    succeeded.

    At most the number of tries in ruin.number is made, and subtracted from it. groups : int32[H] to which nodes may
    belong. Batches may end up without nodes. Ends early if batches is full. state.pods : zero.
    """
    better, until = 0, state.numbers[FILLS_TRIED] + most_fills
    while state.numbers[FILLS_TRIED] < until and ruin.number[1] > 0:
        ruin.number[1] -= 1
        before = batches.counts[0]
        if before == 0 or batches.counts[1] + len(batches.pods) // 2 > len(batches.pods):
            return better
        cost = take_out(state, pricing, ruin, batches)
        plan_again(state, pricing, groups, ruin, batches)
        unplaced = 0
        for of_class in range(len(state.pods)):
            unplaced += state.pods[of_class]
        for batch in range(before, batches.counts[0]):
            cost -= batches.nodes[batch] * state.cost[batches.group[batch]]
        if unplaced > 0 or cost < -TOLERANCE:
            undo(state, ruin, batches, widened(before))
        elif cost > TOLERANCE:
            better += 1
    return better
