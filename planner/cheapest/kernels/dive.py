"""Round the fractions of the linear programme to whole nodes, some at a time, and solve the remaining programme again.

Whole parts of levels are planned first; if there are none, one node of the fill with the highest level. A fill with
more pods than are left gets fewer, and any other pods that fit are added. Source: diving heuristics.
"""

from trimtab.planner.cheapest.kernels.build import Batches, append_nodes
from trimtab.planner.cheapest.kernels.fill import (
    FillState,
    add_pods,
    consider_remaining,
    pods_that_fit,
    put_pods,
    save_best,
    start,
)
from trimtab.planner.cheapest.kernels.generate import WEIGHTING, PricingState, generate
from trimtab.planner.cheapest.kernels.master import MasterProblem, reset_basis
from trimtab.planner.compiled.decorators import inner_kernel, kernel, widened
from trimtab.planner.model.tuning import DIVE_FILLS, WHOLE_LEVEL


@kernel
def dive(
    state: FillState,
    master: MasterProblem,
    pricing: PricingState,
    round_up_from: float,
    solutions: int,
    batches: Batches,
) -> int:
    """Append batches, solving the remaining programme at most the given number of times; return how often it
    was solved.

    round_up_from : level from which a node is planned immediately, not only for the fill with the highest level.
    remaining is lowered. Pods may be left.
    """
    for solved in range(solutions):
        consider_remaining(state)
        before = batches.counts[0]
        highest = -1
        for row in range(len(master.bound)):
            fill = widened(master.basis[row]) - len(master.bound) - master.classes[0]
            if fill >= 0 and master.level[row] > WHOLE_LEVEL:
                if master.level[row] >= 1.0 - WHOLE_LEVEL:
                    plan_fill(state, master, pricing, fill, int(master.level[row] + WHOLE_LEVEL), batches)
                elif master.level[row] >= round_up_from:
                    plan_fill(state, master, pricing, fill, 1, batches)
                elif highest < 0 or master.level[row] > master.level[highest]:
                    highest = row
        if batches.counts[0] == before and highest >= 0:
            fill = widened(master.basis[highest]) - len(master.bound) - master.classes[0]
            plan_fill(state, master, pricing, fill, 1, batches)
        if batches.counts[0] == before:
            return solved
        if solved + 1 < solutions:
            solve_remaining(state, master, pricing)
    return solutions


@inner_kernel
def solve_remaining(state: FillState, master: MasterProblem, pricing: PricingState) -> None:
    """Solve the programme for the remaining pods."""
    for of_class in range(len(state.pods)):
        master.bound[of_class] = state.pods[of_class]
    for group in range(len(state.nodes)):
        if pricing.limit_row[group] >= 0:
            master.bound[pricing.limit_row[group]] = state.nodes[group]
    reset_basis(master)
    pricing.schedule[WEIGHTING] = 0
    generate(state, master, pricing, DIVE_FILLS)


@inner_kernel
def plan_fill(
    state: FillState,
    master: MasterProblem,
    pricing: PricingState,
    fill: int,
    limit: int,
    batches: Batches,
) -> None:
    """Plan nodes with a fill of the programme, as long as its pods and nodes of its group are left."""
    group = widened(master.group[fill])
    start(state, group)
    for at in range(master.offsets[fill], master.offsets[fill + 1]):
        of_class = widened(master.row[at])
        if of_class < len(state.pods) and state.pods[of_class] > 0:
            fits = pods_that_fit(state, group, of_class)
            put_pods(state, of_class, min(fits, int(master.entry[at])))
    add_pods(state, pricing.value, group, 0)
    save_best(state)
    if state.nodes[group] > 0:
        append_nodes(state, pricing.groups, group, limit, batches)
        consider_remaining(state)
