"""The expander CHEAPEST_PLAN: all groups at once, for all pods that need new nodes.

Converts the simulation into the problem in numbers (`trimtab.planner.new_nodes.whole_problem`), and the plan back into
new nodes with pods. Constraints that the numbers do not contain take effect when the pods are placed; a pod that then
finds no place is handled group by group.
"""

import numpy as np

from trimtab.planner.cheapest.plan import cheapest_plan
from trimtab.planner.cheapest.problem import NO_ZONE, PlanBounds, Problem
from trimtab.planner.new_nodes.planned_nodes import PlannedNodes, RowsOfPods, planned_nodes, without_others
from trimtab.planner.new_nodes.whole_problem import (
    RoomToGrow,
    in_zones,
    merged,
    problem_of_classes,
    whole_problem,
    zones_of_pods,
)
from trimtab.planner.placement.group_bounds import GroupBounds, group_bounds
from trimtab.planner.placement.orders import by_class
from trimtab.planner.scale_up.context import ScaleUpContext
from trimtab.planner.scale_up.progress import PlanInProgress
from trimtab.planner.snapshot.columns import Int32


def plan_whole(
    context: ScaleUpContext,
    progress: PlanInProgress,
    left: Int32,
    *,
    fewest_nodes: bool = False,
    choose_zones: bool = False,
) -> PlannedNodes:
    """Return the plan for pods left : int32, which have no place. Once the time is over, the first plan found.

    fewest_nodes : every node costs the same; choose_zones : pods that zones bind have zones before nodes are chosen.
    """
    request = context.request
    until = PlanBounds(request.limits, request.round.work.time_left, request.settings.search)
    simulation = progress.packer.simulation
    bounds = group_bounds(simulation, progress.packer.growth, left)
    room = RoomToGrow(
        progress.packer,
        progress.groups,
        context.expanders.groups.labels,
        progress.limits.may_add,
        progress.spare_nodes_left,
        len(progress.group_of),
    )
    if choose_zones:
        problem, pods = _in_zones(room, bounds, left)
    else:
        problem, row_of = whole_problem(room, bounds, left)
        pods = RowsOfPods(by_class(simulation, left), row_of)
    if fewest_nodes:
        problem = problem._replace(price=np.ones(len(problem.price)))
    return _within_limits(progress, planned_nodes(cheapest_plan(problem, until), pods))


def _in_zones(room: RoomToGrow, bounds: GroupBounds, left: Int32) -> tuple[Problem, RowsOfPods]:
    """Return the problem in which pods that zones bind have a zone, and the rows of the pods, those with a zone first.
    left : int32."""
    simulation = room.packer.simulation
    problem = problem_of_classes(room, bounds, left)
    pods, zone = zones_of_pods(room, problem, bounds, left)
    zone_of = np.full(len(simulation.state.pod_node), NO_ZONE, np.int32)
    zone_of[pods] = zone
    rows = np.searchsorted(bounds.classes, simulation.state.pod_class[left])
    divided, kind, part = in_zones(problem, bounds.kind, rows, zone_of[left])
    problem, row_of = merged(divided, kind)
    place = np.full(len(zone_of), -1, np.int32)
    place[left] = row_of[part]
    others = left[zone_of[left] == NO_ZONE]
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
    kept: list[int] = []
    for node, group in enumerate(planned.group_of):
        added[group] += 1
        if len(kept) < count and progress.limits.admit(added):
            kept.append(node)
        else:
            added[group] -= 1
    return without_others(planned, kept)
