"""Balance that a plan must keep: which node groups are similar, and how far they and their zones may differ.

Source: own definition, `ScaleDownSettings.balance` and `BalanceSettings` in the contract.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from tests.certificates.cluster import Cluster

ZONE = "topology.kubernetes.io/zone"
PLACE = {
    ZONE, "topology.kubernetes.io/region", "kubernetes.io/hostname", "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
}  # fmt: skip
PASSING = ("node.kubernetes.io/", "ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler")
Part = tuple[int, str, str]
"""Kind, "group" or "zone", name."""


def parts_of(cluster: Cluster, leaving: set[str]) -> dict[str, list[Part]]:
    """Return the parts that each node belongs to; nodes without any are omitted."""
    groups: dict[str, list[str]] = {}
    for node, row in sorted(cluster.nodes.items()):
        group = cluster.groups.get(row.node_group)
        if node not in leaving and group is not None and not group.zero_or_max:
            groups.setdefault(group.id, []).append(node)
    kinds: list[str] = []
    found: dict[str, list[Part]] = {}
    for group_id in sorted(groups):
        nodes = groups[group_id]
        kind = next((k for k, first in enumerate(kinds) if alike(cluster, first, nodes[0])), len(kinds))
        if kind == len(kinds):
            kinds.append(nodes[0])
        for node in nodes:
            zone = cluster.node_labels(node).get(ZONE)
            found[node] = [(kind, "group", group_id), *([(kind, "zone", zone)] if zone is not None else [])]
    return found


def alike(cluster: Cluster, one: str, other: str) -> bool:
    """Return whether two nodes are of similar groups."""
    mine, its = cluster.capacity(one), cluster.capacity(other)
    larger, smaller = max(mine.get("memory", 0), its.get("memory", 0)), min(mine.get("memory", 0), its.get("memory", 0))
    if larger - smaller > 0.015 * larger:
        return False
    if {k: v for k, v in mine.items() if k != "memory" and v} != {k: v for k, v in its.items() if k != "memory" and v}:
        return False
    return _taints(cluster, one) == _taints(cluster, other) and _labels(cluster, one) == _labels(cluster, other)


def _taints(cluster: Cluster, node: str) -> list[tuple[str, str, int]]:
    rows = [(cluster.text(t.key), cluster.text(t.value), int(t.effect)) for t in cluster.nodes[node].taints]
    return sorted(row for row in rows if not row[0].startswith(PASSING))


def _labels(cluster: Cluster, node: str) -> dict[str, str]:
    wanted: set[str] = set()
    for spec in cluster.message.pod_specs:
        wanted |= {cluster.text(pair.key) for pair in spec.node_selector}
        for term in spec.node_affinity.terms:
            wanted |= {cluster.text(one.key) for one in term.match_expressions}
    labels = cluster.node_labels(node)
    return {key: labels[key] for key in wanted - PLACE if key in labels}


def too_uneven(cluster: Cluster, leaving: set[str], going: Iterable[str], most: int) -> Iterator[str]:
    """Return the parts that lose nodes although a similar part then has over `most` nodes more."""
    parts = parts_of(cluster, leaving)
    before = Counter(part for of_node in parts.values() for part in of_node)
    given = Counter(part for node in going for part in parts.get(node, ()))
    after = {part: count - given[part] for part, count in before.items()}
    for part in sorted(given):
        largest = max(count for other, count in after.items() if other[:2] == part[:2])
        if after[part] < largest - most:
            yield f"{part[1]} {part[2]} falls to {after[part]}, one like it keeps {largest}"
