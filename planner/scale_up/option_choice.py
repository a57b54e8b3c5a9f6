"""One choice among options computed by another autoscaler: from an `OptionChoice` without answer to its answer.

The configured expanders choose, as among the planner's own options; CHEAPEST_PLAN by the cost of the whole plan with
each option. Groups that cannot grow are skipped as long as another one
can. One of the given options is always chosen unless an expander excludes all. A pure function: no clock, no memory.

Only the data sent are considered: DaemonSet pods of new nodes are not subtracted when groups are compared.

An autoscaler that carries out one option grows its group for all of the option's pods; the others wait for the next
choice. So the cost of an option is that of its nodes plus the cheapest plan for the pods that it leaves
(`trimtab.planner.cheapest`). That plan is made for the most promising options only: those with the least cost, on full
nodes, of the pods they leave. If any price is unknown, every node costs the same. Bounded by work, not time.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.cheapest.plan import cheapest_plan
from trimtab.planner.cheapest.portfolio import least_value, share_cost
from trimtab.planner.cheapest.problem import PlanBounds, Problem, problem
from trimtab.planner.facts.similarity import NodeShape, Similarity, samples
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.model.settings import SimilaritySettings, resolve_planner, resolve_scale_up
from trimtab.planner.model.tuning import OPTION_PLANS, UNPLACED_POD_COST
from trimtab.planner.scale_up.expanders import (
    NONE,
    ChoiceState,
    ExpanderContext,
    GroupFacts,
    Options,
    choose,
    nearest_to_cheapest,
    offers_gpu,
)
from trimtab.planner.snapshot.columns import Float64, Int64
from trimtab.v1 import option_choice_pb2 as pb
from trimtab.v1.plan_pb2 import Expander
from trimtab.v1.reason_pb2 import NodeGroupReason

NO_NODE_GROUP: Final = ""


class _OptionRefusal(NamedTuple):
    reason: int
    decided_by: int = Expander.UNSPECIFIED


def choose_option(request: pb.OptionChoice, limits: RequestLimits = UNLIMITED) -> pb.OptionAnswer:
    """Return the answer. Raises SettingsError, and the errors of `limits`. O(options · (expanders + groups)).

    With CHEAPEST_PLAN, in addition, a bounded number of plans for the pods that an option leaves.
    """
    settings, planner = resolve_scale_up(request.settings), resolve_planner(request.settings)
    groups = _groups(request, planner.readiness.gpu_label, planner.similarity)
    context = ExpanderContext(groups, settings, request.cluster_node_count, _signed(request.seed))
    turn = ChoiceState(0, np.array([group.target_size for group in request.groups], np.int64))
    options = _options(request)
    refusals: dict[int, _OptionRefusal] = {}
    rows = _able(request, refusals)
    expanders = nearest_to_cheapest(settings.expanders, groups.price_per_hour[options.group[rows]])
    if settings.expanders[0] == Expander.CHEAPEST_PLAN and len(rows) > 1:
        rows = _cheapest(request, options, groups.price_per_hour, rows, limits, refusals)
    verdict = choose(context, turn, Options(*(column[rows] for column in options)), expanders)
    for at, row in enumerate(rows.tolist()):
        refusals[row] = _OptionRefusal(int(verdict.reason[at]), int(verdict.decided_by[at]))
    chosen = NO_NODE_GROUP if verdict.chosen == NONE else request.options[rows[verdict.chosen]].node_group
    return pb.OptionAnswer(
        node_group=chosen,
        verdicts=[
            pb.OptionVerdict(
                node_group=option.node_group,
                reason=NodeGroupReason.Code.ValueType(refusals[row].reason),
                decided_by=Expander.Code.ValueType(refusals[row].decided_by),
            )
            for row, option in enumerate(request.options)
        ],
    )


def plan_prices(request: pb.OptionChoice, price: Float64, rows: Int64, limits: RequestLimits) -> Float64:
    """Return the cost of a plan that starts with each of the options left, inf if none was made. float64[L].

    price : float64[O] of a node of each option, NaN = unknown; rows : int64[L] options to evaluate.
    """
    cost = np.ones(len(price)) if np.isnan(price[rows]).any() else np.nan_to_num(price)
    nodes = np.array([request.options[row].node_count for row in rows.tolist()], np.float64)
    own: Float64 = cost[rows] * nodes
    if not request.pods:
        return own
    full = _problem(request, cost, rows)
    # For a class that fits no node by these numbers, it is only known that some option serves it.
    value = least_value(share_cost(full, full.price, np.arange(len(rows), dtype=np.int32)))
    bound = own + ((~full.allowed).T * (full.pods * value)).sum(axis=1)
    prices = np.full(len(rows), np.inf)
    plans: dict[bytes, float] = {}
    for at in np.lexsort((rows, bound)).tolist():
        key = full.allowed[:, at].tobytes()
        if key not in plans:
            if bound[at] >= prices.min() or len(plans) >= OPTION_PLANS:
                continue
            limits.check()
            plans[key] = _price_of_rest(full, at, limits)
        prices[at] = own[at] + plans[key]
    return prices


def _problem(request: pb.OptionChoice, cost: Float64, rows: Int64) -> Problem:
    """Return all pods and the groups of the options left as a problem, with one additional column for the number of
    pods.
    """
    of_group = {group.node_group: group for group in request.groups}
    names = sorted({name for pods in request.pods for name in pods.requests} | {"pods"})
    demand = np.array(
        [[1 if name == "pods" else pods.requests.get(name, 0) for name in names] for pods in request.pods]
    )
    has = [of_group[request.options[row].node_group].allocatable for row in rows.tolist()]
    capacity = np.array([[amounts.get(name, 0) for name in names] for amounts in has], np.int64)
    allowed = np.zeros((len(request.pods), len(request.options)), bool)
    for row, pods in enumerate(request.pods):
        allowed[row, list(pods.options)] = True
    counts = np.array([pods.count for pods in request.pods], np.int64)
    return problem(demand.astype(np.int64), counts, allowed[:, rows], capacity, cost[rows])


def _price_of_rest(full: Problem, at: int, limits: RequestLimits) -> float:
    """Return the price of a plan for the pods that an option leaves."""
    rest = ~full.allowed[:, at] & full.allowed.any(axis=1)
    if not rest.any():
        return 0.0
    rest_problem = problem(full.demand[rest], full.pods[rest], full.allowed[rest], full.capacity, full.price)
    plan = cheapest_plan(rest_problem, PlanBounds(limits))
    return plan.price + UNPLACED_POD_COST * float(full.price.max()) * int(plan.unplaced.sum())


def _signed(seed: int) -> int:
    """Return a seed of 64 bits as a signed number, as which choices have always drawn: recorded ones are repeated."""
    return seed - (seed >> 63 << 64)


def _groups(request: pb.OptionChoice, gpu_label: str, settings: SimilaritySettings) -> GroupFacts:
    shapes = [
        NodeShape(capacity, allocatable, allocatable, sorted(group.labels.items())) if capacity else None
        for group, capacity, allocatable in (
            (group, sorted(group.capacity.items()), sorted(group.allocatable.items())) for group in request.groups
        )
    ]
    return GroupFacts(
        ids=tuple(group.node_group for group in request.groups),
        cpu_milli=np.array([group.capacity.get("cpu", 0) for group in request.groups], np.int64),
        memory_bytes=np.array([group.capacity.get("memory", 0) for group in request.groups], np.int64),
        price_per_hour=np.array(
            [group.price_per_hour if group.HasField("price_per_hour") else np.nan for group in request.groups],
            np.float64,
        ),
        is_gpu=np.array(
            [gpu_label in group.labels or offers_gpu(group.allocatable.items()) for group in request.groups], bool
        ),
        labels=tuple(dict(group.labels) for group in request.groups),
        similarity=Similarity(lambda: samples(shapes, settings), settings),
    )


def _options(request: pb.OptionChoice) -> Options:
    place = {group.node_group: row for row, group in enumerate(request.groups)}
    rows = [
        (place[option.node_group], option.node_count, option.pod_count, option.cpu_milli, option.memory_bytes)
        for option in request.options
    ]
    return Options(*np.ascontiguousarray(np.array(rows, np.int64).reshape(-1, 5).T))


def _able(request: pb.OptionChoice, refusals: dict[int, _OptionRefusal]) -> Int64:
    """Return the options whose groups can grow, or all if none can. int64, ascending."""
    unable = {group.node_group: group.unable for group in request.groups if group.unable}
    out = {
        row: _OptionRefusal(unable[option.node_group])
        for row, option in enumerate(request.options)
        if option.node_group in unable
    }
    if len(out) == len(request.options):
        return np.arange(len(out))
    refusals |= out
    return np.array([row for row in range(len(request.options)) if row not in out], np.int64)


def _cheapest(
    request: pb.OptionChoice,
    options: Options,
    price: Float64,
    rows: Int64,
    limits: RequestLimits,
    refusals: dict[int, _OptionRefusal],
) -> Int64:
    """Return those of the options left with which the whole plan costs least."""
    prices = plan_prices(request, price[options.group], rows, limits)
    best = prices == prices.min()
    for row in rows[~best].tolist():
        refusals[row] = _OptionRefusal(NodeGroupReason.NOT_CHOSEN, Expander.CHEAPEST_PLAN)
    cheapest: Int64 = rows[best]
    return cheapest
