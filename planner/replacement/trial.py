"""One trial: nodes leave, their pods go to free room of nodes that stay where that costs nothing, and the others to the
cheapest new nodes. The simulation decides what fits. Pure; the moves are undone, or made again by `replay`.

A trial may follow a target, which says what all waves together should do: nodes that leave, new nodes, and how many
pods of each class go where; pods of a class are interchangeable. It may also keep a node in place of a new one of its
group: that costs as much, and the pods of the node do not move, which a search by what sets save does not see.
Symbols: E places, K new nodes of the target, S pod classes.
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from trimtab.planner.cheapest.plan import cheapest_plan
from trimtab.planner.cheapest.portfolio import with_similar_rows_joined
from trimtab.planner.cheapest.problem import PlanBounds
from trimtab.planner.facts.nodes import total
from trimtab.planner.model.settings.scale_up import BEST
from trimtab.planner.model.tuning import (
    KEPT_NODES_TRIED,
    MANY_CELLS,
    MANY_PODS,
    REPEATED_OPENINGS,
    TOLERANCE,
    TRIAL_ROWS,
)
from trimtab.planner.new_nodes.whole_problem import RoomToGrow, RowsOfPods, planned_nodes, whole_problem
from trimtab.planner.placement.group_bounds import class_admission
from trimtab.planner.placement.kernels.search import evacuate
from trimtab.planner.placement.packing import Packer, PodsInSlots, place_in_slots, place_on_new_nodes
from trimtab.planner.placement.waiting import by_class, place_anywhere, place_where, unplaced
from trimtab.planner.replacement.survey import ReplacementContext
from trimtab.planner.simulation.growth import SPARE
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log, current_mark
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Float64, Int32, Int64

NOT_OPEN = -1


class Target(NamedTuple):
    """leaving : bool[N] nodes that are to leave; new : int64[E] new node of the target of a place, NOT_OPEN = a node
    that stays; node : int32[E] node of the simulation, NOT_OPEN = of a new node that is not open; pod_class : int32[E];
    room : int64[E] pods that are still to come; group_of : int64[K]; value : float64[S] worth of room for a pod."""

    leaving: Bool
    new: Int64
    node: Int32
    pod_class: Int32
    room: Int64
    group_of: Int64
    value: Float64

    def open_places(self) -> Bool:
        """Return the places on nodes that are there and have room. bool[E]."""
        return (self.node >= 0) & (self.room > 0)

    def chosen_new(self, pod_class: Int64, price: Float64, may_add: Int64, limit: int) -> list[int]:
        """Return new nodes of the target for pods, those first that take most of them for their price, by the worth of
        room. pod_class : int64[M] of the pods; price : float64[G]; may_add : int64[G]; limit : at most so many."""
        here = np.flatnonzero((self.node < 0) & (self.room > 0))
        classes, need = np.unique(pod_class, return_counts=True)
        column = np.searchsorted(classes, self.pod_class[here])
        fits = classes[np.minimum(column, len(classes) - 1)] == self.pod_class[here]
        here, column = here[fits], column[fits]
        rows, row = np.unique(self.new[here], return_inverse=True)
        takes = np.zeros((len(rows), len(classes)), np.int64)
        np.add.at(takes, (row.reshape(-1), column), self.room[here])
        worth = np.maximum(self.value[classes], TOLERANCE)
        group, room = self.group_of[rows], may_add.copy()
        cost, chosen = np.maximum(price[group], TOLERANCE), list[int]()
        # A new node takes no more than before of the pods that are left, so only the first of the queue is valued anew.
        gains = (np.minimum(takes, need) * worth).sum(axis=1) / cost
        queue = [(-gain, at) for at, gain in enumerate(gains.tolist()) if gain > 0]
        heapify(queue)
        while len(chosen) < limit and queue:
            _, best = heappop(queue)
            served = np.minimum(takes[best], need)
            gain = total(served * worth) / float(cost[best])
            if gain <= 0 or room[group[best]] <= 0:
                continue
            if queue and (-gain, best) > queue[0]:
                heappush(queue, (-gain, best))
                continue
            chosen.append(int(rows[best]))
            room[group[best]] -= 1
            need = need - served
        return chosen

    def opened(self, new: Sequence[int], nodes: Int64) -> "Target":
        """Return the target with new nodes open. new : those of it, NOT_OPEN = a node that is none; nodes : int64 node
        of the simulation of each."""
        node_of, number = np.full(len(self.group_of) + 1, NOT_OPEN, np.int32), np.array(new, np.int64)
        node_of[number[number >= 0]] = nodes[number >= 0]
        return self._replace(node=np.where(self.node < 0, node_of[self.new], self.node).astype(np.int32))

    def filled(self, pod_class: Int64, node: Int32) -> "Target":
        """Return the target without places that pods have taken. pod_class : int64[M], node : int32[M] of the pods."""
        return self._replace(room=self.room - self._taken(pod_class, node))

    def in_place(self, pod_class: Int64, node: Int32) -> tuple[float, float]:
        """Return the worth of room for pods that are where the target has pods of their class, and for those on other
        nodes than any of the target. pod_class : int64[M], node : int32[M] of the pods; its new nodes are open."""
        counts = self._taken(pod_class, node)
        elsewhere = ~np.isin(node, self.node[self.node >= 0])
        return total(self.value[self.pod_class] * counts), total(self.value[pod_class[elsewhere]])

    def _taken(self, pod_class: Int64, node: Int32) -> Int64:
        """Return how many pods are at each place, as far as it has room. int64[E]."""
        if not len(node):
            return np.zeros(len(self.room), np.int64)
        width = np.int64(len(self.value))
        keys, counts = np.unique(node.astype(np.int64) * width + pod_class, return_counts=True)
        mine = np.where(self.node >= 0, self.node.astype(np.int64) * width + self.pod_class, -1)
        at = np.minimum(np.searchsorted(keys, mine), len(keys) - 1)
        return np.minimum(np.where(keys[at] == mine, counts[at], 0), self.room)

    def unopened(self, price: Float64) -> float:
        """Return the price for one hour of the new nodes that are still to come. price : float64[G]."""
        return total(price[self.group_of[np.unique(self.new[(self.node < 0) & (self.room > 0)])]])


def target_of(
    leaving: Bool, group_of: tuple[int, ...], pod_class: Int64, node: Int32, node_count: int, value: Float64
) -> Target:
    """Return the target of a set of moves. leaving : bool[N]; group_of : group of each new node; pod_class, node :
    int32[M] of the pods that move, a new node as node_count + its position; value : float64[S]."""
    width = np.int64(len(value))
    keys, room = np.unique(node.astype(np.int64) * width + pod_class, return_counts=True)
    at, of_class = keys // width, (keys % width).astype(np.int32)
    is_new = at >= node_count
    return Target(
        leaving=leaving,
        new=np.where(is_new, at - node_count, NOT_OPEN),
        node=np.where(is_new, NOT_OPEN, at).astype(np.int32),
        pod_class=of_class,
        room=room.astype(np.int64),
        group_of=np.array(group_of, np.int64),
        value=value,
    )


class Trial(NamedTuple):
    """leaving : int32 nodes that go, ascending; group_of : group of each new node, in the order of opening; pods :
    int32[M] that move, in the order of placing; node : int32[M] where each goes, a new node as N' + its position, N' =
    nodes of the simulation; stuck : int32 pods that find no place: then the trial has failed; of_target : new node of
    the target that each new node is, NOT_OPEN = none; too_many : how many more new nodes were planned than may come, as
    a share of those planned.
    """

    leaving: Int32
    group_of: tuple[int, ...]
    pods: Int32
    node: Int32
    stuck: Int32
    of_target: tuple[int, ...]
    too_many: float = 0.0


class Bench(NamedTuple):
    """What the trials of one wave share. order : int32[D] nodes that stay, best first; may_add : int64[G]; first_spare
    : number of spare nodes that are open already; most_new : new nodes of the wave; rank : int32[P'], by which pods are
    placed.
    """

    context: ReplacementContext
    packer: Packer
    labels: Sequence[Mapping[str, str]]
    order: Int32
    may_add: Int64
    first_spare: int
    most_new: int
    rank: Int32

    @property
    def state(self) -> SimulationState:
        """The simulation's state."""
        return self.packer.simulation.state

    @property
    def spare_nodes(self) -> Int64:
        """The spare nodes that are still closed, but for the last. int64."""
        closed: Int64 = self.packer.growth.spare_nodes[self.first_spare : len(self.packer.growth.spare_nodes) - SPARE]
        return closed


def run_trial(bench: Bench, leaving: Int32, uses_room: Bool, target: Target | None = None) -> Trial:
    """Return how the pods of nodes that leave are placed; the simulation is unchanged. leaving : int32, ascending.
    uses_room : bool[N'], nodes on which pods may be placed; target : whose places come first. Raises MoveLogFullError.
    """
    state, start = bench.state, current_mark(bench.state)
    moved = bench.context.pods.of(leaving)
    pods = moved[np.argsort(bench.rank[moved])]
    evacuate(state, leaving, pods, False)
    allowed = uses_room.copy()
    allowed[leaving] = False
    of_target = _follow(bench, target, pods) if target is not None else []
    group_of: list[int] = [int(target.group_of[new]) for new in of_target] if target is not None else []
    opened = bench.spare_nodes[: len(group_of)]
    allowed[opened] = True
    place_anywhere(state, np.concatenate([opened, bench.order]).astype(np.int32), allowed, pods)
    waiting, too_many = unplaced(state, pods), 0.0
    for _ in range(REPEATED_OPENINGS):
        if not len(waiting):
            break
        more, too_many = _open_nodes(bench, waiting, group_of)
        opened = bench.spare_nodes[len(group_of) : len(group_of) + len(more)]
        group_of += more
        allowed[opened] = True
        waiting = unplaced(state, pods)
        if len(waiting):
            place_anywhere(state, np.concatenate([opened, bench.order]).astype(np.int32), allowed, waiting)
            waiting = unplaced(state, pods)
        if not more:
            break
    check_log(state)
    trial = as_trial(bench, leaving, group_of, pods, of_target)._replace(too_many=too_many)
    revert(state, start)
    return trial


def _follow(bench: Bench, target: Target, pods: Int32) -> list[int]:
    """Place pods as a target has them, and open new nodes of it for the others; return these new nodes."""
    _fill(bench.state, target, pods)
    state, waiting = bench.state, unplaced(bench.state, pods)
    most_new = min(bench.most_new, len(bench.spare_nodes))
    if not len(waiting) or most_new <= 0:
        return []
    new = target.chosen_new(state.pod_class[waiting], bench.context.group_price, bench.may_add, most_new)
    if new:
        place_on_new_nodes(bench.packer, target.group_of[new], waiting[:0], waiting[:0], bench.first_spare)
        _fill(state, target.opened(new, bench.spare_nodes[: len(new)]), waiting)
    return new


def _fill(state: SimulationState, target: Target, pods: Int32) -> None:
    there = target.open_places()
    place_in_slots(
        state,
        PodsInSlots(
            pods,
            state.pod_class[pods].astype(np.int32),
            target.node[there],
            target.pod_class[there],
            target.room[there],
        ),
    )


def _open_nodes(bench: Bench, waiting: Int32, before: list[int]) -> tuple[list[int], float]:
    """Open the cheapest new nodes for pods, and place these as planned; return the group of each node, or none and
    `Trial.too_many`. before : groups of the nodes that the trial has opened already."""
    context, state = bench.context, bench.state
    request, first = context.request, bench.first_spare + len(before)
    spare = bench.spare_nodes[len(before) :]
    most_new = min(bench.most_new - len(before), len(spare))
    may_add = np.minimum(bench.may_add - np.bincount(before, minlength=len(bench.may_add)), most_new)
    bounds = class_admission(bench.packer.simulation, bench.packer.growth, waiting, np.flatnonzero(may_add > 0))
    room = RoomToGrow(bench.packer, request.snapshot.groups, bench.labels, may_add, most_new, first)
    problem, row_of = whole_problem(room, bounds, waiting)
    search = request.settings.search
    cells = len(problem.pods) * int(np.count_nonzero(problem.max_nodes))
    is_large = len(waiting) > MANY_PODS or cells > MANY_CELLS or len(before) > 0
    if is_large and search.replacement_work < BEST.replacement_work:
        problem, joined = with_similar_rows_joined(problem, TRIAL_ROWS)
        row_of = joined[row_of]
        search = search.for_one_of_many(MANY_PODS**2)
    until = PlanBounds(request.limits, request.round.work.time_left, search)
    planned = planned_nodes(
        cheapest_plan(problem, until), RowsOfPods(by_class(bench.packer.simulation, waiting), row_of)
    )
    if len(planned.group_of) > most_new:
        return [], 1 - most_new / len(planned.group_of)
    place_on_new_nodes(bench.packer, planned.group_of, waiting[:0], waiting[:0], first)
    waits = state.pod_node[planned.pods] == NO_NODE
    place_in_slots(state, planned.on(spare, waits))
    return planned.group_of, 0.0


def as_trial(bench: Bench, leaving: Int32, group_of: list[int], pods: Int32, of_target: list[int]) -> Trial:
    """Return the places of the pods, without new nodes that got none."""
    at = bench.state.pod_node[pods]
    opened = bench.spare_nodes[: len(group_of)]
    node_count = len(bench.state.node_state)
    used = np.isin(opened, at)
    number = np.full(node_count + 1, -1, np.int64)
    number[opened[used]] = np.arange(int(used.sum()))
    is_new = (number[at] >= 0) & (at >= 0)
    node = np.where(is_new, node_count + number[at], at).astype(np.int32)
    groups_used = tuple(group for group, is_used in zip(group_of, used.tolist(), strict=True) if is_used)
    following = [*of_target, *[NOT_OPEN] * (len(group_of) - len(of_target))]
    kept_new = tuple(new for new, is_used in zip(following, used.tolist(), strict=True) if is_used)
    return Trial(leaving, groups_used, pods, node, pods[at == NO_NODE], kept_new)


def replay(bench: Bench, trial: Trial) -> Int32:
    """Make the moves of a trial in the simulation; return the pods that no longer fit their nodes. int32."""
    state = bench.state
    evacuate(state, trial.leaving, trial.pods, False)
    place_on_new_nodes(bench.packer, trial.group_of, trial.pods[:0], trial.pods[:0], bench.first_spare)
    target = np.full(len(state.pod_node), NO_NODE, np.int32)
    target[trial.pods] = simulation_nodes(bench, trial)
    # A pod placed since may satisfy an affinity or a spread constraint of another.
    place_where(state, np.ones(len(state.node_state), bool), trial.pods, target)
    check_log(state)
    return unplaced(state, trial.pods)


def simulation_nodes(bench: Bench, trial: Trial) -> Int32:
    """Return the node of the simulation of each moved pod. int32[M]."""
    node_count = len(bench.state.node_state)
    is_new = trial.node >= node_count
    node = trial.node.astype(np.int32)
    node[is_new] = bench.spare_nodes[trial.node[is_new] - node_count]
    return node


def pairs_alike(bench: Bench, trial: Trial) -> Iterator[tuple[int, int]]:
    """Yield (node that leaves, position of a new node of its group), the nodes first whose pods cost most to move; of
    several new nodes the last, which is usually the one with the fewest pods. Ties go to the earlier node.
    """
    context = bench.context
    group = context.request.snapshot.nodes.group[trial.leaving]
    last = {group_row: at for at, group_row in enumerate(trial.group_of)}
    order = np.argsort(-context.pods.cost[trial.leaving], kind="stable")
    for at in order[np.isin(group[order], list(last))][:KEPT_NODES_TRIED].tolist():
        yield int(trial.leaving[at]), last[int(group[at])]


def with_node_kept(bench: Bench, trial: Trial, node: int, new: int) -> Trial | None:
    """Return a trial in which a node stays in place of a new one, None if not all pods find a place. Raises
    MoveLogFullError."""
    state, start = bench.state, current_mark(bench.state)
    leaving = trial.leaving[trial.leaving != node]
    moves = state.pod_node[trial.pods] != node
    pods, place = trial.pods[moves], trial.node[moves]
    group_of = trial.group_of[:new] + trial.group_of[new + 1 :]
    of_target = trial.of_target[:new] + trial.of_target[new + 1 :]
    node_count = len(state.node_state)
    target = np.full(len(state.pod_node), NO_NODE, np.int32)
    stays = place != node_count + new
    place = np.where(place > node_count + new, place - 1, place).astype(np.int32)
    shifted = trial._replace(leaving=leaving, pods=pods, node=np.where(stays, place, node).astype(np.int32))
    target[pods] = simulation_nodes(bench, shifted)
    for follows in (True, False):
        evacuate(state, leaving, pods, False)
        place_on_new_nodes(bench.packer, group_of, pods[:0], pods[:0], bench.first_spare)
        order, used = _used(bench, shifted, node, len(group_of))
        if follows:
            place_where(state, used, pods, target)
        place_anywhere(state, order, used, unplaced(state, pods))
        waiting = unplaced(state, pods)
        check_log(state)
        kept_trial = as_trial(bench, leaving, list(group_of), pods, list(of_target))
        revert(state, start)
        if not len(waiting):
            return kept_trial
    return None


def _used(bench: Bench, trial: Trial, node: int, new_count: int) -> tuple[Int32, Bool]:
    """Return the nodes on which a trial has placed pods, its new nodes and the node that stays, in the order in which
    they are tried, int32, and bool[N']."""
    opened = bench.spare_nodes[:new_count]
    present = trial.node[trial.node < len(bench.state.node_state)]
    order = np.concatenate([[node], opened, bench.order[np.isin(bench.order, present)]]).astype(np.int32)
    used = np.zeros(len(bench.state.node_state), bool)
    used[order] = True
    return order, used
