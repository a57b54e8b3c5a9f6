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
    turn = ChoiceState(0, np.array([one.target_size for one in request.groups], np.int64))
    options = _options(request)
    refusals: dict[int, _OptionRefusal] = {}
    left = _able(request, refusals)
    expanders = nearest_to_cheapest(settings.expanders, groups.price_per_hour[options.group[left]])
    if settings.expanders[0] == Expander.CHEAPEST_PLAN and len(left) > 1:
        left = _cheapest(request, options, groups.price_per_hour, left, limits, refusals)
    verdict = choose(context, turn, Options(*(column[left] for column in options)), expanders)
    for at, row in enumerate(left.tolist()):
        refusals[row] = _OptionRefusal(int(verdict.reason[at]), int(verdict.decided_by[at]))
    chosen = NO_NODE_GROUP if verdict.chosen == NONE else request.options[left[verdict.chosen]].node_group
    return pb.OptionAnswer(
        node_group=chosen,
        verdicts=[
            pb.OptionVerdict(
                node_group=one.node_group,
                reason=NodeGroupReason.Code.ValueType(refusals[row].reason),
                decided_by=Expander.Code.ValueType(refusals[row].decided_by),
            )
            for row, one in enumerate(request.options)
        ],
    )


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
            if bound[at] >= found.min() or len(plans) >= OPTION_PLANS:
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
    return plan.price + UNPLACED_POD_COST * float(full.price.max()) * int(plan.left.sum())


def _signed(seed: int) -> int:
    """Return a seed of 64 bits as a signed number, as which choices have always drawn: recorded ones are repeated."""
    return seed - (seed >> 63 << 64)


def _groups(request: pb.OptionChoice, gpu_label: str, settings: SimilaritySettings) -> GroupFacts:
    shapes = [
        NodeShape(capacity, allocatable, allocatable, sorted(group.labels.items())) if capacity else None
        for group, capacity, allocatable in (
            (one, sorted(one.capacity.items()), sorted(one.allocatable.items())) for one in request.groups
        )
    ]
    return GroupFacts(
        ids=tuple(one.node_group for one in request.groups),
        cpu_milli=np.array([one.capacity.get("cpu", 0) for one in request.groups], np.int64),
        memory_bytes=np.array([one.capacity.get("memory", 0) for one in request.groups], np.int64),
        price_per_hour=np.array(
            [one.price_per_hour if one.HasField("price_per_hour") else np.nan for one in request.groups], np.float64
        ),
        is_gpu=np.array(
            [gpu_label in one.labels or offers_gpu(one.allocatable.items()) for one in request.groups], bool
        ),
        labels=tuple(dict(one.labels) for one in request.groups),
        similarity=Similarity(lambda: samples(shapes, settings), settings),
    )


def _options(request: pb.OptionChoice) -> Options:
    place = {one.node_group: row for row, one in enumerate(request.groups)}
    rows = [
        (place[one.node_group], one.node_count, one.pod_count, one.cpu_milli, one.memory_bytes)
        for one in request.options
    ]
    return Options(*np.ascontiguousarray(np.array(rows, np.int64).reshape(-1, 5).T))


def _able(request: pb.OptionChoice, refusals: dict[int, _OptionRefusal]) -> Int64:
    """Return the options whose groups can grow, or all if none can. int64, ascending."""
    unable = {one.node_group: one.unable for one in request.groups if one.unable}
    out = {
        row: _OptionRefusal(unable[one.node_group])
        for row, one in enumerate(request.options)
        if one.node_group in unable
    }
    if len(out) == len(request.options):
        return np.arange(len(out))
    refusals |= out
    return np.array([row for row in range(len(request.options)) if row not in out], np.int64)


def _cheapest(
    request: pb.OptionChoice,
    options: Options,
    price: Float64,
    left: Int64,
    limits: RequestLimits,
    refusals: dict[int, _OptionRefusal],
) -> Int64:
    """Return those of the options left with which the whole plan costs least."""
    prices = plan_prices(request, price[options.group], left, limits)
    best = prices == prices.min()
    for row in left[~best].tolist():
        refusals[row] = _OptionRefusal(NodeGroupReason.NOT_CHOSEN, Expander.CHEAPEST_PLAN)
    kept: Int64 = left[best]
    return kept
