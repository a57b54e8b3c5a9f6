"""A cluster as rows and a dict of who is where; a fork is a copy."""

from __future__ import annotations

from tests.builders.rows import Labels, NodeRow, PodRow


class Cluster:
    """`at` : node of each pod by its index, "" = nowhere; `state` : "open", "retired" or "dropped" by node."""

    def __init__(self, nodes: list[NodeRow], pods: list[PodRow], namespaces: dict[str, Labels] | None = None) -> None:
        self.nodes = {node.name: node for node in sorted(nodes, key=lambda n: n.name.encode())}
        self.pods = sorted(pods, key=lambda p: (p.namespace.encode(), p.name.encode()))
        self.namespaces = namespaces or {}
        self.at = ["" if pod.ended or pod.node not in self.nodes else pod.node for pod in self.pods]
        self.state = dict.fromkeys(self.nodes, "open")

    def placed(self) -> list[tuple[PodRow, str]]:
        """Return every pod that is somewhere, and where."""
        return [(pod, at) for pod, at in zip(self.pods, self.at, strict=True) if at]

    def pods_on(self, name: str) -> list[PodRow]:
        """Return the pods of a node."""
        return [pod for pod, at in self.placed() if at == name]

    def place(self, pod: int, node: str) -> None:
        """Put a pod on a node."""
        self.at[pod] = node

    def remove(self, pod: int) -> None:
        """Take a pod off its node."""
        self.at[pod] = ""

    def retire(self, node: str) -> None:
        """Close a node."""
        self.state[node] = "retired"

    def drop(self, node: str) -> None:
        """Take a retired node away."""
        self.state[node] = "dropped"

    def mark(self) -> tuple[list[str], dict[str, str]]:
        """Return a copy of what can change."""
        return list(self.at), dict(self.state)

    def revert(self, mark: tuple[list[str], dict[str, str]]) -> None:
        """Back to the copy."""
        self.at, self.state = list(mark[0]), dict(mark[1])
