"""A plan for the waiting pods: which groups grow, where pods are, why others are left, and how it was made.

Why no node group helps a pod is checked on one more new node of each group with the plan carried out. Failed predicates
come first: more nodes would not help. Then come back-off, health and limits of the group.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.gangs import Gang
from trimtab.planner.facts.nodes import group_prices, total
from trimtab.planner.model.values import FOLLOWS, LEADS
from trimtab.planner.new_nodes.planned_nodes import PlannedNodes
from trimtab.planner.placement.kernels.packing import refusals
from trimtab.planner.placement.waiting import place_where, unplaced
from trimtab.planner.predicates.counters import is_unlike_its_class
from trimtab.planner.predicates.order import REASONS
from trimtab.planner.scale_up.context import ScaleUpContext
from trimtab.planner.scale_up.estimate import GroupChoice
from trimtab.planner.scale_up.progress import PlanInProgress
from trimtab.planner.scale_up.waiting_pods import UnplacedPods
from trimtab.planner.simulation.build import Simulation, branch
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32, Int64, UInt8
from trimtab.v1.reason_pb2 import GangReason, NodeGroupReason, PredicateReason

_NOT_WITH_LEADER: Final = 1 << PredicateReason.CLAIM_ALLOCATED_ELSEWHERE
_FIRST: Final = (NodeGroupReason.NO_TEMPLATE, NodeGroupReason.NODE_GROUP_INVALID)
"""Reasons for which nothing, or nothing reliable, is known about a new node."""


class PlanHistory(NamedTuple):
    """How a plan was made. planned : the plan for all pods at once, None = none was made; choices : in order; reasons :
    int32[G] why a group has no option, 0 = it could have."""

    planned: PlannedNodes | None
    choices: list[GroupChoice]
    reasons: Int32


class Refusals(NamedTuple):
    """Why pods are left, by kind of pod: pods of one kind get the same answer.

    pods : int32[M]; kind : int64[M]; reason : uint8[kinds, G] `NodeGroupReason.Code`; predicate : uint8[kinds, G]
    `PredicateReason.Code` with PREDICATE_FAILED; helped : bool[M] a group that may grow admits the pod.
    """

    pods: Int32
    kind: Int64
    reason: UInt8
    predicate: UInt8
    helped: Bool


class Rejection(NamedTuple):
    """gang : position among the gangs with pending pods; reason : `GangReason.Code`; node_groups : ids of those whose
    limit binds; lacking : pods without a place that it needs, 0 = places were not looked for; detail : one sentence."""

    gang: int
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
        state, found = self.progress.state, [np.zeros(0, np.int32)]
        for gang in () if self.gangs is None else self.gangs.gangs:
            on_others = gang.pending[state.pod_node[gang.pending] != NO_NODE]
            on_others = on_others[~np.isin(state.pod_node[on_others], self.progress.opened)]
            if len(on_others) < gang.need:
                found.append(on_others)
        return np.concatenate(found)

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
        found: Bool = pods < len(self.progress.state.pod_node) - len(self.context.request.round.placeholders)
        return found

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
        known = iter(self.context.request.snapshot.pod_keys(pods[pods < pod_count]))
        return [next(known) if pod < pod_count else self.name_of(pod) for pod in pods.tolist()]


def rating(plan: ScaleUpPlan) -> tuple[int, int, float, int]:
    """Return the quality of a plan, smaller is better: pods left, nodes of unknown price, price, nodes."""
    progress = plan.progress
    price = group_prices(progress.groups)[progress.group_of]
    unknown = int(np.isnan(price).sum())
    return len(plan.refusals.pods), unknown, total(np.sort(price)), len(price)


def refuse(progress: PlanInProgress, pods: Int32, excluded: Int32) -> Refusals:
    """Return why no group helps pods : int32[M], which are on no node. O(kinds · groups · terms).

    excluded : int32[G] why a group could have no option, 0 = it could.
    """
    state, limits, count = progress.state, progress.limits, len(progress.groups)
    alone = is_unlike_its_class(state.counters, pods) | (state.pinned[pods] != -1)
    # A pod with volumes is a kind of its own.
    kinds, first, kind = np.unique(
        np.where(alone, -1 - pods.astype(np.int64), state.pod_class[pods]), return_index=True, return_inverse=True
    )
    masks = np.zeros((len(kinds), count), np.int64)
    if count and len(pods):
        templates = progress.packer.growth.template_node
        refusals(state, progress.spare, templates, pods[first], masks)
        followed = _leaders(progress.packer.simulation, pods[first])
        if (follows := np.flatnonzero(followed >= 0)).size:
            # All pods that share a claim go to one node: what keeps the one out that leads keeps all out.
            led = np.zeros((len(follows), count), np.int64)
            refusals(state, progress.spare, templates, followed[follows], led)
            masks[follows] = (masks[follows] & ~_NOT_WITH_LEADER) | led
    now = limits.reasons
    own = np.where(now != 0, now, excluded).astype(np.uint8)
    reason = np.broadcast_to(own, masks.shape).copy()
    failed = (masks > 0) & ~np.isin(own, _FIRST)
    reason[failed] = NodeGroupReason.PREDICATE_FAILED
    reason[reason == 0] = NodeGroupReason.NOT_EVALUATED
    helped = ((now == 0) & (masks == 0)).any(axis=1)
    return Refusals(pods, kind.reshape(-1), reason, first_predicate(masks) * failed, helped[kind.reshape(-1)])


def _leaders(simulation: Simulation, pods: Int32) -> Int32:
    """Return for each of pods : int32[M] the one that it follows because of a claim that they share, if that is on no
    node, -1 = none. int32[M]."""
    out, snapshot, placed = np.full(len(pods), -1, np.int32), simulation.snapshot, simulation.state.pod_node
    if snapshot.devices.is_empty:
        return out
    claims = [spec.claims for spec in snapshot.specs]
    leading = {one.shared: at for at, of in enumerate(claims) for one in of if one.together == LEADS}
    if not leading:
        return out
    spec_of = snapshot.pods.spec
    for at, pod in enumerate(pods.tolist()):
        for one in claims[spec_of[pod]] if pod < simulation.pod_count else ():
            if one.together == FOLLOWS:
                leader = int(np.flatnonzero(spec_of == leading[one.shared])[0])
                out[at] = leader if placed[leader] < 0 else -1
    return out


def first_predicate(masks: Int64) -> UInt8:
    """Return the first reason of each mask `1 << PredicateReason.Code`, in the scheduler's order."""
    found = np.zeros(masks.shape, np.uint8)
    for code in reversed(REASONS):
        found[(masks >> code) & 1 == 1] = code
    return found
