"""The starting point of one loop: pods, nodes and the previous loop evaluated. Nothing is moved yet.

Symbols: P pods of the snapshot, P' those followed by recently evicted ones, N nodes.

Cool-downs: no node is removed for a while after a node group has grown, lost a node, or failed to lose one. The times
come with the node groups, and unknown ones (0) delay nothing. By default the cool-down of any group delays the whole
cluster, for which simulation continues, to keep timers running; with `delay_type_local` each group waits alone, and its
nodes are not candidates meanwhile.
Source: Cluster Autoscaler, static_autoscaler.isScaleDownInCooldown, ScaleDownCandidatesDelayProcessor.
"""

from hashlib import blake2b
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from trimtab.planner.drainability import rules
from trimtab.planner.drainability.limits import NodeBudgets, Spare
from trimtab.planner.drainability.pod_columns import PodDrainColumns
from trimtab.planner.facts.gangs import gangs_of
from trimtab.planner.facts.nodes import NodeUse, Utilization, eviction_costs, measure
from trimtab.planner.facts.similarity import divide
from trimtab.planner.model.settings import SECOND_NS, PlannerSettings, ScaleDownSettings
from trimtab.planner.model.values import NodeGroupInfo, RecentEviction
from trimtab.planner.placement.hints import PodGroups, pod_groups, with_placeholders
from trimtab.planner.placement.waiting import pods_with_room
from trimtab.planner.round.decision import DecisionRequest
from trimtab.planner.round.survey import PodSurvey, survey_pods
from trimtab.planner.scale_down.balance import Balance
from trimtab.planner.scale_down.state import PreviousLoop, Slack, UndoneDrains, judged, recall
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Snapshot
from trimtab.planner.snapshot.references import take_or
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
    budgets: NodeBudgets


class Cooldown(NamedTuple):
    """cluster : why no node at all goes, "" = nodes may go; groups : by group why none of its nodes goes, "" = they
    may.
    """

    cluster: str
    groups: tuple[str, ...]

    def of_nodes(self, group: "np.ndarray[tuple[int], np.dtype[np.int32]]") -> Bool:
        """Return for each node whether its group waits. group : int32[N], -1 = none."""
        return take_or(np.array([bool(why) for why in self.groups], bool), group, False)


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
    pods: PodSurvey
    pending: Int32
    """Pending pods for which room is kept."""
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
    pods = survey_pods(request, settings, snapshot.pods.node)
    return ScaleDownContext(
        request=request,
        evictions=evictions,
        groups=groups,
        previous=previous,
        notes=notes,
        nodes=_nodes(request, pods),
        pods=pods,
        pending=_pending(request, pods.ignored),
        unhealthy=request.unhealthy(request.settings),
        cooldown=cooldown(snapshot.groups, settings, now_ns),
        balance=Balance(divide(snapshot, request.leaving, general.similarity), general.max_balance_difference)
        if settings.balance
        else None,
        basis=basis(snapshot, settings, general),
        slack=_slack(request, previous, pods.columns),
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
    with_room: Int32 = pending[placed | ~np.isin(pending, np.concatenate([pending[:0], *waits]))]
    return with_room


def _nodes(request: ScaleDownRequest, pods: PodSurvey) -> NodeContext:
    snapshot, general, facts = request.snapshot, request.round.settings, pods.facts
    has_pods = pods.nodes_with(pods.needs_place)
    uncounted = pods.ignored | rules.is_long_terminating(pods.columns)
    return NodeContext(
        utilization=measure(snapshot, request.settings, general.readiness.gpu_label, facts.use, uncounted),
        use=facts.use,
        eviction_cost=eviction_costs(snapshot, facts.rating, pods.needs_place),
        spare=request.spare(request.leaving),
        has_pods=has_pods,
        budgets=request.node_budgets(general.disruption_budgets, ~has_pods),
    )


def _slack(request: ScaleDownRequest, previous: PreviousLoop, columns: PodDrainColumns) -> Slack | None:
    """Return the condition of slack, and the result of the last drain. O(P) if there is slack."""
    count = len(request.round.placeholders)
    if not count:
        return None
    simulation, pods = request.round.simulation, request.snapshot.pods
    node = simulation.state.pod_node[-count:]
    lacking = bool(((node < 0) | (node >= simulation.node_count)).any())
    not_counted = columns.daemon | columns.mirror | (pods.deletion_s != 0) | pods.is_terminal()
    slack = Slack(lacking, bool(request.leaving.any()), len(not_counted) - int(np.count_nonzero(not_counted)))
    return slack._replace(undone=judged(previous.undone, slack, request.now_ns))


def cooldown(groups: tuple[NodeGroupInfo, ...], settings: ScaleDownSettings, now_ns: int) -> Cooldown:
    """Return which groups wait, and why. O(G)."""
    waits = [_longest(group, settings, now_ns) for group in groups]
    if settings.delay_type_local:
        return Cooldown("", tuple(why for _, why in waits))
    _, why = max(waits, default=(0, ""), key=lambda wait: wait[0])
    return Cooldown(why, ("",) * len(groups))


def _longest(group: NodeGroupInfo, settings: ScaleDownSettings, now_ns: int) -> tuple[int, str]:
    """Return how many nanoseconds longer a group waits, and why; (0, "") if it does not."""
    reasons = (
        (group.last_scale_up_ns, settings.delay_after_add_ns, "was made larger"),
        (group.last_deletion_ns, settings.delay_after_delete_ns, "lost a node"),
        (group.last_failure_ns, settings.delay_after_failure_ns, "failed to lose a node"),
    )
    waits = [
        (since_ns + delay_ns - now_ns, f"node group {group.id} {what} {_seconds(now_ns - since_ns)} ago; "
                f"no node is removed for {_seconds(delay_ns)} after that")
        for since_ns, delay_ns, what in reasons
        if since_ns > 0 and since_ns + delay_ns > now_ns
    ]  # fmt: skip
    return max(waits, default=(0, ""), key=lambda wait: wait[0])


def _seconds(span_ns: int) -> str:
    """Return a span in whole seconds; a time in the future (clocks differ) counts as now."""
    return f"{max(span_ns, 0) // SECOND_NS} s"


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
