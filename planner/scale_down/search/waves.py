"""Nodes that go in later waves: once the pods evicted in the waves before run again, disruption budgets allow more.

Candidates that only budgets keep from the first wave are tried again in the resulting simulation, with refilled
budgets, wave by wave. Moves of earlier waves stay, so that no pod is evicted twice; a node that has received pods
stays; each wave is checked together with all before. Nodes of later waves of the last plan, or of a proposed one, are
kept out of the first wave's search, which leaves room for their pods. They are tried first, also with what the first
wave leaves of the budgets now. A proposed set can also be divided (`WaveNumbers`).
"""

from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.drainability.kernels.limits import BLOCKED, WaveBudgets, number_waves
from trimtab.planner.drainability.limits import nodes_using
from trimtab.planner.model.tuning import CANDIDATE_BATCH
from trimtab.planner.placement.kernels.search import REMEMBERED, SEARCHES, unknown_room
from trimtab.planner.predicates.counters import is_unlike_its_class, shared_domains
from trimtab.planner.scale_down.search.drain_sets import (
    UNBOUNDED,
    DrainSet,
    DrainTask,
    LeftOut,
    copied,
    give_back,
    holding,
    nodes_with_unplaceable_pods,
)
from trimtab.planner.scale_down.search.kernels.drain_sets import (
    NOT_EVALUATED,
    TAKEN,
    DrainProblem,
    drain_candidates,
    repeat_plan,
)
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log, current_mark
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32, Int64

NONE: Final = np.zeros(0, np.int32)


class Waves(NamedTuple):
    """first : the search's set, without later waves; drain_set : all waves; wave : int32[U], from 1, of its accepted
    nodes, ascending."""

    first: DrainSet
    drain_set: DrainSet
    wave: Int32

    @property
    def has_later(self) -> bool:
        """Whether there is more than the first wave."""
        return bool((self.wave > 1).any())


def add_waves(task: DrainTask, first: DrainSet) -> Waves:
    """Return a set extended by later waves; the simulation contains its moves, and then theirs. Raises
    MoveLogFullError.

    If nodes of the last plan that go earlier than planned keep others of it from going, none goes earlier. O(waves ·
    pods to move of the candidates), besides the moves.
    """
    planned, start = first.later.nodes, current_mark(task.state)
    extended = _added(task, first, is_early=True)
    is_lost = np.isin(planned, extended.drain_set.accepted, invert=True)
    if np.isin(planned, extended.drain_set.accepted[extended.wave == 1]).any() and is_lost.any():
        revert(task.state, start)
        as_planned = _added(task, first, is_early=False)
        if np.isin(planned, as_planned.drain_set.accepted, invert=True).sum() < is_lost.sum():
            return as_planned
        revert(task.state, start)
        extended = _added(task, first, is_early=True)
    return extended


def _added(task: DrainTask, first: DrainSet, *, is_early: bool) -> Waves:
    """Return a set extended by later waves. is_early : nodes of the last plan's later waves may go in the first."""
    later = first.later
    search = _WaveSearch(task, first)
    number = 1
    if len(later.nodes) and is_early:
        search.add(number, first.problem.limits.disruptions)
    while number < task.settings.max_waves and search.has_candidates():
        number += 1
        if not search.add(number, later.refilled):
            break
    problem = search.problem
    drain_set = first._replace(
        accepted=problem.accepted[: problem.counts[TAKEN]].copy(),
        evaluated=first.evaluated + len(later.nodes),
        remembered=int(problem.counts[REMEMBERED]),
        searches=int(problem.counts[SEARCHES]),
        problem=problem,
    )
    return Waves(first, drain_set, np.array(search.waves, np.int32))


class _WaveSearch:
    """problem : the result so far, whose moves the task's simulation contains; waves : by accepted node."""

    def __init__(self, task: DrainTask, first: DrainSet) -> None:
        self._task, self._first = task, first
        later = first.later
        self.problem = first.problem
        self.waves = [1] * len(first.accepted)
        self._known = task.nodes.unneeded_before.copy()
        self._known[later.nodes] = True
        self._planned, self._planned_wave = later.nodes, later.wave
        self._new = self._blocked_new(first)
        limit = task.settings.max_evaluated
        self._still_to_simulate: Int64 = np.array([limit - first.fresh if limit else UNBOUNDED])

    def has_candidates(self) -> bool:
        """Whether any candidate is left, and time for new ones."""
        if not self._task.in_time():
            self._new = NONE
        return len(self._planned) + len(self._new) > 0

    def add(self, number: int, budgets: Int64) -> bool:
        """Add the nodes that can go with these budgets : int64[B] to a wave; return whether there is any."""
        before = self.problem.counts[TAKEN]
        problem = self._found(budgets)
        if problem is None:
            return False
        added = int(problem.counts[TAKEN] - before)
        # Without a node of this wave, what is left of the budgets is that of the waves before.
        disruptions = self.problem.limits.disruptions
        self.problem = problem if added else problem._replace(limits=problem.limits._replace(disruptions=disruptions))
        self.waves += [number] * added
        is_left = problem.outcome == BLOCKED
        again = is_left[self._planned]
        self._planned, self._planned_wave = self._planned[again], self._planned_wave[again]
        self._new = self._new[is_left[self._new]]
        return added > 0

    def _blocked_new(self, first: DrainSet) -> Int32:
        """Return the candidates that only budgets keep from the first wave, in its order; none if a bound stopped it.

        A node that was in no plan does not enter one while a budget allows no eviction at all: not even the first
        would be possible.
        """
        if first.stopped_at >= 0:
            return NONE
        problem = first.problem
        blocked = (problem.outcome == BLOCKED) & (problem.incoming_count[: len(problem.outcome)] == 0)
        if blocked.any():
            blocked &= ~have_used_up_budgets(self._task.problem) | self._task.nodes.unneeded_before
        new: Int32 = first.candidates[blocked[first.candidates]]
        return new

    def _found(self, budgets: Int64) -> DrainProblem | None:
        """Return the problem extended by one wave; None if the earlier ones would no longer be valid: then the
        simulation is as before.

        Nodes with pods that would be unplaceable, parts of all-or-nothing groups and of gangs, and nodes needed for
        balance are left out, and the rest is tried again, as in `drain_sets.run`.
        """
        task, start = self._task, current_mark(self._task.state)
        before, left_out = self.problem.counts[TAKEN], LeftOut(self._task)
        while True:
            still_to_simulate = self._still_to_simulate.copy()
            problem = self._tried(budgets, left_out.nodes, still_to_simulate)
            check_log(task.state)
            accepted = problem.accepted[: problem.counts[TAKEN]]
            stays = left_out.add(problem, accepted, accepted[before:])
            if not stays.any():
                break
            revert(task.state, start)
            if stays[accepted[:before]].any():
                return None
        self._still_to_simulate = still_to_simulate
        left_out.write(problem)
        return problem

    def _tried(self, budgets: Int64, left_out: Bool, still_to_simulate: Int64) -> DrainProblem:
        """Try the candidates in order, those of one wave of the last plan all together; their moves stay in the
        simulation. What its later waves need is held while new ones are tried.
        """
        state, earliest = self._task.state, self._planned_wave.min(initial=np.iinfo(np.int32).max)
        again = self._planned[(self._planned_wave == earliest) & ~left_out[self._planned]]
        planned, new = self._planned[~left_out[self._planned]], self._new[~left_out[self._new]]
        candidates = np.concatenate([planned, new]).astype(np.int32)
        problem = self._prepared(candidates, budgets)
        if len(again):
            if repeat_plan(state, problem, again):
                planned = planned[~np.isin(planned, again)]
            else:
                problem = self._prepared(candidates, budgets)
        drain_candidates(state, problem, planned, 0, len(planned), self._known, still_to_simulate, 0)
        waiting = planned[problem.outcome[planned] == BLOCKED]
        held, problem = holding(self._task, problem, waiting if len(new) else NONE)
        for position in range(0, len(new), CANDIDATE_BATCH):
            if position and not self._task.in_time():
                break
            end = min(position + CANDIDATE_BATCH, len(new))
            drain_candidates(state, problem, new, position, end, self._known, still_to_simulate, 0)
        give_back(self._task, problem, held)
        return problem

    def _prepared(self, candidates: Int32, budgets: Int64) -> DrainProblem:
        """Return a copy of the problem with these budgets : int64[B], the candidates not evaluated and the last
        destinations."""
        problem = copied(self.problem)
        problem.limits.disruptions[:] = budgets
        problem.outcome[candidates] = NOT_EVALUATED
        problem.blocking_pod[candidates] = -1
        others = np.concatenate([self._first.staying, self._first.candidates[::-1]])
        is_candidate = np.zeros(len(self._known), bool)
        is_candidate[candidates] = True
        order = np.concatenate([others[~is_candidate[others]], candidates[::-1]]).astype(np.int32)
        return problem._replace(search=problem.search._replace(order=order, most_free=unknown_room(order)))


def have_used_up_budgets(problem: DrainProblem) -> Bool:
    """Return for each node whether one of its pods to move has a budget without a disruption left. bool[N]."""
    limits = problem.limits
    return nodes_using(limits, limits.disruptions[limits.budget] < 1)


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
    """Exchanges destinations of pods that are alike and depend on others, so that as many as possible stay in the
    domains where they are, such as zones: if pods crossed between them although they are alike, a wave could be refused
    for what a later one makes even."""

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
