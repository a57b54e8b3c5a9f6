"""What a replacement saves and costs, which limit it breaks, which limits a wave has, whether spot nodes may be
replaced by spot, and how waves compare. Pure. Source: Karpenter, disruption/consolidation,
computeSpotToSpotConsolidation; here groups of known price count as alternatives instead of instance types.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.common.kubernetes.signals.table import SPOT_LABELS
from trimtab.planner.drainability.kernels.limits import BLOCKED, MIN_SIZE, MINIMUM, NODE_BUDGET, NodeLimits
from trimtab.planner.facts.labels import LabelIndex
from trimtab.planner.facts.nodes import NO_POOL, total
from trimtab.planner.model.tuning import TOLERANCE
from trimtab.planner.model.values import LabelRequirement
from trimtab.planner.placement.group_bounds import fresh_amounts
from trimtab.planner.placement.group_templates import labels_by_group
from trimtab.planner.replacement.settings import ReplacementSettings
from trimtab.planner.replacement.survey import ReplacementContext
from trimtab.planner.replacement.trial import Trial
from trimtab.planner.simulation.growth import NO_TEMPLATE_NODE
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64
from trimtab.v1.reason_pb2 import ReplacementLimit
from trimtab.v1.snapshot_pb2 import LabelOperator

HOUR_NS = 3_600_000_000_000


class Value(NamedTuple):
    """The value of a replacement. gone, new : price for one hour of the nodes that leave and come; leaving : int32
    nodes; new_count : nodes that come; evicted : pods; cost : rating of their evictions."""

    gone: float
    new: float
    leaving: Int32
    new_count: int
    evicted: int
    cost: float

    @property
    def saving(self) -> float:
        """The saving for one hour."""
        return self.gone - self.new

    def joined(self, other: "Value") -> "Value":
        """Return the value of both."""
        return Value(
            self.gone + other.gone,
            self.new + other.new,
            np.concatenate([self.leaving, other.leaving]),
            self.new_count + other.new_count,
            self.evicted + other.evicted,
            self.cost + other.cost,
        )


NOTHING = Value(0.0, 0.0, np.zeros(0, np.int32), 0, 0, 0.0)


def value_of(context: ReplacementContext, leaving: Int32, new_groups: tuple[int, ...]) -> Value:
    """Return the value of nodes that leave and of new nodes of groups."""
    groups: Int64 = np.array(sorted(new_groups), np.int64)
    return Value(
        total(context.price[leaving]),
        total(context.group_price[groups]),
        leaving,
        len(new_groups),
        int(context.pods.evictions[leaving].sum()),
        total(context.pods.cost[leaving]),
    )


def worth(context: ReplacementContext, value: Value) -> float:
    """Return the saving for one hour, less the price of the moves spread over the longest payback time."""
    return value.saving - value.cost * hourly_price_of_cost(context.request.settings)


def hourly_price_of_cost(settings: ReplacementSettings) -> float:
    """Return the price of moves for one hour of the longest payback time, for each unit of eviction cost."""
    return settings.price_per_eviction * HOUR_NS / settings.max_payback_time_ns


def payback_ns(context: ReplacementContext, value: Value) -> float:
    """Return the time until the saving has paid for the moves, nanoseconds."""
    price = context.request.settings.price_per_eviction * value.cost
    return price / value.saving * HOUR_NS if value.saving > 0 else float("inf")


def balanced_score(context: ReplacementContext, value: Value) -> float | None:
    """Return Karpenter's Balanced score, None if nothing is evicted: the saving as a share of the price of all nodes of
    a pool, divided by the disruption as a share of theirs: 1 a node and the cost of evicting its pods. Of several pools
    that lose nodes, each saves by what its nodes cost, and the least score counts. Node groups of no NodePool are one
    pool, those alone that lose nodes.
    """
    if not value.evicted or value.cost <= 0:
        return None
    group, pool, there = context.request.snapshot.nodes.group, context.pool, context.there
    losing = np.isin(group, group[value.leaving])
    scores = []
    for pool_row in np.unique(pool[value.leaving]).tolist():
        of_pool = there & (pool == pool_row) & (losing | (pool_row != NO_POOL))
        gone = value.leaving[pool[value.leaving] == pool_row]
        price, cost = total(context.price[of_pool]), total(1 + context.pods.cost[of_pool])
        disruption = (len(gone) + total(context.pods.cost[gone])) / cost
        saving = value.saving * total(context.price[gone]) / value.gone if value.gone > 0 else value.saving
        scores.append((saving / price) / disruption if price > 0 else 0.0)
    return min(scores)


def broken_limit(context: ReplacementContext, value: Value) -> int:
    """Return the first limit that a replacement breaks, `ReplacementLimit.Code`, 0 = none, apart from the least saving
    of a whole plan."""
    settings = context.request.settings
    margin = settings.stability_margin
    if value.saving <= TOLERANCE * max(value.gone, 1.0):
        return ReplacementLimit.NOTHING_CHEAPER
    if value.saving < settings.min_saving_share * value.gone:
        return ReplacementLimit.SAVING_TOO_SMALL
    if value.evicted and value.saving < settings.min_saving_per_eviction * value.evicted:
        return ReplacementLimit.SAVING_TOO_SMALL
    if value.new_count and value.gone * (1 - margin) <= value.new * (1 + margin):
        return ReplacementLimit.NOT_STABLE
    if payback_ns(context, value) > settings.max_payback_time_ns:
        return ReplacementLimit.PAYBACK_TOO_LONG
    score = balanced_score(context, value)
    if score is not None and score < settings.min_balanced_score:
        return ReplacementLimit.BALANCED_SCORE_TOO_SMALL
    return 0


def pod_values(by_class: Float64, pod_class: Int64, pods: Int32, offsets: Int64) -> Float64:
    """Return what room for the pods of each node is worth. by_class : float64[S]; pods, offsets : as in `MovablePods`.
    float64[N]."""
    node = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    values = np.bincount(node, by_class[pod_class[pods]], len(offsets) - 1)
    return values.astype(np.float64)


class Wave(NamedTuple):
    """trial : the nodes and moves, new nodes as in `Trial`; node : int32[M] where each pod goes, a node of the
    simulation; new_nodes : int64 nodes of the simulation, by position in `trial.group_of`; start : mark before its
    moves."""

    trial: Trial
    value: Value
    node: Int32
    new_nodes: Int64
    start: int


class JudgedWave(NamedTuple):
    """A valid wave. rank : its worth, less `min_saving_share` of what moves as costly as its own save on the mean, and
    less part of what later waves lose because nodes that could leave got pods; if it follows a target, with what later
    waves save."""

    trial: Trial
    value: Value
    rank: float


class Scale(NamedTuple):
    """How large a set may be: most_leaving, most_new nodes; waves : for how many waves budgets count."""

    most_leaving: int
    most_new: int
    waves: int


def is_better(wave: JudgedWave, other: JudgedWave) -> bool:
    """Return whether a wave is better than another: it saves more, or as much with less disturbance."""
    by = wave.rank - other.rank
    if abs(by) > TOLERANCE * max(abs(other.rank), 1e-6):
        return by > 0
    return (wave.value.cost, wave.value.new_count) < (other.value.cost, other.value.new_count)


LIMIT_OF: Final = {
    MIN_SIZE: ReplacementLimit.MINIMUM_REACHED,
    MINIMUM: ReplacementLimit.MINIMUM_REACHED,
    NODE_BUDGET: ReplacementLimit.DISRUPTION_BUDGET,
    BLOCKED: ReplacementLimit.NOT_ENOUGH_PDB,
}
"""`ReplacementLimit.Code` of what keeps a node from leaving with others."""


def limits_of_wave(
    context: ReplacementContext, disruptions: Int64, removed: Int64, added: Int64, gone: Int32, waves: int = 1
) -> NodeLimits:
    """Return the limits on the nodes that leave in one wave. disruptions : int64[B] that budgets allow in it; removed,
    added : int64[G] nodes of each group that earlier waves remove and add; gone : int32 nodes that they remove; waves :
    the limits are those of so many waves together."""
    limits = context.node_limits
    return limits._replace(
        disruptions=disruptions,
        in_turn=limits.in_turn * waves,
        group_left=limits.group_left - np.append(removed - added, 0),
        amount_left=limits.amount_left - limits.amount[gone].sum(axis=0),
        nodes_left=limits.nodes_left * waves,
    )


class SpotNodes:
    """Which nodes and new nodes are spot. nodes : bool[N]; groups : bool[G]."""

    def __init__(self, context: ReplacementContext) -> None:
        self.context = context
        snapshot = context.request.snapshot
        labels = labels_by_group(context.templates)
        self.groups: Bool = np.array(
            [any(of.get(key) == value for key, value in SPOT_LABELS.items()) for of in labels], bool
        )
        index = LabelIndex(snapshot.strings, snapshot.label_sets)
        nodes = np.append(self.groups, False)[snapshot.nodes.group]
        for key, value in SPOT_LABELS.items():
            selector = (LabelRequirement(key, LabelOperator.IN, (value,)),)
            nodes |= index.matching(selector)[snapshot.nodes.label_set]
        self.nodes: Bool = nodes
        self.has_alternatives: dict[int, bool] = {}


def breaks_spot_rules(spots: SpotNodes, leaving: Int32, new_groups: tuple[int, ...]) -> int:
    """Return TOO_FEW_SPOT_ALTERNATIVES if spot nodes may not be replaced like this, else 0.

    Each new node counts as the one that replaces a part of those that leave, as Karpenter's commands have a single new
    node. A new spot node may replace a node on demand, a spot node with enough alternatives, or two spot nodes.
    """
    settings = spots.context.request.settings
    new_spot = int(spots.groups[np.array(new_groups, np.int64)].sum())
    if not new_spot:
        return 0
    strict = [node for node in leaving.tolist() if spots.nodes[node] and not _has_alternatives(spots, node)]
    free = len(leaving) - len(strict)
    new_on_demand = len(new_groups) - new_spot
    # New nodes on demand replace strict ones first.
    free -= max(new_on_demand - len(strict), 0)
    strict_left = max(len(strict) - new_on_demand, 0)
    lacking = new_spot - max(free, 0)
    if lacking <= 0 or (settings.spot_to_spot and strict_left >= 2 * lacking):
        return 0
    return ReplacementLimit.TOO_FEW_SPOT_ALTERNATIVES


def _has_alternatives(spots: SpotNodes, node: int) -> bool:
    """Return whether a spot node may be replaced by one spot node. Computed once for each node."""
    settings = spots.context.request.settings
    if node not in spots.has_alternatives:
        enough = len(_alternatives(spots, np.array([node], np.int32))) >= settings.min_spot_alternatives
        spots.has_alternatives[node] = settings.spot_to_spot and enough
    return spots.has_alternatives[node]


def _alternatives(spots: SpotNodes, leaving: Int32) -> list[int]:
    """Return the groups whose new node takes the pods of a node for less, by amounts and static predicates.
    leaving : int32[1]."""
    context = spots.context
    request = context.request
    price = float(context.price[leaving[0]])
    return [
        group
        for group in groups_that_take(context, context.pods.of(leaving))
        if context.group_price[group] < price and request.snapshot.groups[group].max_size > 0
    ]


def groups_that_take(context: ReplacementContext, pods: Int32, amounts: Int64 | None = None) -> list[int]:
    """Return the groups of which one new node has room for all pods : int32[M], cheapest first, by amounts and static
    predicates. amounts : `fresh_amounts`, if they are known."""
    simulation, growth = context.request.round.simulation, context.request.growth
    state = simulation.state
    amounts = fresh_amounts(simulation, growth) if amounts is None else amounts
    classes = np.unique(state.pod_class[pods])
    needed = state.resources.request[state.pod_class[pods]].sum(axis=0)
    grows = context.usable & (growth.template_node != NO_TEMPLATE_NODE)
    node_class = state.node_class[np.where(grows, growth.template_node, 0)]
    admits = (state.blocked[classes][:, node_class] == 0).all(axis=0) & grows
    fits = ((needed <= amounts) | (needed == 0)).all(axis=1)
    groups = np.flatnonzero(admits & fits)
    cheapest_first: list[int] = groups[np.lexsort((groups, context.group_price[groups]))].tolist()
    return cheapest_first
