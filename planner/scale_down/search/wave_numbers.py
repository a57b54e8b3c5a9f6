"""The waves in which the nodes of a set go, if the set can be divided into as many as are allowed.

Each wave takes the nodes, in a given order, that disruption budgets allow to go with those before. Where pods depend
on others, the pods of each wave also have to fit where they go while all later nodes are still in place, and in some
order; nodes whose pods do not wait for the next wave.

Which of the pods that are alike goes to which of their destinations: as many as possible stay in the domains where
they are, such as zones.

Nodes go in waves, and spread has to hold after each of them, with the pods of later waves still where they were. A pod
that stays in its zone changes no count there; if pods crossed between zones although they are alike, a wave could be
refused for what a later one makes even. In the end all is as before.
"""

from functools import cached_property

import numpy as np

from trimtab.planner.drainability.kernels.limits import WaveBudgets, number_waves
from trimtab.planner.predicates.counters import is_unlike_its_class, shared_domains
from trimtab.planner.scale_down.search.drain_sets import DrainTask, copied, nodes_with_unplaceable_pods
from trimtab.planner.scale_down.search.kernels.drain_sets import DrainProblem, repeat_plan
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log, current_mark
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import NO_NODE, Int32, Int64


class WaveNumbers:
    """Divides sets of nodes in the task's simulation as it is; every call leaves it unchanged."""

    def __init__(self, task: DrainTask, problem: DrainProblem, most_waves: int) -> None:
        self._task, self._most = task, most_waves
        self._budgets = WaveBudgets(problem.limits.disruptions.copy(), task.nodes.later.refilled)
        self._problem = copied(problem)

    def numbered(self, nodes: Int32, order: Int64) -> Int32 | None:
        """Return the wave of each node : int32[K] by budgets alone, from 1, None if waves do not suffice. order :
        int64[K] their positions, those first that go as early as possible. int32[K]."""
        numbers = np.zeros(len(nodes), np.int32)
        if not number_waves(self._problem.limits, nodes[order], self._budgets, self._most, numbers):
            return None
        wave = np.empty_like(numbers)
        wave[order] = numbers
        return wave

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
            disruptions = self._budgets.now if number == 1 else self._budgets.refilled
            waiting = order[wave[order] == 0]
            fitting = self._fitting(problem, nodes[waiting], disruptions)
            if fitting is None:
                break
            problem, goes = fitting
            wave[waiting[np.isin(nodes[waiting], goes)]] = number
            if wave.all():
                break
        revert(state, start)
        check_log(state)
        return wave if wave.all() else None

    def _fitting(self, problem: DrainProblem, nodes: Int32, disruptions: Int64) -> tuple[DrainProblem, Int32] | None:
        """Return a problem extended by those of the nodes that make a wave, with their moves in the simulation; None
        if none goes."""
        state, start = self._task.state, current_mark(self._task.state)
        numbers = np.zeros(len(nodes), np.int32)
        number_waves(problem.limits.copied(), nodes, WaveBudgets(disruptions, disruptions), 1, numbers)
        goes = nodes[numbers == 1]
        while len(goes):
            extended = copied(problem)
            extended.limits.disruptions[:] = disruptions
            if not repeat_plan(state, extended, goes):
                return None
            unplaceable = nodes_with_unplaceable_pods(self._task, extended)
            if not unplaceable.any():
                return extended, goes
            revert(state, start)
            goes = goes[~unplaceable[goes]]
        return None


class NearPlaces:
    """Exchanges destinations of pods that are alike and depend on others, where they are in the task's simulation."""

    def __init__(self, state: SimulationState) -> None:
        self._state = state

    @cached_property
    def _domain(self) -> Int64:
        """A number for all domains that each node is in. int64[N]."""
        nodes = np.arange(len(self._state.node_state))
        columns = [column.astype(np.int64) for column in shared_domains(self._state.counters, nodes)]
        rows = np.concatenate([np.zeros((len(nodes), 1), np.int64), *columns], axis=1)
        domain: Int64 = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
        return domain

    def exchanged(self, pods: Int32, destination: Int32) -> Int32:
        """Return destinations : int32[P'] with those of pods : int32[M] exchanged among them. O(M log M)."""
        state = self._state
        alike = (state.local_class[state.pod_class[pods]] == 0) & (state.pinned[pods] == NO_NODE)
        alike &= (state.pod_node[pods] != NO_NODE) & ~is_unlike_its_class(state.counters, pods)
        pods = pods[alike]
        classes = np.unique(state.pod_class[pods], return_inverse=True)[1].ravel()
        domains = int(self._domain.max(initial=0)) + 1
        here = classes * domains + self._domain[state.pod_node[pods]]
        there = classes * domains + self._domain[destination[pods]]
        result = destination.copy()
        result[pods] = destination[pods[partners(here, there)]]
        return result


def partners(here: Int64, there: Int64) -> Int64:
    """Return a permutation : int64[M] of rows with here[row] = there[partner] in as many rows as possible, the others
    in ascending order of both : int64[M]."""
    count = int(max(here.max(initial=-1), there.max(initial=-1))) + 1
    both = np.minimum(np.bincount(here, minlength=count), np.bincount(there, minlength=count))
    rows, places = np.argsort(here, kind="stable"), np.argsort(there, kind="stable")
    stays, used = _rank(here[rows]) < both[here[rows]], _rank(there[places]) < both[there[places]]
    partner = np.empty(len(here), np.int64)
    partner[rows[stays]], partner[rows[~stays]] = places[used], places[~used]
    return partner


def _rank(ascending: Int64) -> Int64:
    """Return how many equal numbers come before each of ascending ones."""
    rank: Int64 = np.arange(len(ascending)) - np.searchsorted(ascending, ascending, side="left")
    return rank
