"""Further nodes that can go, because slack requests fewer placeholders without them.

Slack is a share of the existing nodes. The other searches keep a place for every existing placeholder; this one retries
the nodes with a pod that had no place. All placeholders are taken off, the pods of the node are placed, and the
placeholders are put back: on their previous nodes, else wherever there is room. The node can go if each set has a place
for as many placeholders as it should have without this node and all others that go. Nothing is done while a placeholder
waits for a new node.

Such nodes are the last ones in a plan. In the next loop they are kept out of the other searches, which continue with
the rest of the plan, and are tried all together afterwards.
"""

from collections.abc import Hashable
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.placement.kernels.search import evacuate, place_all
from trimtab.planner.round.round import HeldRoom, Round
from trimtab.planner.scale_down.search.drain_sets import Attempt, Task, ask_again, to_stay_even
from trimtab.planner.scale_down.search.kernels.drain_sets import (
    ACCEPTED,
    DESTINATION,
    NO_PLACE,
    NOT_EVALUATED,
    TAKEN,
    Problem,
    drain_candidates,
)
from trimtab.planner.scale_down.search.portfolio import Choice, choose
from trimtab.planner.scale_down.search.second_look import continued, copied, goes_on, second_pass, try_node
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log, current_mark
from trimtab.planner.simulation.state import NOWHERE, OPEN, SimulationState
from trimtab.planner.snapshot.columns import Bool, Int32, Int64
from trimtab.v1 import reason_pb2

MOST: Final = 8
"""Most such nodes in one plan: for each, all placeholders are taken off and put back."""
PATIENCE: Final = 8
"""Failed tries after which the search stops."""
BALANCE: Final = reason_pb2.UnremovableReason.BALANCE


class PlacedPlaceholders(NamedTuple):
    """Placeholders that depend only on their node, all of them on existing nodes.

    pods : int32[M]; of_set : int64[M]; number : int64[Q] of each set, others included; room : of the round.
    """

    pods: Int32
    of_set: Int64
    number: Int64
    room: HeldRoom


class FurtherNodes(NamedTuple):
    """nodes : int32, those that go because slack requests less without them; dropped : int64[Q], placeholders of each
    set that lose their place."""

    nodes: Int32
    dropped: Int64


NO_FURTHER_NODES: Final = FurtherNodes(np.zeros(0, np.int32), np.zeros(0, np.int64))


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


def choose_with(task: Task, placed: PlacedPlaceholders | None) -> tuple[Choice, FurtherNodes]:
    """Return the choice of the other searches, extended by the further nodes that can go. Raises MoveLogFullError."""
    late = NO_FURTHER_NODES.nodes
    if placed is not None:
        last = task.previous.unneeded[len(task.previous.unneeded) - task.previous.fewer :]
        late = last[np.isin(last, task.nodes.eligible)]
        task = _kept_out(task, late) if len(late) else task
    choice = choose(task)
    attempt = second_pass(task, choice.attempt)
    if placed is None:
        return choice._replace(attempt=attempt), NO_FURTHER_NODES
    attempt, further = _go_on(task, attempt, placed, late)
    return choice._replace(attempt=attempt), further


def _kept_out(task: Task, nodes: Int32) -> Task:
    """Return the task without these nodes of the last plan; pods are placed there only if no other node has room."""
    these = task.nodes
    unneeded_before = these.unneeded_before.copy()
    unneeded_before[nodes] = False
    others = ~np.isin(task.previous.unneeded, nodes)
    previous = task.previous._replace(unneeded=task.previous.unneeded[others], since_ns=task.previous.since_ns[others])
    these = these._replace(
        unneeded_before=unneeded_before,
        eligible=these.eligible[~np.isin(these.eligible, nodes)],
        staying=np.concatenate([these.staying, nodes]).astype(np.int32),
    )
    return task._replace(previous=previous, nodes=these)


def _go_on(task: Task, attempt: Attempt, placed: PlacedPlaceholders, late: Int32) -> tuple[Attempt, FurtherNodes]:
    """Remove late nodes, together or one by one, then others as long as one can go."""
    search = _Search(task, attempt, placed)
    if len(late) and not search.go(late):
        for node in late.tolist():
            if not (search.go_as_any(node) or search.go(np.array([node], np.int32))):
                search.stay(node)
    if attempt.stopped_at < 0:
        search.go_through(_candidates(task, search.problem))
    found = continued(attempt, search.problem)
    return found._replace(evaluated=attempt.evaluated + len(late)), search.further()


def _candidates(task: Task, problem: Problem) -> Int32:
    """Return the nodes that could not go, the emptiest first; those of without all-or-nothing groups. int32."""
    stuck = (problem.outcome == NO_PLACE) | (problem.outcome == DESTINATION)
    eligible = task.nodes.eligible
    nodes = eligible[stuck[eligible] & (task.nodes.atomic_size[eligible] == 0)]
    found: Int32 = nodes[np.lexsort((nodes, task.nodes.scores.utilization[nodes]))]
    return found


class _Search:
    """problem : the current state of the search, with its simulation in the state of the task."""

    def __init__(self, task: Task, attempt: Attempt, placed: PlacedPlaceholders) -> None:
        self.problem = attempt.problem
        self._task = task
        self._placeholders = placed
        self._of_slack = np.zeros(len(attempt.problem.destination), np.bool_)
        self._of_slack[placed.pods] = True
        self._more: list[int] = []

    def further(self) -> FurtherNodes:
        """Return the nodes removed in this way, and the placeholders dropped for them."""
        return FurtherNodes(np.array(self._more, np.int32), self._dropped())

    def go_as_any(self, node: int) -> bool:
        """Remove a node if there is room for all its pods, placeholders included; return whether there is."""
        self.problem, went = try_node(self._task, self.problem, node)
        return went

    def stay(self, node: int) -> None:
        """Record why a node of the last plan stays although each of its pods has a place.

        Pods of other nodes would have none, or groups would be unbalanced.
        """
        problem = self.problem
        if problem.outcome[node] == NOT_EVALUATED:
            pods = problem.pods[problem.offsets[node] : problem.offsets[node + 1]]
            problem.outcome[node] = NO_PLACE if len(pods) else BALANCE
            problem.blocking_pod[node] = pods[0] if len(pods) else -1

    def go_through(self, nodes: Int32) -> None:
        """Remove nodes one after the other if possible, at most `MOST`, until `PATIENCE` tries have failed."""
        patience = PATIENCE
        task, placed = self._task, self._placeholders
        less: dict[Hashable, Int64] = {}
        room = _room(task.state, self.problem, placed)
        for node in nodes.tolist():
            if not patience or len(self._more) >= MOST or not goes_on(task, self.problem):
                break
            kind = placed.room.kind(node)
            if kind not in less:
                less[kind] = self._less(np.array([node], np.int32))
            if room.takes.sum() - room.takes[node] < room.number - less[kind][room.of_set]:
                continue
            if self.go(np.array([node], np.int32)):
                less.clear()
                room = _room(task.state, self.problem, placed)
            else:
                patience -= 1

    def go(self, nodes: Int32) -> bool:
        """Remove nodes if there is room for their pods and for the placeholders required without them.

        Otherwise everything is undone.
        """
        task, placed, state = self._task, self._placeholders, self._task.state
        less = self._less(nodes)
        if (less < 0).any() or not all(self._holds_only_placeholders(node) for node in nodes.tolist()):
            return False
        fork, hint = current_mark(state), np.full(len(state.pod_node), -1, np.int32)
        hint[placed.pods] = state.pod_node[placed.pods]
        evacuate(state, np.zeros(0, np.int32), placed.pods, False)
        tried = copied(_without(self.problem, self._of_slack))
        tried.first_incoming[nodes], tried.incoming_count[nodes] = -1, 0
        bounds = np.full(2, len(nodes), np.int64)
        drain_candidates(
            state, tried, nodes, 0, len(nodes), np.zeros(len(task.nodes.unneeded_before), np.bool_), bounds, 0
        )
        if (tried.outcome[nodes] == ACCEPTED).all() and self._may_all_go(tried):
            tried.search.cursor[:] = 0
            place_all(state, tried.search, hint, tried.destination, tried.counts.copy(), placed.pods, False)
            check_log(state)
            if (self._dropped() <= less).all():
                self.problem = tried._replace(offsets=self.problem.offsets, pods=self.problem.pods)
                self._more += nodes.tolist()
                return True
        check_log(state)
        revert(state, fork)
        return False

    def _less(self, nodes: Int32) -> Int64:
        """Return how many placeholders of each set are no longer required if these nodes go, too. int64[Q]."""
        accepted = self.problem.accepted[: self.problem.counts[TAKEN]]
        return self._placeholders.number - self._placeholders.room.without(np.concatenate([accepted, nodes]))

    def _dropped(self) -> Int64:
        """Return how many placeholders of each set have no place. int64[Q]."""
        nowhere = self._task.state.pod_node[self._placeholders.pods] == NOWHERE
        return np.bincount(self._placeholders.of_set[nowhere], minlength=len(self._placeholders.number))

    def _may_all_go(self, problem: Problem) -> bool:
        accepted = problem.accepted[: problem.counts[TAKEN]]
        return not ask_again(self._task, problem).any() and len(to_stay_even(self._task, accepted)) == 0

    def _holds_only_placeholders(self, node: int) -> bool:
        """Return whether a node has received placeholders only."""
        pod = int(self.problem.first_incoming[node])
        while pod >= 0 and self._of_slack[pod]:
            pod = int(self.problem.next_incoming[pod])
        return pod < 0


def _without(problem: Problem, these: Bool) -> Problem:
    """Return a problem in which these pods : bool[P'] do not have to move. O(pods to move)."""
    moves = ~these[problem.pods]
    upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(moves, dtype=np.int64)])
    return problem._replace(offsets=upto[problem.offsets], pods=problem.pods[moves])


class _Room(NamedTuple):
    """of_set : the largest set; number : of its placeholders; takes : int64[N], how many of them fit each node by
    amounts and static predicates, if no placeholder is there."""

    of_set: int
    number: int
    takes: Int64


def _room(state: SimulationState, problem: Problem, placed: PlacedPlaceholders) -> _Room:
    """Return the room for the largest set. O(N · R + M)."""
    takes = np.zeros(len(state.node_state), np.int64)
    if len(placed.pods) == 0:
        return _Room(0, 0, takes)
    count = np.bincount(placed.of_set)
    largest = int(np.argmax(count))
    of_class = state.pod_class[placed.pods[placed.of_set == largest][0]]
    free, there = state.resources.free.copy(), placed.pods[state.pod_node[placed.pods] != NOWHERE]
    np.add.at(free, state.pod_node[there], state.resources.request[state.pod_class[there]])
    asked = np.flatnonzero(state.resources.request[of_class] > 0)
    may = problem.search.allowed & (state.node_state == OPEN) & (state.blocked[of_class, state.node_class] == 0)
    np.copyto(takes, (free[:, asked] // state.resources.request[of_class, asked]).min(axis=1).clip(0), where=may)
    return _Room(largest, int(count[largest]), takes)
