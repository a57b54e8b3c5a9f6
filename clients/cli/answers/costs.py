"""Hourly costs of nodes: their prices in the snapshot, as `trimtab.clients.cli.prices` decides them. If nothing is
known of prices, default rates are assumed, only for what is shown; `assumption` says so. The currency is that of the
prices.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.prices import NodePrice, Prices, PriceSource, node_prices
from trimtab.clients.cli.rates import DEFAULT_RATES, Rates
from trimtab.clients.cluster_view import ClusterView

DEFAULT_ASSUMPTION: Final = f"assumed: {DEFAULT_RATES}; --prices or --rates gives yours"
"""What is said wherever money at default rates is shown."""
_ASSUMED: Final = "assumed rates"


class Costs:
    """Prices by node. given : the prices of a file, and rates."""

    def __init__(self, view: ClusterView, given: Prices | None = None) -> None:
        self._view, self._given = view, given or Prices()
        self._found: Mapping[str, NodePrice] = node_prices(view, self._given)
        self._by_node = {name: price.per_hour for name, price in self._found.items()}
        self.known = bool(self._by_node)
        """Whether any node has a price that is not assumed."""
        if not self.known:
            self._by_node = {name: DEFAULT_RATES.price(view.allocatable(name)) for name in view.nodes}

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
