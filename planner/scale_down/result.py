"""The result of a loop, independent of the simulation and its columns over pods: the unneeded nodes, and why candidates
stay: the blocking pod and, if it has no place, how many nodes each predicate rules out after the plan. A pod that would
find a place alone gets a text instead. A node is needed for slack if without its room a placeholder, or a pod that
would displace one, has no place, or if it receives placeholders of nodes that go. Nodes in order of name.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.drainability import outcome
from trimtab.planner.drainability.kernels.limits import BLOCKED
from trimtab.planner.drainability.limits import nodes_using
from trimtab.planner.placement.hints import Moves
from trimtab.planner.placement.kernels.search import REMEMBERED, SEARCHES, count_failures, discount_failures
from trimtab.planner.predicates.counters import is_unlike_its_class
from trimtab.planner.scale_down.context import ScaleDownContext
from trimtab.planner.scale_down.removal import UnneededNodes
from trimtab.planner.scale_down.search.displaced import pods_of_leaving_nodes
from trimtab.planner.scale_down.search.drain_sets import DrainSet
from trimtab.planner.scale_down.search.fewer_placeholders import NO_SLACK_DEPENDENT_NODES, ChosenPlan
from trimtab.planner.scale_down.search.kernels.drain_sets import DESTINATION, NO_PLACE, DrainProblem
from trimtab.planner.scale_down.search.portfolio import ChosenDrainSet
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.state import OPEN
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, UInt8
from trimtab.planner.snapshot.dictionaries import entries_of
from trimtab.v1 import reason_pb2

Reason = reason_pb2.UnremovableReason
FOR_SLACK: Final = np.uint8(Reason.NEEDED_FOR_SLACK)
RESERVED: Final = np.uint8(Reason.RESERVED_FOR_PENDING_PODS)


class Explanation(NamedTuple):
    """By node: pod without a place, pod over its budget, nodes by `PredicateReason` name, further text for people."""

    no_place: Mapping[int, int]
    over_budget: Mapping[int, int]
    failed: Mapping[int, Mapping[str, int]]
    details: Mapping[int, str]


class SearchResult(NamedTuple):
    """The result of the loop. codes : uint8[P] rules' outcomes, budgets included; reasons : uint8[N] why a node is not
    eligible, 0 = it is; plan : None if there could be no candidates, with the reason in `trouble`."""

    context: ScaleDownContext
    simulation: Simulation
    problem: DrainProblem
    codes: UInt8
    reasons: UInt8
    plan: ChosenPlan | None
    trouble: str

    @property
    def drain_set(self) -> DrainSet | None:
        """All nodes that go, None = there could be no candidates."""
        return self.plan.chosen.drain_set if self.plan else None


class LoopResult(NamedTuple):
    """The data from which the answer is written, besides the context."""

    search: SearchResult
    accepted: Int32
    """int32[U] the unneeded nodes in order of acceptance, wave by wave."""
    wave: Int32
    """int32[U], theirs."""
    unneeded: UnneededNodes
    reasons: UInt8
    """uint8[N] why the other nodes stay, 0 = it is unneeded."""
    stopping: Int64
    """int64 the first pod that blocks each node that has one, in order of the nodes."""
    explanation: Explanation
    """Why candidates stay."""
    moves: Moves
    """Destinations for the state."""

    @property
    def choice(self) -> ChosenDrainSet | None:
        """The chosen attempt, None if there could be no candidates."""
        return self.search.plan.chosen if self.search.plan else None

    @property
    def counts(self) -> tuple[int, int, int]:
        """Candidates evaluated, pods whose last destination was still valid, and others."""
        attempt = self.search.drain_set
        if attempt is None:
            counts = self.search.problem.counts
            return 0, int(counts[REMEMBERED]), int(counts[SEARCHES])
        return attempt.evaluated, attempt.remembered, attempt.searches


def extract_result(finding: SearchResult) -> LoopResult:
    """Extract from a result the data from which the answer is written. O(P + moved pods)."""
    context, plan, drain_set = finding.context, finding.plan, finding.drain_set
    accepted = drain_set.accepted if drain_set else np.zeros(0, np.int32)
    wave = plan.waves.wave if plan else np.zeros(0, np.int32)
    nodes = np.sort(accepted)
    bounds, pods = _moves_of(finding.problem, nodes)
    # Placeholders are never evicted.
    real = pods < len(finding.codes)
    upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(real, dtype=np.int64)])
    bounds, pods = upto[bounds], pods[real]
    reasons = _final_reasons(finding, nodes)
    where = drain_set.problem.destination if drain_set else finding.problem.destination
    wave_of = wave[np.argsort(accepted)]
    unneeded = UnneededNodes(
        nodes=nodes,
        bounds=bounds,
        pods=pods,
        destination=where[pods],
        waiting=context.pods.nodes_with(finding.codes == outcome.WAIT)[nodes],
        risky=_risky(finding, nodes[wave_of == 1])[nodes],
        slack_dependent=plan.slack_dependent if plan else NO_SLACK_DEPENDENT_NODES,
        wave=wave_of,
    )
    first = context.pods.first_on_nodes(outcome.blocks(finding.codes))
    return LoopResult(
        search=finding,
        accepted=accepted,
        wave=wave,
        unneeded=unneeded,
        reasons=reasons,
        stopping=first[(first >= 0) & (reasons == Reason.BLOCKED_BY_POD)].astype(np.int64),
        explanation=explain(finding.simulation, finding.problem, drain_set),
        moves=_moves(finding, accepted),
    )


def _moves_of(problem: DrainProblem, nodes: Int32) -> tuple[Int64, Int32]:
    """Return the pods to move of some nodes, node by node: int64[U+1] bounds and int32[M] pods."""
    lengths = problem.offsets[nodes + 1] - problem.offsets[nodes]
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    return bounds, problem.pods[entries_of(problem.offsets, nodes)]


def _risky(finding: SearchResult, first: Int32) -> Bool:
    """Return the nodes of the first wave : int32, which uses up a budget of one of their pods. bool[N].

    Pods of nodes being deleted have used up their budgets before.
    """
    limits, disruptions = finding.problem.limits, finding.problem.limits.disruptions.copy()
    used = entries_of(limits.offsets, first)
    np.subtract.at(disruptions, limits.budget[used], limits.need[used])
    risky = np.zeros(len(limits.group), bool)
    risky[first] = nodes_using(limits, disruptions[limits.budget] <= 0)[first]
    return risky


def _final_reasons(finding: SearchResult, unneeded: Int32) -> UInt8:
    """Return the reason by node why it stays, 0 = it is unneeded. uint8[N]."""
    reasons = finding.reasons.copy()
    eligible = reasons == 0
    if finding.drain_set:
        problem = finding.drain_set.problem
        reasons[eligible] = problem.outcome[eligible]
        # The destination of nothing but pending pods.
        target = problem.destination[finding.context.pending]
        pending = np.bincount(target[target >= 0], minlength=len(problem.incoming_count))
        only_pending = (problem.incoming_count == pending)[: len(reasons)]
        destination = problem.outcome == Reason.DESTINATION_OF_MOVED_PODS
        reasons[destination & only_pending & eligible] = RESERVED
        reasons[needed_for_slack(finding.context, finding.simulation, problem)] = FOR_SLACK
    else:
        reasons[eligible] = Reason.NOT_EVALUATED
    reasons[unneeded] = 0
    return reasons


def _moves(finding: SearchResult, accepted: Int32) -> Moves:
    """Return all destinations: of pods from nodes being deleted, from unneeded nodes, and of pods on no node."""
    context = finding.context
    snapshot = context.request.snapshot
    where = (finding.drain_set or finding).problem.destination
    leaving_pods = pods_of_leaving_nodes(context)
    leaving, counts = np.unique(snapshot.pods.node[leaving_pods], return_counts=True)
    bounds, pods = _moves_of(finding.problem, accepted)
    pod_count = len(snapshot.pods.spec)
    evicted = np.arange(pod_count, pod_count + len(context.evictions), dtype=np.int32)
    unbound_pods = np.concatenate([context.pending, evicted])
    source = np.concatenate([leaving, accepted, np.array([len(context.request.leaving)])]).astype(np.int32)
    lengths = np.concatenate([counts, np.diff(bounds), np.array([len(unbound_pods)])])
    moved = np.concatenate([leaving_pods, pods, unbound_pods]).astype(np.int32)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    # A destination on a virtual node is not remembered.
    target = where[moved]
    return Moves(source, ends, moved, np.where(target < len(context.request.leaving), target, -1).astype(np.int32))


Predicate = reason_pb2.PredicateReason
REASONS = max(Predicate.Code.values()) + 1
_PREDICATES: Final = {int(number): name for name, number in Predicate.Code.items()}
TOGETHER_DETAIL: Final = "each pod fits alone, but not all at the same time"


def explain(simulation: Simulation, problem: DrainProblem, attempt: DrainSet | None) -> Explanation:
    """Explain the outcome of an attempt, with the simulation in its end state. O(classes of blocking pods · N)."""
    if attempt is None:
        return Explanation({}, {}, {}, {})
    unplaceable, over = _culprits(attempt.problem, NO_PLACE), _culprits(attempt.problem, BLOCKED)
    allowed = problem.search.allowed.copy()
    allowed[attempt.accepted] = False
    counts = _counts(simulation, allowed, unplaceable)
    failed = {
        node: {_PREDICATES.get(code, "UNSPECIFIED"): int(row[code]) for code in range(1, REASONS) if row[code]}
        for node, row in zip(unplaceable, counts, strict=True)
    }
    together = [node for node, row in zip(unplaceable, counts, strict=True) if row[0] > 0]
    return Explanation(unplaceable, over, failed, dict.fromkeys(together, TOGETHER_DETAIL))


def _culprits(problem: DrainProblem, outcome: int) -> dict[int, int]:
    return {int(node): int(problem.blocking_pod[node]) for node in np.flatnonzero(problem.outcome == outcome)}


def _counts(simulation: Simulation, allowed: Bool, unplaceable: Mapping[int, int]) -> Int64:
    """Return for each node in turn how many other nodes fail its pod, by reason. int64[K, REASONS]."""
    state = simulation.state
    nodes = np.fromiter(unplaceable.keys(), np.int32, len(unplaceable))
    pods = np.fromiter(unplaceable.values(), np.int32, len(unplaceable))
    # A pod with volumes is a class of its own, and so is one that counts for predicates on its own node.
    alone = is_unlike_its_class(state.counters, pods) | (state.local_class[state.pod_class[pods]] == 0)
    kind = np.where(alone, -1 - pods, state.pod_class[pods])
    _, first, of = np.unique(kind, return_index=True, return_inverse=True)
    by_kind = np.zeros((len(first), REASONS), np.int64)
    count_failures(state, pods[first], allowed, by_kind)
    counts = by_kind[of.reshape(-1)]
    # A pod's own node is not a destination; one that takes no pods has not been counted.
    counted = allowed[nodes]
    of_counted = counts[counted]
    discount_failures(state, pods[counted], nodes[counted], of_counted)
    counts[counted] = of_counted
    return counts


def needed_for_slack(context: ScaleDownContext, simulation: Simulation, problem: DrainProblem) -> Int32:
    """Return the nodes without a place for a placeholder, or for a pod that would fit if placeholders were absent,
    followed by the nodes that receive only placeholders. int32. For a pod, only amounts and static predicates are
    checked. O(nodes without a place + classes of blocking pods · N).
    """
    count = len(context.request.round.placeholders)
    if not count:
        return np.zeros(0, np.int32)
    unplaceable = np.flatnonzero(problem.outcome == NO_PLACE).astype(np.int32)
    destinations = _destinations(problem, len(simulation.state.pod_node) - count)
    return np.concatenate([_unplaceable(simulation, problem, unplaceable, count), destinations])


def _destinations(problem: DrainProblem, first: int) -> Int32:
    """Return the nodes that have received only placeholders (pods from `first` on). int32."""
    for_placeholders = []
    for node in np.flatnonzero(problem.outcome == DESTINATION).tolist():
        pod = int(problem.first_incoming[node])
        while pod >= first:
            pod = int(problem.next_incoming[pod])
        if pod < 0:
            for_placeholders.append(node)
    return np.array(for_placeholders, np.int32)


def _unplaceable(simulation: Simulation, problem: DrainProblem, unplaceable: Int32, count: int) -> Int32:
    """Return which of the nodes without a place for a pod stay for slack. count : placeholders, the last pods."""
    state = simulation.state
    blocking_pod = problem.blocking_pod[unplaceable]
    for_slack = blocking_pod >= len(state.pod_node) - count
    held = _held(simulation, count)
    room = state.resources.free + held
    for pod_class in np.unique(state.pod_class[blocking_pod[~for_slack & (blocking_pod >= 0)]]).tolist():
        need = state.resources.need[pod_class]
        takes = (state.node_state == OPEN) & problem.search.allowed & (state.blocked[pod_class, state.node_class] == 0)
        freed = takes & (room >= need).all(axis=1) & ~(state.resources.free >= need).all(axis=1)
        of_class = ~for_slack & (state.pod_class[blocking_pod] == pod_class)
        # A node's own room is not a destination for its pods.
        for_slack |= of_class & (int(freed.sum()) - freed[unplaceable] > 0)
    staying: Int32 = unplaceable[for_slack]
    return staying


def _held(simulation: Simulation, count: int) -> Int64:
    """Return the amounts that placeholders request on each node. int64[N, R]."""
    state = simulation.state
    held = np.zeros_like(state.resources.free)
    node, of_class = state.pod_node[-count:], state.pod_class[-count:]
    there = node >= 0
    np.add.at(held, node[there], state.resources.request[of_class[there]])
    return held
