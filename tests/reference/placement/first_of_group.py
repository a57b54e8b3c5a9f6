"""Whether a pod is the first of a group that has to be on one node, and how many of the group a node takes."""

from collections.abc import Sequence

from tests.builders.random_rows import HOST
from tests.reference.predicates import resources
from tests.reference.predicates.inter_pod_affinity import incoming_matches
from tests.reference.simulation.checks import fits
from tests.reference.simulation.moves import Cluster


def starts_on_one_node(cluster: Cluster, pod: int) -> bool:
    """Return whether a pod needs pods of its own kind on its node, and there is none anywhere."""
    row, spaces = cluster.pods[pod], cluster.namespaces
    terms = row.spec.pod_affinity
    if not any(term.topology_key == HOST for term in terms):
        return False
    if not all(incoming_matches(term, row, row, spaces) for term in terms):
        return False
    there = [
        cluster.nodes[at]
        for other, at in cluster.placed()
        if all(incoming_matches(t, row, other, spaces) for t in terms)
    ]
    return not any(term.topology_key in node.labels for term in terms for node in there)


def room_for(cluster: Cluster, pod: int, count: int, name: str) -> int:
    """Return how many pods like one, up to a number, a node takes by its amounts; 0 if it does not admit the first."""
    row, node, there = cluster.pods[pod], cluster.nodes[name], cluster.pods_on(name)
    if not fits(cluster, row, name):
        return 0
    return next((n for n in range(1, count) if resources.refused_beside(row, node, [*there, *[row] * n])), count)


def alike(pods: Sequence[int], row: int, kind: Sequence[int]) -> int:
    """Return how many pods from a row on are of its kind. kind : of each pod."""
    return sum(kind[pod] == kind[pods[row]] for pod in pods[row:])
