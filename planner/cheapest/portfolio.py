"""Make several plans with some groups and keep the cheapest, then improve it.

The first plan uses the minimum cost of pods on full nodes. Its fills start a linear programme, whose duals are better
estimates of the worth of pods; plans made with these add more fills. Finally, its fractions are rounded to whole nodes.
A plan that costs what all pods cost at least is the last one. All work is bounded by the numbers of classes and groups;
the caller's bounds are checked between plans.

Most of hundreds of instance sizes differ little from the next one. Evaluated in detail are the cheapest ones for pods
of some class, full or alone on a node, and a sample of all others by price. Rows of pods that differ little are joined:
a plan for thousands of different pods costs as much as for hundreds. A joined row has the mean request of its pods, so
a node may be planned slightly too full, and pods that find no room there need another place.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from trimtab.planner.cheapest.kernels.build import Batches, build
from trimtab.planner.cheapest.kernels.dive import dive
from trimtab.planner.cheapest.kernels.fill import FillState, consider_remaining
from trimtab.planner.cheapest.kernels.generate import PricingState, add_fill, generate
from trimtab.planner.cheapest.kernels.improve import RuinRecreateScratch, improve
from trimtab.planner.cheapest.kernels.master import MasterProblem, reset_basis
from trimtab.planner.cheapest.problem import UNLIMITED, PlanBounds, Problem
from trimtab.planner.facts.nodes import total
from trimtab.planner.model.tuning import (
    DIVE_WORK,
    FEW_CLASSES,
    GENERATED_FILLS,
    IMPROVED_PLANS,
    IMPROVEMENT_FILLS,
    IMPROVEMENT_PARTS,
    JOIN_RATIOS,
    LIMIT_ROUNDS,
    MOST_TAKEN,
    PLANS_BY_DUALS,
    PLANS_WORK,
    ROUND_UP_FROM,
    TOLERANCE,
    UNPLACED_POD_COST,
    WHOLE_LEVEL,
)
from trimtab.planner.placement.attempts import best_of
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64, UInt8


def share_cost(problem: Problem, cost: Float64, groups: Int32) -> Float64:
    """Return the cost of a pod on full nodes, by class and group. float64[C, H], inf = it does not fit."""
    share = 1.0 / np.maximum(problem.per_node, 1).astype(np.float64)[:, None].repeat(len(groups), axis=1)
    fits = problem.allowed[:, groups] & (problem.per_node > 0)[:, None]
    for resource in range(problem.demand.shape[1]):
        takes, has = problem.demand[:, resource, None], problem.capacity[groups, resource]
        fits &= takes <= has
        np.maximum(share, takes / np.maximum(has, 1), out=share)
    return np.where(fits, share * cost[groups], np.inf)


def least_cost(problem: Problem, cost: Float64, groups: Int32) -> float:
    """Return a cost below which there is no plan for all pods that some group admits.

    Every resource has to suffice, at the least cost of what a pod takes of it, and the nodes for what each takes of a
    class. Classes that have groups in common count together; if all these groups cost the same, with whole nodes.
    O(C · G · R).
    """
    admits = np.isfinite(share_cost(problem, cost, groups))
    of_node = least_value(np.where(admits, cost[groups], np.inf))
    alone = of_node * problem.pods / np.maximum(problem.per_node, 1)
    of_all = np.zeros(problem.demand.shape)
    for resource, capacity in enumerate(problem.capacity[groups].T):
        of_unit = least_value(np.where(admits, cost[groups] / np.maximum(capacity, 1), np.inf))
        of_all[:, resource] = problem.demand[:, resource] * problem.pods * of_unit
    part, before = np.arange(len(admits)), np.zeros(0, np.int64)
    while not np.array_equal(part, before):
        before = part
        of_group = np.where(admits, part[:, None], len(admits)).min(axis=0, initial=len(admits))
        part = np.minimum(part, np.where(admits, of_group, len(admits)).min(axis=1, initial=len(admits)))
    least = 0.0
    for number in np.unique(part).tolist():
        rows = part == number
        needed = max(float(of_all[rows].sum(axis=0).max(initial=0.0)), float(alone[rows].max()))
        prices = cost[groups][admits[rows].any(axis=0)]
        if len(prices) and prices.min() == prices.max():
            needed = float(np.ceil(needed / prices[0] * (1.0 - TOLERANCE)) * prices[0])
        least += needed
    return least


def least_value(costs: Float64) -> Float64:
    """Return the least of each class's costs, such as those of `share_cost`. float64[C], 0 = it fits nowhere."""
    least: Float64 = costs.min(axis=1, initial=np.inf)
    return np.where(np.isinf(least), 0.0, least)


def candidates(problem: Problem, cost: Float64, groups: Int32, count: int) -> Int32:
    """Return the groups to evaluate in detail, ascending. count : the number of groups up to which all are."""
    if len(groups) <= count:
        return groups
    costs = share_cost(problem, cost, groups)
    alone = np.where(np.isinf(costs), np.inf, cost[groups])
    best = np.unique([table.argmin(axis=1) for table in (costs, alone)])
    return np.unique(np.concatenate([groups[best], _ladder(problem, cost, groups, count)])).astype(np.int32)


def _ladder(problem: Problem, cost: Float64, groups: Int32, count: int) -> Int64:
    """Return about `count` groups: of each kind, that is groups that take the same classes, some evenly
    spaced by price.
    """
    of_class = np.arange(1, len(problem.pods) + 1, dtype=np.int64) ** 3
    takes = (problem.allowed[:, groups] * of_class[:, None]).sum(axis=0) * 1009 + problem.zone[groups]
    kind = np.unique(takes, return_inverse=True)[1]
    order = np.lexsort((groups, cost[groups], kind))
    # Steps of equal ratio from the lowest price to the highest: a constant step would be large for small nodes only.
    height = np.log(cost[groups])
    step = max((height.max() - height.min()) * (kind.max() + 1) / count, TOLERANCE)
    rung = kind * (2 * count) + np.minimum((height - height.min()) // step, 2 * count - 1)
    first = np.flatnonzero(np.diff(rung[order], prepend=-1))
    return groups[order[first]].astype(np.int64)


def undominated(price: Float64, capacity: Int64, kind: Int64, may_win: Bool) -> Int64:
    """Return the positions, ascending, of offers for which no other one of the same kind has no less of any amount and
    costs no more. price : float64[O]; capacity : int64[O, R]; kind : int64[O], offers of one kind admit the same pods;
    may_win : bool[O], others may be left out for this one. Of equals the first stays. O(O^2 · R)."""
    order = np.lexsort((np.arange(len(price)), *-capacity.T, price))
    capacity, kind, may_win = capacity[order], kind[order], may_win[order]
    stays = np.ones(len(order), bool)
    for at in np.flatnonzero(may_win).tolist():
        if stays[at]:
            rest = np.flatnonzero(stays[at + 1 :]) + at + 1
            stays[rest] = (kind[rest] != kind[at]) | (capacity[rest] > capacity[at]).any(axis=1)
    return np.sort(order[stays]).astype(np.int64)


def alike(columns: Bool | UInt8) -> Int64:
    """Return a number for each row, the same for equal ones. columns : bool[K, C] or uint8[K, C]. int64[K]."""
    if not columns.shape[1]:
        return np.zeros(len(columns), np.int64)
    packed = np.ascontiguousarray(np.packbits(columns, axis=1) if columns.dtype == np.bool_ else columns)
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).reshape(-1)
    return np.unique(keys, return_inverse=True)[1].reshape(-1).astype(np.int64)


def similar_rows(demand: np.ndarray[Any, Any], kind: Int64, alone: Bool, count: int) -> Int64:
    """Return a number for each row, the same for those to join. int64[C]. demand : numbers [C, R]; kind : int64[C],
    rows of different kinds are not joined; alone : bool[C] rows that are not; count : rows up to which none is joined,
    and about how many are left. O(len(JOIN_RATIOS) · C · R)."""
    rows = np.arange(len(demand), dtype=np.int64)
    if len(rows) <= count:
        return rows
    varies = (demand != demand[:1]).any(axis=0)
    height = np.log(np.maximum(demand[:, varies], 1))
    apart = np.where(alone, rows, -1) * (int(kind.max(initial=0)) + 1) + kind
    numbers = rows
    for step in JOIN_RATIOS:
        key = apart
        for r in range(height.shape[1]):
            rung = np.where(demand[:, varies][:, r] > 0, 1 + np.round(height[:, r] / np.log(step)), 0).astype(np.int64)
            key = np.unique(key * (int(rung.max()) + 1) + rung, return_inverse=True)[1].reshape(-1).astype(np.int64)
        numbers = np.unique(key, return_inverse=True)[1].reshape(-1).astype(np.int64)
        if numbers.max() < count:
            break
    return numbers


def mean_demand(demand: np.ndarray[Any, Any], pods: np.ndarray[Any, Any], joined: Int64) -> np.ndarray[Any, Any]:
    """Return the mean request of the pods of joined rows. Numbers [max(joined) + 1, R]. pods : number of each row."""
    count = int(joined.max(initial=-1)) + 1
    mean = np.zeros((count, demand.shape[1]), demand.dtype)
    np.add.at(mean, joined, demand * pods[:, None])
    of_row = np.maximum(np.bincount(joined, pods, count).astype(demand.dtype), 1)[:, None]
    return np.asarray(mean / of_row if mean.dtype.kind == "f" else -(-mean // of_row))


def with_similar_rows_joined(problem: Problem, count: int) -> tuple[Problem, Int64]:
    """Return the problem with about so many rows, and the row of each of its rows. int64[C]. Rows with limits of their
    own stay as they are."""
    has_limits = (problem.per_node < UNLIMITED) | (problem.zone_most < UNLIMITED).any(axis=1)
    joined = similar_rows(problem.demand, alike(problem.allowed), has_limits, count)
    first = np.unique(joined, return_index=True)[1]
    fewer = problem._replace(
        demand=mean_demand(problem.demand, problem.pods, joined),
        pods=np.bincount(joined, problem.pods, len(first)).astype(np.int64),
        allowed=problem.allowed[first],
        per_node=problem.per_node[first],
        zone_most=problem.zone_most[first],
    )
    return fewer, joined


TRIES: Final = 1 << 40
"""A number of tries to improve a plan that is never reached."""
SPARE: Final = 4096
"""Additional batches for the improvement of a plan."""


class SearchInputs(NamedTuple):
    """A problem; the state before any of the plans, with the cost of a node of each group; the groups evaluated in
    detail, int32[H]; and what all pods cost at least."""

    problem: Problem
    state: FillState
    groups: Int32
    least_cost: float

    def is_met_by(self, plan: "FilledPlan") -> bool:
        """Return whether no plan is better than this one."""
        unplaced_count, cost = plan.rank()
        return not unplaced_count and cost <= self.least_cost * (1.0 + TOLERANCE)


class FilledPlan(NamedTuple):
    """The state after a plan, its nodes, and the assumed worth of a pod of each class, float64[C]."""

    state: FillState
    batches: Batches
    value: Float64

    def is_better(self, other: "FilledPlan") -> bool:
        """Return whether this plan leaves fewer pods than another, or costs less."""
        return self.rank() < other.rank()

    def rank(self) -> tuple[int, float]:
        """Return the key by which plans are compared: pods left, then cost."""
        count = int(self.batches.counts[0])
        cost = self.state.cost[self.batches.group[:count]]
        return int(self.state.pods.sum()), total(cost * self.batches.nodes[:count])


def best_attempt(problem: Problem, state: FillState, groups: Int32, bounds: PlanBounds) -> FilledPlan:
    """Return the cheapest of the plans found with nodes of `groups` that leave the fewest pods."""
    detailed = candidates(problem, state.cost, groups, bounds.search.detailed_groups)
    inputs = SearchInputs(problem, state, detailed, least_cost(problem._replace(pods=state.pods), state.cost, groups))
    plans = sorted(make_plans(inputs, bounds), key=FilledPlan.rank)
    best = plans[0] if inputs.is_met_by(plans[0]) else _best_improved(inputs, plans, bounds)
    if best.state.pods.any():
        # With groups not evaluated in detail, and with nodes that the improvement has freed.
        _build_more(best, groups, 1)
    return best


def make_plans(inputs: SearchInputs, bounds: PlanBounds) -> list[FilledPlan]:
    """Return several plans, the first by the minimum cost of pods."""
    value = least_value(share_cost(inputs.problem, inputs.state.cost, inputs.groups))
    first = _built(inputs, inputs.state, value, bounds.search.weightings)
    is_too_large = len(value) ** 2 > bounds.search.programme_entries
    if not first.batches.counts[0] or is_too_large or inputs.is_met_by(first) or not bounds.may_go_on():
        return [first]
    return [first, *_relaxed(inputs, first, bounds)]


def _best_improved(inputs: SearchInputs, plans: list[FilledPlan], bounds: PlanBounds) -> FilledPlan:
    """Improve the best plans and return the best result. plans : best first."""
    improved: list[FilledPlan] = []
    plan_count = min(IMPROVED_PLANS, max(1, bounds.search.improved_classes // len(inputs.problem.pods)))
    finalists = plans[:plan_count] if plans[0].batches.counts[0] else []
    tries = TRIES if bounds.search.improves else 0
    for number, plan in enumerate(finalists):
        share = -(-tries // (len(finalists) - number))
        if share == 0 or not bounds.may_go_on():
            break
        tries -= share
        improved.append(_improved(inputs, plan, share, bounds.search.detailed_groups))
    return best_of(improved or plans[:1], FilledPlan.is_better)


def _built(inputs: SearchInputs, before: FillState, value: Float64, weightings: int) -> FilledPlan:
    plan = FilledPlan(unshared(before), batches_for(inputs.problem), value)
    _build_more(plan, inputs.groups, weightings)
    return plan


def _build_more(plan: FilledPlan, groups: Int32, weightings: int) -> None:
    build(plan.state, plan.value, groups, np.zeros(len(groups)), weightings, plan.batches)


def _relaxed(inputs: SearchInputs, first: FilledPlan, bounds: PlanBounds) -> list[FilledPlan]:
    """Return plans by the linear programme for the pods placed by the first plan."""
    unplaced = first.state.pods
    to_plan = inputs.state._replace(pods=inputs.state.pods - unplaced)
    plans, limited = [first], np.zeros(0, np.int64)
    for _ in range(LIMIT_ROUNDS):
        master, pricing = _programme(inputs, to_plan, limited, plans, bounds)
        more = np.setdiff1d(_over_limit(to_plan, master), limited)
        if not len(more) or not bounds.may_go_on():
            break
        limited = np.union1d(limited, more)
    if bounds.may_go_on():
        plans += _dived(inputs, to_plan, master, pricing)
    for plan in plans[1:]:
        plan.state.pods[:] += unplaced
        _build_more(plan, inputs.groups, 2)
    return plans[1:]


def _dived(inputs: SearchInputs, to_plan: FillState, master: MasterProblem, pricing: PricingState) -> list[FilledPlan]:
    """Return plans by rounding the programme's fractions, once quickly and once carefully."""
    solutions = max(1, DIVE_WORK // len(master.bound) ** 2)
    value, bound = pricing.value.copy(), master.bound.copy()
    plans: list[FilledPlan] = []
    for round_up_from in ROUND_UP_FROM[:solutions]:
        if plans:
            master.bound[:] = bound
            reset_basis(master)
            generate(to_plan, master, pricing, 0)
        plan = FilledPlan(unshared(to_plan), batches_for(inputs.problem), value)
        dive(plan.state, master, pricing, round_up_from, solutions, plan.batches)
        plans.append(plan)
    return plans


def _programme(
    inputs: SearchInputs, to_plan: FillState, limited: Int64, plans: list[FilledPlan], bounds: PlanBounds
) -> tuple[MasterProblem, PricingState]:
    """Return the linear programme with the fills of all plans, at its minimum; append more plans by its duals."""
    problem = inputs.problem._replace(pods=to_plan.pods, max_nodes=to_plan.nodes)
    master, pricing = master_for(problem, to_plan.cost, limited), pricing_for(problem, inputs.groups, limited)
    for plan in plans:
        _seed(to_plan, pricing, master, plan.batches)
    most_plans = min(PLANS_BY_DUALS, max(2, PLANS_WORK // len(master.bound) ** 2))
    most_fills = GENERATED_FILLS // PLANS_BY_DUALS // len(problem.pods)
    generate(to_plan, master, pricing, most_fills)
    for number in range(most_plans - 1):
        if not bounds.may_go_on():
            break
        plans.append(_built(inputs, to_plan, pricing.value.copy(), 1 + number % 2))
        _seed(to_plan, pricing, master, plans[-1].batches)
        pricing.schedule[:] = 0
        generate(to_plan, master, pricing, most_fills)
    return master, pricing


def _seed(to_plan: FillState, pricing: PricingState, master: MasterProblem, batches: Batches) -> None:
    """Add the fills of a plan to the programme."""
    consider_remaining(to_plan)
    for at in range(int(batches.counts[0])):
        entries = slice(batches.offsets[at], batches.offsets[at + 1])
        to_plan.best[:] = 0
        to_plan.best[batches.classes[entries]] = batches.pods[entries]
        add_fill(to_plan, pricing, int(batches.group[at]), master)


def _over_limit(to_plan: FillState, master: MasterProblem) -> Int64:
    """Return the groups of which the programme has more nodes than allowed."""
    fill = master.basis - len(master.bound) - int(master.classes[0])
    nodes = np.zeros(len(to_plan.nodes))
    np.add.at(nodes, master.group[fill[fill >= 0]], master.level[fill >= 0])
    return np.flatnonzero(nodes > to_plan.nodes + WHOLE_LEVEL)


def _improved(inputs: SearchInputs, best: FilledPlan, tries: int, most_groups: int) -> FilledPlan:
    """Return a plan for the same pods that is not more expensive, after at most the given number of tries. The given
    one is overwritten. most_groups : up to which all groups are used, and not only those of the plan.
    """
    unplaced = best.state.pods.copy()
    best.state.pods[:] = 0
    pricing = pricing_for(inputs.problem, inputs.groups, np.zeros(0, np.int64))
    pricing.value[:] = best.value
    used = np.unique(best.batches.group[: int(best.batches.counts[0])])
    groups = inputs.groups if len(inputs.groups) <= most_groups else used
    ratio = np.zeros(len(groups))
    ruin = RuinRecreateScratch(
        np.zeros(len(unplaced)), ratio.copy(), ratio, np.zeros(MOST_TAKEN, np.int64), np.array([1, tries])
    )
    most_fills = IMPROVEMENT_FILLS * FEW_CLASSES // max(FEW_CLASSES, len(unplaced)) // IMPROVEMENT_PARTS
    for _ in range(IMPROVEMENT_PARTS):
        batches = batches_for(inputs.problem)
        append_batches(batches, best.batches)
        best = best._replace(batches=batches)
        improve(best.state, pricing, groups, ruin, most_fills, best.batches)
    best.state.pods[:] = unplaced
    return best


def fill_state_for(problem: Problem, cost: Float64) -> FillState:
    """Return the state before any node is planned. cost : float64[G] > 0."""
    classes, resources = problem.demand.shape
    return FillState(
        problem.demand, problem.capacity, np.ascontiguousarray(problem.allowed.T), problem.per_node, problem.zone, cost,
        problem.pods.copy(), problem.max_nodes.copy(), problem.zone_most.copy(),
        np.zeros(resources, np.int64), np.zeros(resources), np.zeros(classes, np.int64), np.zeros(classes, np.int32),
        np.zeros(classes, np.int64), np.arange(classes, dtype=np.int32), np.array([classes, 0]),
    )  # fmt: skip


def unshared(state: FillState) -> FillState:
    """Return a state with its own numbers of pods and nodes still to be planned. The node being filled is shared."""
    return state._replace(pods=state.pods.copy(), nodes=state.nodes.copy(), zone_pods=state.zone_pods.copy())


def batches_for(problem: Problem) -> Batches:
    """Return space for the largest possible number of batches and entries."""
    pods = 2 * int(problem.pods.sum()) + SPARE
    return Batches(
        np.zeros(pods, np.int32), np.zeros(pods, np.int64), np.zeros(pods + 1, np.int64),
        np.zeros(pods, np.int32), np.zeros(pods, np.int64), np.zeros(2, np.int64),
    )  # fmt: skip


def master_for(problem: Problem, cost: Float64, limited: Int64) -> MasterProblem:
    """Return a linear programme without fills. limited : groups whose node limit is a row of it."""
    classes = len(problem.pods)
    rows = classes + len(limited)
    fills = 4 * rows + 256
    entries = fills * min(classes + 1, 48) + classes
    of_columns = np.zeros(rows + classes + fills)
    of_columns[:classes] = UNPLACED_POD_COST * cost.max()
    bound = np.concatenate([problem.pods, problem.max_nodes[limited]]).astype(np.float64)
    master = MasterProblem(
        np.array([classes]), np.zeros(fills + 1, np.int64), np.zeros(2, np.int64), np.zeros(entries, np.int32),
        np.zeros(entries), np.zeros(fills, np.int32), of_columns, bound, np.zeros(rows, np.int32),
        np.zeros(len(of_columns), bool), np.zeros((rows, rows)), np.zeros(rows), np.zeros(rows), np.zeros(rows),
    )  # fmt: skip
    reset_basis(master)
    return master


def pricing_for(problem: Problem, groups: Int32, limited: Int64) -> PricingState:
    """Return the considered groups with empty data."""
    limit_row = np.full(len(problem.max_nodes), -1, np.int32)
    limit_row[limited] = len(problem.pods) + np.arange(len(limited))
    return PricingState(groups, np.zeros(len(groups)), limit_row, np.zeros(len(problem.pods)), np.zeros(3, np.int64))


def append_batches(batches: Batches, more: Batches) -> None:
    """Append the batches that have nodes."""
    count = int(more.counts[0])
    batch, entry = (int(count) for count in batches.counts)
    used = np.flatnonzero(more.nodes[:count] > 0)
    lengths = np.diff(more.offsets[: count + 1])
    entries = np.flatnonzero(np.repeat(more.nodes[:count] > 0, lengths))
    batches.group[batch : batch + len(used)] = more.group[used]
    batches.nodes[batch : batch + len(used)] = more.nodes[used]
    batches.offsets[batch + 1 : batch + 1 + len(used)] = entry + np.cumsum(lengths[used])
    batches.classes[entry : entry + len(entries)] = more.classes[entries]
    batches.pods[entry : entry + len(entries)] = more.pods[entries]
    batches.counts[:] += len(used), len(entries)
