"""Which nodes can go together: one attempt of the greedy loop over candidates in a given order. The caller undoes an
attempt's moves in the simulation unless it takes the attempt. Never chooses among orders.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.drainability.kernels.limits import BLOCKED
from trimtab.planner.model.execution import Parallel
from trimtab.planner.model.settings import ScaleDownSettings
from trimtab.planner.model.tuning import CANDIDATE_BATCH, DESTINATION_PATIENCE, LEAST_EVALUATED
from trimtab.planner.placement.hints import PodGroups
from trimtab.planner.placement.kernels.search import REMEMBERED, SEARCHES, unknown_room
from trimtab.planner.scale_down.balance import Balance, uneven
from trimtab.planner.scale_down.search.displaced import place_and_record
from trimtab.planner.scale_down.search.headroom import CapacityUse, NodeScores
from trimtab.planner.scale_down.search.kernels.drain_sets import (
    DESTINATION,
    EVALUATED,
    NO_PLACE,
    NOT_EVALUATED,
    TAKEN,
    DrainProblem,
    drain_candidates,
    mark_unplaceable,
    repeat_plan,
)
from trimtab.planner.scale_down.search.kernels.waves import give_back_places, hold_places, mark_without_order
from trimtab.planner.scale_down.state import PreviousLoop
from trimtab.planner.scale_down.whole_gangs import WholeGangs
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log, current_mark
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, UInt8
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2

ATOMIC: Final = reason_pb2.UnremovableReason.ATOMIC_SCALE_DOWN_FAILED
BALANCE: Final = reason_pb2.UnremovableReason.BALANCE
UNBOUNDED: Final = np.iinfo(np.int64).max


class LaterCandidates(NamedTuple):
    """nodes : int32 nodes that are kept out of the first wave's search, those of the last plan's later waves, in its
    order; wave : int32, theirs, ascending; refilled : int64[B] disruptions that budgets allow in later waves."""

    nodes: Int32
    wave: Int32
    refilled: Int64


class TaskNodes(NamedTuple):
    """The nodes of all attempts: candidates and others.

    staying : int32 nodes that are not candidates, in search order; eligible : int32[E] candidates ascending; may_go :
    int32 those and the ones of later waves, ascending; later : these; scores : what orders compare; unneeded_before :
    bool[N], unneeded in the last loop; atomic_size : int32[N] how many nodes of its group have to go with a node, 0 =
    none; gangs : all nodes of such a gang go, or none; waits : bool[N], some pod has to complete before the node goes.
    """

    staying: Int32
    eligible: Int32
    may_go: Int32
    later: LaterCandidates
    scores: NodeScores
    unneeded_before: Bool
    atomic_size: Int32
    gangs: WholeGangs
    waits: Bool


class DrainTask(NamedTuple):
    """The common input of attempts.

    residents : pods by node; unbound_pods : int32 pods for which room is kept, but which are on no node; pending :
    int32 those of them that each attempt places; basis_changed : the inputs of the choice among orders have changed;
    capacity_use : returns the cpu and memory that nodes have and need, not called by a loop that only repeats its plan;
    parallel : runs attempts in parallel.
    """

    state: SimulationState
    problem: DrainProblem
    settings: ScaleDownSettings
    previous: PreviousLoop
    nodes: TaskNodes
    residents: PodGroups
    unbound_pods: Int32
    pending: Int32
    balance: Balance | None
    basis_changed: bool
    capacity_use: Callable[[], CapacityUse]
    time_left: Callable[[], bool] | None
    parallel: Parallel

    @property
    def is_money(self) -> bool:
        """Whether the saving decides before the number of nodes."""
        if self.settings.objective == pb.Objective.UNSPECIFIED:
            price = self.nodes.scores.price[self.nodes.eligible]
            return len(price) > 0 and not bool(np.isnan(price).any())
        return self.settings.objective == pb.Objective.MONEY

    def in_time(self) -> bool:
        """Return whether there is time for another attempt."""
        return self.time_left is None or self.time_left()

    def searching(self, staying: Int32, state: SimulationState) -> "DrainTask":
        """Return the task in another simulation, with the nodes that are not candidates in another search order."""
        return self._replace(state=state, nodes=self.nodes._replace(staying=staying))

    def keeping(self, later: LaterCandidates) -> "DrainTask":
        """Return the task with other nodes kept for later waves; pods of the first wave go there last."""
        nodes = self.nodes
        every = np.union1d(nodes.eligible, nodes.later.nodes)
        others = nodes.staying[~np.isin(nodes.staying, every)]
        nodes = nodes._replace(
            staying=np.concatenate([others, later.nodes[::-1]]).astype(np.int32),
            eligible=np.setdiff1d(every, later.nodes).astype(np.int32),
            later=later,
        )
        return self._replace(nodes=nodes)


class DrainOptions(NamedTuple):
    """Options of an attempt.

    order : `CandidateOrder`; at_most : candidates to evaluate, -1 = all; repeated : how many
    of the first candidates are removed all together first, if possible: those of the last plan or of `proposed`; hinted
    : pending pods are placed on their nodes of the last loop, if possible; proposed : int32[P'] destinations instead of
    those of the last loop, None = those; by_mix : pods rather go where memory will not run out before cpu, or the other
    way round (`CapacityUse.mix`).
    """

    order: int
    at_most: int = -1
    repeated: int = 0
    hinted: bool = False
    proposed: Int32 | None = None
    by_mix: bool = False


class DrainSet(NamedTuple):
    """One run of the greedy loop.

    staying : int32 nodes that are not candidates, in search order; later : those of them that are kept for later waves;
    candidates : int32[E] as tried; reached : how many
    were evaluated; accepted : int32[U] in order; stopped_at : node where a bound stopped the loop, -1 = complete; fresh
    : simulated nodes that were not unneeded in the last loop; problem : outcomes, blocking pods and destinations;
    proven : how many of the accepted nodes were accepted all together, as in the last plan.
    """

    options: DrainOptions
    staying: Int32
    later: LaterCandidates
    candidates: Int32
    reached: int
    accepted: Int32
    evaluated: int
    remembered: int
    searches: int
    stopped_at: int
    fresh: int
    problem: DrainProblem
    proven: int


def run(task: DrainTask, candidates: Int32, options: DrainOptions) -> DrainSet:
    """Run the greedy loop over candidates : int32[E] from the current context.

    If pods would be unplaceable once all accepted nodes are gone, their nodes are left out and the loop runs again,
    until there are none. The same applies to nodes of all-or-nothing groups and of gangs that do not go whole, and to
    nodes that have to stay for balance. Raises MoveLogFullError.
    """
    start, left_out = current_mark(task.state), LeftOut(task)
    while True:
        attempt = _pass(task, candidates, left_out.nodes, options)
        accepted = attempt.accepted
        is_proven, is_whole = attempt.proven == len(accepted), attempt.stopped_at < 0
        stays = left_out.add(attempt.problem, accepted, accepted, is_whole=is_whole, is_proven=is_proven)
        check_log(task.state)
        if not stays.any():
            break
        revert(task.state, start)
    left_out.write(attempt.problem)
    return attempt._replace(evaluated=attempt.evaluated + int(left_out.nodes.sum()))


class LeftOut:
    """The nodes that cannot go with the others of a set. why : uint8[N] `UnremovableReason.Code`, 0 = it can."""

    def __init__(self, task: DrainTask) -> None:
        self._task, count = task, len(task.nodes.unneeded_before)
        self.why: UInt8 = np.zeros(count, np.uint8)
        self._blocking_pod = np.full(count, -1, np.int32)

    @property
    def nodes(self) -> Bool:
        """Which nodes are left out. bool[N]."""
        return self.why > 0

    def add(
        self, problem: DrainProblem, accepted: Int32, new: Int32, *, is_whole: bool = True, is_proven: bool = False
    ) -> Bool:
        """Leave out what cannot go; return these nodes. bool[N]. new : int32, those of the accepted nodes that a step
        has added; is_whole : no bound has stopped the loop; is_proven : each pod is known to have a place."""
        nodes, stays = self._task.nodes, np.zeros_like(self.why)
        if len(new) and not is_proven:
            stays[nodes_with_unplaceable_pods(self._task, problem)] = NO_PLACE
        if len(new) and not stays.any():
            stays[nodes.gangs.torn(new)] = BLOCKED
            if is_whole and nodes.atomic_size[new].any():
                group = self._task.problem.limits.group[new]
                stays[new[np.bincount(group)[group] < nodes.atomic_size[new]]] = ATOMIC
            if not stays.any():
                stays[to_stay_even(self._task, accepted)] = BALANCE
        np.copyto(self.why, stays, where=stays > 0)
        np.copyto(self._blocking_pod, problem.blocking_pod, where=stays == NO_PLACE)
        np.copyto(self._blocking_pod, nodes.gangs.pod, where=stays == BLOCKED)
        return stays > 0

    def write(self, problem: DrainProblem) -> None:
        """Write outcomes and blocking pods."""
        out = self.nodes
        problem.outcome[out], problem.blocking_pod[out] = self.why[out], self._blocking_pod[out]


def to_stay_even(task: DrainTask, accepted: Int32) -> Int32:
    """Return the accepted nodes that have to stay to keep similar groups and zones within the limit."""
    return accepted[uneven(task.balance, accepted)] if task.balance else accepted[:0]


def nodes_with_unplaceable_pods(task: DrainTask, problem: DrainProblem) -> Bool:
    """Mark the accepted nodes of pods that would not fit at their destinations. bool[N].

    All moved pods are checked once more, with pending pods placed or not: each has to fit in the end, and there has to
    be an order in which the scheduler can place them.
    """
    unplaceable = np.zeros(len(task.nodes.unneeded_before), bool)
    if not task.state.local_class.all():
        groups = task.residents
        for unbound_pods in (
            (task.unbound_pods[:0], task.unbound_pods) if len(task.unbound_pods) else (task.unbound_pods,)
        ):
            mark_unplaceable(task.state, problem, groups.offsets, groups.members, unbound_pods, unplaceable)
            mark_without_order(task.state, problem, unbound_pods, unplaceable)
    return unplaceable


class _Cursor:
    """How far a pass over the candidates is.

    candidates : int32[C] those that are tried; repeated : how many of the first were in the last plan; end : how many
    may be tried; position : the first that has not been; still_to_simulate : int64[1], how many more new nodes may be.
    """

    def __init__(self, task: DrainTask, every: Int32, left_out: Bool, options: DrainOptions) -> None:
        tried = ~left_out[every]
        self.candidates: Int32 = every[tried]
        self.repeated = int(np.count_nonzero(tried[: options.repeated]))
        self.in_batches = options.at_most < 0
        self.end = len(self.candidates) if self.in_batches else int(np.count_nonzero(tried[: options.at_most]))
        self.position = 0
        self._most_simulated = task.settings.max_evaluated or UNBOUNDED
        self.still_to_simulate = np.array([self._most_simulated], np.int64)

    @property
    def fresh(self) -> int:
        """How many nodes have been simulated that were not unneeded in the last loop."""
        return self._most_simulated - int(self.still_to_simulate[0])

    @property
    def tried(self) -> Int32:
        """The candidates before the position. int32."""
        return self.candidates[: self.position]

    @property
    def stopped_at(self) -> int:
        """The candidate at the position, -1 = all have been tried."""
        return int(self.candidates[self.position]) if self.position < len(self.candidates) else -1

    def advance(self, task: DrainTask, problem: DrainProblem) -> None:
        """Try the candidates from the position on, in batches as far as time and bounds allow."""
        before = task.nodes.unneeded_before
        while self.position < self.end:
            last = self._batch_end(task)
            first = self.position
            self.position = int(
                drain_candidates(task.state, problem, self.candidates, first, last, before, self.still_to_simulate, 0)
            )
            if self.position < last or first == last:
                break

    def _batch_end(self, task: DrainTask) -> int:
        """Return how far to go before the clock is read again; the position itself if time is up."""
        if task.time_left is None or not self.in_batches:
            return self.end
        if task.time_left():
            return min(self.position + CANDIDATE_BATCH, self.end)
        still_to_evaluate = LEAST_EVALUATED - self.fresh
        if still_to_evaluate <= 0 and not task.nodes.unneeded_before[self.candidates[self.position]]:
            return self.position
        return min(self.position + max(still_to_evaluate, 1), self.end)


def _pass(task: DrainTask, every: Int32, left_out: Bool, options: DrainOptions) -> DrainSet:
    """Go over the candidates once, as far as time and bounds allow.

    every : int32[E] candidates; left_out : bool[N], those that stay anyway. Destinations are searched among the nodes
    that stay anyway, then among the candidates, last first.
    """
    cursor, before = _Cursor(task, every, left_out, options), task.nodes.unneeded_before
    search_order = np.concatenate([task.nodes.staying, every[left_out[every]], cursor.candidates[::-1]])
    problem, proven = _begin(task, search_order, cursor.candidates[: cursor.repeated], options)
    cursor.position = proven
    # Other plans than a continued or a proposed one need not leave later waves what these need.
    keeps = options.hinted or options.proposed is not None
    held, problem = holding(task, problem, task.nodes.later.nodes if keeps else task.nodes.later.nodes[:0])
    cursor.advance(task, problem)
    tried = cursor.tried
    if _is_more_than_a_repetition(task, problem, cursor.fresh):
        drain_candidates(
            task.state, problem, tried, 0, len(tried), before, cursor.still_to_simulate, DESTINATION_PATIENCE
        )
    give_back(task, problem, held)
    stopped_at = cursor.stopped_at
    return DrainSet(
        options=options,
        staying=task.nodes.staying,
        later=task.nodes.later,
        candidates=every,
        reached=len(every) if stopped_at < 0 else int(np.flatnonzero(every == stopped_at)[0]),
        accepted=problem.accepted[: problem.counts[TAKEN]].copy(),
        evaluated=int(problem.counts[EVALUATED]),
        remembered=0 if options.proposed is not None else int(problem.counts[REMEMBERED]),
        searches=int(problem.counts[SEARCHES]),
        stopped_at=stopped_at,
        fresh=cursor.fresh,
        problem=problem,
        proven=proven,
    )


def holding(task: DrainTask, problem: DrainProblem, nodes: Int32) -> tuple[Int32, DrainProblem]:
    """Hold room for the pods of nodes : int32[K] that go later; return these nodes, and the problem.

    None are returned if their pods do not all fit where they would go.
    """
    if len(nodes):
        problem = problem._replace(hint=problem.hint.copy())
    # Kernels are called without nodes, too: then they are compiled before there are later waves.
    allowed = problem.search.allowed[nodes]
    problem.search.allowed[nodes] = False
    if hold_places(task.state, problem, nodes):
        return nodes, problem
    problem.search.allowed[nodes] = allowed
    return nodes[:0], problem


def give_back(task: DrainTask, problem: DrainProblem, held: Int32) -> None:
    """Put the pods of nodes for which room was held back on these."""
    give_back_places(task.state, problem, held)
    problem.search.allowed[held] = task.problem.search.allowed[held]


def _begin(task: DrainTask, search_order: Int32, before: Int32, options: DrainOptions) -> tuple[DrainProblem, int]:
    """Return the problem to continue with, and how many nodes of the last plan are already gone in it: all, or none.

    Pending pods are placed first, so removed nodes leave them room. search_order : int32[N] nodes in the order in which
    places are searched.

    before : int32 nodes of the last plan. They are removed all together: one after the other, pods passed on between
    nodes could block each other although they do not in the end.
    """
    start = current_mark(task.state)
    problem = prepared(task, search_order, options)
    if len(before) == 0:
        return problem, 0
    if repeat_plan(task.state, problem, before) and not nodes_with_unplaceable_pods(task, problem).any():
        return problem, len(before)
    revert(task.state, start)
    return prepared(task, search_order, options), 0


def prepared(task: DrainTask, search_order: Int32, options: DrainOptions) -> DrainProblem:
    """Return an initial problem, with the pending pods placed that fit somewhere."""
    problem = copied(task.problem)
    problem.outcome[:] = NOT_EVALUATED
    problem.blocking_pod[:] = -1
    search = problem.search._replace(order=search_order, most_free=unknown_room(search_order))
    problem = problem._replace(search=search)
    if options.proposed is not None:
        problem = problem._replace(hint=options.proposed)
    if options.by_mix:
        mixed = np.zeros(len(problem.search.cursor), np.int64)
        problem = problem._replace(search=problem.search._replace(mix=task.capacity_use().mix, mixed=mixed))
    if len(task.pending):
        if not options.hinted:
            problem = problem._replace(hint=problem.hint.copy())
            problem.hint[task.pending] = -1
        place_and_record(task.state, problem, task.pending, False)
    return problem


def _is_more_than_a_repetition(task: DrainTask, problem: DrainProblem, fresh: int) -> bool:
    """Return whether a pass has found anything new since the last loop.

    That is: new candidates, lost ones, or a candidate with a pod for which no room was kept there in the last loop.
    """
    again = problem.accepted[: problem.counts[TAKEN]]
    lost = int(task.nodes.unneeded_before[task.nodes.eligible].sum()) - int(task.nodes.unneeded_before[again].sum())
    # A node added by scale-up is not a candidate.
    at = problem.destination[task.unbound_pods]
    on_nodes = (at >= 0) & (at < len(problem.outcome))
    pods, at = task.unbound_pods[on_nodes], at[on_nodes]
    is_new_destination = (problem.outcome[at] == DESTINATION) & (problem.hint[pods] != at)
    return task.basis_changed or fresh > 0 or lost > 0 or bool(is_new_destination.any())


def copied(problem: DrainProblem) -> DrainProblem:
    """Copy the arrays that an attempt changes; the search for destinations starts anew."""
    search = problem.search
    return problem._replace(
        search=search._replace(
            allowed=search.allowed.copy(), cursor=np.zeros_like(search.cursor), failed=np.zeros_like(search.failed)
        ),
        limits=problem.limits.copied(),
        incoming_count=problem.incoming_count.copy(),
        first_incoming=problem.first_incoming.copy(),
        next_incoming=problem.next_incoming.copy(),
        outcome=problem.outcome.copy(),
        blocking_pod=problem.blocking_pod.copy(),
        destination=problem.destination.copy(),
        counts=problem.counts.copy(),
        accepted=problem.accepted.copy(),
    )
