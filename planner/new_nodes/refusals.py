"""Why no node group helps a pod: checked on one more new node of each group with the plan carried out; and in one
sentence for people.

Failed predicates come first: more nodes would not help. Then come back-off, health and limits of the group.
"""

from collections import Counter
from collections.abc import Mapping, Set
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.model.values import FOLLOWS, LEADS
from trimtab.planner.new_nodes.progress import PlanInProgress
from trimtab.planner.placement.kernels.packing import refusals
from trimtab.planner.predicates.counters import is_unlike_its_class
from trimtab.planner.predicates.order import REASONS
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, UInt8
from trimtab.reason_texts import PREDICATE_TEXTS
from trimtab.v1.reason_pb2 import NodeGroupReason, PredicateReason

_NOT_WITH_LEADER: Final = 1 << PredicateReason.CLAIM_ALLOCATED_ELSEWHERE
_FIRST: Final = (NodeGroupReason.NO_TEMPLATE, NodeGroupReason.NODE_GROUP_INVALID)
"""Reasons for which nothing, or nothing reliable, is known about a new node."""


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
    leading = {claim.shared: at for at, of in enumerate(claims) for claim in of if claim.together == LEADS}
    if not leading:
        return out
    spec_of = snapshot.pods.spec
    for at, pod in enumerate(pods.tolist()):
        for claim in claims[spec_of[pod]] if pod < simulation.pod_count else ():
            if claim.together == FOLLOWS:
                leader = int(np.flatnonzero(spec_of == leading[claim.shared])[0])
                out[at] = leader if placed[leader] < 0 else -1
    return out


def first_predicate(masks: Int64) -> UInt8:
    """Return the first reason of each mask `1 << PredicateReason.Code`, in the scheduler's order."""
    predicate = np.zeros(masks.shape, np.uint8)
    for code in reversed(REASONS):
        predicate[(masks >> code) & 1 == 1] = code
    return predicate


OF_GROUP: Final = {
    NodeGroupReason.MAX_SIZE_REACHED: "at the maximum size",
    NodeGroupReason.RESOURCE_LIMIT_REACHED: "prevented from growing by the limit on {resource}",
    NodeGroupReason.MAX_NEW_NODES_REACHED: "skipped because the plan already adds the maximum number of nodes",
    NodeGroupReason.BACKED_OFF: "in back-off after a scale-up that failed",
    NodeGroupReason.UNHEALTHY: "unhealthy",
    NodeGroupReason.NO_TEMPLATE: "without template and without nodes",
    NodeGroupReason.NOT_WHOLE: "unable to grow as a whole",
    NodeGroupReason.NOT_CHOSEN: "not chosen by an expander",
    NodeGroupReason.PRICE_UNKNOWN: "without a price",
    NodeGroupReason.PRIORITY_INVALID: "with a priority that is not a number",
    NodeGroupReason.NODE_GROUP_INVALID: "with contradictory values",
    NodeGroupReason.NOT_EVALUATED: "not evaluated",
    NodeGroupReason.GANG_INCOMPLETE: "of use only if the pod's gang could be whole",
}
"""What is said of a group that does not help."""
_OF_GROWN_GROUP: Final = {
    NodeGroupReason.MAX_SIZE_REACHED: "filled by this plan up to the maximum size",
    NodeGroupReason.RESOURCE_LIMIT_REACHED: "filled by this plan as far as the limit on {resource} allows",
    NodeGroupReason.MAX_NEW_NODES_REACHED: "filled by this plan, which already adds the maximum number of nodes",
}
"""Of a group that this plan grows for other pods."""


class GrowthInPlan(NamedTuple):
    """What a plan adds. growing : ids of the node groups that grow; limits : by group, the resource whose limit keeps
    it from growing further."""

    growing: Set[str]
    limits: Mapping[str, str]


def why_pending(reasons: Mapping[str, int], failed: Mapping[str, int], growth: GrowthInPlan) -> str:
    """Return the sentence. reasons : `NodeGroupReason.Code` by node group; failed : `PredicateReason.Code` likewise.

    The most frequent reason comes first.
    """
    if not reasons:
        return "there is no node group"
    texts, is_full = Counter[str](), False
    for group, reason in sorted(reasons.items()):
        if group in failed:
            texts[PREDICATE_TEXTS[failed[group]].on_new_node] += 1
            continue
        full = _OF_GROWN_GROUP.get(reason) if group in growth.growing else None  # type: ignore[call-overload]
        is_full |= full is not None
        texts[(full or OF_GROUP[reason]).format(resource=growth.limits.get(group, "resources"))] += 1  # type: ignore[index]
    many = len(reasons)
    parts = (
        f"{count} of {many}: {text}" for text, count in sorted(texts.items(), key=lambda entry: (-entry[1], entry[0]))
    )
    return f"{'no node group has room left' if is_full else 'no node group helps'} ({', '.join(parts)})"
