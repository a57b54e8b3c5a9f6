"""One loop of scale-down. Its steps, each a function:

1. Survey the cluster before any pod is moved (`context.survey`).
2. Place the pods of nodes being deleted, then the recently evicted ones (`search.displaced`).
3. Find the nodes that are eligible (`eligibility.reasons`), with the disruption budgets that are left.
4. Find the largest set of eligible nodes that can go together (`search`), and those that can go in later waves
   (`search.waves`).
5. Extract the result (`result`).
6. Select which of these nodes go now (`selection.removal`).
"""

from functools import cache, partial
from typing import Final, NamedTuple, TypeVar

import numpy as np

from trimtab.planner.drainability import outcome, rules
from trimtab.planner.facts import pdb
from trimtab.planner.facts.node_limits import closed
from trimtab.planner.facts.nodes import prices
from trimtab.planner.placement.kernels.search import Search
from trimtab.planner.placement.waiting import unplaced
from trimtab.planner.scale_down import eligibility
from trimtab.planner.scale_down.context import ScaleDownContext, ScaleDownRequest, nodes_with, survey
from trimtab.planner.scale_down.eligibility import NodeFindings
from trimtab.planner.scale_down.removal import Removal, of_no_use, select, since
from trimtab.planner.scale_down.result import LoopResult, SearchResult, extract_result
from trimtab.planner.scale_down.search.displaced import (
    name_of,
    place_evicted,
    place_leaving,
    pods_of_leaving_nodes,
    promised_nodes,
    record_placed,
)
from trimtab.planner.scale_down.search.drain_sets import DrainTask, LaterCandidates, TaskNodes
from trimtab.planner.scale_down.search.fewer_placeholders import (
    ChosenPlan,
    choose_with_slack,
    placeholders_on_nodes,
)
from trimtab.planner.scale_down.search.headroom import (
    CapacityUse,
    capacity_use,
    own_places,
    with_own_places,
)
from trimtab.planner.scale_down.search.kernels.drain_sets import (
    COUNTS,
    DisruptionsLeft,
    DrainProblem,
    Minimums,
    cap_needs,
)
from trimtab.planner.scale_down.search.orders import NodeScores
from trimtab.planner.scale_down.search.waves import NONE
from trimtab.planner.scale_down.whole_gangs import WholeGangs, whole_gangs, whole_size, without_parts
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.log import MoveLogFullError, check_log, current_mark
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64, UInt8
from trimtab.planner.snapshot.dictionaries import CPU, MEMORY
from trimtab.v1 import reason_pb2

Reason = reason_pb2.UnremovableReason
VOLUME: Final = (CPU, MEMORY)
"""Resources that bound plans, as positions in `Snapshot.resources`."""


class ScaleDownPlan(NamedTuple):
    """What one loop decides. since_ns : int64[U] since when the nodes of `result.unneeded` are unneeded; removal :
    which of them go now."""

    context: ScaleDownContext
    result: LoopResult
    since_ns: Int64
    removal: Removal


def make_plan(request: ScaleDownRequest) -> ScaleDownPlan:
    """Return the plan of this loop; the round's simulation is left with the pods at their destinations. If the log
    proves too short, it is replaced by a larger one, and everything is decided again.
    """
    context = survey(request)
    start = current_mark(request.round.simulation.state)
    while True:
        simulation = request.round.simulation
        try:
            result = extract_result(_simulated(context, simulation))
            check_log(simulation.state)
        except MoveLogFullError:
            request.round.enlarge_log(start)
        else:
            since_ns = since(context, result.unneeded.nodes)
            return ScaleDownPlan(context, result, since_ns, select(context, result.unneeded, since_ns))


def _simulated(context: ScaleDownContext, simulation: Simulation) -> SearchResult:
    eligible_but_budgets = _ineligible(context, _blocked(context, context.pods.codes))
    problem = _problem(context, simulation, np.flatnonzero(eligible_but_budgets == 0).astype(np.int32))
    gangs = _moving_gangs(context, problem, eligible_but_budgets)
    if context.request.round.decided:
        record_placed(context, simulation, problem)
    unplaceable = place_leaving(context, simulation, problem)
    what = "a node being deleted"
    if unplaceable < 0:
        unplaceable, what = place_evicted(context, simulation, problem), "a recently evicted pod"
    codes = _judge(context, problem)
    reasons = _ineligible(context, _blocked(context, codes))
    if unplaceable >= 0:
        detail = f"pod {name_of(context, unplaceable)} of {what} fits on no node"
        return SearchResult(context, simulation, problem, codes, reasons, None, detail)
    later = _later_candidates(context, reasons, eligible_but_budgets)
    choice = _simulate(context, simulation, problem, reasons, later, gangs)
    return SearchResult(context, simulation, problem, codes, reasons, choice, "")


def _moving_gangs(context: ScaleDownContext, problem: DrainProblem, reasons: UInt8) -> WholeGangs:
    """Return the gangs that move whole if at all; their budgets allow it, in place. reasons : uint8[N] why a node is
    not eligible, budgets aside."""
    gangs = whole_gangs(context)
    gangs = gangs.without(gangs.on_any(reasons != 0))
    may_move = gangs.on_any(reasons == 0)
    rows = gangs.budget[may_move] + len(context.request.snapshot.budgets)
    problem.budgets.left[rows] = gangs.pod_count[may_move]
    return gangs


def _later_candidates(context: ScaleDownContext, reasons: UInt8, but_budgets: UInt8) -> LaterCandidates:
    """Return the nodes of the last plan that stay in it for later waves: those that were in one, and those that only
    exhausted budgets block, as while pods of the plan's earlier nodes are evicted.

    reasons, but_budgets : uint8[N] why a node is not eligible, with budgets and without.
    """
    request = context.request
    moves = request.round.settings.gangs.move_running
    refilled = pdb.refilled(request.snapshot, request.cache, move_running=moves)
    if context.request.settings.max_waves < 2:
        return LaterCandidates(NONE, NONE, refilled)
    first, later = context.previous.unneeded, context.previous.later
    exhausted = (reasons == Reason.BLOCKED_BY_POD) & (but_budgets == 0)
    first = first[exhausted[first]]
    stays = exhausted[later.node] | (reasons[later.node] == 0)
    wave = np.concatenate([np.ones(len(first), np.int32), later.wave[stays]])
    return LaterCandidates(np.concatenate([first, later.node[stays]]), wave, refilled)


class _Moving(NamedTuple):
    """Pods to move by node. offsets : int64[N+1]; pods : int32[M]."""

    offsets: Int64
    pods: Int32


def _moving(context: ScaleDownContext) -> _Moving:
    groups = context.groups
    node_count = len(context.request.leaving)
    members = groups.members[: groups.offsets[node_count]]
    moves = context.pods.needs_place & (context.pods.codes <= outcome.DRAIN_OK)
    # Placeholders move like pods of a controller.
    moves = np.append(moves, np.ones(len(groups.digests) - len(moves), np.bool_))[members]
    upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(moves, dtype=np.int64)])
    return _Moving(upto[groups.offsets[: node_count + 1]], members[moves])


def _problem(context: ScaleDownContext, simulation: Simulation, candidates: Int32) -> DrainProblem:
    """Build the input of attempts. candidates : nodes that attempts may try, for the order of destinations.

    Virtual nodes and pods of earlier decisions are included, but no pod is moved to such a node.
    """
    snapshot, spare = context.request.snapshot, context.nodes.spare
    node_count, state = len(snapshot.nodes.name), simulation.state
    all_nodes, all_pods = len(state.node_state), len(state.pod_node)
    moving = _moving(context)
    return DrainProblem(
        offsets=moving.offsets,
        pods=moving.pods,
        hint=_extended(context.previous.hint, all_pods, -1),
        search=Search(
            order=_search_order(context, candidates),
            allowed=_extended(~context.request.leaving & context.request.ready, all_nodes, False),
            cursor=np.zeros(len(state.local_class), np.int64),
            failed=np.zeros(len(state.local_class), np.int64),
        ),
        budgets=_disruptions_left(context, moving),
        limits=Minimums(spare.group, spare.group_left.copy(), spare.amount, spare.amount_left.copy()),
        incoming_count=np.zeros(all_nodes, np.int32),
        first_incoming=np.full(all_nodes, -1, np.int32),
        next_incoming=np.full(all_pods, -1, np.int32),
        outcome=np.zeros(node_count, np.uint8),
        blocking_pod=np.full(node_count, -1, np.int32),
        destination=np.full(all_pods, -1, np.int32),
        counts=np.zeros(COUNTS, np.int64),
        accepted=np.empty(node_count, np.int32),
    )


def _disruptions_left(context: ScaleDownContext, moving: _Moving) -> DisruptionsLeft:
    """Return what budgets allow, and what pods need of it: of a node with more pods than a budget ever allows at once,
    all of it. No eviction API makes evictions wait for gangs, so their needs stay."""
    under, snapshot = context.pods.under, context.request.snapshot
    left = DisruptionsLeft(under.offsets, under.budgets, under.needs.copy(), context.pods.remaining.copy())
    most = np.zeros(len(left.left), np.int64)
    most[: len(snapshot.budgets)] = pdb.refilled_disruptions(snapshot.budgets)
    if most.any():
        cap_needs(moving.offsets, moving.pods, left._replace(needs=under.needs), most, np.zeros_like(most), left.needs)
    return left


Column = TypeVar("Column", Int32, Bool)


def _extended(column: Column, count: int, value: int) -> Column:
    """Return a column with rows for virtual nodes or pods appended."""
    return np.concatenate([column, np.full(count - len(column), value, column.dtype)])


def _search_order(context: ScaleDownContext, candidates: Int32) -> Int32:
    """Return the nodes in search order for displaced pods. int32[N]. Candidates come last, the most used first, because
    these are tried last.
    """
    share = context.nodes.utilization.share[candidates]
    last = candidates[np.lexsort((candidates, -share))]
    return np.concatenate([_staying(context, candidates), last]).astype(np.int32)


def _staying(context: ScaleDownContext, candidates: Int32) -> Int32:
    """Return the nodes that are not candidates, cyclically from where the last search stopped. int32."""
    is_candidate = np.zeros(len(context.request.leaving), bool)
    is_candidate[candidates] = True
    staying = np.flatnonzero(~is_candidate)
    start = int(np.searchsorted(staying, max(context.previous.search_start, 0)))
    return np.roll(staying, -start).astype(np.int32)


def _judge(context: ScaleDownContext, problem: DrainProblem) -> UInt8:
    """Complete the rules' outcomes for the pods with the current budgets. uint8[P]."""
    found = pdb.exhausted(context.pods.under, problem.budgets.left, len(context.request.snapshot.budgets))
    return rules.judge_budgets(context.pods.columns.with_exhausted(found), context.pods.codes)


def _blocked(context: ScaleDownContext, codes: UInt8) -> Bool:
    """Return for each node whether a pod blocks its drain. bool[N]."""
    return nodes_with(context, outcome.blocks(codes))


def _ineligible(context: ScaleDownContext, blocked: Bool) -> UInt8:
    """Return by node why it is not a candidate, 0 = it is one. uint8[N]."""
    request = context.request
    failed = context.previous.failed
    recent = np.zeros(len(context.request.leaving), bool)
    recent[failed.node[request.now_ns - failed.time_ns < request.settings.recheck_timeout_ns]] = True
    every = np.arange(len(recent), dtype=np.int32)
    cooling = context.cooldown.of_nodes(request.snapshot.nodes.group) & ~of_no_use(request.round, every)
    findings = NodeFindings(
        recent,
        context.request.leaving,
        blocked,
        cooling,
        promised_nodes(context),
        context.request.ready,
        _filled(context),
        context.nodes.utilization,
        context.nodes.spare,
        context.nodes.has_pods,
        closed(context.nodes.budgets, len(recent)),
    )
    reasons = eligibility.reasons(request.snapshot, request.settings, findings)
    return without_parts(context, _without_small_savings(context, reasons))


def _filled(context: ScaleDownContext) -> Bool:
    """Return the nodes of the last plan that evicted pods may have filled, now or in an earlier loop. bool[N]."""
    filled, previous = np.zeros(len(context.request.leaving), bool), context.previous
    filled[previous.filled] = True
    if context.request.leaving.any() or context.request.snapshot.recent_evictions:
        filled[previous.planned()] = True
    return filled


def _without_small_savings(context: ScaleDownContext, reasons: UInt8) -> UInt8:
    """Keep nodes whose removal saves too little per pod that would have to move. uint8[N]."""
    floor = context.request.settings.min_saving_per_eviction
    if floor > 0:
        gangs = whole_gangs(context)
        moving = gangs.shared(_real_moves(context).astype(np.float64))
        price = gangs.shared(prices(context.request.snapshot))
        too_little = (moving > 0) & ~np.isnan(price) & (price < floor * moving)
        np.copyto(reasons, np.uint8(Reason.NOT_UNNEEDED_OTHER_REASON), where=too_little & (reasons == 0))
    return reasons


def _real_moves(context: ScaleDownContext) -> Int64:
    """Return by node how many pods would have to move, placeholders not counted. int64[N]."""
    moving = _moving(context)
    known = len(context.request.snapshot.pods.spec)
    upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(moving.pods < known, dtype=np.int64)])
    return np.diff(upto[moving.offsets])


def _budget_use(context: ScaleDownContext, problem: DrainProblem) -> Float64:
    """Return by node how much of the budgets its pods to move use up, each disruption as a share of those left.
    float64[N].

    O(pods with budgets).
    """
    under = context.pods.under
    share = under.needs / np.maximum(problem.budgets.left, 1)[under.budgets]
    by_pod = np.bincount(under.pods, share, len(under.offsets))
    upto = np.concatenate([np.zeros(1), np.cumsum(by_pod[problem.pods])])
    use: Float64 = upto[problem.offsets[1:]] - upto[problem.offsets[:-1]]
    return use


def _capacity_use(context: ScaleDownContext, simulation: Simulation, problem: DrainProblem) -> CapacityUse:
    """Return the cpu and memory that nodes have and need, all of them and those that some pods are bound to. O(N + pods
    to move)."""
    snapshot = context.request.snapshot
    use = context.nodes.use
    of_class = simulation.state.pod_class[problem.pods]
    moving = np.zeros((len(VOLUME), len(context.request.leaving)), np.int64)
    room = snapshot.nodes.allocatable[:, VOLUME].T
    used = use.used[list(VOLUME)].astype(np.int64)
    held = np.flatnonzero(problem.pods >= len(snapshot.pods.spec))
    node = np.searchsorted(problem.offsets, held, side="right") - 1
    upto = np.zeros(len(problem.pods) + 1, np.int64)
    for q in range(len(VOLUME)):
        # The first columns of a simulation are cpu and memory, too. A column by itself is gathered far faster.
        requests = np.ascontiguousarray(simulation.state.resources.request[:, q])[of_class]
        np.cumsum(requests, out=upto[1:])
        moving[q] = upto[problem.offsets[1:]] - upto[problem.offsets[:-1]]
        np.add.at(used[q], node, requests[held])
    of_all = capacity_use(room, used, moving, context.request.leaving)
    return _with_own_places(of_all, moving, simulation, problem)


def _with_own_places(use: CapacityUse, moving: Int64, simulation: Simulation, problem: DrainProblem) -> CapacityUse:
    """Return the amounts with those of nodes that some pods are bound to."""
    state, count = simulation.state, use.weight.shape[1]
    of_class = state.pod_class[problem.pods]
    pods = np.bincount(of_class, minlength=len(state.blocked))
    places = own_places(state.blocked, state.node_class[:count], pods)
    if not len(places.has):
        return use
    rows = np.flatnonzero(places.only[of_class] >= 0)
    of_class = of_class[rows]
    node = np.searchsorted(problem.offsets[: count + 1], rows, side="right") - 1
    requests = state.resources.request[:, : len(VOLUME)].T[:, of_class]
    return with_own_places(use, moving, places, requests, places.only[of_class] * count + node)


def _unbound_pods(context: ScaleDownContext) -> Int32:
    """Return the pods that are not yet on the node where room is kept for them: pending ones, recently evicted ones,
    and those still to be evicted from nodes being deleted. int32.
    """
    known = len(context.request.snapshot.pods.spec)
    evicted = np.arange(known, known + len(context.evictions), dtype=np.int32)
    return np.concatenate([context.pods.pending, evicted, pods_of_leaving_nodes(context)])


def _scores(context: ScaleDownContext, problem: DrainProblem, gangs: WholeGangs) -> NodeScores:
    """Return what orders of candidates compare."""
    return NodeScores(
        utilization=context.nodes.utilization.share,
        eviction_cost=gangs.shared(context.nodes.eviction_cost),
        price=prices(context.request.snapshot),
        budget_use=cache(partial(_budget_use, context, problem)),
        is_empty=np.diff(problem.offsets) == 0,
    )


def _simulate(
    context: ScaleDownContext,
    simulation: Simulation,
    problem: DrainProblem,
    reasons: UInt8,
    later: LaterCandidates,
    gangs: WholeGangs,
) -> ChosenPlan:
    """Find the nodes that can go together, in one wave or more."""
    request = context.request
    candidates = reasons == 0
    candidates[later.nodes] = False
    eligible = np.flatnonzero(candidates).astype(np.int32)
    candidates[later.nodes] = True
    may_go = np.flatnonzero(candidates).astype(np.int32)
    unneeded_before = np.zeros(len(reasons), bool)
    unneeded_before[context.previous.unneeded] = True
    use = cache(partial(_capacity_use, context, simulation, problem))
    nodes = TaskNodes(
        # Pods of the first wave go to nodes of later waves last of all nodes that stay in it.
        staying=np.concatenate([_staying(context, may_go), later.nodes[::-1]]),
        eligible=eligible,
        may_go=may_go,
        later=later,
        scores=_scores(context, problem, gangs),
        unneeded_before=unneeded_before,
        atomic_size=whole_size(context),
        gangs=gangs,
        waits=nodes_with(context, context.pods.codes == outcome.WAIT),
    )
    task = DrainTask(
        state=simulation.state,
        problem=problem,
        settings=request.settings,
        previous=context.previous,
        nodes=nodes,
        residents=context.groups,
        unbound_pods=_unbound_pods(context),
        pending=unplaced(simulation.state, context.pods.pending),
        balance=context.balance,
        basis_changed=context.basis != context.previous.basis,
        capacity_use=use,
        time_left=request.round.work.time_left,
        parallel=request.round.work.parallel,
    )
    return choose_with_slack(task, placeholders_on_nodes(request.round))
