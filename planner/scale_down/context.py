"""The starting point of one loop: pods, nodes and the previous loop evaluated. Nothing is moved yet.

Symbols: P pods of the snapshot, P' those followed by recently evicted ones, N nodes.
"""

from hashlib import blake2b
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from trimtab.planner.drainability import outcome, pod_columns, rules
from trimtab.planner.drainability.pod_columns import DrainFacts, PodDrainColumns, facts_of
from trimtab.planner.facts.gangs import gangs_of
from trimtab.planner.facts.node_limits import ActiveNodeBudget, Spare
from trimtab.planner.facts.nodes import eviction_costs
from trimtab.planner.facts.pdb import BudgetMembership, remaining
from trimtab.planner.facts.similarity import divide
from trimtab.planner.facts.utilization import NodeUse, Utilization, measure
from trimtab.planner.model.settings import PlannerSettings, ScaleDownSettings
from trimtab.planner.model.values import RecentEviction
from trimtab.planner.placement.hints import PodGroups, pod_groups, with_placeholders
from trimtab.planner.placement.waiting import pods_with_room
from trimtab.planner.round.decision import DecisionRequest
from trimtab.planner.scale_down.balance import Balance
from trimtab.planner.scale_down.eligibility import Cooldown, cooldown
from trimtab.planner.scale_down.state import PreviousLoop, Slack, UndoneDrains, judged, recall
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64, Snapshot, UInt8
from trimtab.v1 import plan_pb2 as pb

ScaleDownRequest: TypeAlias = DecisionRequest[ScaleDownSettings, pb.ScaleDownState]
"""The input of the decision."""


class NodeContext(NamedTuple):
    """Nodes before any pod is moved. use : requests on them; eviction_cost : float64[N] of the pods to move; spare :
    the rest above the minimums; has_pods : bool[N], pods have to move; budgets : for nodes, those that hold now.
    """

    utilization: Utilization
    use: NodeUse
    eviction_cost: Float64
    spare: Spare
    has_pods: Bool
    budgets: list[ActiveNodeBudget]


class PodContext(NamedTuple):
    """Pods before any is moved. columns : the input of the drainability rules; codes : uint8[P] their outcomes, without
    budgets; needs_place : bool[P], has to be placed elsewhere when its node goes; pending : int32 pods for which room
    is kept; under : budgets of the pods, of P' pods and placeholders, those of
    gangs last; remaining : int64[B] disruptions left.
    """

    columns: PodDrainColumns
    codes: UInt8
    needs_place: Bool
    pending: Int32
    under: BudgetMembership
    remaining: Int64


class ScaleDownContext(NamedTuple):
    """Everything known before any pod is moved.

    evictions : pods to inject; groups : pods by node, placeholders last; previous : the last loop, with notes on parts
    of it that could not be used; unhealthy : why nothing goes, "" = it may; balance : None if no setting requires it;
    basis : digest of the inputs of the choice among orders; slack : its condition, None = no slack.
    """

    request: ScaleDownRequest
    evictions: tuple[RecentEviction, ...]
    groups: PodGroups
    previous: PreviousLoop
    notes: tuple[str, ...]
    nodes: NodeContext
    pods: PodContext
    unhealthy: str
    cooldown: Cooldown
    balance: Balance | None
    basis: int
    slack: Slack | None

    @property
    def undone(self) -> UndoneDrains:
        """Drains undone by slack."""
        return self.slack.undone if self.slack else UndoneDrains()


def survey(request: ScaleDownRequest) -> ScaleDownContext:
    """Evaluate everything once. O(P + N·R + labels of budgets), vectorised."""
    snapshot, settings, now_ns = request.snapshot, request.settings, request.now_ns
    general, evictions, placeholders = request.round.settings, request.round.evictions, request.round.placeholders
    groups = pod_groups(snapshot, evictions, request.cache)
    if placeholders:
        groups = with_placeholders(groups, placeholders, request.round.simulation.state.pod_node[-len(placeholders) :])
    previous, notes = recall(request.state, snapshot.nodes.name, groups, now_ns)
    facts = facts_of(snapshot, request.cache, request.limits)
    skipped = facts.ignored(snapshot, general.expendable_priority)
    pods = _pods(request, facts, skipped)
    nodes = _nodes(request, facts, pods, skipped)
    return ScaleDownContext(
        request=request,
        evictions=evictions,
        groups=groups,
        previous=previous,
        notes=notes,
        nodes=nodes,
        pods=pods,
        unhealthy=request.unhealthy(request.settings),
        cooldown=cooldown(snapshot.groups, settings, now_ns),
        balance=_balance(request),
        basis=basis(snapshot, settings, general),
        slack=_slack(request, previous, pods.columns),
    )


def _pods(request: ScaleDownRequest, facts: DrainFacts, skipped: Bool) -> PodContext:
    """Judge the pods. skipped : bool[P], expendable or in a terminal phase."""
    snapshot, general = request.snapshot, request.round.settings
    columns = pod_columns.at(snapshot, facts.pods, request.settings, request.now_ns)
    codes = rules.judge_counted(columns, skipped)
    return PodContext(
        columns=columns,
        codes=codes,
        needs_place=_needs_place(snapshot, columns, codes),
        pending=_pending(request, skipped),
        under=_widened(facts.under, len(request.round.evictions) + len(request.round.placeholders)),
        remaining=remaining(snapshot, request.cache, move_running=general.gangs.move_running),
    )


def _pending(request: ScaleDownRequest, skipped: Bool) -> Int32:
    """Return the pending pods for which room is kept: of gangs, only those that scale-up has placed, if it was asked.
    int32."""
    pending = pods_with_room(request.snapshot, request.round.settings, skipped)
    gangs = gangs_of(request.snapshot, request.cache)
    if not gangs:
        return pending
    placed = request.round.simulation.state.pod_node[pending] >= 0
    was_asked = pb.Decision.SCALE_UP in request.round.decided
    waits = [gang.pending for gang in gangs if gang.held or (gang.is_bound_together and was_asked)]
    found: Int32 = pending[placed | ~np.isin(pending, np.concatenate([pending[:0], *waits]))]
    return found


def _nodes(request: ScaleDownRequest, facts: DrainFacts, pods: PodContext, skipped: Bool) -> NodeContext:
    """Measure the nodes. skipped : bool[P], as of `_pods`; they do not count as use."""
    snapshot, general = request.snapshot, request.round.settings
    has_pods = np.zeros(len(snapshot.nodes.name), bool)
    has_pods[snapshot.pods.node[pods.needs_place]] = True
    uncounted = skipped | rules.is_long_terminating(pods.columns)
    return NodeContext(
        utilization=measure(snapshot, request.settings, general.readiness.gpu_label, facts.use, uncounted),
        use=facts.use,
        eviction_cost=eviction_costs(snapshot, facts.rating, pods.needs_place),
        spare=request.spare(),
        has_pods=has_pods,
        budgets=request.node_budgets(general.disruption_budgets, ~has_pods),
    )


def nodes_with(context: ScaleDownContext, mask: Bool) -> Bool:
    """Return for each node whether it has a pod for which the mask : bool[P] is true. bool[N]."""
    node = context.request.snapshot.pods.node
    found = np.zeros(len(context.request.leaving), bool)
    found[node[mask & (node >= 0)]] = True
    return found


def _slack(request: ScaleDownRequest, previous: PreviousLoop, columns: PodDrainColumns) -> Slack | None:
    """Return the condition of slack, and the result of the last drain. O(P) if there is slack."""
    count = len(request.round.placeholders)
    if not count:
        return None
    simulation, pods = request.round.simulation, request.snapshot.pods
    node = simulation.state.pod_node[-count:]
    lacking = bool(((node < 0) | (node >= simulation.node_count)).any())
    not_counted = columns.daemon | columns.mirror | (pods.deletion_s != 0) | pods.is_terminal()
    found = Slack(lacking, bool(request.leaving.any()), len(not_counted) - int(np.count_nonzero(not_counted)))
    return found._replace(undone=judged(previous.undone, found, request.now_ns))


def _balance(request: ScaleDownRequest) -> Balance | None:
    """Return what has to stay balanced, if a setting requires it."""
    settings = request.settings
    if not settings.balance:
        return None
    general = request.round.settings
    return Balance(divide(request.snapshot, request.leaving, general.similarity), general.max_balance_difference)


def _needs_place(snapshot: Snapshot, columns: PodDrainColumns, codes: UInt8) -> Bool:
    """Return for each pod whether it is on a node and has to be placed elsewhere when that node goes. bool[P].

    A blocking pod also counts: it has to be placed if its node is being deleted anyway.
    """
    stays_behind = (codes == outcome.SKIP) | columns.daemon | columns.mirror
    needs: Bool = ~stays_behind & (snapshot.pods.node >= 0)
    return needs


def _widened(under: BudgetMembership, more: int) -> BudgetMembership:
    """Add empty rows for recently evicted pods, to which no budget applies any more, and for placeholders."""
    return under._replace(offsets=np.append(under.offsets, np.full(more, under.offsets[-1])))


def basis(snapshot: Snapshot, settings: ScaleDownSettings, general: PlannerSettings) -> int:
    """Return a digest of the inputs of the choice among orders other than nodes and pods: prices, minimums of groups
    and settings. 1 to 2^64 - 1; O(G + settings).

    As long as it is unchanged, a plan that can continue does so without being compared with others.

    Settings by group are in order of name, so that equal settings have one representation.
    """
    sink = blake2b(digest_size=8)
    for group in snapshot.groups:
        sink.update(repr((group.id, group.min_size, group.price_per_hour, group.zero_or_max)).encode())
    sink.update(np.unique(snapshot.nodes.own_price).data)
    # Not `repr`, in which the order of a set differs between processes.
    sink.update(msgspec.json.encode((settings, general), order="deterministic"))
    return int.from_bytes(sink.digest(), "little") or 1
