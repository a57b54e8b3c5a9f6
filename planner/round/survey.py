"""Who may be drained, and why not: one survey of pods and nodes, for each decision that drains nodes.

What differs between decisions is a parameter: whose rules apply, where running pods are by then, and findings about
nodes of its own. Nothing is moved. Symbols: P pods of the snapshot, P' those followed by virtual ones, N nodes.
Source: Cluster Autoscaler, core/scaledown/eligibility, for the order of reasons.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from trimtab.planner.drainability import outcome, pod_columns, rules
from trimtab.planner.drainability.pod_columns import DrainFacts, PodDrainColumns, facts_of
from trimtab.planner.facts import pdb
from trimtab.planner.facts.kernels.membership import group_by_node
from trimtab.planner.facts.nodes import of_nodes
from trimtab.planner.facts.pdb import BudgetMembership
from trimtab.planner.model.settings import ScaleDownSettings
from trimtab.planner.round.decision import DecisionRequest
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32, Int64, Snapshot, UInt8
from trimtab.planner.snapshot.dictionaries import entries_of
from trimtab.v1.plan_pb2 import Consolidation
from trimtab.v1.reason_pb2 import UnremovableReason as Reason


class MovingPods(NamedTuple):
    """Pods that move if their node goes, by node: those of node n are pods[offsets[n] : offsets[n + 1]], ascending."""

    offsets: Int64
    pods: Int32

    def of(self, nodes: Int32 | Int64) -> Int32:
        """Return the pods of some nodes, node by node. int32."""
        moving: Int32 = self.pods[entries_of(self.offsets, nodes)]
        return moving


class PodSurvey(NamedTuple):
    """The pods before any is moved."""

    facts: DrainFacts
    ignored: Bool
    """bool[P] pods that no drain moves: expendable ones, and those in a terminal phase."""
    columns: PodDrainColumns
    """What the rules read."""
    codes: UInt8
    """uint8[P] outcomes of the rules, budgets aside."""
    at: Int32
    """int32[P] node of each running pod, NO_NODE = none of the snapshot."""
    node_count: int
    under: BudgetMembership
    """Budgets of P' pods, those of gangs last; none of virtual ones."""
    remaining: Int64
    """int64[B] disruptions that budgets allow now."""
    refilled: Int64
    """int64[B] disruptions that they allow once the pods that were evicted run again."""

    @property
    def needs_place(self) -> Bool:
        """Which pods have to be placed elsewhere when their node goes, blocking ones included, as their node may be
        being deleted anyway. bool[P]."""
        stays_behind = (self.codes == outcome.SKIP) | self.columns.daemon | self.columns.mirror
        needs: Bool = ~stays_behind & (self.at >= 0)
        return needs

    def judged(self, disruptions: Int64, budget_count: int) -> UInt8:
        """Return the outcomes with budgets, of which so many disruptions : int64[B] are left. uint8[P]. budget_count :
        PodDisruptionBudgets."""
        exhausted = pdb.exhausted(self.under, disruptions, budget_count)
        return rules.judge_budgets(self.columns.with_exhausted(exhausted), self.codes)

    def moving(self, moves: Bool, placeholders: Int32) -> MovingPods:
        """Return the pods that move : bool[P], and placeholders. placeholders : int32 node of each, the last of P'
        pods. O(P')."""
        node = np.full(len(self.under.offsets) - 1, NO_NODE, np.int32)
        node[: len(moves)] = np.where(moves, self.at, NO_NODE)
        if len(placeholders):
            node[-len(placeholders) :] = np.where(placeholders < self.node_count, placeholders, NO_NODE)
        offsets, members = np.zeros(self.node_count + 2, np.int64), np.empty(len(node), np.int32)
        group_by_node(node, offsets, members)
        return MovingPods(offsets[:-1], members[: offsets[-2]])

    def nodes_with(self, mask: Bool) -> Bool:
        """Return for each node whether it has a pod for which the mask : bool[P] is true. bool[N]."""
        has = np.zeros(self.node_count, bool)
        has[self.at[mask & (self.at >= 0)]] = True
        return has

    def first_on_nodes(self, mask: Bool) -> Int32:
        """Return the first pod of each node for which the mask : bool[P] is true. int32[N], -1 = none."""
        rows = np.flatnonzero(mask & (self.at >= 0))[::-1]
        first = np.full(self.node_count, -1, np.int32)
        first[self.at[rows]] = rows
        return first


def survey_pods(request: DecisionRequest, settings: ScaleDownSettings, at: Int32) -> PodSurvey:  # type: ignore[type-arg]
    """Judge the pods by the rules of the settings. at : int32[P], as in `PodSurvey`. O(P + labels of budgets)."""
    snapshot, this = request.snapshot, request.round
    facts = facts_of(snapshot, request.cache, request.limits)
    ignored = facts.ignored(snapshot, this.settings.expendable_priority)
    columns = pod_columns.at(snapshot, facts.pods, settings, request.now_ns)
    more, moves = len(this.evictions) + len(this.placeholders), this.settings.gangs.move_running
    offsets = facts.under.offsets
    return PodSurvey(
        facts,
        ignored,
        columns,
        rules.judge_counted(columns, ignored),
        at,
        len(snapshot.nodes.name),
        facts.under._replace(offsets=np.append(offsets, np.full(more, offsets[-1]))),
        pdb.remaining(snapshot, request.cache, move_running=moves),
        pdb.refilled(snapshot, request.cache, move_running=moves),
    )


class NodeFindings(NamedTuple):
    """Findings about nodes, bool[N] each. The first ones are of every decision that drains nodes."""

    leaving: Bool
    """Being deleted."""
    unready: Bool
    """Not ready, or awaits its GPUs."""
    has_pods: Bool
    """Pods have to move."""
    below_minimum: Bool
    """A minimum of a resource would not be met without the node."""
    blocked: Bool
    """Some pod blocks the drain."""
    reserved: Bool
    """Holds room for pods that wait."""
    recent: Bool | None = None
    """Failed a simulation that is still valid."""
    protected: Bool | None = None
    """Has an annotation against disruption, which is a limit of its own elsewhere."""
    cooling: Bool | None = None
    """Its group is in cool-down."""
    unmeasured: Bool | None = None
    """Its utilization cannot be computed."""
    closed: Bool | None = None
    """A budget lets no such node go."""
    used: Bool | None = None
    """Its utilization is above the threshold, and not because of the plan."""
    whole: Bool | None = None
    """Its group goes whole or not at all, which the decision cannot do."""
    group_at_minimum: Bool | None = None
    waits: Bool | None = None
    """Some pod has to complete first."""


def node_reasons(snapshot: Snapshot, settings: ScaleDownSettings, findings: NodeFindings) -> UInt8:
    """Return why each node may not go, an `UnremovableReason.Code`, 0 = it may. uint8[N]; O(N). The first that applies
    is the reason: in upstream's order, then our own, which avoid simulations that cannot succeed."""
    result = np.zeros(len(snapshot.nodes.name), np.uint8)
    for mask, reason in _checks(snapshot, settings, findings):
        if mask is not None:
            np.copyto(result, np.uint8(reason), where=mask & (result == 0))
    return result


def _checks(
    snapshot: Snapshot, settings: ScaleDownSettings, findings: NodeFindings
) -> Iterator[tuple[Bool | None, int]]:
    nodes = snapshot.nodes
    consolidation = of_nodes(snapshot, settings, lambda group: int(group.consolidation))
    yield findings.recent, Reason.RECENTLY_UNREMOVABLE
    yield findings.leaving, Reason.CURRENTLY_BEING_DELETED
    yield nodes.scale_down_disabled, Reason.SCALE_DOWN_DISABLED_ANNOTATION
    yield findings.protected, Reason.DO_NOT_DISRUPT_ANNOTATION
    yield nodes.group < 0, Reason.NOT_AUTOSCALED
    yield findings.cooling, Reason.IN_COOLDOWN
    yield findings.unmeasured, Reason.UNEXPECTED_ERROR
    yield None if settings.unready_enabled else findings.unready, Reason.SCALE_DOWN_UNREADY_DISABLED
    yield consolidation == Consolidation.NEVER, Reason.NOT_CONSOLIDATED
    yield (consolidation == Consolidation.WHEN_EMPTY) & findings.has_pods, Reason.NOT_EMPTY
    yield findings.closed, Reason.DISRUPTION_BUDGET
    yield findings.used, Reason.NOT_UNDERUTILIZED
    yield findings.whole, Reason.ATOMIC_SCALE_DOWN_FAILED
    yield findings.group_at_minimum, Reason.NODE_GROUP_MIN_SIZE_REACHED
    yield findings.below_minimum, Reason.MINIMAL_RESOURCE_LIMIT_EXCEEDED
    yield findings.blocked, Reason.BLOCKED_BY_POD
    yield findings.waits, Reason.BLOCKED_BY_ON_COMPLETION_POD
    yield findings.reserved, Reason.RESERVED_FOR_PENDING_PODS
