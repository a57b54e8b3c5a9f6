"""The cluster before any pod is moved for a replacement: which nodes may go, what they cost, and what their pods are.

The simulation has the moves of earlier decisions: nodes that scale-down removes are gone, new nodes of scale-up are
open, and pods that wait have places. A node on which such pods are to come stays; one that takes pods of scale-down may
go with them, once they are there. Symbols: P pods and N nodes of
the snapshot, G node groups, B PodDisruptionBudgets.

What pods and nodes say about their own disruption, in Karpenter's annotations: which must not be disrupted, and what
the eviction of each costs. Scale-down heeds the former on nodes of Karpenter (`drainability`). Pure.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from trimtab.common.kubernetes.signals.karpenter import DISRUPTION_COST
from trimtab.common.kubernetes.signals.well_known import AUTOSCALING_DISRUPTION_COST
from trimtab.planner.drainability import outcome, pod_columns, rules
from trimtab.planner.drainability.pod_columns import DrainFacts, facts_of
from trimtab.planner.facts import pdb
from trimtab.planner.facts.node_limits import Spare, consolidation_of_nodes, spare
from trimtab.planner.facts.nodes import (
    eviction_rating,
    group_prices,
    pools_of_nodes,
    prices,
    undisrupted_until_s,
)
from trimtab.planner.facts.pdb import Exhausted
from trimtab.planner.facts.readiness import overdue, unhealthy
from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.placement.group_templates import GroupTemplates
from trimtab.planner.placement.limits import Limits
from trimtab.planner.replacement.settings import ReplacementSettings
from trimtab.planner.replacement.state import KnownState
from trimtab.planner.round.decision import Decided, DecisionRequest, room_to_grow
from trimtab.planner.round.waiting import starting_for_pods
from trimtab.planner.simulation.growth import Growth
from trimtab.planner.simulation.state import OPEN
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64, Snapshot, UInt8
from trimtab.planner.snapshot.dictionaries import entries_of
from trimtab.planner.snapshot.references import take_or
from trimtab.planner.snapshot.texts import string_index
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import BlockingPodReason, NodeGroupReason, ReplacementLimit, UnremovableReason

COSTS: Final = (AUTOSCALING_DISRUPTION_COST.key, DISRUPTION_COST.key)
"""The last one that a pod has counts, in place of its deletion cost."""
_MOST: Final = 2.0**31


def disruption_ratings(snapshot: Snapshot, rating: Float64, priority: Int64) -> Float64:
    """Return the cost of evicting each pod, with the costs of its annotations. rating : float64[P] by deletion costs;
    priority : int64[S] of the specs. float64[P]. A cost that is not a number counts as absent."""
    pods, found = snapshot.pods, rating
    for key in COSTS:
        mine = np.flatnonzero(snapshot.pods.number_key == string_index(snapshot.strings, key))
        mine = mine[np.isfinite(pods.number[mine])]
        if len(mine):
            rows = pods.number_pod[mine]
            found = found.copy()
            found[rows] = eviction_rating(np.clip(pods.number[mine], -_MOST, _MOST - 1), priority[pods.spec[rows]])
    return found


class ReplacementRequest(DecisionRequest[ReplacementSettings, pb.ReplacementState]):
    """The round, the settings of replacement, and its state of the last answer."""

    __slots__ = ()

    @property
    def growth(self) -> Growth:
        """The virtual nodes with which groups grow."""
        return self.round.growth_of(pb.Decision.REPLACEMENT)


class NodeVerdicts(NamedTuple):
    """Why nodes stay. limit : uint8[N] `ReplacementLimit.Code`, 0 = the node may go; unremovable : uint8[N]
    `UnremovableReason.Code`, 0 = none; blocking_pod : int32[N], -1 = none; blocking_reason : uint8[N]
    `BlockingPodReason.Code`."""

    limit: UInt8
    unremovable: UInt8
    blocking_pod: Int32
    blocking_reason: UInt8


class MovablePods(NamedTuple):
    """Pods that have to be placed elsewhere if their node goes, by node: those of node n are
    pods[offsets[n] : offsets[n + 1]], ascending. evicted : bool[M], whether it is a pod of the snapshot and not a
    placeholder; cost : float64[N] cost rating of the evictions; evictions : int64[N] how many.
    """

    offsets: Int64
    pods: Int32
    evicted: Bool
    cost: Float64
    evictions: Int64

    def of(self, nodes: Int32 | Int64) -> Int32:
        """Return the pods of some nodes, node by node. int32."""
        found: Int32 = self.pods[entries_of(self.offsets, nodes)]
        return found


class ReplacementContext(NamedTuple):
    """Everything known before any pod is moved. price : float64[N], NaN = unknown; there : bool[N], in the cluster
    after the decisions before; group_price : float64[G]; usable :
    bool[G], the group may get new nodes for a replacement; takes_pods : bool[N], scale-down moves pods there; pool :
    int32[N] of `node_pools`; excluded : int32[G] `NodeGroupReason.Code`; budgets_now, budgets_later : int64[B]
    evictions that budgets allow in the first wave, and in later ones; unhealthy : why nothing goes, "" = it may.
    """

    request: ReplacementRequest
    known: KnownState
    facts: DrainFacts
    price: Float64
    there: Bool
    verdicts: NodeVerdicts
    pods: MovablePods
    templates: GroupTemplates
    limits: Limits
    spare: Spare
    group_price: Float64
    usable: Bool
    takes_pods: Bool
    pool: Int32
    excluded: Int32
    budgets_now: Int64
    budgets_later: Int64
    unhealthy: str

    @property
    def candidates(self) -> Int32:
        """Nodes that may go, ascending. int32."""
        return np.flatnonzero(self.verdicts.limit == 0).astype(np.int32)


def survey(request: ReplacementRequest, known: KnownState) -> ReplacementContext:
    """Evaluate everything once. O(P + N + G), vectorised."""
    snapshot, settings, this = request.snapshot, request.settings, request.round
    facts = facts_of(snapshot, request.cache, request.limits)
    leaving = request.leaving
    there = this.simulation.state.node_state[: len(leaving)] == OPEN
    templates, limits = room_to_grow(this, settings.scale_up)
    group_price = group_prices(snapshot.groups)
    excluded = _excluded(request, limits, group_price, known)
    under = facts.under
    moves = this.settings.gangs.move_running
    budgets_now = pdb.remaining(snapshot, request.cache, move_running=moves)
    budgets_later = pdb.refilled(snapshot, request.cache, move_running=moves)
    drawn = _moved_pods(request)
    pdb.use_up(under, budgets_now, drawn)
    codes = _judged(request, facts, pdb.exhausted(under, budgets_later, len(snapshot.budgets)))
    pods = _movable(request, facts, codes)
    context = ReplacementContext(
        request=request,
        known=known,
        facts=facts,
        price=prices(snapshot),
        there=there & ~leaving,
        verdicts=_none(len(leaving)),
        pods=pods,
        templates=templates,
        limits=limits,
        spare=_spare(request, there, leaving),
        group_price=group_price,
        usable=excluded == NodeGroupReason.UNSPECIFIED,
        pool=pools_of_nodes(snapshot),
        takes_pods=_takes_pods(request, there | leaving),
        excluded=excluded,
        budgets_now=budgets_now,
        budgets_later=budgets_later,
        unhealthy=unhealthy(
            snapshot, this.ready, leaving, this.settings.readiness, settings.scale_down, request.now_ns
        ),
    )
    return context._replace(verdicts=_verdicts(context, codes))


def _spare(request: ReplacementRequest, there: Bool, leaving: Bool) -> Spare:
    """Return what groups and resources have above their minimums once scale-down has removed its nodes."""
    snapshot = request.snapshot
    left = spare(snapshot, request.round.settings.limits, leaving)
    by_scale_down = np.flatnonzero(~there & ~leaving & (snapshot.nodes.group >= 0))
    np.subtract.at(left.group_left, left.group[by_scale_down], 1)
    np.subtract(left.amount_left, left.amount[by_scale_down].sum(axis=0), out=left.amount_left)
    return left


def _count_grown(request: ReplacementRequest, limits: Limits) -> None:
    """Count the nodes that scale-up adds in this round."""
    grown: Decided | None = request.round.decided.get(pb.Decision.SCALE_UP)
    if grown is None:
        return
    decision: Any = grown.result
    row = {group.id: number for number, group in enumerate(request.snapshot.groups)}
    for split in decision.splits:
        limits.count_nodes(row[split.node_group], split.new_size - split.current_size)


def _none(count: int) -> NodeVerdicts:
    zeros = np.zeros(count, np.uint8)
    return NodeVerdicts(zeros, zeros, np.full(count, -1, np.int32), zeros)


def _excluded(request: ReplacementRequest, limits: Limits, group_price: Float64, known: KnownState) -> Int32:
    """Count the nodes that scale-up adds, and return why each group gets no new ones. `NodeGroupReason.Code`, 0 = it
    may. int32[G]. A group at its maximum may get some once others of its nodes have gone.
    """
    _count_grown(request, limits)
    reasons = limits.reasons.copy()
    reasons[reasons == NodeGroupReason.MAX_SIZE_REACHED] = NodeGroupReason.UNSPECIFIED
    whole = np.array([group.zero_or_max for group in request.snapshot.groups], bool)
    reasons[whole & (reasons == 0)] = NodeGroupReason.NOT_WHOLE
    late = overdue(request.snapshot, request.now_ns, request.round.settings.readiness)
    reasons[(known.avoided | late) & (reasons == 0)] = NodeGroupReason.BACKED_OFF
    reasons[np.isnan(group_price) & (reasons == 0)] = NodeGroupReason.PRICE_UNKNOWN
    return reasons


def _moved_pods(request: ReplacementRequest) -> Int64:
    """Return the running pods that earlier decisions evict. int64."""
    snapshot = request.snapshot
    at = request.round.simulation.state.pod_node[: len(snapshot.pods.spec)]
    found: Int64 = np.flatnonzero((snapshot.pods.node >= 0) & (at != snapshot.pods.node) & (at >= 0))
    return found


def _judged(request: ReplacementRequest, facts: DrainFacts, exhausted: Exhausted) -> UInt8:
    """Return the outcome of the rules for each pod. uint8[P]. exhausted : no wave has room in its budgets."""
    snapshot, settings = request.snapshot, request.settings
    columns = pod_columns.at(snapshot, facts.pods, settings.scale_down, request.now_ns).with_exhausted(exhausted)
    # A limit of its own, which settings may switch off.
    columns = columns._replace(undisrupted_until_s=np.zeros_like(columns.undisrupted_until_s))
    ignored = facts.ignored(snapshot, request.round.settings.expendable_priority)
    return rules.judge_budgets(columns, rules.judge_counted(columns, ignored))


def _movable(request: ReplacementRequest, facts: DrainFacts, codes: UInt8) -> MovablePods:
    """Return the pods to move, placeholders included. O(P log P)."""
    snapshot, this = request.snapshot, request.round
    count, node_count, at = len(codes), len(snapshot.nodes.name), this.simulation.state.pod_node
    moves = (codes != outcome.SKIP) & ~facts.pods.daemon & ~facts.pods.mirror & (at[:count] >= 0)
    first = count + len(this.evictions)
    virtual = np.arange(first, first + len(this.placeholders))
    pods = np.concatenate([np.flatnonzero(moves), virtual[at[virtual] >= 0]])
    pods = pods[at[pods] < node_count]
    node = at[pods]
    order = np.argsort(node, kind="stable")
    pods, node = pods[order], node[order]
    evicted = pods < count
    rating = np.zeros(len(pods))
    rating_of = disruption_ratings(request.snapshot, facts.rating, facts.priority)
    rating[evicted] = np.maximum(rating_of[pods[evicted]], 0.0)
    return MovablePods(
        offsets=np.searchsorted(node, np.arange(node_count + 1)).astype(np.int64),
        pods=pods.astype(np.int32),
        evicted=evicted,
        cost=np.bincount(node, rating, node_count).astype(np.float64),
        evictions=np.bincount(node[evicted], minlength=node_count).astype(np.int64),
    )


def _verdicts(context: ReplacementContext, codes: UInt8) -> NodeVerdicts:
    """Return which nodes may go, and why others stay. The first that applies is the reason."""
    request, snapshot = context.request, context.request.snapshot
    nodes, settings, count = snapshot.nodes, request.settings, len(context.request.leaving)
    at = _running_on(request, count)
    blocked = outcome.blocks(codes) & (at >= 0)
    rows = np.flatnonzero(blocked)[::-1]
    blocking_pod, blocking_reason = np.full(count, -1, np.int32), np.zeros(count, np.uint8)
    blocking_pod[at[rows]] = rows
    has = blocking_pod >= 0
    blocking_reason[has] = [outcome.blocking_reason(int(code)) for code in codes[blocking_pod[has]]]
    waits = np.zeros(count, bool)
    waits[at[(codes == outcome.WAIT) & (at >= 0)]] = True
    kept, protected = _protected(context, at)
    blocking_pod = np.where(has, blocking_pod, protected)
    received = _received(context)
    whole = np.array([*(group.zero_or_max for group in snapshot.groups), False], bool)[nodes.group]
    left = context.spare
    too_much = np.any((left.amount > 0) & (left.amount > left.amount_left), axis=1)
    not_ready = ~request.round.ready & (not settings.scale_down.unready_enabled)
    no, why = ReplacementLimit.NODE_NOT_REMOVABLE, UnremovableReason
    limit, unremovable = np.zeros(count, np.uint8), np.zeros(count, np.uint8)
    consolidation = consolidation_of_nodes(snapshot, settings.scale_down)
    for mask, code, reason in (
        (nodes.group < 0, no, why.NOT_AUTOSCALED),
        (np.isnan(context.price), ReplacementLimit.PRICE_UNKNOWN, 0),
        (context.request.leaving, no, why.CURRENTLY_BEING_DELETED),
        (kept & ~has, ReplacementLimit.DO_NOT_DISRUPT, 0),
        (nodes.scale_down_disabled, no, why.SCALE_DOWN_DISABLED_ANNOTATION),
        (consolidation == pb.Consolidation.NEVER, no, why.NOT_CONSOLIDATED),
        ((consolidation == pb.Consolidation.WHEN_EMPTY) & (context.pods.evictions > 0), no, why.NOT_EMPTY),
        (whole, no, why.ATOMIC_SCALE_DOWN_FAILED),
        (not_ready, no, why.SCALE_DOWN_UNREADY_DISABLED),
        (context.known.paid_back, ReplacementLimit.NOT_PAID_BACK, 0),
        (_young(context), ReplacementLimit.TOO_YOUNG, 0),
        (has & (blocking_reason == _NOT_ENOUGH_PDB), ReplacementLimit.NOT_ENOUGH_PDB, why.BLOCKED_BY_POD),
        (has, no, why.BLOCKED_BY_POD),
        (waits, no, why.BLOCKED_BY_ON_COMPLETION_POD),
        (too_much, ReplacementLimit.MINIMUM_REACHED, why.MINIMAL_RESOURCE_LIMIT_EXCEEDED),
        (received, no, why.RESERVED_FOR_PENDING_PODS),
        (~context.there, no, why.CURRENTLY_BEING_DELETED),
    ):
        here = mask & (limit == 0)
        limit[here], unremovable[here] = code, reason
    return NodeVerdicts(limit, unremovable, blocking_pod, blocking_reason)


_NOT_ENOUGH_PDB: Final = BlockingPodReason.NOT_ENOUGH_PDB


def _running_on(request: ReplacementRequest, count: int) -> Int32:
    """Return the node of each running pod once scale-down has moved it. int32[P], -1 = of none of the snapshot."""
    node = request.snapshot.pods.node
    at = request.round.simulation.state.pod_node[: len(node)]
    return np.where((node >= 0) & (at < count), at, -1).astype(np.int32)


def _takes_pods(request: ReplacementRequest, is_left: Bool) -> Bool:
    """Return the nodes to which scale-down moves pods. bool[N]. is_left : bool[N] nodes that it does not remove."""
    at, found = _running_on(request, len(is_left)), np.zeros(len(is_left), bool)
    found[at[(at >= 0) & ~take_or(is_left, request.snapshot.pods.node, True)]] = True
    return found


def _received(context: ReplacementContext) -> Bool:
    """Return the nodes on which other decisions than scale-down, or the pods that wait, have placed pods, and those
    that start for some. bool[N]."""
    request = context.request
    this, snapshot, count = request.round, request.snapshot, len(context.request.leaving)
    at, known = this.simulation.state.pod_node, len(request.snapshot.pods.spec)
    is_moved = at[:known] != snapshot.pods.node
    by_scale_down = ~take_or(context.there | context.request.leaving, snapshot.pods.node, True)
    moved = at[:known][is_moved & ~by_scale_down]
    evicted = at[known : known + len(this.evictions)]
    received = starting_for_pods(this)
    for nodes in (moved, evicted):
        received[nodes[(nodes >= 0) & (nodes < count)]] = True
    return received


def _young(context: ReplacementContext) -> Bool:
    """Return the nodes that are too young to be replaced, or have a pod that is, those of scale-down among them.
    bool[N]. Unknown ages count as old."""
    request, snapshot = context.request, context.request.snapshot
    settings, nodes, pods = request.settings, snapshot.nodes, snapshot.pods
    general = settings.consolidate_after_ns
    if not general and not any(settings.consolidate_after_ns_of.values()):
        return np.zeros(len(context.request.leaving), bool)
    by_group = [settings.consolidate_after_ns_of.get(group.id, general) for group in snapshot.groups]
    after_ns: Int64 = take_or(np.array(by_group, np.int64), nodes.group, general)
    young = (nodes.created_ns > 0) & (request.now_ns - nodes.created_ns < after_ns)
    rows = np.flatnonzero((pods.created_s > 0) & (pods.node >= 0) & ~pods.is_terminal())
    node = pods.node[rows]
    young[node[request.now_ns - pods.created_s[rows] * SECOND_NS < after_ns[node]]] = True
    young |= context.takes_pods & (after_ns > 0)
    return young


def _protected(context: ReplacementContext, at: Int32) -> tuple[Bool, Int32]:
    """Return the nodes that are not to be disrupted, bool[N], and the first pod of each that must not be, int32[N],
    -1 = none. at : int32[P] the node of each running pod."""
    request, snapshot = context.request, context.request.snapshot
    pod = np.full(len(context.request.leaving), -1, np.int32)
    if not request.settings.do_not_disrupt:
        return np.zeros(len(pod), bool), pod
    rows = np.flatnonzero((undisrupted_until_s(snapshot) > request.now_ns // SECOND_NS) & (at >= 0))[::-1]
    pod[at[rows]] = rows
    return snapshot.nodes.do_not_disrupt | (pod >= 0), pod
