"""Whether a pod fits a node, by all predicates, computed only from the rows."""

from tests.builders.rows import PodRow
from tests.reference.predicates import compose
from tests.reference.simulation.moves import Cluster


def failing(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    """Return the reasons of all failing predicates; a node that is not open counts as cordoned."""
    return compose.failing(cluster, pod, name)


def fits(cluster: Cluster, pod: PodRow, name: str) -> bool:
    """Return whether no predicate fails."""
    return not failing(cluster, pod, name)
