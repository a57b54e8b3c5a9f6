"""Improves a set of nodes that go by swaps. A move takes up to two nodes back and lets up to two others go, or up to
eight of those that save least, or most, for their share, if it saves more, if the linear bound on free cpu and memory,
scarce budgets and minimums allows it, and if all pods of the new set can be packed (`kernels.exchange`). Best gain
first, less where it needs more of the free amounts, until none succeeds or the budget of work ends. The result is a
proposal that the greedy loop carries out with all checks (`drain_sets.run`). With several waves, the pods of all are
packed together, budgets bound a set by what they allow in all, and each set has to be divided into waves.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.nodes import savings, total
from trimtab.planner.model.tuning import (
    DISPLACEMENTS,
    LEAST_PACKINGS,
    MOST_AT_ONCE,
    MOVES_A_CHECK,
    NEARLY_AS_GOOD,
    PACKING_CHECKS,
    PAIRS,
    POD_CHECKS,
    SINGLES,
    SQUARINGS,
    TOLERANCE,
)
from trimtab.planner.scale_down.search.drain_sets import (
    DrainOptions,
    DrainSet,
    DrainTask,
    LaterCandidates,
    prepared,
    run,
)
from trimtab.planner.scale_down.search.headroom import FREE, shares_of, shuffled
from trimtab.planner.scale_down.search.kernels.drain_sets import DrainProblem
from trimtab.planner.scale_down.search.kernels.exchange import CHECKS, PACKED, MovedPods, pack_nodes
from trimtab.planner.scale_down.search.waves import NearPlaces, WaveNumbers, have_used_up_budgets
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log, current_mark
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64
from trimtab.planner.snapshot.dictionaries import entries_of

NUMBER_OF_ORDER: Final = 31
"""Number of that order."""


class Improved(NamedTuple):
    """nodes : int32 that go; wave : int32, from 1, in which each goes; destination : int32[P'] nodes of
    their pods, -1 for all others."""

    nodes: Int32
    wave: Int32
    destination: Int32


class _PackedSet(NamedTuple):
    """chosen : bool[E] candidates that go; wave : int32, from 1, in which each of them goes; destination : int32[P'] of
    their pods, -1 for all others; saving : per hour."""

    chosen: Bool
    wave: Int32
    destination: Int32
    saving: float


class _Candidates(NamedTuple):
    saving: Float64
    """float64[E] per hour"""
    share: Float64
    """float64[Q, E] of what limits plans"""

    @property
    def density(self) -> Float64:
        """What each candidate saves for its largest share. float64[E]."""
        density: Float64 = self.saving / np.maximum(self.share.max(axis=0, initial=0.0), TOLERANCE)
        return density


class _Sides(NamedTuple):
    """Sets of candidates that come back or go. of : their positions; saving : float64[M]; share : float64[Q, M]."""

    of: Sequence[tuple[int, ...]]
    saving: Float64
    share: Float64


class Exchange:
    """One search among candidates : int32[E], in the task's simulation as it is; every call leaves it unchanged.

    most_waves : nodes may go in so many waves.
    """

    def __init__(self, task: DrainTask, problem: DrainProblem, candidates: Int32, most_waves: int) -> None:
        self._most_waves, self._waves = most_waves, WaveNumbers(task, problem, most_waves)
        if most_waves > 1:
            # What all waves together allow bounds every set; whether it can be divided into waves is checked for each.
            disruptions = problem.limits.disruptions + task.nodes.later.refilled * (most_waves - 1)
            problem = problem._replace(limits=problem.limits._replace(disruptions=disruptions))
        self._in_time: Callable[[], bool] = task.in_time
        self._state, self._problem, self._candidates = task.state, problem, candidates
        self._all = _Candidates(
            savings(task.nodes.scores.price)[candidates], shares_of(task.capacity_use(), problem, candidates)
        )
        self._best_fit: Float64 = 1.0 / np.maximum(task.capacity_use().free[:2], 1)
        self._near = NearPlaces(task.state)
        self._rank = _ranks(task.state, problem.pods)
        self._work, self._checks = np.zeros(1, np.int64), task.settings.search.exchange_checks
        self._failed: set[bytes] = set()
        self._scratch = with_scratch(len(problem.pods), len(task.state.node_state))

    def improve(self, nodes: Int32, destination: Int32) -> Improved | None:
        """Return a set that saves more than these nodes : int32, whose pods go to destination : int32[P']; None if none
        was found. Raises MoveLogFullError."""
        if not pays_for(self._checks, int(np.diff(self._problem.offsets)[nodes].sum())):
            return None
        self._drop_unplaceable(len(destination))
        start = np.isin(self._candidates, nodes)
        pods, hint, none = self._pods(start), np.full(len(destination), -1, np.int32), np.zeros(0, np.int32)
        hint[pods] = destination[pods]
        best = self._packed(start, hint) or _PackedSet(np.zeros_like(start), none, np.full_like(hint, -1), 0.0)
        better: _PackedSet | None = best
        while better is not None and not self._is_over():
            best, better = better, self._step(better)
        best = best if better is None else better
        if best.saving <= total(self._all.saving[start]) + TOLERANCE:
            return None
        return Improved(self._candidates[best.chosen], best.wave, best.destination)

    def _is_over(self) -> bool:
        return bool(self._work[CHECKS] >= self._checks) or not self._in_time()

    def _drop_unplaceable(self, pods: int) -> None:
        """Leave out candidates that cannot go even alone. pods : P'."""
        may = np.array(self._all.share.max(axis=0, initial=0.0) <= 1.0)
        nothing = np.full(pods, -1, np.int32)
        for at in np.flatnonzero(may).tolist():
            may[at] = self._packed(np.arange(len(may)) == at, nothing) is not None
        self._candidates, self._all = self._candidates[may], _Candidates(self._all.saving[may], self._all.share[:, may])

    def _step(self, best: _PackedSet) -> _PackedSet | None:
        """Return the result of the first move that succeeds, None if there is none or the budget is used up."""
        for back, go in self._moves(best):
            if self._is_over():
                return None
            after = best.chosen.copy()
            after[list(back)], after[list(go)] = False, True
            better = None if after.tobytes() in self._failed else self._packed(after, best.destination)
            if better is not None:
                return better
            self._failed.add(after.tobytes())
        return None

    def _packed(self, chosen: Bool, hint: Int32) -> _PackedSet | None:
        """Return a packing of the pods of these candidates : bool[E], None if none was found. hint : int32[P'] of an
        earlier one, -1 = none."""
        order = np.argsort(-self._all.saving[chosen], kind="stable")
        wave = self._waves.numbered(self._candidates[chosen], order)
        if wave is None:
            return None
        nodes, pods = self._candidates[chosen], self._pods(chosen)
        self._work[CHECKS] += PACKING_CHECKS + POD_CHECKS * len(pods)
        all_of, count = self._scratch, len(pods)
        moved = MovedPods(
            pods, all_of.at[:count], all_of.waiting[:count], all_of.dearness[:count], all_of.following[:count],
            all_of.first, all_of.out,
        )  # fmt: skip
        destination = hint.copy()
        result = pack_nodes(
            self._state, self._problem, nodes, moved, destination, self._best_fit, DISPLACEMENTS, self._work
        )
        check_log(self._state)
        if result != PACKED:
            return None
        # A single wave is carried out next, where pods that miss an order may go elsewhere.
        if self._most_waves > 1 and self._waves.may_need_order(pods):
            self._work[CHECKS] += POD_CHECKS * len(pods)
            destination = self._near.exchanged(pods, destination)
            wave = self._waves.ordered(nodes, order, destination)
            if wave is None:
                return None
        return _PackedSet(chosen, wave, destination, total(self._all.saving[chosen]))

    def _pods(self, chosen: Bool) -> Int32:
        """Return the pods to move of candidates : bool[E], in the order in which they are placed. int32."""
        nodes = self._candidates[chosen]
        rows = entries_of(self._problem.offsets, nodes)
        pods: Int32 = self._problem.pods[rows][np.argsort(self._rank[rows], kind="stable")]
        return pods

    def _moves(self, best: _PackedSet) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Yield moves that save more and that the linear bound allows: (candidates that come back, candidates that go),
        those that gain most for what they need first."""
        count = len(best.chosen)
        worth = 1.0 + NEARLY_AS_GOOD * np.argsort(shuffled(np.arange(count, dtype=np.int32), NUMBER_OF_ORDER)) / max(
            count, 1
        )
        order = np.argsort(self._all.density * worth, kind="stable")
        going = best.chosen[order]
        backs = self._sides(order[going], [()])
        goes = self._sides(order[~going][::-1], [])
        room = 1.0 + TOLERANCE - self._all.share[:, best.chosen].sum(axis=1)
        gain = goes.saving[None, :] - backs.saving[:, None]
        fits = (goes.share[:, None, :] <= room[:, None, None] + backs.share[:, :, None]).all(axis=0)
        rows, columns = np.nonzero(fits & (gain > TOLERANCE))
        self._work[CHECKS] += gain.size // MOVES_A_CHECK
        needs = goes.share[:FREE].max(axis=0)[columns] - backs.share[:FREE].max(axis=0)[rows]
        likely = np.maximum(1.0 - needs, 0.0)
        for _ in range(SQUARINGS):
            likely *= likely
        by_gain = np.argsort(-gain[rows, columns] * likely, kind="stable")
        for row, column in zip(rows[by_gain].tolist(), columns[by_gain].tolist(), strict=True):
            yield backs.of[row], goes.of[column]

    def _sides(self, nodes: Int64, before: list[tuple[int, ...]]) -> _Sides:
        """Return sets of these candidates, after others: each alone, pairs, and the first of them together."""
        sets = [*before, *((row,) for row in nodes[:SINGLES].tolist()), *combinations(nodes[:PAIRS].tolist(), 2)]
        sets += [tuple(nodes[:count].tolist()) for count in range(3, min(MOST_AT_ONCE, len(nodes)) + 1)]
        member = np.zeros((len(self._all.saving), len(sets)))
        for at, some in enumerate(sets):
            member[list(some), at] = 1.0
        return _Sides(sets, self._all.saving @ member, self._all.share @ member)


def pays_for(checks: int, pods: int) -> bool:
    """Return whether a budget of so many checks is worth a search that moves so many pods."""
    return POD_CHECKS * LEAST_PACKINGS * pods <= checks


def with_scratch(pods: int, nodes: int) -> MovedPods:
    """Return scratch for so many pods and nodes, without pods."""
    at, waiting, following = np.zeros((3, pods), np.int32)
    nothing = np.zeros(0, np.int32)
    return MovedPods(
        nothing,
        at,
        waiting,
        np.zeros(pods, np.int64),
        following,
        np.zeros(nodes, np.int32),
        np.zeros(3, np.int32),
    )


def _ranks(state: SimulationState, pods: Int32) -> Int64:
    """Return the place of each row of pods in the order in which pods are placed: those that depend on other pods
    first, then the largest. int64[M]."""
    if not len(pods):
        return np.zeros(0, np.int64)
    request = state.resources.request[:, :2].astype(np.float64)
    size = (request / np.maximum(request.mean(axis=0), 1.0)).max(axis=1)
    of_class = state.pod_class[pods]
    order = np.lexsort((np.arange(len(pods)), of_class, -size[of_class], state.local_class[of_class]))
    rank = np.empty(len(pods), np.int64)
    rank[order] = np.arange(len(pods))
    return rank


def improved(task: DrainTask, plan: DrainSet, all_waves: DrainSet | None, state: SimulationState) -> DrainSet:
    """Return a plan that saves more, with its moves in the simulation; the plan itself, without its moves, if none is
    found.

    all_waves : the plan with its later waves; None = there are none. With waves, nodes are exchanged in all of them
    together, and the result is the first wave, with the nodes that are kept for later ones. Not tried where other rules
    decide which nodes go: evenness of groups, all-or-nothing groups, gangs that move whole, a bound on simulated nodes.
    """
    settings = task.settings
    ruled = task.balance is not None or settings.max_evaluated
    if not settings.search.exchange_checks or ruled or not task.in_time():
        return plan
    nodes = task.nodes
    every = nodes.eligible if all_waves is None else np.concatenate([nodes.eligible, nodes.later.nodes])
    if nodes.atomic_size[every].any() or (nodes.gangs.of_node[every] >= 0).any():
        return plan
    task = task.searching(plan.staying, state)
    before = plan if all_waves is None else all_waves
    start = current_mark(state)
    problem = prepared(
        task,
        np.concatenate([task.nodes.staying, task.nodes.eligible[::-1]]).astype(np.int32),
        DrainOptions(plan.options.order),
    )
    candidates = np.sort(every[problem.incoming_count[every] == 0]).astype(np.int32)
    if all_waves is not None:
        enters = ~have_used_up_budgets(task.problem) | nodes.unneeded_before
        enters[nodes.later.nodes] = True
        candidates = candidates[enters[candidates]]
    search = Exchange(task, problem, candidates, 1 if all_waves is None else settings.max_waves)
    better = search.improve(before.accepted, before.problem.destination)
    revert(state, start)
    if better is None:
        return plan
    rest = np.concatenate([plan.candidates, plan.later.nodes])
    result = carried_out(task, better, rest[~np.isin(rest, better.nodes)], DrainOptions(plan.options.order))
    return plan if result.stopped_at >= 0 else result


def carried_out(task: DrainTask, better: Improved, rest: Int32, options: DrainOptions) -> DrainSet:
    """Make the first wave of a better plan, and keep the nodes of its later waves for these. rest : int32 other
    candidates, tried after it."""
    first = better.nodes[better.wave == 1]
    if len(first) < len(better.nodes) or len(task.nodes.later.nodes):
        by_wave = np.argsort(better.wave, kind="stable")[len(first) :]
        refilled = task.nodes.later.refilled
        task = task.keeping(LaterCandidates(better.nodes[by_wave], better.wave[by_wave], refilled))
    options = options._replace(repeated=len(first), proposed=better.destination)
    return run(task, np.concatenate([first, rest]).astype(np.int32), options)


def is_worth_exchanging(task: DrainTask, pods: int) -> bool:
    """Return whether the effort pays for an exchange in a plan that moves so many pods."""
    return pays_for(task.settings.search.exchange_checks, pods)
