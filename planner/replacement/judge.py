"""What a replacement saves and costs, which limit it breaks, and how waves of a plan compare. Pure."""

from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.nodes import NO_POOL, total
from trimtab.planner.model.tuning import TOLERANCE
from trimtab.planner.replacement.settings import ReplacementSettings
from trimtab.planner.replacement.survey import ReplacementContext
from trimtab.planner.replacement.trial import Trial
from trimtab.planner.snapshot.columns import Float64, Int32, Int64
from trimtab.v1.reason_pb2 import ReplacementLimit

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


class Way(NamedTuple):
    """How waves follow a target. early : how much more what is saved in this wave counts than in later ones; mismatch :
    share of a pod's room that is lost if it takes the room of other pods."""

    early: float
    mismatch: float


GREEDY: Final = Way(0.0, 0.0)
"""Without a target."""


def is_better(wave: JudgedWave, other: JudgedWave) -> bool:
    """Return whether a wave is better than another: it saves more, or as much with less disturbance."""
    by = wave.rank - other.rank
    if abs(by) > TOLERANCE * max(abs(other.rank), 1e-6):
        return by > 0
    return (wave.value.cost, wave.value.new_count) < (other.value.cost, other.value.new_count)
