"""One loop of scale-down: the cluster is surveyed before any pod is moved, pods of nodes being deleted and recently
evicted ones are placed, eligible nodes judged with the budgets that are left, the largest set of them that can go
together searched, in waves, and those selected that go now.
"""

from functools import cache, partial
from typing import Final, NamedTuple, TypeVar

import numpy as np

from trimtab.planner.drainability import outcome
from trimtab.planner.drainability.kernels.limits import NodeLimits
from trimtab.planner.drainability.limits import below_minimum, node_limits
from trimtab.planner.facts.nodes import is_used, prices
from trimtab.planner.placement.kernels.search import Search
from trimtab.planner.placement.waiting import unplaced
from trimtab.planner.round.survey import NodeFindings, node_reasons
from trimtab.planner.scale_down.context import ScaleDownContext, ScaleDownRequest, survey
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
    NodeScores,
    capacity_use,
    own_places,
    with_own_places,
)
from trimtab.planner.scale_down.search.kernels.drain_sets import (
    COUNTS,
    DrainProblem,
)
from trimtab.planner.scale_down.search.waves import NONE
from trimtab.planner.scale_down.whole_gangs import WholeGangs, complete_groups, whole_gangs, whole_sizes
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
    eligible_but_budgets = _ineligible(context, context.pods.codes)
    problem = _problem(context, simulation, np.flatnonzero(eligible_but_budgets == 0).astype(np.int32))
    gangs = _moving_gangs(context, problem, eligible_but_budgets)
    if context.request.round.decided:
        record_placed(context, simulation, problem)
    unplaceable = place_leaving(context, simulation, problem)
    what = "a node being deleted"
    if unplaceable < 0:
        unplaceable, what = place_evicted(context, simulation, problem), "a recently evicted pod"
    codes = context.pods.judged(problem.limits.disruptions, len(context.request.snapshot.budgets))
    reasons = _ineligible(context, codes)
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
    problem.limits.disruptions[rows] = gangs.pod_count[may_move]
    return gangs


def _later_candidates(context: ScaleDownContext, reasons: UInt8, but_budgets: UInt8) -> LaterCandidates:
    """Return the nodes of the last plan that stay in it for later waves: those that were in one, and those that only
    exhausted budgets block, as while pods of the plan's earlier nodes are evicted.

    reasons, but_budgets : uint8[N] why a node is not eligible, with budgets and without.
    """
    refilled = context.pods.refilled
    if context.request.settings.max_waves < 2:
        return LaterCandidates(NONE, NONE, refilled)
    first, later = context.previous.unneeded, context.previous.later
    exhausted = (reasons == Reason.BLOCKED_BY_POD) & (but_budgets == 0)
    first = first[exhausted[first]]
    stays = exhausted[later.node] | (reasons[later.node] == 0)
    wave = np.concatenate([np.ones(len(first), np.int32), later.wave[stays]])
    return LaterCandidates(np.concatenate([first, later.node[stays]]), wave, refilled)


def _problem(context: ScaleDownContext, simulation: Simulation, candidates: Int32) -> DrainProblem:
    """Build the input of attempts. candidates : nodes that attempts may try, for the order of destinations.

    Virtual nodes and pods of earlier decisions are included, but no pod is moved to such a node.
    """
    snapshot, spare = context.request.snapshot, context.nodes.spare
    node_count, state = len(snapshot.nodes.name), simulation.state
    all_nodes, all_pods = len(state.node_state), len(state.pod_node)
    this, pods = context.request.round, context.pods
    # Placeholders move like pods of a controller.
    held = state.pod_node[len(state.pod_node) - len(this.placeholders) :].astype(np.int32)
    moving = pods.moving(pods.needs_place & (pods.codes <= outcome.DRAIN_OK), held)
    # Candidates come last in the search for destinations, the most used first, because these are tried last.
    last = candidates[np.lexsort((candidates, -context.nodes.utilization.share[candidates]))]
    return DrainProblem(
        offsets=moving.offsets,
        pods=moving.pods,
        hint=_extended(context.previous.hint, all_pods, -1),
        search=Search(
            order=np.concatenate([_staying(context, candidates), last]).astype(np.int32),
            allowed=_extended(~context.request.leaving & context.request.ready, all_nodes, False),
            cursor=np.zeros(len(state.local_class), np.int64),
            failed=np.zeros(len(state.local_class), np.int64),
        ),
        limits=node_limits(snapshot, moving, context.pods.under, context.pods.remaining, spare, None),
        incoming_count=np.zeros(all_nodes, np.int32),
        first_incoming=np.full(all_nodes, -1, np.int32),
        next_incoming=np.full(all_pods, -1, np.int32),
        outcome=np.zeros(node_count, np.uint8),
        blocking_pod=np.full(node_count, -1, np.int32),
        destination=np.full(all_pods, -1, np.int32),
        counts=np.zeros(COUNTS, np.int64),
        accepted=np.empty(node_count, np.int32),
    )


Column = TypeVar("Column", Int32, Bool)


def _extended(column: Column, count: int, value: int) -> Column:
    return np.concatenate([column, np.full(count - len(column), value, column.dtype)])


def _staying(context: ScaleDownContext, candidates: Int32) -> Int32:
    """Return the nodes that are not candidates, cyclically from where the last search stopped. int32."""
    is_candidate = np.zeros(len(context.request.leaving), bool)
    is_candidate[candidates] = True
    staying = np.flatnonzero(~is_candidate)
    start = int(np.searchsorted(staying, max(context.previous.search_start, 0)))
    return np.roll(staying, -start).astype(np.int32)


def _ineligible(context: ScaleDownContext, codes: UInt8) -> UInt8:
    """Return by node why it is not a candidate, 0 = it is one. uint8[N]. codes : uint8[P] outcomes of the rules."""
    request, nodes, pods = context.request, context.nodes, context.pods
    snapshot, settings, spare, failed = request.snapshot, request.settings, nodes.spare, context.previous.failed
    recent = np.zeros(pods.node_count, bool)
    recent[failed.node[request.now_ns - failed.time_ns < settings.recheck_timeout_ns]] = True
    every = np.arange(len(recent), dtype=np.int32)
    findings = NodeFindings(
        leaving=request.leaving,
        unready=~request.ready | nodes.utilization.awaits_gpu,
        has_pods=nodes.has_pods,
        below_minimum=below_minimum(spare),
        blocked=pods.nodes_with(outcome.blocks(codes)),
        reserved=promised_nodes(context),
        recent=recent,
        protected=snapshot.nodes.do_not_disrupt,
        cooling=context.cooldown.of_nodes(snapshot.nodes.group) & ~of_no_use(request.round, every),
        unmeasured=np.isnan(nodes.utilization.share),
        closed=nodes.budgets.closed,
        used=is_used(snapshot, settings, nodes.utilization) & ~_filled(context),
        group_at_minimum=spare.group_left[spare.group] <= 0,
    )
    reasons = node_reasons(snapshot, settings, findings)
    reasons = _without_small_savings(context, reasons)
    parts = (reasons == 0) & ~complete_groups(context, reasons == 0)
    np.copyto(reasons, np.uint8(Reason.ATOMIC_SCALE_DOWN_FAILED), where=parts)
    return reasons


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
        moves = context.pods.needs_place & (context.pods.codes <= outcome.DRAIN_OK)
        real = context.pods.moving(moves, np.zeros(0, np.int32))
        moving = gangs.shared(np.diff(real.offsets).astype(np.float64))
        price = gangs.shared(prices(context.request.snapshot))
        too_little = (moving > 0) & ~np.isnan(price) & (price < floor * moving)
        np.copyto(reasons, np.uint8(Reason.NOT_UNNEEDED_OTHER_REASON), where=too_little & (reasons == 0))
    return reasons


def _budget_use(limits: NodeLimits) -> Float64:
    """Return by node how much of the budgets its pods to move use up, each disruption as a share of those left.
    float64[N]; O(uses of budgets)."""
    share = limits.need / np.maximum(limits.disruptions, 1)[limits.budget]
    node = np.repeat(np.arange(len(limits.group)), np.diff(limits.offsets))
    return np.bincount(node, share, len(limits.group)).astype(np.float64)


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
    pod_count = len(request.snapshot.pods.spec)
    evicted = np.arange(pod_count, pod_count + len(context.evictions), dtype=np.int32)
    nodes = TaskNodes(
        # Pods of the first wave go to nodes of later waves last of all nodes that stay in it.
        staying=np.concatenate([_staying(context, may_go), later.nodes[::-1]]),
        eligible=eligible,
        may_go=may_go,
        later=later,
        scores=NodeScores(
            utilization=context.nodes.utilization.share,
            eviction_cost=gangs.shared(context.nodes.eviction_cost),
            price=prices(request.snapshot),
            budget_use=cache(partial(_budget_use, problem.limits)),
            is_empty=np.diff(problem.offsets) == 0,
        ),
        unneeded_before=unneeded_before,
        atomic_size=whole_sizes(context)[request.snapshot.nodes.group].astype(np.int32),
        gangs=gangs,
        waits=context.pods.nodes_with(context.pods.codes == outcome.WAIT),
    )
    task = DrainTask(
        state=simulation.state,
        problem=problem,
        settings=request.settings,
        previous=context.previous,
        nodes=nodes,
        residents=context.groups,
        # Pending pods, recently evicted ones, and those still to be evicted from nodes being deleted.
        unbound_pods=np.concatenate([context.pending, evicted, pods_of_leaving_nodes(context)]),
        pending=unplaced(simulation.state, context.pending),
        balance=context.balance,
        basis_changed=context.basis != context.previous.basis,
        capacity_use=use,
        time_left=request.round.work.time_left,
        parallel=request.round.work.parallel,
    )
    return choose_with_slack(task, placeholders_on_nodes(request.round))
