"""Hourly costs of nodes: the price of a file for the node's machine, else that of its node group. A node without node
group, such as one of the control plane, costs money as well. The currency is that of the prices.
"""

from collections.abc import Iterable, Mapping

from trimtab.clients.cli.prices import Prices, machine_of, price_of
from trimtab.clients.cluster_view import ClusterView


class Costs:
    """Prices by node. of_file : the prices of a file, by machine."""

    def __init__(self, view: ClusterView, of_file: Prices | None = None) -> None:
        groups = view.snapshot.node_groups
        of_group = {group.id: group.price_per_hour for group in groups if group.HasField("price_per_hour")}
        of_labels = _by_label_set(view, of_file) if of_file else {}
        found = {
            name: of_labels.get(node.label_set, of_group.get(node.node_group)) for name, node in view.nodes.items()
        }
        self._by_node = {name: price for name, price in found.items() if price is not None}
        self._node_count = len(view.nodes)

    @property
    def by_node(self) -> Mapping[str, float]:
        """Hourly costs of the nodes with a price."""
        return self._by_node

    @property
    def known(self) -> bool:
        """Whether any node has a price."""
        return bool(self._by_node)

    @property
    def total(self) -> float:
        """Hourly cost of all nodes with a price."""
        return sum(self._by_node.values())

    @property
    def unknown_count(self) -> int:
        """Number of nodes without a price."""
        return self._node_count - len(self._by_node)

    def of(self, nodes: Iterable[str]) -> float:
        """Return the hourly cost of some nodes; a node without price counts as 0."""
        return sum(self._by_node.get(node, 0.0) for node in nodes)

    def text(self, nodes: Iterable[str]) -> str:
        """Return the same with two decimals, "" if none of them has a price."""
        known = [self._by_node[node] for node in nodes if node in self._by_node]
        return money(sum(known)) if known else ""


def _by_label_set(view: ClusterView, of_file: Prices) -> Mapping[int, float]:
    """Return the prices of the label sets of nodes, where the file has one. O(label sets of nodes)."""
    label_sets = {node.label_set for node in view.nodes.values()}
    found = {one: price_of(machine_of(view.labels(one)), of_file) for one in label_sets}
    return {one: price for one, price in found.items() if price is not None}


def money(amount: float) -> str:
    """Return an amount of money: "1,234.50"."""
    return f"{amount:,.2f}"
