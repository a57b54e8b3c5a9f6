"""What room for pods costs at least: a linear programme's dual, which is also a proven bound on the cluster's cost.

The programme: pods of classes are placed, in fractions, on nodes that can be had in fractions, each for its price; free
room of nodes that stay costs nothing, and there is only so much of it. Of constraints it has amounts and static
predicates, and no maximum sizes: every cluster of these node groups that holds the pods is a solution, so none costs
less. Its dual gives each amount of each kind of node a price; a pod is worth what the cheapest place for it costs. Any
prices of amounts under which a node's amounts together cost no more than the node are feasible, and give a bound.

Symbols: C rows of pods, O offers, F kinds of free room, R resources. Sums are made in one order, so that results are
the same on all machines. Pure.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.cheapest.candidates import alike, mean_demand, similar_rows
from trimtab.planner.facts.nodes import total
from trimtab.planner.model.tuning import ASCENT_CELLS, ASCENT_STEPS, FIRST_ASCENT_STEP, PRICED_ROWS, TOLERANCE
from trimtab.planner.snapshot.columns import Bool, Float64

_UNAFFORDABLE: Final = 1e30


class RoomProblem(NamedTuple):
    """demand : float64[C, R] of one pod; pods : float64[C] how many; price : float64[O] > = 0 of a node; capacity :
    float64[O, R]; allowed : bool[C, O]; free : float64[F, R] free amounts of kinds of nodes that stay, all together;
    free_allowed : bool[C, F].
    """

    demand: Float64
    pods: Float64
    price: Float64
    capacity: Float64
    allowed: Bool
    free: Float64
    free_allowed: Bool


class RoomPrices(NamedTuple):
    """value : float64[C] what room for one more pod costs at least, 0 for pods that nothing takes; bound : what all
    pods cost at least together."""

    value: Float64
    bound: float


class _AmountPrices(NamedTuple):
    """share : float64[O, R] of a node's price that each amount has, rows sum up to 1; free : float64[R, F] price of an
    amount of free room."""

    share: Float64
    free: Float64


def room_prices(problem: RoomProblem, steps: int = ASCENT_STEPS) -> RoomPrices:
    """Return the best prices found. O(steps · C · (O + F) · R), bounded. Of many rows of pods, similar ones are joined
    to find the prices of amounts, by which each row is then valued: that is a bound whatever the prices are.
    """
    if not len(problem.demand) or not len(problem.price) + len(problem.free):
        return RoomPrices(np.zeros(len(problem.demand)), 0.0)
    fewer = _with_similar_rows_joined(problem)
    prices, solution = _best_prices(fewer, steps)
    if fewer is not problem:
        solution = _valued(problem, prices, _per_unit(problem))[0]
    return solution if solution.bound > 0 else RoomPrices(solution.value, 0.0)


def _with_similar_rows_joined(problem: RoomProblem) -> RoomProblem:
    if len(problem.demand) <= PRICED_ROWS:
        return problem
    kind = alike(np.concatenate([problem.allowed, problem.free_allowed], axis=1))
    joined = similar_rows(problem.demand, kind, np.zeros(len(kind), bool), PRICED_ROWS)
    first = np.unique(joined, return_index=True)[1]
    return problem._replace(
        demand=mean_demand(problem.demand, problem.pods, joined),
        pods=np.bincount(joined, problem.pods, len(first)).astype(np.float64),
        allowed=problem.allowed[first],
        free_allowed=problem.free_allowed[first],
    )


def _per_unit(problem: RoomProblem) -> Float64:
    """Return the price of one unit of each amount if it had the whole price. float64[O, R]."""
    per_unit = problem.price[:, None] / np.maximum(problem.capacity, TOLERANCE)
    per_unit[problem.capacity <= 0] = _UNAFFORDABLE
    return per_unit


def _best_prices(problem: RoomProblem, steps: int) -> "tuple[_AmountPrices, RoomPrices]":
    cells = max(problem.demand.size * (len(problem.price) + len(problem.free)), 1)
    steps = max(min(steps, ASCENT_CELLS // cells), 3)
    best: tuple[_AmountPrices, RoomPrices] | None = None
    for start in _starts(problem):
        solution = _ascend(problem, _per_unit(problem), start, steps if best is None else max(steps // 4, 2))
        best = solution if best is None or solution[1].bound > best[1].bound else best
    assert best is not None, "there is at least one start"
    return best


def _starts(problem: RoomProblem) -> list[Float64]:
    """Return shares to start with: by how scarce the amounts are, and all of it for each of the first two resources."""
    offers, resources = problem.capacity.shape
    needed = (problem.demand * problem.pods[:, None]).sum(axis=0)
    scarce = np.where(problem.capacity > 0, needed / np.maximum(problem.capacity, TOLERANCE), 0.0)
    mixed = _normalized(scarce)
    alone = np.full((offers, resources), 1e-6)
    alone[:, 0] = 1.0
    return [_normalized(mixed * mixed * mixed * mixed), mixed, _normalized(alone)]


def _ascend(problem: RoomProblem, per_unit: Float64, share: Float64, steps: int) -> "tuple[_AmountPrices, RoomPrices]":
    """Return the best prices on the way of an ascent from these shares."""
    kinds, resources = problem.free.shape
    cheapest = _cheapest(problem, _AmountPrices(share, np.zeros((kinds, resources))), per_unit)
    prices = _AmountPrices(share, _prices_of_free_room(problem, cheapest))
    best: tuple[_AmountPrices, RoomPrices] | None = None
    for step in range(steps + 1):
        solution, at = _valued(problem, prices, per_unit)
        if best is None or solution.bound > best[1].bound:
            best = prices, solution
        if step == steps:
            break
        prices = _next(problem, prices, at, FIRST_ASCENT_STEP / (1.0 + 0.25 * step))
    assert best is not None, "there is at least one step"
    return best


def _valued(problem: RoomProblem, prices: _AmountPrices, per_unit: Float64) -> tuple[RoomPrices, np.ndarray]:
    """Return the values by prices of amounts, and the places of `_values`."""
    value, at = _values(problem, prices, per_unit)
    return RoomPrices(value, total(value * problem.pods) - total((prices.free * problem.free).reshape(-1))), at


def _costs(problem: RoomProblem, share: Float64, per_unit: Float64) -> Float64:
    """Return what a pod costs on a node of each offer. float64[C, O], inf where it fits none."""
    unit = share * per_unit
    cost = np.zeros(problem.allowed.shape)
    for r in range(unit.shape[1]):
        cost += problem.demand[:, r, None] * unit[None, :, r]
    cost[~problem.allowed] = np.inf
    return cost


def _cheapest(problem: RoomProblem, prices: _AmountPrices, per_unit: Float64) -> Float64:
    """Return what a pod costs on the cheapest offer, 0 if there is none. float64[C]."""
    cost = _costs(problem, prices.share, per_unit).min(axis=1, initial=np.inf)
    return np.where(np.isfinite(cost), cost, 0.0)


def _prices_of_free_room(problem: RoomProblem, value: Float64) -> Float64:
    """Return prices of amounts of free room to start with: those by which pods that want it would just pay their value.
    float64[F, R]."""
    prices = np.zeros(problem.free.shape)
    for kind in range(len(problem.free)):
        takers = problem.free_allowed[:, kind]
        wanted = (problem.demand * (problem.pods * takers)[:, None]).sum(axis=0)
        ratio = np.where(problem.free[kind] > 0, wanted / np.maximum(problem.free[kind], TOLERANCE), 0.0)
        if ratio.max(initial=0.0) <= 1.0:
            continue
        r = int(ratio.argmax())
        worth = total((value * problem.pods)[takers])
        prices[kind, r] = worth / max(float(wanted[r]), TOLERANCE)
    return prices


def _values(problem: RoomProblem, prices: _AmountPrices, per_unit: Float64) -> tuple[Float64, np.ndarray]:
    """Return the value of each row of pods, float64[C], and the place that gives it: an offer, or O + a kind of free
    room. int64[C], -1 = none."""
    cost = _costs(problem, prices.share, per_unit)
    free = np.zeros(problem.free_allowed.shape)
    for r in range(prices.free.shape[1]):
        free += problem.demand[:, r, None] * prices.free[None, :, r]
    free[~problem.free_allowed] = np.inf
    both = np.concatenate([cost, free], axis=1)
    at = both.argmin(axis=1)
    value = both[np.arange(len(both)), at]
    has_place = np.isfinite(value)
    return np.where(has_place, value, 0.0), np.where(has_place, at, -1)


def _next(problem: RoomProblem, prices: _AmountPrices, at: np.ndarray, step: float) -> _AmountPrices:
    """Return prices with more of a node's price on the amounts that the pods at an offer use most, and free room dearer
    where more pods want it than there is."""
    offers, kinds = len(problem.price), len(problem.free)
    used = np.zeros((offers + kinds, problem.demand.shape[1]))
    there = at >= 0
    np.add.at(used, at[there], (problem.demand * problem.pods[:, None])[there])
    load = used[:offers] / np.maximum(problem.capacity, TOLERANCE)
    load[problem.capacity <= 0] = 0.0
    largest = load.max(axis=1, keepdims=True)
    share = _normalized(prices.share * _grown(np.where(largest > 0, step * load / np.maximum(largest, 1e-300), 0.0)))
    wanted = used[offers:]
    over = (wanted - problem.free) / np.maximum(np.maximum(wanted, problem.free), TOLERANCE)
    return _AmountPrices(share, prices.free * _grown(step * 0.5 * over))


def _normalized(shares: Float64) -> Float64:
    """Return shares whose rows sum up to 1; a row of zeros becomes that of the first amount alone."""
    sums = np.zeros(len(shares))
    for r in range(shares.shape[1]):
        sums += shares[:, r]
    normalized = shares / np.where(sums > 0, sums, 1.0)[:, None]
    normalized[sums <= 0, 0] = 1.0
    return normalized


def _grown(by: Float64) -> Float64:
    """Return about the exponential of numbers, by operations whose results are the same on all machines."""
    size = np.abs(by)
    grown = 1.0 + size + 0.5 * size * size
    return np.where(by >= 0, grown, 1.0 / grown)
