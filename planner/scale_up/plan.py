"""A plan for the waiting pods: which groups grow, where pods are, why others are left, and how it was made."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from trimtab.planner.facts.gangs import Gang
from trimtab.planner.facts.nodes import group_prices, total
from trimtab.planner.new_nodes.progress import PlanInProgress
from trimtab.planner.new_nodes.refusals import Refusals
from trimtab.planner.new_nodes.whole_problem import PlannedNodes
from trimtab.planner.placement.waiting import place_where, unplaced
from trimtab.planner.scale_up.context import ScaleUpContext
from trimtab.planner.scale_up.estimate import GroupChoice
from trimtab.planner.scale_up.waiting_pods import UnplacedPods
from trimtab.planner.simulation.build import Simulation, branch, go_over_to
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32
from trimtab.v1.reason_pb2 import GangReason


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
