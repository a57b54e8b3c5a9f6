"""Add fills to the linear programme until hardly any other fill would make its plan cheaper.

A fill helps if its pods, at the programme's current duals, are worth more than its node costs. Groups are evaluated
some at a time, in turn, and filled with one weighting; the next one is used when no group has helped, and finally fills
are refined by exchanges. Source: column generation (Gilmore and Gomory 1961), its subproblem solved by greedy
knapsacks, so the programme's value is not a proven bound.
"""

from typing import NamedTuple

from trimtab.planner.cheapest.kernels.fill import (
    FILLS_TRIED,
    FillState,
    consider_remaining,
    fill_by,
    refine,
    save_best,
)
from trimtab.planner.cheapest.kernels.master import MasterProblem, solve
from trimtab.planner.compiled.by_reference import by_reference
from trimtab.planner.compiled.decorators import inner_kernel, kernel, widened
from trimtab.planner.model.tuning import (
    FILLS_AT_ONCE,
    GROUPS_TOGETHER,
    KEPT_WORTH,
    LEAST_DUAL_GAIN,
    LEAST_FILL_GAIN,
    SIMPLEX_STEPS,
)
from trimtab.planner.snapshot.columns import Float64, Int32, Int64

PART, WEIGHTING, FILLS_ADDED = 0, 1, 2
"""In PricingState.schedule: which part of the groups is next, the weighting, how many fills were added with it."""


@by_reference()
class PricingState(NamedTuple):
    """The groups considered, and their data.

    groups : int32[H]; ratio : float64[H] worth for price of the last fill; limit_row : int32[G] row of the limit of the
    group's nodes, -1 = none; value : float64[C] worth of a pod of each class; schedule : int64[3]
    """

    groups: Int32
    ratio: Float64
    limit_row: Int32
    value: Float64
    schedule: Int64


@kernel
def add_fill(state: FillState, pricing: PricingState, group: int, master: MasterProblem) -> bool:
    """Add state.best on a node of the group; return whether there was room."""
    fill, entry = master.counts[0], master.counts[1]
    if fill + 1 >= len(master.offsets) or entry + len(state.best) >= len(master.row):
        return False
    for at in range(state.numbers[0]):
        of_class = widened(state.considered[at])
        if state.best[of_class] > 0:
            master.row[entry] = of_class
            master.entry[entry] = state.best[of_class]
            entry += 1
    if pricing.limit_row[group] >= 0:
        master.row[entry] = pricing.limit_row[group]
        master.entry[entry] = 1.0
        entry += 1
    column = len(master.bound) + master.classes[0] + fill
    master.group[fill] = group
    master.cost[column] = state.cost[group]
    master.basic[column] = False
    master.offsets[fill + 1] = entry
    master.counts[0] = fill + 1
    master.counts[1] = entry
    return True


@inner_kernel
def price_group(state: FillState, master: MasterProblem, pricing: PricingState, at: int) -> None:
    """Fill a node of a considered group with the current weighting, and record its worth for its price."""
    group, weighting = widened(pricing.groups[at]), widened(pricing.schedule[WEIGHTING])
    if state.nodes[group] <= 0:
        pricing.ratio[at] = 0.0
        return
    price = state.cost[group]
    if pricing.limit_row[group] >= 0:
        price -= min(master.dual[pricing.limit_row[group]], 0.0)
    last = len(state.free) + 2
    worth = fill_by(state, pricing.value, group, weighting if weighting < last else 0)
    save_best(state)
    if weighting == last:
        worth = refine(state, pricing.value, group, worth)
    pricing.ratio[at] = worth / price


@inner_kernel
def add_best(state: FillState, master: MasterProblem, pricing: PricingState, parts: int) -> int:
    """Add the most helpful fills of the groups just evaluated; return how many, -1 = there is no room."""
    count = 0
    for _ in range(FILLS_AT_ONCE):
        best = -1
        for at in range(pricing.schedule[PART], len(pricing.groups), parts):
            if best < 0 or pricing.ratio[at] > pricing.ratio[best]:
                best = at
        if best < 0 or pricing.ratio[best] <= 1.0 + LEAST_FILL_GAIN:
            return count
        price_group(state, master, pricing, best)
        pricing.ratio[best] = 0.0
        if lowers_cost(state, master, pricing, widened(pricing.groups[best])):
            if not add_fill(state, pricing, widened(pricing.groups[best]), master):
                return -1
            count += 1
    return count


@inner_kernel
def lowers_cost(state: FillState, master: MasterProblem, pricing: PricingState, group: int) -> bool:
    """Return whether state.best on a node of the group is worth more than the node by the programme's own duals."""
    price, row = state.cost[group], pricing.limit_row[group]
    worth = min(master.dual[row], 0.0) if row >= 0 else 0.0
    for at in range(state.numbers[0]):
        worth += master.dual[state.considered[at]] * state.best[state.considered[at]]
    return bool(worth > price * (1.0 + LEAST_DUAL_GAIN))


@kernel
def generate(
    state: FillState,
    master: MasterProblem,
    pricing: PricingState,
    most_fills: int,
) -> int:
    """Add fills until about the given number of nodes have been filled; return how many fills were added.

    Afterwards the programme is at its minimum, and pricing.value follows its duals.
    """
    consider_remaining(state)
    parts, until, total = (
        (len(pricing.groups) + GROUPS_TOGETHER - 1) // GROUPS_TOGETHER,
        state.numbers[FILLS_TRIED] + most_fills,
        0,
    )
    solve(master, SIMPLEX_STEPS)
    update_values(master, pricing.value, 0.0)
    while pricing.schedule[WEIGHTING] <= len(state.free) + 2 and state.numbers[FILLS_TRIED] < until:
        for at in range(pricing.schedule[PART], len(pricing.groups), parts):
            price_group(state, master, pricing, at)
        added = add_best(state, master, pricing, parts)
        if added < 0:
            break
        if added > 0:
            solve(master, SIMPLEX_STEPS)
        update_values(master, pricing.value, KEPT_WORTH if added > 0 else 0.0)
        total += added
        advance_schedule(pricing, parts, added)
    solve(master, SIMPLEX_STEPS)
    update_values(master, pricing.value, 0.0)
    return total


@inner_kernel
def advance_schedule(pricing: PricingState, parts: int, added: int) -> None:
    """Proceed to the next part of the groups; after all of them, to the next weighting, or if fills were added,
    alternate between the first two.
    """
    pricing.schedule[FILLS_ADDED] += added
    pricing.schedule[PART] += 1
    if pricing.schedule[PART] >= parts:
        pricing.schedule[PART] = 0
        if pricing.schedule[FILLS_ADDED] == 0:
            pricing.schedule[WEIGHTING] += 1
        else:
            pricing.schedule[WEIGHTING] = 1 if pricing.schedule[WEIGHTING] == 0 else 0
        pricing.schedule[FILLS_ADDED] = 0


@inner_kernel
def update_values(master: MasterProblem, value: Float64, steady: float) -> None:
    """Set the worth of a pod of each class from the duals and, by some share, from its previous worth."""
    for of_class in range(len(value)):
        value[of_class] = steady * value[of_class] + (1.0 - steady) * max(master.dual[of_class], 0.0)
