"""Add fills to the linear programme until hardly any other fill would make its plan cheaper.

A fill helps if its pods, at the programme's current duals, are worth more than its node costs. Groups are evaluated
some at a time, in turn, and filled in one way; the next way is used when no group has helped, and finally fills are
refined by exchanges. Source: column generation (Gilmore and Gomory 1961), its subproblem solved by greedy knapsacks, so
the programme's value is not a proven bound.
"""

from typing import NamedTuple

from trimtab.planner.model.by_reference import by_reference
from trimtab.planner.model.jit import inner_kernel, kernel, widened
from trimtab.planner.scale_up.cheapest.kernels.fill import (
    POURS,
    Bench,
    Rest,
    Shapes,
    fill_one_way,
    keep,
    look_at_left,
    refine,
)
from trimtab.planner.scale_up.cheapest.kernels.master import Master, improve_levels
from trimtab.planner.scale_up.cheapest.problem import Float64
from trimtab.planner.snapshot.columns import Int32, Int64

GAIN = 1e-3
"""Share of a node's price by which the worth of its fill has to exceed the price."""
SLIGHT = 1e-6
"""The same, with the worth by the programme's own duals."""
STEADY = 0.6
"""Share of a pod's worth kept from one solution to the next, because duals oscillate (Wentges 1997)."""
TOGETHER = 32
"""Approximate number of groups evaluated between two solutions of the programme."""
ADDED = 12
"""Fills added between two solutions, at most."""
STEPS = 2000
"""Steps of the simplex method for one solution, at most."""
LANE, WAY, HELPED = 0, 1, 2
"""In Watch.turn: which groups are next, the way, how many fills were added with this way."""


@by_reference()
class Watch(NamedTuple):
    """The groups considered, and their data.

    groups : int32[H]; ratio : float64[H] worth for price of the last fill; limit_row : int32[G] row of the limit of the
    group's nodes, -1 = none; value : float64[C] worth of a pod of each class; turn : int64[3]
    """

    groups: Int32
    ratio: Float64
    limit_row: Int32
    value: Float64
    turn: Int64


@kernel
def add_fill(shapes: Shapes, bench: Bench, watch: Watch, group: int, master: Master) -> bool:
    """Add bench.best on a node of the group; return whether there was room."""
    fill, entry = master.counts[0], master.counts[1]
    if fill + 1 >= len(master.offsets) or entry + len(bench.best) >= len(master.row):
        return False
    for at in range(bench.numbers[0]):
        of_class = widened(bench.live[at])
        if bench.best[of_class] > 0:
            master.row[entry] = of_class
            master.entry[entry] = bench.best[of_class]
            entry += 1
    if watch.limit_row[group] >= 0:
        master.row[entry] = watch.limit_row[group]
        master.entry[entry] = 1.0
        entry += 1
    column = len(master.bound) + master.classes[0] + fill
    master.group[fill] = group
    master.cost[column] = shapes.cost[group]
    master.basic[column] = False
    master.offsets[fill + 1] = entry
    master.counts[0] = fill + 1
    master.counts[1] = entry
    return True


@inner_kernel
def appraise(shapes: Shapes, rest: Rest, master: Master, bench: Bench, watch: Watch, at: int) -> None:
    """Fill a node of a considered group in the current way, and record its worth for its price."""
    group, way = widened(watch.groups[at]), widened(watch.turn[WAY])
    if rest.nodes[group] <= 0:
        watch.ratio[at] = 0.0
        return
    price = shapes.cost[group]
    if watch.limit_row[group] >= 0:
        price -= min(master.dual[watch.limit_row[group]], 0.0)
    last = len(bench.free) + 2
    worth = fill_one_way(shapes, rest, watch.value, bench, group, way if way < last else 0)
    keep(bench)
    if way == last:
        worth = refine(shapes, rest, watch.value, bench, group, worth)
    watch.ratio[at] = worth / price


@inner_kernel
def add_best(shapes: Shapes, rest: Rest, master: Master, bench: Bench, watch: Watch, lanes: int) -> int:
    """Add the most helpful fills of the groups just evaluated; return how many, -1 = there is no room."""
    count = 0
    for _ in range(ADDED):
        best = -1
        for at in range(watch.turn[LANE], len(watch.groups), lanes):
            if best < 0 or watch.ratio[at] > watch.ratio[best]:
                best = at
        if best < 0 or watch.ratio[best] <= 1.0 + GAIN:
            return count
        appraise(shapes, rest, master, bench, watch, best)
        watch.ratio[best] = 0.0
        if helps(shapes, master, bench, watch, widened(watch.groups[best])):
            if not add_fill(shapes, bench, watch, widened(watch.groups[best]), master):
                return -1
            count += 1
    return count


@inner_kernel
def helps(shapes: Shapes, master: Master, bench: Bench, watch: Watch, group: int) -> bool:
    """Return whether bench.best on a node of the group is worth more than the node by the programme's own duals."""
    price, row = shapes.cost[group], watch.limit_row[group]
    worth = min(master.dual[row], 0.0) if row >= 0 else 0.0
    for at in range(bench.numbers[0]):
        worth += master.dual[bench.live[at]] * bench.best[bench.live[at]]
    return bool(worth > price * (1.0 + SLIGHT))


@kernel
def generate(shapes: Shapes, rest: Rest, master: Master, bench: Bench, watch: Watch, pours: int) -> int:
    """Add fills until about the given number of nodes have been filled; return how many fills were added.

    Afterwards the programme is at its minimum, and watch.value follows its duals.
    """
    look_at_left(rest, bench)
    lanes, until, total = (len(watch.groups) + TOGETHER - 1) // TOGETHER, bench.numbers[POURS] + pours, 0
    improve_levels(master, STEPS)
    set_value(master, watch.value, 0.0)
    while watch.turn[WAY] <= len(bench.free) + 2 and bench.numbers[POURS] < until:
        for at in range(watch.turn[LANE], len(watch.groups), lanes):
            appraise(shapes, rest, master, bench, watch, at)
        added = add_best(shapes, rest, master, bench, watch, lanes)
        if added < 0:
            break
        if added > 0:
            improve_levels(master, STEPS)
        set_value(master, watch.value, STEADY if added > 0 else 0.0)
        total += added
        next_turn(watch, lanes, added)
    improve_levels(master, STEPS)
    set_value(master, watch.value, 0.0)
    return total


@inner_kernel
def next_turn(watch: Watch, lanes: int, added: int) -> None:
    """Proceed to the next groups; after all groups, to the next way, or if some helped, alternate between the first
    two.
    """
    watch.turn[HELPED] += added
    watch.turn[LANE] += 1
    if watch.turn[LANE] >= lanes:
        watch.turn[LANE] = 0
        if watch.turn[HELPED] == 0:
            watch.turn[WAY] += 1
        else:
            watch.turn[WAY] = 1 if watch.turn[WAY] == 0 else 0
        watch.turn[HELPED] = 0


@inner_kernel
def set_value(master: Master, value: Float64, steady: float) -> None:
    """Set the worth of a pod of each class from the duals and, by some share, from its previous worth."""
    for of_class in range(len(value)):
        value[of_class] = steady * value[of_class] + (1.0 - steady) * max(master.dual[of_class], 0.0)
