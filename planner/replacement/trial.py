"""One trial: nodes leave, their pods go to free room of nodes that stay where that costs nothing, and the others to the
cheapest new nodes. The simulation decides what fits. Pure; the moves are undone, or made again by `replay`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.cheapest.plan import cheapest_plan
from trimtab.planner.cheapest.problem import PlanBounds
from trimtab.planner.model.settings.search import BEST
from trimtab.planner.new_nodes.planned_nodes import planned_nodes
from trimtab.planner.new_nodes.whole_problem import RoomToGrow, whole_problem
from trimtab.planner.placement.group_bounds import group_bounds
from trimtab.planner.placement.kernels.search import Search, evacuate
from trimtab.planner.placement.orders import by_class
from trimtab.planner.placement.packing import Packer, packer, place_on_new_nodes
from trimtab.planner.placement.search import new_search
from trimtab.planner.placement.slots import place_in_slots
from trimtab.planner.placement.waiting import in_order, place_in_passes, place_where, unplaced
from trimtab.planner.replacement.growth_need import SPARE
from trimtab.planner.replacement.survey import ReplacementContext
from trimtab.planner.simulation.growth import Growth
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log, current_mark
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32, Int64

MANY_PODS: Final = 64
"""Pods above which new nodes are planned quickly: that costs a quarter and is as good within 0.3 %."""
QUICK_GROUPS: Final = 24


class Trial(NamedTuple):
    """leaving : int32 nodes that go, ascending; group_of : group of each new node, in the order of opening; pods :
    int32[M] that move, in the order of placing; node : int32[M] where each goes, a new node as N' + its position, N' =
    nodes of the simulation; stuck : int32 pods that find no place: then the trial has failed.
    """

    leaving: Int32
    group_of: tuple[int, ...]
    pods: Int32
    node: Int32
    stuck: Int32


class Bench(NamedTuple):
    """What the trials of one wave share. order : int32[D] nodes that stay, best first; may_add : int64[G]; first_spare
    : number of spare nodes that are open already; most_new : new nodes of the wave.
    """

    context: ReplacementContext
    packer: Packer
    labels: Sequence[Mapping[str, str]]
    order: Int32
    may_add: Int64
    first_spare: int
    most_new: int

    @property
    def state(self) -> SimulationState:
        """The simulation's state."""
        return self.packer.simulation.state

    @property
    def spare_nodes(self) -> Int64:
        """The spare nodes that are still closed, but for the last. int64."""
        found: Int64 = self.packer.growth.spare_nodes[self.first_spare : len(self.packer.growth.spare_nodes) - SPARE]
        return found


def bench_packer(context: ReplacementContext, growth: Growth) -> Packer:
    """Return the round's simulation, in which groups can grow."""
    return packer(context.request.round.simulation, growth)


def run_trial(bench: Bench, leaving: Int32, uses_room: Bool) -> Trial:
    """Return how the pods of nodes that leave are placed; the simulation is unchanged. leaving : int32, ascending.
    uses_room : bool[N'], nodes on which pods may be placed. Raises MoveLogFullError.
    """
    state, start = bench.state, current_mark(bench.state)
    pods = in_order(bench.packer.simulation, bench.context.pods.of(leaving))
    evacuate(state, leaving, pods, False)
    allowed = uses_room.copy()
    allowed[leaving] = False
    _place(state, new_search(state, bench.order, allowed), pods)
    group_of: list[int] = []
    left = unplaced(state, pods)
    if len(left):
        group_of = _open_nodes(bench, left)
        opened = bench.spare_nodes[: len(group_of)]
        allowed[opened] = True
        left = unplaced(state, pods)
        if len(left):
            order = np.concatenate([opened, bench.order]).astype(np.int32)
            _place(state, new_search(state, order, allowed), left)
    check_log(state)
    found = _as_trial(bench, leaving, group_of, pods)
    revert(state, start)
    return found


def _open_nodes(bench: Bench, left: Int32) -> list[int]:
    """Open the cheapest new nodes for pods, and place these as planned; return the group of each node."""
    context, state = bench.context, bench.state
    request = context.request
    bounds = group_bounds(bench.packer.simulation, bench.packer.growth, left)
    most = min(bench.most_new, len(bench.spare_nodes))
    room = RoomToGrow(
        bench.packer, request.snapshot.groups, bench.labels, np.minimum(bench.may_add, most), most, bench.first_spare
    )
    problem, row_of = whole_problem(room, bounds, left)
    search, tries = request.settings.search, request.settings.scale_up.max_improvements
    if len(left) > MANY_PODS and search.replacement_work < BEST.replacement_work:
        few = min(search.detailed_groups, QUICK_GROUPS)
        search = replace(search, detailed_groups=few, weightings=1, programme_entries=MANY_PODS**2)
        tries = 0
    until = PlanBounds(request.limits, request.round.work.time_left, tries, search)
    planned = planned_nodes(cheapest_plan(problem, until), by_class(bench.packer.simulation, left), row_of)
    if len(planned.group_of) > most:
        return []
    place_on_new_nodes(bench.packer, planned.group_of, left[:0], left[:0], bench.first_spare)
    waits = state.pod_node[planned.pods] == NO_NODE
    place_in_slots(state, planned.on(bench.spare_nodes, waits))
    return planned.group_of


def _as_trial(bench: Bench, leaving: Int32, group_of: list[int], pods: Int32) -> Trial:
    """Return the places of the pods, without new nodes that got none."""
    at = bench.state.pod_node[pods]
    opened = bench.spare_nodes[: len(group_of)]
    node_count = len(bench.state.node_state)
    used = np.isin(opened, at)
    number = np.full(node_count + 1, -1, np.int64)
    number[opened[used]] = np.arange(int(used.sum()))
    is_new = (number[at] >= 0) & (at >= 0)
    node = np.where(is_new, node_count + number[at], at).astype(np.int32)
    kept = tuple(group for group, is_used in zip(group_of, used.tolist(), strict=True) if is_used)
    return Trial(leaving, kept, pods, node, pods[at == NO_NODE])


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


def _place(state: SimulationState, search: Search, pods: Int32) -> None:
    """Place pods that are on no node."""
    hints = np.full(len(state.pod_node), NO_NODE, np.int32)
    place_in_passes(state, search, hints, hints.copy(), np.zeros(2, np.int64), unplaced(state, pods))
