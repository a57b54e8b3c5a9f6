"""Further nodes that can go, because slack, a share of the existing nodes, requests fewer placeholders without them.

This search retries the nodes with a pod that had no place: all placeholders are taken off, the pods of the node are
placed, and the placeholders put back, on their previous nodes, else wherever there is room. The node can go if each set
has a place for as many placeholders as it should have then. Such nodes are the last ones in a plan; in the next loop
they are kept out of the other searches and tried all together afterwards. While a plan has later waves, or a
placeholder waits for a new node, there are none.
"""

from collections.abc import Hashable
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.model.tuning import SLACK_DEPENDENT_NODES, SLACK_PATIENCE
from trimtab.planner.placement.kernels.search import NO_MOST, REMEMBERED, SEARCHES, evacuate, place_all
from trimtab.planner.round.round import HeldRoom, Round
from trimtab.planner.scale_down.search.drain_sets import (
    DrainSet,
    DrainTask,
    copied,
    nodes_with_unplaceable_pods,
    to_stay_even,
)
from trimtab.planner.scale_down.search.kernels.drain_sets import (
    ACCEPTED,
    DESTINATION,
    NO_PLACE,
    NOT_EVALUATED,
    TAKEN,
    DrainProblem,
    drain_candidates,
)
from trimtab.planner.scale_down.search.portfolio import ChosenDrainSet, choose
from trimtab.planner.scale_down.search.waves import Waves, add_waves
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log, current_mark
from trimtab.planner.simulation.state import OPEN, SimulationState
from trimtab.planner.snapshot.columns import NO_NODE, Int32, Int64
from trimtab.v1 import reason_pb2

BALANCE: Final = reason_pb2.UnremovableReason.BALANCE


class PlacedPlaceholders(NamedTuple):
    """Placeholders that depend only on their node, all of them on existing nodes.

    pods : int32[M]; of_set : int64[M]; number : int64[Q] of each set, others included; room : of the round.
    """

    pods: Int32
    of_set: Int64
    number: Int64
    room: HeldRoom


class SlackDependentNodes(NamedTuple):
    """nodes : int32, those that go because slack requests less without them; dropped : int64[Q], placeholders of each
    set that lose their place."""

    nodes: Int32
    dropped: Int64


NO_SLACK_DEPENDENT_NODES: Final = SlackDependentNodes(np.zeros(0, np.int32), np.zeros(0, np.int64))


class ChosenPlan(NamedTuple):
    """chosen : the set of all nodes that go, in any wave; waves : its waves; slack_dependent : its nodes that go only
    because slack then requests less."""

    chosen: ChosenDrainSet
    waves: Waves
    slack_dependent: SlackDependentNodes


def placeholders_on_nodes(this: Round) -> PlacedPlaceholders | None:
    """Return the placeholders; None if there are none, or if one waits for room: then slack is being built up."""
    simulation, room = this.simulation, this.room
    state, count = simulation.state, len(room.names)
    first = len(state.pod_node) - count
    node = state.pod_node[first:]
    if not count or node.min() < 0 or node.max() >= simulation.node_count:
        return None
    number = np.diff(room.bounds)
    local = state.local_class[state.pod_class[first:]] != 0
    of_set = np.repeat(np.arange(len(number)), number)[local]
    return PlacedPlaceholders((first + np.flatnonzero(local)).astype(np.int32), of_set, number, room)


def choose_with_slack(task: DrainTask, placed: PlacedPlaceholders | None) -> ChosenPlan:
    """Return the choice of the other searches, extended by those nodes that can go. Raises MoveLogFullError."""
    slack_dependent = NO_SLACK_DEPENDENT_NODES.nodes
    if placed is not None:
        last = task.previous.unneeded[len(task.previous.unneeded) - task.previous.slack_dependent_count :]
        slack_dependent = last[np.isin(last, task.nodes.eligible)]
        task = _without_candidates(task, slack_dependent) if len(slack_dependent) else task
    choice = choose(task)
    waves = add_waves(task, choice.drain_set)
    attempt, removed = waves.drain_set, NO_SLACK_DEPENDENT_NODES
    if placed is not None and waves.has_later:
        for node in slack_dependent.tolist():
            _record_reason(attempt.problem, node, _first_pod(attempt.problem, node))
    elif placed is not None:
        attempt, removed = _extended(task, attempt, placed, slack_dependent)
        waves = waves._replace(drain_set=attempt, wave=np.ones(len(attempt.accepted), np.int32))
    return ChosenPlan(choice._replace(drain_set=attempt), waves, removed)


def _without_candidates(task: DrainTask, nodes: Int32) -> DrainTask:
    """Return the task without these nodes of the last plan; pods are placed there only if no other node has room."""
    task_nodes = task.nodes
    unneeded_before = task_nodes.unneeded_before.copy()
    unneeded_before[nodes] = False
    others = ~np.isin(task.previous.unneeded, nodes)
    previous = task.previous._replace(unneeded=task.previous.unneeded[others], since_ns=task.previous.since_ns[others])
    task_nodes = task_nodes._replace(
        unneeded_before=unneeded_before,
        eligible=task_nodes.eligible[~np.isin(task_nodes.eligible, nodes)],
        staying=np.concatenate([task_nodes.staying, nodes]).astype(np.int32),
    )
    return task._replace(previous=previous, nodes=task_nodes)


def _extended(
    task: DrainTask, attempt: DrainSet, placed: PlacedPlaceholders, last: Int32
) -> tuple[DrainSet, SlackDependentNodes]:
    """Return the attempt with the nodes `last` : int32 of the last plan removed, together or one by one, then others as
    long as one can go."""
    search = _SlackSearch(task, attempt.problem, placed)
    if len(last) and not search.try_remove(last):
        for node in last.tolist():
            if not search.try_remove(np.array([node], np.int32)):
                _record_reason(search.problem, node, _first_pod(attempt.problem, node))
    if attempt.stopped_at < 0:
        search.try_each(_candidates(task, search.problem))
    problem = search.problem._replace(offsets=attempt.problem.offsets, pods=attempt.problem.pods)
    extended = attempt._replace(
        accepted=problem.accepted[: problem.counts[TAKEN]].copy(),
        remembered=int(problem.counts[REMEMBERED]),
        searches=int(problem.counts[SEARCHES]),
        evaluated=attempt.evaluated + len(last),
        problem=problem,
    )
    return extended, search.slack_dependent()


def _record_reason(problem: DrainProblem, node: int, first_pod: int = -1) -> None:
    """Record why a node of the last plan stays, although each of its pods has a place.

    Pods of other nodes would have none, or groups would be unbalanced. first_pod : of those to move, -1 = none.
    """
    if problem.outcome[node] == NOT_EVALUATED:
        problem.outcome[node] = NO_PLACE if first_pod >= 0 else BALANCE
        problem.blocking_pod[node] = first_pod


def _first_pod(problem: DrainProblem, node: int) -> int:
    """Return the first pod that a node has to move, -1 if none."""
    first, end = problem.offsets[node : node + 2].tolist()
    return int(problem.pods[first]) if first < end else -1


def _candidates(task: DrainTask, problem: DrainProblem) -> Int32:
    """Return the nodes that could not go, the emptiest first, without those that go only with others. int32."""
    unplaceable = (problem.outcome == NO_PLACE) | (problem.outcome == DESTINATION)
    eligible = task.nodes.eligible
    alone = (task.nodes.atomic_size[eligible] == 0) & (task.nodes.gangs.of_node[eligible] < 0)
    nodes = eligible[unplaceable[eligible] & alone]
    emptiest_first: Int32 = nodes[np.lexsort((nodes, task.nodes.scores.utilization[nodes]))]
    return emptiest_first


class _SlackSearch:
    """Tries to remove nodes while placeholders give way.

    problem : the result of the last try that removed nodes, whose moves the task's simulation contains; placeholders
    are not among its pods to move, because each try places them anew.
    """

    def __init__(self, task: DrainTask, problem: DrainProblem, placed: PlacedPlaceholders) -> None:
        self._task = task
        self._placeholders = placed
        self._is_placeholder = np.zeros(len(problem.destination), np.bool_)
        self._is_placeholder[placed.pods] = True
        self._removed: list[int] = []
        moves = ~self._is_placeholder[problem.pods]
        upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(moves, dtype=np.int64)])
        self.problem = problem._replace(offsets=upto[problem.offsets], pods=problem.pods[moves])

    def slack_dependent(self) -> SlackDependentNodes:
        """Return the nodes removed in this way, and the placeholders dropped for them."""
        return SlackDependentNodes(np.array(self._removed, np.int32), self._dropped())

    def try_each(self, nodes: Int32) -> None:
        """Remove nodes : int32 one after the other if possible, at most SLACK_DEPENDENT_NODES, until SLACK_PATIENCE
        tries have failed."""
        patience = SLACK_PATIENCE
        task, placed = self._task, self._placeholders
        less: dict[Hashable, Int64] = {}
        room = _room(task.state, self.problem, placed)
        for node in nodes.tolist():
            if not patience or len(self._removed) >= SLACK_DEPENDENT_NODES or not task.in_time():
                break
            kind = placed.room.demand.kind(node)
            if kind not in less:
                less[kind] = self._less(np.array([node], np.int32))
            if room.takes.sum() - room.takes[node] < room.number - less[kind][room.of_set]:
                continue
            if self.try_remove(np.array([node], np.int32)):
                less.clear()
                room = _room(task.state, self.problem, placed)
            else:
                patience -= 1

    def try_remove(self, nodes: Int32) -> bool:
        """Remove nodes : int32 if there is room for their pods and for the placeholders required without them; return
        whether there is. If not, the simulation and the problem are as before."""
        less = self._less(nodes)
        if (less < 0).any() or not all(self._holds_only_placeholders(node) for node in nodes.tolist()):
            return False
        fork = current_mark(self._task.state)
        tried = self._tried(nodes, less)
        if tried is None:
            check_log(self._task.state)
            revert(self._task.state, fork)
            return False
        self.problem = tried
        self._removed += nodes.tolist()
        return True

    def _tried(self, nodes: Int32, less: Int64) -> DrainProblem | None:
        """Take all placeholders off, remove the nodes, and place the placeholders again, where they were if possible.

        Return the problem with the nodes removed; None if one of them cannot go, or if more placeholders than `less` :
        int64[Q] of a set have no place. The moves stay in the simulation either way: the caller goes back to its mark.
        A mark undoes moves only, so the problem, which the kernels write too, is a copy, whose search starts anew:
        while placeholders are off there is more room than its bounds say. A branch of the simulation would need the
        same, and copy the state besides.
        """
        state, pods = self._task.state, self._placeholders.pods
        hint = np.full(len(state.pod_node), -1, np.int32)
        hint[pods] = state.pod_node[pods]
        evacuate(state, np.zeros(0, np.int32), pods, False)
        tried = copied(self.problem)
        tried = tried._replace(search=tried.search._replace(most_free=NO_MOST))
        tried.first_incoming[nodes], tried.incoming_count[nodes] = -1, 0
        bounds = np.full(1, len(nodes), np.int64)
        drain_candidates(state, tried, nodes, 0, len(nodes), np.zeros(len(tried.outcome), np.bool_), bounds, 0)
        accepted = tried.accepted[: tried.counts[TAKEN]]
        if not (tried.outcome[nodes] == ACCEPTED).all() or len(to_stay_even(self._task, accepted)):
            return None
        if nodes_with_unplaceable_pods(self._task, tried).any():
            return None
        tried.search.cursor[:] = 0
        place_all(state, tried.search, hint, tried.destination, tried.counts.copy(), pods, False)
        check_log(state)
        return tried if (self._dropped() <= less).all() else None

    def _less(self, nodes: Int32) -> Int64:
        """Return how many placeholders of each set are no longer required if these nodes go, too. int64[Q]."""
        accepted = self.problem.accepted[: self.problem.counts[TAKEN]]
        return self._placeholders.number - self._placeholders.room.demand.without(np.concatenate([accepted, nodes]))

    def _dropped(self) -> Int64:
        """Return how many placeholders of each set have no place. int64[Q]."""
        nowhere = self._task.state.pod_node[self._placeholders.pods] == NO_NODE
        return np.bincount(self._placeholders.of_set[nowhere], minlength=len(self._placeholders.number))

    def _holds_only_placeholders(self, node: int) -> bool:
        pod = int(self.problem.first_incoming[node])
        while pod >= 0 and self._is_placeholder[pod]:
            pod = int(self.problem.next_incoming[pod])
        return pod < 0


class _PlaceholderRoom(NamedTuple):
    """of_set : the largest set; number : of its placeholders; takes : int64[N], how many of them fit each node by
    amounts and static predicates, if no placeholder is there."""

    of_set: int
    number: int
    takes: Int64


def _room(state: SimulationState, problem: DrainProblem, placed: PlacedPlaceholders) -> _PlaceholderRoom:
    """Return the room for the largest set. O(N · R + M)."""
    takes = np.zeros(len(state.node_state), np.int64)
    if len(placed.pods) == 0:
        return _PlaceholderRoom(0, 0, takes)
    count = np.bincount(placed.of_set)
    largest = int(np.argmax(count))
    of_class = state.pod_class[placed.pods[placed.of_set == largest][0]]
    free, there = state.resources.free.copy(), placed.pods[state.pod_node[placed.pods] != NO_NODE]
    np.add.at(free, state.pod_node[there], state.resources.request[state.pod_class[there]])
    used = np.flatnonzero(state.resources.request[of_class] > 0)
    may = problem.search.allowed & (state.node_state == OPEN) & (state.blocked[of_class, state.node_class] == 0)
    np.copyto(takes, (free[:, used] // state.resources.request[of_class, used]).min(axis=1).clip(0), where=may)
    return _PlaceholderRoom(largest, int(count[largest]), takes)
