"""The wave in which each node of a set goes: the first in which disruption budgets allow its evictions with the others
of that wave. Waves are filled one after the other, each with the nodes in the given order that still fit.
Source: own; first fit, as in bin packing.
"""

from typing import NamedTuple

from trimtab.planner.compiled.decorators import kernel, widened
from trimtab.planner.scale_down.search.kernels.drain_sets import DrainProblem, first_lacking, use_up
from trimtab.planner.snapshot.columns import Int32, Int64

NOT_YET = 0


class WaveBudgets(NamedTuple):
    """now, refilled : int64[B] disruptions that budgets allow in the first wave, and in each later one."""

    now: Int64
    refilled: Int64


@kernel
def number_waves(problem: DrainProblem, nodes: Int32, budgets: WaveBudgets, most: int, wave: Int32) -> bool:
    """Write the wave : int32[K], from 1, in which each node : int32[K] goes; return whether `most` waves suffice.

    All pods of a node are evicted at once. Of the problem, only what is left of budgets is written; it is of no use
    afterwards. O(waves · (budgets + pods)).
    """
    left = problem.budgets.left
    wave[:] = NOT_YET
    waiting = len(nodes)
    for number in range(1, most + 1):
        if waiting == 0:
            break
        before = waiting
        for budget in range(len(left)):
            left[budget] = budgets.now[budget] if number == 1 else budgets.refilled[budget]
        for row in range(len(nodes)):
            if wave[row] != NOT_YET:
                continue
            node = widened(nodes[row])
            use_up(problem, node, widened(1))
            if first_lacking(problem, node) >= 0:
                use_up(problem, node, widened(-1))
                continue
            wave[row] = number
            waiting -= 1
        if waiting == before and number > 1:
            break
    return bool(waiting == 0)
