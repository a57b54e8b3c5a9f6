"""The waves in which the nodes of a set go, if the set can be divided into as many as are allowed.

Each wave takes the nodes, in a given order, that disruption budgets allow to go with those before. Where pods depend
on others, the pods of each wave also have to fit where they go while all later nodes are still in place, and in some
order; nodes whose pods do not wait for the next wave.
"""

import numpy as np

from trimtab.planner.scale_down.search.drain_sets import DrainTask, copied, nodes_with_unplaceable_pods
from trimtab.planner.scale_down.search.kernels.drain_sets import DrainProblem, repeat_plan
from trimtab.planner.scale_down.search.kernels.wave_numbers import WaveBudgets, number_waves
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log, current_mark
from trimtab.planner.snapshot.columns import Int32, Int64


class WaveNumbers:
    """Divides sets of nodes in the task's simulation as it is; every call leaves it unchanged."""

    def __init__(self, task: DrainTask, problem: DrainProblem, most: int) -> None:
        self._task, self._most = task, most
        self._budgets = WaveBudgets(problem.budgets.left.copy(), task.nodes.later.refilled)
        self._problem = copied(problem)

    def numbered(self, nodes: Int32, order: Int64) -> Int32 | None:
        """Return the wave of each node : int32[K] by budgets alone, from 1, None if waves do not suffice. order :
        int64[K] their positions, those first that go as early as possible. int32[K]."""
        return _first_fit(self._problem, nodes, order, self._budgets, self._most)

    def may_need_order(self, pods: Int32) -> bool:
        """Return whether one of the pods depends on others."""
        state = self._task.state
        return not bool(state.local_class[state.pod_class[pods]].all())

    def ordered(self, nodes: Int32, order: Int64, destination: Int32) -> Int32 | None:
        """Return the wave of each node as `numbered`, each wave valid with all before it, None if there is no such
        division. destination : int32[P'] of their pods. O(waves · pods · terms)."""
        state = self._task.state
        start = current_mark(state)
        wave = np.zeros(len(nodes), np.int32)
        problem = self._problem._replace(hint=destination)
        for number in range(1, self._most + 1):
            left = self._budgets.now if number == 1 else self._budgets.refilled
            waiting = order[wave[order] == 0]
            found = self._fitting(problem, nodes[waiting], left)
            if found is None:
                break
            problem, goes = found
            wave[waiting[np.isin(nodes[waiting], goes)]] = number
            if wave.all():
                break
        revert(state, start)
        check_log(state)
        return wave if wave.all() else None

    def _fitting(self, problem: DrainProblem, nodes: Int32, left: Int64) -> tuple[DrainProblem, Int32] | None:
        """Return a problem extended by those of the nodes that make a wave, with their moves in the simulation; None
        if none goes."""
        state, start = self._task.state, current_mark(self._task.state)
        numbers = np.zeros(len(nodes), np.int32)
        number_waves(copied(problem), nodes, WaveBudgets(left, left), 1, numbers)
        goes = nodes[numbers == 1]
        while len(goes):
            found = copied(problem)
            found.budgets.left[:] = left
            if not repeat_plan(state, found, goes):
                return None
            unplaceable = nodes_with_unplaceable_pods(self._task, found)
            if not unplaceable.any():
                return found, goes
            revert(state, start)
            goes = goes[~unplaceable[goes]]
        return None


def _first_fit(problem: DrainProblem, nodes: Int32, order: Int64, budgets: WaveBudgets, most: int) -> Int32 | None:
    """Return the wave of each node : int32[K] by budgets, None if waves do not suffice."""
    numbers = np.zeros(len(nodes), np.int32)
    if not number_waves(problem, nodes[order], budgets, most, numbers):
        return None
    wave = np.empty_like(numbers)
    wave[order] = numbers
    return wave
