"""The expander CHEAPEST_PLAN: all groups at once, for all pods that need new nodes.

Converts the simulation into the problem in numbers (`trimtab.planner.new_nodes.whole_problem`), and the plan back into
new nodes with pods. Constraints that the numbers do not contain take effect when the pods are placed; a pod that then
finds no place is handled group by group.
"""

import numpy as np

from trimtab.planner.cheapest.plan import cheapest_plan
from trimtab.planner.cheapest.problem import PlanBounds
from trimtab.planner.new_nodes.planned_nodes import PlannedNodes, planned_nodes, without_others
from trimtab.planner.new_nodes.whole_problem import RoomToGrow, whole_problem
from trimtab.planner.placement.group_bounds import group_bounds
from trimtab.planner.placement.orders import by_class
from trimtab.planner.scale_up.context import ScaleUpContext
from trimtab.planner.scale_up.progress import PlanInProgress
from trimtab.planner.snapshot.columns import Int32


def plan_whole(
    context: ScaleUpContext, progress: PlanInProgress, left: Int32, *, fewest_nodes: bool = False
) -> PlannedNodes:
    """Return the plan for pods left : int32, which have no place. Once the time is over, the first plan found.

    fewest_nodes : every node costs the same.
    """
    request = context.request
    until = PlanBounds(
        request.limits, request.round.work.time_left, request.settings.max_improvements, request.settings.search
    )
    simulation = progress.packer.simulation
    bounds = group_bounds(simulation, progress.packer.growth, left)
    problem, row_of = whole_problem(_room(context, progress), bounds, left)
    if fewest_nodes:
        problem = problem._replace(price=np.ones(len(problem.price)))
    found = cheapest_plan(problem, until)
    return _within_limits(progress, planned_nodes(found, by_class(simulation, left), row_of))


def _room(context: ScaleUpContext, progress: PlanInProgress) -> RoomToGrow:
    return RoomToGrow(
        progress.packer,
        progress.groups,
        context.expanders.groups.labels,
        progress.limits.may_add,
        progress.spare_nodes_left,
        len(progress.group_of),
    )


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
