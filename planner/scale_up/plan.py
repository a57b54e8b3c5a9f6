"""A plan for the waiting pods: which of them have no place on existing or upcoming nodes, which groups grow, where pods
are, why others are left, and how the plan was made.

Nodes being deleted offer no room; the pods still on them, and recently evicted ones, need a place, too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from trimtab.planner.facts.gangs import Gang
from trimtab.planner.facts.nodes import group_prices, total
from trimtab.planner.new_nodes.demand_sets import NOBODY
from trimtab.planner.new_nodes.progress import PlanInProgress, Refusals
from trimtab.planner.new_nodes.whole_problem import PlannedNodes
from trimtab.planner.placement.group_bounds import fits_more_on_new_nodes
from trimtab.planner.placement.waiting import (
    USUAL,
    PlacementOrder,
    Places,
    close_leaving,
    place_waiting,
    place_where,
    places,
    pods_to_move,
    unplaced,
)
from trimtab.planner.scale_up.context import Pending, ScaleUpContext, pending_pods
from trimtab.planner.scale_up.estimate import GroupChoice
from trimtab.planner.simulation.build import Simulation, branch, go_over_to
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log, current_mark, placed_since
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32
from trimtab.v1.reason_pb2 import GangReason


class PodsOnExistingNodes(NamedTuple):
    """Pods placed on existing and upcoming nodes before any node group grows. start : mark before they were placed,
    after nodes being deleted were closed; pods, nodes : int32 pods in the order in which they were placed, and int32
    the node of each."""

    start: int
    pods: Int32
    nodes: Int32

    def depend_on_new_nodes(self, simulation: Simulation) -> bool:
        """Return whether a new node may keep one of the pods from its node: by a topology spread or an affinity."""
        state = simulation.state
        return not bool(state.local_class[state.pod_class[self.pods]].all())


class UnplacedPods(NamedTuple):
    """pending : pods that wait; where : where pods may be placed; pods : int32 all considered ones, including virtual
    ones and those of nodes being deleted; waiting : int32 those without a place for which nodes may be added, most
    important first; placeholders : int32 those without a place, for which nodes are added last; moving : int32 those of
    nodes being deleted; on_existing : those with a place; held_back : int32 those to be placed after node groups
    grew."""

    pending: Pending
    where: Places
    pods: Int32
    waiting: Int32
    placeholders: Int32
    moving: Int32
    on_existing: PodsOnExistingNodes
    held_back: Int32


def pending_of(context: ScaleUpContext) -> Pending:
    """Return the pending pods of a plan."""
    request = context.request
    this = request.round
    return pending_pods(
        request.snapshot, request.settings, this.settings, request.now_ns, this.requested, context.gangs
    )


def place_on_existing_nodes(
    context: ScaleUpContext, simulation: Simulation, placement_order: PlacementOrder = USUAL, held_back: Int32 = NOBODY
) -> UnplacedPods:
    """Place waiting pods wherever there is room, in one of several ways. The moves stay in the simulation.

    held_back : int32 pods that get no place yet. Pods that have to be together on one node get none, either, if one new
    node takes more of them than any other.
    """
    request, leaving, pending = context.request, context.request.leaving, pending_of(context)
    moving = pods_to_move(request.snapshot, leaving, request.round.settings.expendable_priority)
    close_leaving(simulation, leaving, moving)
    start = current_mark(simulation.state)
    upcoming = request.growth.upcoming
    where = places(simulation, request.round.ready & ~leaving, upcoming, placement_order)
    held = placeholders(context, simulation)
    evicted = np.arange(simulation.pod_count, len(simulation.state.pod_node) - len(held), dtype=np.int32)
    asking = unplaced(simulation.state, np.concatenate([evicted, pending.pods[pending.may_add]]))
    together = fits_more_on_new_nodes(simulation, request.growth, where.order, asking)
    held_back = np.concatenate([held_back, together[~np.isin(together, held_back)]])
    groups = (evicted, pending.pods, moving)
    evicted, waiting, leave = (group[~np.isin(group, held_back)] for group in groups) if len(held_back) else groups
    placed = place_waiting(simulation, where, evicted, waiting, context.hint, leave)
    without_place = np.concatenate([placed.left[~np.isin(placed.left, pending.pods[~pending.may_add])], together])
    held_places = place_waiting(simulation, where, held[~np.isin(held, held_back)], NOBODY, NOBODY, NOBODY)
    pods = np.concatenate([placed.pods, held_back[~np.isin(held_back, held)]])
    on_existing = _in_room(simulation, start)
    return UnplacedPods(pending, where, pods, without_place, held_places.left, moving, on_existing, held_back)


def place_at(context: ScaleUpContext, simulation: Simulation, served: UnplacedPods, node: Int32) -> UnplacedPods:
    """Place waiting pods at given destinations, if there is room. node : int32[P'], -1 = nowhere.

    served : result of placing them in another way. The moves stay in the simulation.
    """
    close_leaving(simulation, context.request.leaving, served.moving)
    start = current_mark(simulation.state)
    pods = np.concatenate([served.pods, placeholders(context, simulation)])
    place_where(simulation.state, served.where.allowed, pods, node)
    without_place, held = (unplaced(simulation.state, group) for group in (served.pods, pods[len(served.pods) :]))
    asks = ~np.isin(without_place, served.pending.pods[~served.pending.may_add])
    return served._replace(waiting=without_place[asks], placeholders=held, on_existing=_in_room(simulation, start))


def _in_room(simulation: Simulation, start: int) -> PodsOnExistingNodes:
    pods = placed_since(simulation.state, start)
    return PodsOnExistingNodes(start, pods, simulation.state.pod_node[pods].astype(np.int32))


def placeholders(context: ScaleUpContext, simulation: Simulation) -> Int32:
    """Return the placeholders that keep room, with or without a place, without those of gangs that cannot be whole.
    int32."""
    last, rejected = len(simulation.state.pod_node), context.gangs.rejected
    pods = np.arange(last - len(context.request.round.placeholders), last, dtype=np.int32)
    return pods[~np.isin(pods, rejected)] if len(rejected) else pods


class PlanHistory(NamedTuple):
    """How a plan was made. planned : the plan for all pods at once, None = none was made; choices : in order; reasons :
    int32[G] why a group has no option, 0 = it could have."""

    planned: PlannedNodes | None
    choices: list[GroupChoice]
    reasons: Int32


class Rejection(NamedTuple):
    """reason : `GangReason.Code`; node_groups : ids of those whose limit binds; lacking : pods without a place that it
    needs, 0 = places were not looked for; detail : one sentence."""

    reason: "GangReason.Code.ValueType"
    node_groups: tuple[str, ...] = ()
    lacking: int = 0
    detail: str = ""


class GangOutcome(NamedTuple):
    """gangs : all that have pending pods; rejections : of those without places, by position; refusals : why their pods,
    and others that have to be where their gang is, have none; domains : value of each gang's topology key, "" = none.
    """

    gangs: Sequence[Gang]
    rejections: Mapping[int, Rejection]
    refusals: Refusals
    domains: Sequence[str]


class ScaleUpPlan(NamedTuple):
    """The result of the loop. refusals : why pods are left; is_complete : False if the plan reached its bound while
    node groups might still help; gangs : None if no pod is in one."""

    context: ScaleUpContext
    unplaced: UnplacedPods
    progress: PlanInProgress
    history: PlanHistory
    refusals: Refusals
    is_complete: bool
    gangs: GangOutcome | None = None

    @property
    def unhelped_count(self) -> int:
        """Number of pods that are left, those of gangs included."""
        return len(self.refusals.pods) + (0 if self.gangs is None else len(self.gangs.refusals.pods))

    def bound_after_new_nodes(self) -> Int32:
        """Return the pods on existing and upcoming nodes that are bound only once the new nodes, or pods on them, are
        there. int32. To be called while the simulation contains the plan's moves.
        """
        return np.union1d(self._fitting_after_new_nodes(), self._with_gangs_on_new_nodes()).astype(np.int32)

    def _with_gangs_on_new_nodes(self) -> Int32:
        """Return the pods on other nodes than new ones whose gangs need new nodes for their minimum. int32."""
        state, pods = self.progress.state, [np.zeros(0, np.int32)]
        for gang in () if self.gangs is None else self.gangs.gangs:
            on_others = gang.pending[state.pod_node[gang.pending] != NO_NODE]
            on_others = on_others[~np.isin(state.pod_node[on_others], self.progress.opened)]
            if len(on_others) < gang.need:
                pods.append(on_others)
        return np.concatenate(pods)

    def _fitting_after_new_nodes(self) -> Int32:
        """Return the pods on existing and upcoming nodes that only fit once the new nodes, or pods on them, are there.
        int32."""
        progress, existing, state = self.progress, self.unplaced.on_existing, self.progress.state
        is_new = np.zeros(len(state.node_state), bool)
        is_new[progress.opened] = True
        pods = np.concatenate([existing.pods, progress.pods])
        pods = np.unique(pods[(state.pod_node[pods] != NO_NODE) & ~is_new[state.pod_node[pods]]])
        if (state.pod_node[existing.pods] == existing.nodes).all() and not np.isin(pods, self.unplaced.held_back).any():
            # All that were tried found no place, and room has not grown since.
            later: Int32 = pods[~np.isin(pods, existing.pods)]
            # Where zones without nodes counted, some of them do fit before.
            if not len(later) or not len(self.context.new_domains):
                return later
        node, before = state.pod_node.astype(np.int32), branch(state)
        revert(before, existing.start)
        place_where(before, self.unplaced.where.allowed, pods, node)
        check_log(before)
        return unplaced(before, pods)

    def are_pods(self, pods: Int32) -> Bool:
        """Return which of several pods : int32 are no placeholders. bool[pods]."""
        are_real: Bool = pods < len(self.progress.state.pod_node) - len(self.context.request.round.placeholders)
        return are_real

    def name_of(self, pod: int) -> str:
        """Return "namespace/name" of a pod, recently evicted ones included, or the name of a placeholder."""
        request = self.context.request
        pod_count = self.progress.packer.simulation.pod_count
        if pod < pod_count:
            return request.snapshot.pod_key(pod)
        evictions = request.round.evictions
        if pod - pod_count < len(evictions):
            eviction = evictions[pod - pod_count]
            return f"{eviction.namespace}/{eviction.name}"
        return request.round.placeholders[pod - pod_count - len(evictions)]

    def names_of(self, pods: Int32) -> list[str]:
        """Return `name_of` of many pods."""
        pod_count = self.progress.packer.simulation.pod_count
        if (pods < pod_count).all():
            return self.context.request.snapshot.pod_keys(pods)
        names = iter(self.context.request.snapshot.pod_keys(pods[pods < pod_count]))
        return [next(names) if pod < pod_count else self.name_of(pod) for pod in pods.tolist()]


def better_of(
    first: ScaleUpPlan,
    simulation: Simulation,
    start: int,
    make: Callable[[Simulation], ScaleUpPlan],
    is_better: Callable[[ScaleUpPlan], bool],
) -> ScaleUpPlan:
    """Return another plan, made in a copy of the simulation, if it is better than the first, else this one; the moves
    of the plan returned are in the simulation. start : mark before anything is placed."""
    other = simulation._replace(state=branch(simulation.state))
    revert(other.state, start)
    plan = make(other)
    if not is_better(plan):
        return first
    go_over_to(simulation.state, other.state)
    return plan


def rating(plan: ScaleUpPlan) -> tuple[int, int, float, int]:
    """Return the quality of a plan, smaller is better: pods left, nodes of unknown price, price, nodes."""
    progress = plan.progress
    price = group_prices(progress.groups)[progress.group_of]
    unknown = int(np.isnan(price).sum())
    return len(plan.refusals.pods), unknown, total(np.sort(price)), len(price)
