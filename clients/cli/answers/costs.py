"""Hourly costs of nodes, from the prices of their node groups. The currency is that of the prices."""

from collections.abc import Iterable

from trimtab.v1 import snapshot_pb2 as pb


class Costs:
    """Prices by node."""

    def __init__(self, snapshot: pb.ClusterSnapshot) -> None:
        prices = {group.id: group.price_per_hour for group in snapshot.node_groups if group.HasField("price_per_hour")}
        self._by_node = {node.name: prices[node.node_group] for node in snapshot.nodes if node.node_group in prices}
        self._node_count = len(snapshot.nodes)

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


def money(amount: float) -> str:
    """Return an amount of money: "1,234.50"."""
    return f"{amount:,.2f}"
