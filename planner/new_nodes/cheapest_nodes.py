"""The cheapest new nodes, of all groups at once, for all pods that need some, as a proposal; and new nodes with which
all of some pods have a place, or none at all.

Converts the simulation into the problem in numbers (`trimtab.planner.new_nodes.whole_problem`), and the plan back into
new nodes with pods. Constraints that the numbers do not contain take effect when the pods are placed; a pod that then
finds no place is for the caller to handle: the expander CHEAPEST_PLAN then grows group by group.

All or none: the cheapest nodes come first (at least price, or the fewest where prices are missing), then a whole
all-or-nothing group with the cheapest others, then first fit over all groups.
"""

import numpy as np

from trimtab.planner.cheapest.plan import cheapest_plan, single_class_plan
from trimtab.planner.cheapest.problem import NO_ZONE, PlanBounds, Problem
from trimtab.planner.model.tuning import MOST_NARROWED
from trimtab.planner.new_nodes.progress import PlanInProgress
from trimtab.planner.new_nodes.whole_problem import (
    PlannedNodes,
    RoomToGrow,
    RowsOfPods,
    in_zones,
    merged,
    planned_nodes,
    problem_of_classes,
    whole_problem,
    without_others,
    zones_of_pods,
)
from trimtab.planner.placement.group_bounds import GroupBounds, group_bounds
from trimtab.planner.placement.packing import GrowingGroups, pack
from trimtab.planner.placement.waiting import by_class, unplaced
from trimtab.planner.simulation.log import check_log
from trimtab.planner.snapshot.columns import Int32, Int64


def plan_whole(
    progress: PlanInProgress,
    waiting: Int32,
    until: PlanBounds,
    bounds: GroupBounds | None = None,
    *,
    fewest_nodes: bool = False,
    choose_zones: bool = False,
) -> PlannedNodes:
    """Return the plan for pods waiting : int32, which have no place. Once the time is over, the first plan found.

    bounds : of these pods, None = not known; fewest_nodes : every node costs the same; choose_zones : pods that zones
    bind have zones before nodes are chosen.
    """
    simulation, room = progress.packer.simulation, progress.room_to_grow
    bounds = bounds or group_bounds(simulation, progress.packer.growth, waiting)
    for _ in range(MOST_NARROWED):
        if choose_zones:
            problem, pods = _in_zones(room, bounds, waiting)
        else:
            problem, row_of = whole_problem(room, bounds, waiting)
            pods = RowsOfPods(by_class(simulation, waiting), row_of)
        if fewest_nodes:
            problem = problem._replace(price=np.ones(len(problem.price)))
        plan = single_class_plan(problem) or cheapest_plan(problem, until)
        added = np.bincount(np.repeat(plan.group, plan.nodes), minlength=len(room.may_add)).astype(np.int64)
        if progress.limits.admit(added):
            break
        # Groups that use up a limit leave room to others.
        room, largest = room._replace(may_add=room.may_add.copy()), int(added.argmax())
        room.may_add[largest] = _admitted_count(progress, added, largest)
    return _within_limits(progress, planned_nodes(plan, pods))


def _admitted_count(progress: PlanInProgress, added: Int64, group: int) -> int:
    """Return how many nodes of a group, fewer than in `added` : int64[G], limits admit beside the others."""
    least, largest, other = 0, int(added[group]) - 1, added.copy()
    while least < largest:
        other[group] = -(-(least + largest) // 2)
        least, largest = (
            (int(other[group]), largest) if progress.limits.admit(other) else (least, int(other[group]) - 1)
        )
    return least


def _in_zones(room: RoomToGrow, bounds: GroupBounds, waiting: Int32) -> tuple[Problem, RowsOfPods]:
    """Return the problem in which pods that zones bind have a zone, and the rows of the pods, those with a zone first.
    waiting : int32."""
    simulation = room.packer.simulation
    problem = problem_of_classes(room, bounds, waiting)
    pods, zone = zones_of_pods(room, problem, bounds, waiting)
    zone_of = np.full(len(simulation.state.pod_node), NO_ZONE, np.int32)
    zone_of[pods] = zone
    rows = np.searchsorted(bounds.classes, simulation.state.pod_class[waiting])
    divided, kind, part = in_zones(problem, bounds.kind, rows, zone_of[waiting])
    problem, row_of = merged(divided, kind)
    place = np.full(len(zone_of), -1, np.int32)
    place[waiting] = row_of[part]
    others = waiting[zone_of[waiting] == NO_ZONE]
    classes = by_class(simulation, others)
    return problem, RowsOfPods(classes, place[others][classes.first].astype(np.int64), pods, place[pods])


def _within_limits(progress: PlanInProgress, planned: PlannedNodes) -> PlannedNodes:
    """Drop the last nodes of a plan that limits shared by several groups do not allow."""
    added = np.zeros(len(progress.groups), np.int64)
    np.add.at(added, np.array(planned.group_of, np.int64), 1)
    count = min(len(planned.group_of), progress.spare_nodes_left)
    if count == len(planned.group_of) and progress.limits.admit(added):
        return planned
    added[:] = 0
    nodes: list[int] = []
    for node, group in enumerate(planned.group_of):
        added[group] += 1
        if len(nodes) < count and progress.limits.admit(added):
            nodes.append(node)
        else:
            added[group] -= 1
    return without_others(planned, nodes)


def place_all(progress: PlanInProgress, pods: Int32, until: PlanBounds) -> bool:
    """Place all pods : int32[M], on no node, in this order, on new nodes and return True; or change nothing and return
    False. Raises MoveLogFullError."""
    simulation = progress.packer.simulation
    bounds, may_add = group_bounds(simulation, progress.packer.growth, pods), progress.may_add
    if not (bounds.admitted & (may_add > 0)).any(axis=1).all():
        return False
    before = progress.checkpoint()
    helps = bounds.admitted.any(axis=0) & (may_add > 0)
    atomic = progress.is_atomic & (may_add > 1)
    for whole in (None, *np.flatnonzero(helps & atomic).tolist()):
        progress.open([whole] * int(may_add[whole]) if whole is not None else [], pods[:0], pods[:0])
        first = len(progress.group_of)
        waiting = progress.fill_in_passes(pods, progress.new_nodes) if whole is not None else pods
        planned = plan_whole(progress, waiting, until, bounds if whole is None else None) if len(waiting) else None
        if planned is not None:
            progress.open(planned.group_of, pods[:0], pods[:0])
            progress.place_in_slots(planned.on(progress.opened[first:], np.ones(len(planned.pods), bool)))
        if _is_served(progress, pods):
            return True
        progress.return_to(before)
    groups = np.flatnonzero(helps & ~atomic)
    growing = GrowingGroups(groups.tolist(), [0] * len(groups), may_add[groups].tolist())
    packed = pack(progress.packer, growing, pods, progress.spare_nodes_left, len(progress.group_of))
    added = np.bincount(groups[packed.group_of], minlength=len(may_add)).astype(np.int64)
    if packed.placed == len(pods) and progress.limits.admit(added):
        progress.open(groups[packed.group_of].tolist(), packed.pods, packed.node_of)
        if _is_served(progress, pods):
            return True
        progress.return_to(before)
    return False


def _is_served(progress: PlanInProgress, pods: Int32) -> bool:
    """Place the pods that are left on new nodes; return whether all have a place once nodes without pods are gone."""
    waiting = progress.fill_in_passes(unplaced(progress.state, pods), progress.new_nodes)
    is_served = not len(waiting) and not len(progress.replay(progress.needed()))
    check_log(progress.state)
    return is_served
