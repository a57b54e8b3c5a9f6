"""A cluster as rows and a dict of the pods' nodes; a fork is a copy."""

from __future__ import annotations

from tests.builders.rows import Labels, NodeRow, PodRow

HOSTNAME = "kubernetes.io/hostname"
Mark = tuple[list[str], dict[str, str], dict[str, NodeRow], dict[str, list[PodRow]]]


class Cluster:
    """`at` : node of each pod by its index, "" = nowhere; `state` : "open", "cordoned" or "outside" by node, a closed
    virtual node counting as dropped; `residents` : pods on a node until it is dropped."""

    def __init__(self, nodes: list[NodeRow], pods: list[PodRow], namespaces: dict[str, Labels] | None = None) -> None:
        self.nodes = {node.name: node for node in sorted(nodes, key=lambda n: n.name.encode())}
        self.pods = sorted(pods, key=lambda p: (p.namespace.encode(), p.name.encode()))
        self.namespaces = namespaces or {}
        self.at = ["" if pod.ended or pod.node not in self.nodes else pod.node for pod in self.pods]
        self.state = dict.fromkeys(self.nodes, "open")
        self.residents: dict[str, list[PodRow]] = {}

    def placed(self) -> list[tuple[PodRow, str]]:
        """Return every placed pod with its node."""
        staying = [(pod, at) for at, pods in self.residents.items() if self.state[at] != "outside" for pod in pods]
        return [(pod, at) for pod, at in zip(self.pods, self.at, strict=True) if at] + staying

    def pods_on(self, name: str) -> list[PodRow]:
        """Return the pods of a node."""
        return [pod for pod, at in self.placed() if at == name]

    def place(self, pod: int, node: str) -> None:
        """Put a pod on a node."""
        self.at[pod] = node

    def remove(self, pod: int) -> None:
        """Take a pod off its node."""
        self.at[pod] = ""

    def cordon(self, node: str) -> None:
        """Close a node."""
        self.state[node] = "cordoned"

    def remove_from_topology(self, node: str) -> None:
        """Take a cordoned node away."""
        self.state[node] = "outside"

    def open_from_template(self, node: str, template_node: str) -> None:
        """Add a node that equals another one except for its name."""
        labels = {key: value for key, value in self.nodes[template_node].labels.items() if key != HOSTNAME}
        self.nodes[node] = self.nodes[template_node]._replace(name=node, labels=labels | {HOSTNAME: node})
        self.residents[node] = self.residents.get(template_node, [])
        self.state[node] = "open"

    def mark(self) -> Mark:
        """Return a copy of the mutable state."""
        return list(self.at), dict(self.state), dict(self.nodes), dict(self.residents)

    def revert(self, mark: Mark) -> None:
        """Restore the copy."""
        self.at, self.state, self.nodes, self.residents = list(mark[0]), dict(mark[1]), dict(mark[2]), dict(mark[3])
