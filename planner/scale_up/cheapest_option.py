"""CHEAPEST_PLAN among options that are taken as a whole: the cost of the plan that starts with each of them.

An autoscaler that carries out one option grows its group for all of the option's pods; the others wait for the next
choice. So the cost of an option is that of its nodes plus the cheapest plan for the pods that it leaves
(`trimtab.planner.cheapest`). That plan is made for the most promising options only: those with the least cost,
on full nodes, of the pods they leave. If any price is unknown, every node costs the same. Bounded by work, not time.
"""

from typing import Final

import numpy as np

from trimtab.planner.cheapest.candidates import least_value, share_cost
from trimtab.planner.cheapest.plan import cheapest_plan
from trimtab.planner.cheapest.problem import Float64, PlanBounds, Problem, problem
from trimtab.planner.model.execution import RequestLimits
from trimtab.planner.snapshot.columns import Int64
from trimtab.v1 import option_choice_pb2 as pb

MOST_PLANS: Final = 8
"""Most plans made for pods that options leave; options that leave the same pods share one."""
MISSING: Final = 100.0
"""Cost of a pod without a place, in nodes of the highest price."""


def plan_prices(request: pb.OptionChoice, price: Float64, left: Int64, limits: RequestLimits) -> Float64:
    """Return the cost of a plan that starts with each of the options left, inf if none was made. float64[L].

    price : float64[O] of a node of each option, NaN = unknown; left : int64[L] options to evaluate.
    """
    cost = np.ones(len(price)) if np.isnan(price[left]).any() else np.nan_to_num(price)
    nodes = np.array([request.options[row].node_count for row in left.tolist()], np.float64)
    own: Float64 = cost[left] * nodes
    if not request.pods:
        return own
    full = _problem(request, cost, left)
    # For a class that fits no node by these numbers, it is only known that some option serves it.
    value = least_value(share_cost(full, full.price, np.arange(len(left), dtype=np.int32)))
    bound = own + ((~full.allowed).T * (full.pods * value)).sum(axis=1)
    found = np.full(len(left), np.inf)
    plans: dict[bytes, float] = {}
    for at in np.lexsort((left, bound)).tolist():
        key = full.allowed[:, at].tobytes()
        if key not in plans:
            if bound[at] >= found.min() or len(plans) >= MOST_PLANS:
                continue
            limits.check()
            plans[key] = _price_of_rest(full, at, limits)
        found[at] = own[at] + plans[key]
    return found


def _problem(request: pb.OptionChoice, cost: Float64, left: Int64) -> Problem:
    """Return all pods and the groups of the options left as a problem, with one additional column for the number of
    pods.
    """
    of_group = {one.node_group: one for one in request.groups}
    names = sorted({name for pods in request.pods for name in pods.requests} | {"pods"})
    demand = np.array(
        [[1 if name == "pods" else pods.requests.get(name, 0) for name in names] for pods in request.pods]
    )
    has = [of_group[request.options[row].node_group].allocatable for row in left.tolist()]
    capacity = np.array([[one.get(name, 0) for name in names] for one in has], np.int64)
    allowed = np.zeros((len(request.pods), len(request.options)), bool)
    for row, pods in enumerate(request.pods):
        allowed[row, list(pods.options)] = True
    counts = np.array([pods.count for pods in request.pods], np.int64)
    return problem(demand.astype(np.int64), counts, allowed[:, left], capacity, cost[left])


def _price_of_rest(full: Problem, at: int, limits: RequestLimits) -> float:
    """Return the price of a plan for the pods that an option leaves."""
    rest = ~full.allowed[:, at] & full.allowed.any(axis=1)
    if not rest.any():
        return 0.0
    rest_problem = problem(full.demand[rest], full.pods[rest], full.allowed[rest], full.capacity, full.price)
    plan = cheapest_plan(rest_problem, PlanBounds(limits))
    return plan.price + MISSING * float(full.price.max()) * int(plan.left.sum())
