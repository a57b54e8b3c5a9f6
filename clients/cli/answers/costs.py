"""Hourly costs of nodes: the price of a file for the node's group, label or machine, else that of its node group, else
by rates. A node without node group, such as one of the control plane, costs money as well. If nothing is known of
prices, default rates are assumed, only for what is shown; `assumption` says so. The currency is that of the prices.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Final

from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.prices import Prices, group_rates, machine_of, price_of
from trimtab.clients.cli.rates import DEFAULT_RATES, Rates
from trimtab.clients.cluster_view import ClusterView
from trimtab.v1 import snapshot_pb2 as pb

DEFAULT_ASSUMPTION: Final = f"assumed: {DEFAULT_RATES}; --prices or --rates gives yours"
"""What is said wherever money at default rates is shown."""


class PriceSource(StrEnum):
    """Where the price of a node is from."""

    GROUP_LINE = "group in the file"
    LABEL_LINE = "label in the file"
    TYPE_LINE = "instance type in the file"
    NODE_GROUP = "NodeGroup"
    RATES = "rates"
    DEFAULT = "assumed rates"


class Costs:
    """Prices by node. given : the prices of a file, and rates."""

    def __init__(self, view: ClusterView, given: Prices | None = None) -> None:
        self._view, self._given = view, given or Prices()
        found = {name: self._found(node) for name, node in view.nodes.items()}
        self._sources = {name: price[1] for name, price in found.items() if price is not None}
        self._by_node = {name: price[0] for name, price in found.items() if price is not None}
        self.known = bool(self._by_node)
        """Whether any node has a price that is not assumed."""
        if not self.known:
            self._by_node = {name: DEFAULT_RATES.price(view.allocatable(name)) for name in view.nodes}
            self._sources = dict.fromkeys(self._by_node, PriceSource.DEFAULT)

    def _found(self, node: pb.Node) -> tuple[float, PriceSource] | None:
        """Return the price of a node and where it is from; None = unknown."""
        given, group = self._given, self._view.groups.get(node.node_group)
        if node.node_group and node.node_group in given.groups:
            return given.groups[node.node_group], PriceSource.GROUP_LINE
        of_label_set = self._by_label_set.get(node.label_set)
        if of_label_set is not None:
            return of_label_set
        if group is not None and group.HasField("price_per_hour"):
            is_own = self._by_rates.get(group.id) != group.price_per_hour
            return group.price_per_hour, PriceSource.NODE_GROUP if is_own else PriceSource.RATES
        if given.rates is not None:
            return given.rates.price(self._view.allocatable(node.name)), PriceSource.RATES
        return None

    @cached_property
    def _by_label_set(self) -> Mapping[int, tuple[float, PriceSource]]:
        """The prices of the label sets of nodes, where the file has one. O(label sets of nodes)."""
        found = {}
        if self._given.machines or self._given.labels:
            for label_set in {node.label_set for node in self._view.nodes.values()}:
                machine = machine_of(self._view.labels(label_set), self._given)
                price = price_of(machine, self._given)
                if price is not None:
                    found[label_set] = price, PriceSource.LABEL_LINE if machine.label else PriceSource.TYPE_LINE
        return found

    @cached_property
    def _by_rates(self) -> Mapping[str, float]:
        """The prices that rates gave to node groups."""
        return group_rates(self._view, self._given.rates) if self._given.rates is not None else {}

    @property
    def by_node(self) -> Mapping[str, float]:
        """Hourly costs of the nodes with a price that is not assumed."""
        return self._by_node if self.known else {}

    @property
    def is_shown(self) -> bool:
        """Whether there is money to show, known or assumed."""
        return bool(self._by_node)

    @property
    def currency(self) -> str:
        """The currency of the prices, "" = not told."""
        return self._given.currency

    @property
    def assumption(self) -> str:
        """What is assumed of prices, as a clause; "" = nothing."""
        if self.known or not self._by_node:
            return ""
        return DEFAULT_ASSUMPTION

    @property
    def sources(self) -> str:
        """Where the prices are from, as a sentence; "" = all from the node groups themselves."""
        if not self.known:
            return f"No price is known; {self.assumption}." if self._by_node else ""
        counts = Counter(self._sources.values())
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
        return self._sources[node].value if node in self._sources else ""

    @property
    def total(self) -> float:
        """Hourly cost of all nodes with a price."""
        return sum(self._by_node.values())

    @property
    def unknown_count(self) -> int:
        """Number of nodes without a price."""
        return len(self._view.nodes) - len(self._by_node)

    def of(self, nodes: Iterable[str]) -> float:
        """Return the hourly cost of some nodes; a node without price counts as 0."""
        return sum(self._by_node.get(node, 0.0) for node in nodes)

    def text(self, nodes: Iterable[str]) -> str:
        """Return the same with two decimals, "" if none of them has a price."""
        known = [self._by_node[node] for node in nodes if node in self._by_node]
        return money(sum(known)) if known else ""


def money(amount: float) -> str:
    """Return an amount of money: "1,234.50"."""
    return f"{amount:,.2f}"
