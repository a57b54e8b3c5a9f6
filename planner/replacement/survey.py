"""The cluster before any pod is moved for a replacement: which nodes may go, what they cost, what their pods are, and
the state of the last loop: vanished objects and times that are over are dropped, an unreadable column gives a note.

The simulation has the moves of earlier decisions: nodes that scale-down removes are gone, new nodes of scale-up are
open, and pods that wait have places. A node on which such pods are to come stays; one that takes pods of scale-down may
go with them, once they are there. Karpenter's annotations say which pods and nodes must not be disrupted, and what an
eviction costs. Symbols: P pods and N nodes of the snapshot, G node groups, B PodDisruptionBudgets. Pure.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from trimtab.common.kubernetes.signals.karpenter import DISRUPTION_COST
from trimtab.common.kubernetes.signals.well_known import AUTOSCALING_DISRUPTION_COST
from trimtab.planner.drainability import outcome, rules
from trimtab.planner.drainability.kernels.limits import NodeLimits
from trimtab.planner.drainability.limits import below_minimum, node_limits
from trimtab.planner.facts import pdb
from trimtab.planner.facts.nodes import (
    eviction_rating,
    group_prices,
    pools_of_nodes,
    prices,
    undisrupted_until_s,
)
from trimtab.planner.facts.readiness import overdue
from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.model.values import NodeGroupInfo
from trimtab.planner.placement.group_templates import GroupTemplates
from trimtab.planner.placement.hints import UnreadableStateError, check_lengths, column, translated
from trimtab.planner.placement.limits import Limits
from trimtab.planner.replacement.settings import ReplacementSettings
from trimtab.planner.round.decision import Decided, DecisionRequest, room_to_grow
from trimtab.planner.round.survey import MovingPods, NodeFindings, PodSurvey, node_reasons, survey_pods
from trimtab.planner.round.waiting import starting_for_pods
from trimtab.planner.simulation.growth import Growth
from trimtab.planner.simulation.state import OPEN
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Float64, Int32, Int64, Snapshot, UInt8
from trimtab.planner.snapshot.references import take_or
from trimtab.planner.snapshot.texts import string_index
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import BlockingPodReason, NodeGroupReason, ReplacementLimit, UnremovableReason
from trimtab.v1.snapshot_pb2 import NodeGroupHealth


class KnownState(NamedTuple):
    """The state in terms of one snapshot. planned_ns : int64[N] since when a plan has replaced each node, 0 = none has;
    avoided_ns : int64[G] until when no node is planned in a group, 0 = one may be; paid_back_ns : int64[N] until when a
    node is not replaced, 0 = it may be; avoided : bool[G], paid_back : bool[N] whether these times are to come; notes :
    on parts that could not be used.
    """

    planned_ns: Int64
    avoided_ns: Int64
    paid_back_ns: Int64
    avoided: Bool
    paid_back: Bool
    notes: tuple[str, ...]


def recall(state: pb.ReplacementState | None, snapshot: Snapshot, now_ns: int) -> KnownState:
    """Return the state in terms of a snapshot."""
    names, ids = snapshot.nodes.name, [group.id for group in snapshot.groups]
    message, notes = state if state is not None else pb.ReplacementState(), list[str]()
    columns = []
    for field, order in (("planned", names), ("avoided_groups", ids), ("paid_back", names)):
        try:
            columns.append(_times(message, field, order))
        except UnreadableStateError as error:
            notes.append(f"replacement state could not be read ({error}): starting without it")
            columns.append(np.zeros(len(order), np.int64))
    planned, avoided, paid_back = columns
    planned = np.where(planned > now_ns, now_ns, planned)
    return KnownState(planned, avoided, paid_back, avoided > now_ns, paid_back > now_ns, tuple(notes))


def _times(state: pb.ReplacementState, field: str, names: Sequence[str]) -> Int64:
    """Return the time of each name of a column, 0 = none. int64[names]."""
    times: pb.NodeTimes = getattr(state, field)
    place = {name: at for at, name in enumerate(names)}
    number_of = np.array([place.get(text, -1) for text in state.strings] or [-1], np.int32)
    row = translated(column(times.node, np.int32, f"{field}.node"), number_of, f"{field}.node")
    time_ns = column(times.time_ns, np.int64, f"{field}.time_ns")
    check_lengths(field, len(row), len(time_ns))
    by_name = np.zeros(len(names), np.int64)
    there = row >= 0
    by_name[row[there]] = np.maximum(time_ns[there], 0)
    return by_name


def avoided_until(earlier: KnownState, groups: Sequence[NodeGroupInfo], now_ns: int, avoid_time_ns: int) -> Int64:
    """Return until when no node is planned in each group: a group that is backed off now is avoided for a while.
    int64[G], 0 = it may get one."""
    backed_off = [group.health == NodeGroupHealth.BACKED_OFF for group in groups]
    until = np.where(earlier.avoided, earlier.avoided_ns, 0)
    return np.maximum(until, np.where(backed_off, now_ns + avoid_time_ns, 0) if avoid_time_ns else 0).astype(np.int64)


def remember(snapshot: Snapshot, planned_ns: Int64, avoided_ns: Int64, paid_back_ns: Int64) -> pb.ReplacementState:
    """Return the encoded state. planned_ns, paid_back_ns : int64[N]; avoided_ns : int64[G]; 0 = none."""
    names, groups = snapshot.nodes.name, [group.id for group in snapshot.groups]
    columns = (
        ("planned", names, planned_ns),
        ("avoided_groups", groups, avoided_ns),
        ("paid_back", names, paid_back_ns),
    )
    used = {order[row] for _, order, times in columns for row in np.flatnonzero(times).tolist()}
    strings = ["", *sorted(used)]
    state = pb.ReplacementState(strings=strings)
    for field, order, times in columns:
        rows = np.flatnonzero(times)
        if len(rows):
            code = np.array([string_index(strings, order[row]) for row in rows.tolist()], np.int32)
            getattr(state, field).CopyFrom(pb.NodeTimes(node=code.tobytes(), time_ns=times[rows].tobytes()))
    return state


COSTS: Final = (AUTOSCALING_DISRUPTION_COST.key, DISRUPTION_COST.key)
"""The last one that a pod has counts, in place of its deletion cost."""
_MOST: Final = 2.0**31


def disruption_ratings(snapshot: Snapshot, rating: Float64, priority: Int64) -> Float64:
    """Return the cost of evicting each pod, with the costs of its annotations. rating : float64[P] by deletion costs;
    priority : int64[S] of the specs. float64[P]. A cost that is not a number counts as absent."""
    pods, ratings = snapshot.pods, rating
    for key in COSTS:
        mine = np.flatnonzero(snapshot.pods.number_key == string_index(snapshot.strings, key))
        mine = mine[np.isfinite(pods.number[mine])]
        if len(mine):
            rows = pods.number_pod[mine]
            ratings = ratings.copy()
            ratings[rows] = eviction_rating(np.clip(pods.number[mine], -_MOST, _MOST - 1), priority[pods.spec[rows]])
    return ratings


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
    """Pods that have to be placed elsewhere if their node goes, by node. evicted : bool[M], whether it is a pod of the
    snapshot and not a placeholder; cost : float64[N] cost rating of the evictions; evictions : int64[N] how many.
    """

    offsets: Int64
    pods: Int32
    evicted: Bool
    cost: Float64
    evictions: Int64

    def of(self, nodes: Int32 | Int64) -> Int32:
        """Return the pods of some nodes, node by node. int32."""
        return MovingPods(self.offsets, self.pods).of(nodes)


class ReplacementContext(NamedTuple):
    """Everything known before any pod is moved. price : float64[N], NaN = unknown; there : bool[N], in the cluster
    after the decisions before; group_price : float64[G]; usable :
    bool[G], the group may get new nodes for a replacement; takes_pods : bool[N], scale-down moves pods there; pool :
    int32[N] of `node_pools`; excluded : int32[G] `NodeGroupReason.Code`; budgets_now, budgets_later : int64[B]
    evictions that budgets allow in the first wave, and in later ones; unhealthy : why nothing goes, "" = it may.
    """

    request: ReplacementRequest
    earlier: KnownState
    price: Float64
    there: Bool
    verdicts: NodeVerdicts
    pods: MovablePods
    templates: GroupTemplates
    limits: Limits
    node_limits: NodeLimits
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


def survey(request: ReplacementRequest, earlier: KnownState) -> ReplacementContext:
    """Evaluate everything once. O(P + N + G), vectorised."""
    snapshot, settings, this = request.snapshot, request.settings, request.round
    leaving = request.leaving
    there = this.simulation.state.node_state[: len(leaving)] == OPEN
    templates, limits = room_to_grow(this, settings.scale_up)
    group_price = group_prices(snapshot.groups)
    excluded = _excluded(request, limits, group_price, earlier)
    at = this.simulation.state.pod_node[: len(snapshot.pods.spec)]
    running = np.where((snapshot.pods.node >= 0) & (at < len(leaving)), at, NO_NODE).astype(np.int32)
    surveyed = survey_pods(request, settings.scale_down, running)
    # A limit of its own, which settings may switch off.
    free = surveyed.columns._replace(undisrupted_until_s=np.zeros_like(surveyed.columns.undisrupted_until_s))
    surveyed = surveyed._replace(columns=free, codes=rules.judge_counted(free, surveyed.ignored))
    evicted: Int64 = np.flatnonzero((snapshot.pods.node >= 0) & (at != snapshot.pods.node) & (at >= 0))
    pdb.use_up(surveyed.under, surveyed.remaining, evicted)
    codes = surveyed.judged(surveyed.refilled, len(snapshot.budgets))
    pods = _movable(request, surveyed)
    none = codes[:0]
    # Nodes to which scale-down moves pods.
    takes_pods, removed = np.zeros(len(leaving), bool), ~take_or(there | leaving, snapshot.pods.node, True)
    takes_pods[at[(snapshot.pods.node >= 0) & (at >= 0) & (at < len(leaving)) & removed]] = True
    context = ReplacementContext(
        request=request,
        earlier=earlier,
        price=prices(snapshot),
        there=there & ~leaving,
        verdicts=NodeVerdicts(none, none, surveyed.at[:0], none),
        pods=pods,
        templates=templates,
        limits=limits,
        node_limits=node_limits(
            snapshot,
            (pods.offsets, pods.pods),
            surveyed.under,
            surveyed.remaining,
            # Once scale-down has removed its nodes.
            request.spare(leaving | (~there & (snapshot.nodes.group >= 0))),
            request.node_budgets(settings.budgets, pods.evictions == 0),
            in_turn=1,
        ),
        group_price=group_price,
        usable=excluded == NodeGroupReason.UNSPECIFIED,
        pool=pools_of_nodes(snapshot),
        takes_pods=takes_pods,
        excluded=excluded,
        budgets_now=surveyed.remaining,
        budgets_later=surveyed.refilled,
        unhealthy=request.unhealthy(settings.scale_down),
    )
    return context._replace(verdicts=_verdicts(context, surveyed, codes))


def _excluded(request: ReplacementRequest, limits: Limits, group_price: Float64, earlier: KnownState) -> Int32:
    """Count the nodes that scale-up adds, and return why each group gets no new ones. `NodeGroupReason.Code`, 0 = it
    may. int32[G]. A group at its maximum may get some once others of its nodes have gone.
    """
    grown: Decided | None = request.round.decided.get(pb.Decision.SCALE_UP)
    if grown is not None:
        decision: Any = grown.result
        row = {group.id: number for number, group in enumerate(request.snapshot.groups)}
        for split in decision.splits:
            limits.count_nodes(row[split.node_group], split.new_size - split.current_size)
    reasons = limits.reasons.copy()
    reasons[reasons == NodeGroupReason.MAX_SIZE_REACHED] = NodeGroupReason.UNSPECIFIED
    whole = np.array([group.zero_or_max for group in request.snapshot.groups], bool)
    reasons[whole & (reasons == 0)] = NodeGroupReason.NOT_WHOLE
    late = overdue(request.snapshot, request.now_ns, request.round.settings.readiness)
    reasons[(earlier.avoided | late) & (reasons == 0)] = NodeGroupReason.BACKED_OFF
    reasons[np.isnan(group_price) & (reasons == 0)] = NodeGroupReason.PRICE_UNKNOWN
    return reasons


def _movable(request: ReplacementRequest, surveyed: PodSurvey) -> MovablePods:
    this, facts = request.round, surveyed.facts
    placeholders = this.simulation.state.pod_node[-len(this.placeholders) :] if this.placeholders else np.zeros(0)
    offsets, pods = surveyed.moving(surveyed.needs_place, placeholders.astype(np.int32))
    evicted = pods < len(surveyed.at)
    node = np.repeat(np.arange(surveyed.node_count), np.diff(offsets))
    rating = np.zeros(len(pods))
    rating_of = disruption_ratings(request.snapshot, facts.rating, facts.priority)
    rating[evicted] = np.maximum(rating_of[pods[evicted]], 0.0)
    return MovablePods(
        offsets=offsets,
        pods=pods,
        evicted=evicted,
        cost=np.bincount(node, rating, surveyed.node_count).astype(np.float64),
        evictions=np.bincount(node[evicted], minlength=surveyed.node_count).astype(np.int64),
    )


def _verdicts(context: ReplacementContext, surveyed: PodSurvey, codes: UInt8) -> NodeVerdicts:
    """Return which nodes may go, and why others stay: by what all decisions know, then by limits of this one."""
    request, snapshot, settings = context.request, context.request.snapshot, context.request.settings
    blocking_pod = surveyed.first_on_nodes(outcome.blocks(codes))
    has = blocking_pod >= 0
    blocking_reason = np.zeros(len(has), np.uint8)
    blocking_reason[has] = [outcome.blocking_reason(int(code)) for code in codes[blocking_pod[has]]]
    undisturbed, protected = _protected(context, surveyed)
    findings = NodeFindings(
        leaving=request.leaving | ~context.there,
        unready=~request.ready,
        has_pods=context.pods.evictions > 0,
        below_minimum=below_minimum(context.node_limits),
        blocked=has,
        reserved=_received(context),
        whole=np.array([*(group.zero_or_max for group in snapshot.groups), False], bool)[snapshot.nodes.group],
        waits=surveyed.nodes_with(codes == outcome.WAIT),
    )
    unremovable = node_reasons(snapshot, settings.scale_down, findings)
    limit = np.where(unremovable > 0, ReplacementLimit.NODE_NOT_REMOVABLE, 0).astype(np.uint8)
    limit[unremovable == UnremovableReason.MINIMAL_RESOURCE_LIMIT_EXCEEDED] = ReplacementLimit.MINIMUM_REACHED
    by_budget = blocking_reason == BlockingPodReason.NOT_ENOUGH_PDB
    limit[(unremovable == UnremovableReason.BLOCKED_BY_POD) & by_budget] = ReplacementLimit.NOT_ENOUGH_PDB
    for mask, code in (
        (np.isnan(context.price), ReplacementLimit.PRICE_UNKNOWN),
        (undisturbed & ~has, ReplacementLimit.DO_NOT_DISRUPT),
        (context.earlier.paid_back, ReplacementLimit.NOT_PAID_BACK),
        (_young(context), ReplacementLimit.TOO_YOUNG),
    ):
        limit[mask & (limit == 0)] = code
    return NodeVerdicts(limit, unremovable, np.where(has, blocking_pod, protected), blocking_reason)


def _received(context: ReplacementContext) -> Bool:
    """Return the nodes on which other decisions than scale-down, or the pods that wait, have placed pods, and those
    that start for some. bool[N]."""
    request = context.request
    this, snapshot, count = request.round, request.snapshot, len(context.request.leaving)
    at, pod_count = this.simulation.state.pod_node, len(request.snapshot.pods.spec)
    is_moved = at[:pod_count] != snapshot.pods.node
    by_scale_down = ~take_or(context.there | context.request.leaving, snapshot.pods.node, True)
    moved = at[:pod_count][is_moved & ~by_scale_down]
    evicted = at[pod_count : pod_count + len(this.evictions)]
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


def _protected(context: ReplacementContext, surveyed: PodSurvey) -> tuple[Bool, Int32]:
    """Return the nodes that are not to be disrupted, bool[N], and the first pod of each that must not be, int32[N],
    -1 = none."""
    request, snapshot = context.request, context.request.snapshot
    if not request.settings.do_not_disrupt:
        return np.zeros(surveyed.node_count, bool), np.full(surveyed.node_count, -1, np.int32)
    pod = surveyed.first_on_nodes(undisrupted_until_s(snapshot) > request.now_ns // SECOND_NS)
    return snapshot.nodes.do_not_disrupt | (pod >= 0), pod
