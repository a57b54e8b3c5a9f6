"""The input of renderers: the answer, and the request that it answers.

Costs are hourly, as the planner's answer has them; where prices are from, `trimtab.clients.cli.prices` decides. If
nothing is known of prices, the planner assumes rates, only for what is shown; `assumption` says so. Thresholds
and timers are read only to show them; the planner applies them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from trimtab.clients.advice.result import AdviceReport
from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.prices import NodePrice, Prices, PriceSource, Rates, node_prices
from trimtab.clients.cli.usage import ClusterUsage
from trimtab.clients.cluster_view import ClusterView
from trimtab.places import moves_by_node, on_new_nodes
from trimtab.prices import HOURS_A_MONTH, behind_amount
from trimtab.v1 import plan_pb2, snapshot_pb2

_REMEDY: Final = "--prices gives yours"
_ASSUMED: Final = "assumed rates"


class Costs:
    """Prices by node. prices : those of a file, and rates."""

    def __init__(self, response: plan_pb2.PlanResponse, view: ClusterView, prices: Prices | None = None) -> None:
        self._summary, self._view, self._given = response.summary, view, prices or Prices()
        self._by_node = {node.node: node.price_per_hour for node in response.nodes if node.HasField("price_per_hour")}

    @cached_property
    def _found(self) -> Mapping[str, NodePrice]:
        """The prices of the snapshot, with their sources."""
        return node_prices(self._view, self._given)

    @property
    def known(self) -> bool:
        """Whether any node has a price that is not assumed."""
        return self.is_shown and not self._summary.assumption

    @property
    def by_node(self) -> Mapping[str, float]:
        """Hourly costs of the nodes with a price that is not assumed."""
        return self._by_node if self.known else {}

    @property
    def is_shown(self) -> bool:
        """Whether there is money to show, known or assumed."""
        return self._summary.now.node_count > self._summary.now.unpriced_node_count

    @property
    def currency(self) -> str:
        """The currency of the prices, "" = not told."""
        return self._given.currency

    @property
    def assumption(self) -> str:
        """What is assumed of prices, as a clause; "" = nothing."""
        return assumption_of(self._summary)

    @property
    def sources(self) -> str:
        """Where the prices are from, as a sentence; "" = all from the node groups themselves."""
        if not self.known:
            return f"No price is known; {self.assumption}." if self.is_shown else ""
        counts = Counter(price.source for price in self._found.values())
        if set(counts) == {PriceSource.NODE_GROUP}:
            return ""
        parts = [f"{counted(count, 'node')} by {self._named(source)}" for source, count in counts.most_common()]
        if self.unknown_count:
            parts.append(f"{counted(self.unknown_count, 'node')} without")
        return f"Prices{f' in {self.currency}' if self.currency else ''}: {', '.join(parts)}."

    def _named(self, source: PriceSource) -> str:
        rates: Rates | None = self._given.rates
        if source is PriceSource.RATES and rates is not None:
            return f"rates ({rates})"
        return source.value.replace("the file", self._given.file)

    def source(self, node: str) -> str:
        """Return where the price of a node is from, "" = it has none."""
        if node in self._found:
            return self._found[node].source.value
        return _ASSUMED if node in self._by_node else ""

    @property
    def total(self) -> float:
        """Hourly cost of all nodes with a price that are not being deleted."""
        return self._summary.now.price_per_hour

    @property
    def unknown_count(self) -> int:
        """Number of nodes without a price."""
        return self._summary.now.unpriced_node_count

    def amount(self, per_hour: float) -> str:
        """Return an amount of money with its currency, if that is told."""
        return f"{money(per_hour)}{self.named}"

    def rate(self, per_hour: float, *, decimals: int = 0) -> str:
        """Return an amount by the hour, with its currency, and by the month."""
        return f"{self.amount(per_hour)} an hour, {HOURS_A_MONTH * per_hour:,.{decimals}f} a month"

    @property
    def named(self) -> str:
        """The currency behind an amount: " USD", "" = not told."""
        return behind_amount(self.currency)

    def of(self, nodes: Iterable[str]) -> float:
        """Return the hourly cost of some nodes; a node without price counts as 0."""
        return sum(self._by_node.get(node, 0.0) for node in nodes)

    def text(self, nodes: Iterable[str]) -> str:
        """Return the same with two decimals, "" if none of them has a price."""
        known = [self._by_node[node] for node in nodes if node in self._by_node]
        return money(sum(known)) if known else ""


def assumption_of(summary: plan_pb2.PlanSummary) -> str:
    """Return what is assumed of prices, as a clause; "" = nothing."""
    return f"{summary.assumption}; {_REMEDY}" if summary.assumption else ""


def money(amount: float) -> str:
    """Return an amount of money: "1,234.50"."""
    return f"{amount:,.2f}"


@dataclass(frozen=True)
class PlanAnswer:
    """One answered request. `settings` and `now_ns` (Unix nanoseconds) are the request's; `verbose` shows all rows;
    `prices` are those of a file, None = none is given; `usage` is what pods use, None = not known; `advice` is
    what to change, None = not looked for. `response` : the
    planner's; `view` : the snapshot that it is about.
    """

    response: plan_pb2.PlanResponse
    view: ClusterView
    settings: plan_pb2.PlanSettings
    now_ns: int
    verbose: bool = False
    prices: Prices | None = None
    usage: ClusterUsage | None = None
    advice: AdviceReport | None = None

    @cached_property
    def costs(self) -> Costs:
        """The costs of nodes."""
        return Costs(self.response, self.view, self.prices)

    @cached_property
    def moves(self) -> dict[str, dict[str, str]]:
        """Where the pods of each unneeded node would go."""
        return moves_by_node(self.response.scale_down.places)

    @cached_property
    def on_new_nodes(self) -> dict[str, list[str]]:
        """The pods and placeholders for which each node group grows."""
        return on_new_nodes(self.response.scale_up)

    @property
    def summary(self) -> plan_pb2.PlanSummary:
        """Nodes and money of the plan."""
        return self.response.summary

    @property
    def node_count(self) -> int:
        """Number of nodes, those included that are being deleted."""
        return self.summary.now.node_count + self.summary.leaving_node_count

    def figures(self, decision: "plan_pb2.Decision.Code.ValueType") -> plan_pb2.DecisionFigures:
        """Return what one decision changes; nothing if it was not requested."""
        found = (one for one in self.summary.decisions if one.decision == decision)
        return next(found, plan_pb2.DecisionFigures(decision=decision, after=self.summary.now))


DEFAULT_THRESHOLD = 0.5
DEFAULT_PARALLELISM = 10
"""Defaults of `ScaleDownSettings`, as documented in its comments."""


def threshold(settings: plan_pb2.PlanSettings, node: snapshot_pb2.Node) -> float:
    """Return the utilization up to which a node without GPU is a candidate, 0 to 1."""
    override = _override(settings, node)
    if override.HasField("utilization_threshold"):
        return override.utilization_threshold
    general = settings.scale_down
    return general.utilization_threshold if general.HasField("utilization_threshold") else DEFAULT_THRESHOLD


def remaining_s(verdict: plan_pb2.NodeVerdict, now_ns: int) -> float:
    """Return how much longer the timer of a node keeps it, seconds; 0 = no timer does."""
    if not verdict.HasField("goes_at"):
        return 0.0
    return max(0.0, (verdict.goes_at.ToNanoseconds() - now_ns) / 1e9)


def _override(settings: plan_pb2.PlanSettings, node: snapshot_pb2.Node) -> plan_pb2.NodeGroupSettings:
    """Return the settings of the node's group."""
    groups = settings.node_groups
    return groups[node.node_group] if node.node_group in groups else plan_pb2.NodeGroupSettings()
