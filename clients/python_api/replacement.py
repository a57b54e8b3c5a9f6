"""The replacement part of a plan as values: waves, what they save, and what keeps the other nodes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from trimtab.clients.cli.amounts import counted, percent
from trimtab.clients.cli.answers.answer import money
from trimtab.clients.cli.sentences import REPLACEMENT_SENTENCES
from trimtab.clients.verdicts import not_replaced
from trimtab.places import moves_by_node
from trimtab.prices import HOURS_A_MONTH
from trimtab.v1 import plan_pb2, reason_pb2

_MOST_SHOWN: Final = 5
"""Waves that the text of a plan shows."""
_Limit = reason_pb2.ReplacementLimit


@dataclass(frozen=True)
class OutgoingNode:
    """A node that is replaced. destinations : where its pods would go, "namespace/name" to the name of a node that
    stays, or of a `IncomingNode`.
    """

    name: str
    node_group: str
    price_per_hour: float
    destinations: Mapping[str, str]


@dataclass(frozen=True)
class IncomingNode:
    """A new node. name : in this plan, such as "small#0"; alternatives : node groups to try if its own is out of
    stock, by price.
    """

    name: str
    node_group: str
    price_per_hour: float
    alternatives: Sequence[str]


@dataclass(frozen=True)
class PlannedWave:
    """New nodes, then nodes that leave. saving_per_hour : below 0 only if later waves save more."""

    new_nodes: Sequence[IncomingNode]
    leaving: Sequence[OutgoingNode]
    saving_per_hour: float
    evicted_pod_count: int


@dataclass(frozen=True)
class FrontierPlan:
    """One of the plans from careful to bold: the first `wave_count` waves. stopped_by : the name of a
    `ReplacementLimit`, "" = none; balanced_score : Karpenter's, None = nothing is evicted; payback_time : None = never;
    eviction_cost : rating of the moves, 1 for a usual pod; disturbed_gang_count : running gangs of which pods move.
    """

    wave_count: int
    saving_per_hour: float
    leaving_node_count: int
    new_node_count: int
    evicted_pod_count: int
    balanced_score: float | None
    payback_time: timedelta | None
    chosen: bool
    stopped_by: str
    eviction_cost: float
    disturbed_gang_count: int


@dataclass(frozen=True)
class UnreplacedNode:
    """A node with a price that is not replaced.

    reason : the name of a `ReplacementLimit`, such as "NOTHING_CHEAPER"; why : the same in words; blocking_pod : as
    "namespace/name", "" = none; saving_per_hour : what replacing it alone would save at most without the reason.
    """

    name: str
    reason: str
    why: str
    blocking_pod: str
    saving_per_hour: float


@dataclass(frozen=True, repr=False)
class PlannedReplacement:
    """Which nodes are replaced by cheaper ones. Its text is a summary.

    result : the name of a `ReplacementResult`; detail : more about it; now_per_hour, after_scale_down_per_hour,
    after_per_hour : what the nodes of known price cost now, after scale-down in the same plan, and with replacement;
    bound_per_hour : no cluster of these node groups costs less, None = not known; frontier : from careful to bold;
    incomplete : whether the search ended early
    """

    result: str
    detail: str
    waves: Sequence[PlannedWave]
    frontier: Sequence[FrontierPlan]
    kept: Sequence[UnreplacedNode]
    now_per_hour: float
    after_scale_down_per_hour: float
    after_per_hour: float
    bound_per_hour: float | None
    incomplete: bool

    @property
    def saving_per_hour(self) -> float:
        """What the waves save beyond scale-down."""
        return sum(wave.saving_per_hour for wave in self.waves)

    @property
    def saving_per_month(self) -> float:
        """The same for a month of 730 hours."""
        return self.saving_per_hour * HOURS_A_MONTH

    def __repr__(self) -> str:
        """Return a summary of a few lines."""
        return "\n".join(self.summary())

    def summary(self) -> Iterator[str]:
        """Yield the lines of the summary."""
        if not self.waves:
            yield f"Replacement: none, {REPLACEMENT_SENTENCES[reason_pb2.ReplacementResult.Code.Value(self.result)]}"
        else:
            leaving = counted(sum(len(one.leaving) for one in self.waves), "node")
            new = counted(sum(len(one.new_nodes) for one in self.waves), "new one")
            before = self.after_scale_down_per_hour
            share = f" ({percent(self.saving_per_hour / before)})" if before else ""
            saves = f"saving {money(self.saving_per_hour)} of {money(before)} an hour{share}"
            yield f"Replacement: {leaving} by {new}, {saves}, {self.saving_per_month:,.0f} a month"
        if self.bound_per_hour is not None:
            yield f"  no cluster of these node groups costs less than {money(self.bound_per_hour)} an hour"
        for number, wave in enumerate(self.waves[:_MOST_SHOWN], 1):
            come, leave = counted(len(wave.new_nodes), "new node"), counted(len(wave.leaving), "node")
            moves, saves = counted(wave.evicted_pod_count, "pod"), money(wave.saving_per_hour)
            yield f"  wave {number}: {come}, then {leave} less, {moves} to move, saving {saves} an hour"
        if len(self.waves) > _MOST_SHOWN:
            yield f"  and {counted(len(self.waves) - _MOST_SHOWN, 'more wave')}"


def replacement_of(answer: plan_pb2.PlanResponse) -> PlannedReplacement:
    """Return the decision of an answer as values."""
    decision, summary = answer.replacement, answer.summary
    asked = (one for one in summary.decisions if one.decision == plan_pb2.Decision.REPLACEMENT)
    figures = next(asked, plan_pb2.DecisionFigures(after=summary.now))
    after = figures.after.price_per_hour
    before = after + figures.saved_per_hour - figures.bought_per_hour
    return PlannedReplacement(
        result=reason_pb2.ReplacementResult.Code.Name(decision.result),
        detail=decision.detail,
        waves=tuple(map(_wave, decision.waves)),
        frontier=tuple(map(_frontier_plan, decision.frontier)),
        kept=tuple(
            UnreplacedNode(one.node, _Limit.Code.Name(why.reason), why.why, why.blocking_pod, why.saving_per_hour)
            for one, why in ((one, one.not_replaced) for one in not_replaced(answer))
        ),
        now_per_hour=summary.now.price_per_hour,
        after_scale_down_per_hour=before,
        after_per_hour=after,
        bound_per_hour=before - figures.most_saved_per_hour if figures.HasField("most_saved_per_hour") else None,
        incomplete=decision.incomplete,
    )


def _wave(wave: plan_pb2.ReplacementWave) -> PlannedWave:
    moves = moves_by_node(wave.places)
    return PlannedWave(
        tuple(
            IncomingNode(one.name, one.node_group, one.price_per_hour, tuple(one.alternatives))
            for one in wave.new_nodes
        ),
        tuple(
            OutgoingNode(one.node, one.node_group, one.price_per_hour, moves.get(one.node, {})) for one in wave.leaving
        ),
        wave.saving_per_hour,
        wave.evicted_pod_count,
    )


def _frontier_plan(one: plan_pb2.ReplacementOption) -> FrontierPlan:
    return FrontierPlan(
        one.wave_count,
        one.saving_per_hour,
        one.leaving_node_count,
        one.new_node_count,
        one.evicted_pod_count,
        one.balanced_score if one.HasField("balanced_score") else None,
        one.payback_time.ToTimedelta() if one.HasField("payback_time") else None,
        one.chosen,
        _Limit.Code.Name(one.stopped_by) if one.stopped_by else "",
        one.eviction_cost,
        one.disturbed_gang_count,
    )
