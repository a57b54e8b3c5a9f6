"""Round the fractions of the linear programme to whole nodes, some at a time, and solve the remaining programme again.

Whole parts of levels are planned first; if there are none, one node of the fill with the highest level. A fill with
more pods than are left gets fewer, and any other pods that fit are added. Source: diving heuristics.
"""

from trimtab.planner.model.jit import inner_kernel, kernel, widened
from trimtab.planner.scale_up.cheapest.kernels.build import Batches, take
from trimtab.planner.scale_up.cheapest.kernels.fill import (
    Bench,
    Rest,
    Shapes,
    keep,
    look_at_left,
    pour,
    put,
    room,
    start,
)
from trimtab.planner.scale_up.cheapest.kernels.generate import WAY, Watch, generate
from trimtab.planner.scale_up.cheapest.kernels.master import Master, begin

WHOLE = 1e-2
"""Tolerance by which a level may be below a whole number; bounds are slightly larger than exact."""

TRIED = 32
"""Nodes filled for new fills after each step."""


@kernel
def dive(
    shapes: Shapes, rest: Rest, master: Master, bench: Bench, watch: Watch, nearly: float, solutions: int, made: Batches
) -> int:
    """Append batches to made, solving the remaining programme at most the given number of times; return how often it
    was solved.

    nearly : level from which a node is planned immediately, not only for the fill with the highest level. rest is
    lowered. Pods may be left.
    """
    for solved in range(solutions):
        look_at_left(rest, bench)
        before = made.counts[0]
        highest = -1
        for row in range(len(master.bound)):
            fill = widened(master.basis[row]) - len(master.bound) - master.classes[0]
            if fill >= 0 and master.level[row] > WHOLE:
                if master.level[row] >= 1.0 - WHOLE:
                    plan_fill(shapes, rest, master, bench, watch, fill, int(master.level[row] + WHOLE), made)
                elif master.level[row] >= nearly:
                    plan_fill(shapes, rest, master, bench, watch, fill, 1, made)
                elif highest < 0 or master.level[row] > master.level[highest]:
                    highest = row
        if made.counts[0] == before and highest >= 0:
            fill = widened(master.basis[highest]) - len(master.bound) - master.classes[0]
            plan_fill(shapes, rest, master, bench, watch, fill, 1, made)
        if made.counts[0] == before:
            return solved
        if solved + 1 < solutions:
            solve_rest(shapes, rest, master, bench, watch)
    return solutions


@inner_kernel
def solve_rest(shapes: Shapes, rest: Rest, master: Master, bench: Bench, watch: Watch) -> None:
    """Solve the programme for the remaining pods."""
    for of_class in range(len(rest.pods)):
        master.bound[of_class] = rest.pods[of_class]
    for group in range(len(rest.nodes)):
        if watch.limit_row[group] >= 0:
            master.bound[watch.limit_row[group]] = rest.nodes[group]
    begin(master)
    watch.turn[WAY] = 0
    generate(shapes, rest, master, bench, watch, TRIED)


@inner_kernel
def plan_fill(
    shapes: Shapes, rest: Rest, master: Master, bench: Bench, watch: Watch, fill: int, most: int, made: Batches
) -> None:
    """Plan nodes with a fill of the programme, as long as its pods and nodes of its group are left."""
    group = widened(master.group[fill])
    start(shapes, bench, group)
    for at in range(master.offsets[fill], master.offsets[fill + 1]):
        of_class = widened(master.row[at])
        if of_class < len(rest.pods) and rest.pods[of_class] > 0:
            fits = room(shapes, rest, bench, group, of_class)
            put(shapes, bench, of_class, min(fits, int(master.entry[at])))
    pour(shapes, rest, watch.value, bench, group, 0)
    keep(bench)
    if rest.nodes[group] > 0:
        take(shapes, rest, bench, watch.groups, group, most, made)
        look_at_left(rest, bench)
