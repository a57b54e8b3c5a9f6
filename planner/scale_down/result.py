"""The result of a loop, independent of the simulation and its columns over pods. Decides nothing. Nodes in order of
name.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.drainability import outcome
from trimtab.planner.drainability.limits import nodes_using
from trimtab.planner.placement.hints import Moves
from trimtab.planner.placement.kernels.search import REMEMBERED, SEARCHES
from trimtab.planner.scale_down.context import ScaleDownContext
from trimtab.planner.scale_down.removal import UnneededNodes
from trimtab.planner.scale_down.search.displaced import pods_of_leaving_nodes
from trimtab.planner.scale_down.search.drain_sets import DrainSet
from trimtab.planner.scale_down.search.explain import Explanation, explain, needed_for_slack
from trimtab.planner.scale_down.search.fewer_placeholders import NO_SLACK_DEPENDENT_NODES, ChosenPlan
from trimtab.planner.scale_down.search.kernels.drain_sets import DrainProblem
from trimtab.planner.scale_down.search.portfolio import ChosenDrainSet
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, UInt8
from trimtab.planner.snapshot.dictionaries import entries_of
from trimtab.v1 import reason_pb2

Reason = reason_pb2.UnremovableReason
FOR_SLACK: Final = np.uint8(Reason.NEEDED_FOR_SLACK)
RESERVED: Final = np.uint8(Reason.RESERVED_FOR_PENDING_PODS)


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
    """int64 pods that block their nodes."""
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
    bounds, pods = _real_moves_of(finding, nodes)
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
    return LoopResult(
        search=finding,
        accepted=accepted,
        wave=wave,
        unneeded=unneeded,
        reasons=reasons,
        stopping=_stopping(finding, reasons),
        explanation=explain(finding.simulation, finding.problem, drain_set),
        moves=_moves(finding, accepted),
    )


def _moves_of(problem: DrainProblem, nodes: Int32) -> tuple[Int64, Int32]:
    """Return the pods to move of some nodes, node by node: int64[U+1] bounds and int32[M] pods."""
    lengths = problem.offsets[nodes + 1] - problem.offsets[nodes]
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    return bounds, problem.pods[entries_of(problem.offsets, nodes)]


def _real_moves_of(finding: SearchResult, nodes: Int32) -> tuple[Int64, Int32]:
    """Return the same without placeholders, which are never evicted."""
    bounds, pods = _moves_of(finding.problem, nodes)
    real = pods < len(finding.codes)
    upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(real, dtype=np.int64)])
    return upto[bounds], pods[real]


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
        reasons[_reserved(finding.context, problem) & eligible] = RESERVED
        reasons[needed_for_slack(finding.context, finding.simulation, problem)] = FOR_SLACK
    else:
        reasons[eligible] = Reason.NOT_EVALUATED
    reasons[unneeded] = 0
    return reasons


def _reserved(context: ScaleDownContext, problem: DrainProblem) -> Bool:
    """Return for each node whether it stays only as the destination of pending pods. bool[N]."""
    target = problem.destination[context.pending]
    only_pending = problem.incoming_count == np.bincount(target[target >= 0], minlength=len(problem.incoming_count))
    destination = problem.outcome == Reason.DESTINATION_OF_MOVED_PODS
    reserved: Bool = destination & only_pending[: len(destination)]
    return reserved


def _stopping(finding: SearchResult, reasons: UInt8) -> Int64:
    """Return the first blocking pod of each node that has one, in order of the nodes. int64; O(P)."""
    first = finding.context.pods.first_on_nodes(outcome.blocks(finding.codes))
    blocking: Int64 = first[(first >= 0) & (reasons == Reason.BLOCKED_BY_POD)].astype(np.int64)
    return blocking


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
