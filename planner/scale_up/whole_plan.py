"""The expander CHEAPEST_PLAN: all groups at once, for all pods that need new nodes.

Converts the simulation into the problem in numbers (`trimtab.planner.scale_up.whole_problem`), and the plan back into
new nodes with pods. Constraints that the numbers do not contain take effect when the pods are placed; a pod that then
finds no place is handled group by group.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.placement.group_bounds import group_bounds
from trimtab.planner.placement.orders import PodsByClass, by_class
from trimtab.planner.placement.slots import PodsInSlots
from trimtab.planner.scale_up.cheapest.plan import cheapest_plan
from trimtab.planner.scale_up.cheapest.problem import Plan, PlanBounds
from trimtab.planner.scale_up.context import ScaleUpContext
from trimtab.planner.scale_up.progress import PlanInProgress
from trimtab.planner.scale_up.whole_problem import whole_problem
from trimtab.planner.snapshot.columns import Bool, Int32, Int64

_GOLDEN: Final = (5**0.5 - 1) / 2


class PlannedNodes(NamedTuple):
    """group_of : group of each new node; node, row : int32[E] new node of a slot, from 0 in the order of `group_of`,
    and row of the problem; room : int64[E] pods of the row that are planned there; pods, rows : int32[M] all pods, in
    the order in which those of a row are placed, and the row of each.
    """

    group_of: list[int]
    node: Int32
    row: Int32
    room: Int64
    pods: Int32
    rows: Int32

    def on(self, nodes: Int64, waits: Bool) -> PodsInSlots:
        """Return the pods that wait : bool[M], and the slots on these nodes : int64, of the simulation."""
        pods, rows = self.pods[waits], self.rows[waits]
        return PodsInSlots(pods, rows, nodes[self.node].astype(np.int32), self.row, self.room)


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
    problem, row_of = whole_problem(context, progress, bounds, left)
    if fewest_nodes:
        problem = problem._replace(price=np.ones(len(problem.price)))
    found = cheapest_plan(problem, until)
    return _within_limits(progress, _planned(found, *_in_turn(by_class(simulation, left), row_of)))


def _in_turn(pods: PodsByClass, row_of: Int64) -> tuple[Int32, Int32]:
    """Return the pods and the row of each, int32[M]; those of classes that share a row in turn. row_of : int64[C]."""
    counts = np.diff(pods.offsets)
    of = np.repeat(np.arange(len(counts)), counts)
    rank = np.arange(len(of)) - pods.offsets[:-1][of]
    # Classes begin at different places, as far apart as the multiples of the golden ratio are.
    place = (rank + (of * _GOLDEN) % 1.0) / counts[of]
    order = np.lexsort((of, place, row_of[of]))
    return pods.members[order], row_of[of][order].astype(np.int32)


def _planned(plan: Plan, pods: Int32, rows: Int32) -> PlannedNodes:
    """Return the slots on each new node. O(nodes · entries + pods)."""
    batch = np.repeat(np.arange(len(plan.nodes)), plan.nodes)
    lengths = np.diff(plan.offsets)[batch]
    within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    entry, node = np.repeat(plan.offsets[:-1][batch], lengths) + within, np.repeat(np.arange(len(batch)), lengths)
    group_of: list[int] = np.repeat(plan.group, plan.nodes).tolist()
    return PlannedNodes(group_of, node.astype(np.int32), plan.classes[entry], plan.pods[entry], pods, rows)


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
    number = np.full(len(planned.group_of), -1, np.int32)
    number[kept] = np.arange(len(kept))
    there = number[planned.node] >= 0
    return planned._replace(
        group_of=[planned.group_of[node] for node in kept],
        node=number[planned.node[there]],
        row=planned.row[there],
        room=planned.room[there],
    )
