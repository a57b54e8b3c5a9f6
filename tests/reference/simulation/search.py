"""First fit by asking every node in turn."""

from tests.reference.simulation.checks import fits
from tests.reference.simulation.moves import Cluster


def find(cluster: Cluster, pod: int, allowed: list[bool], start: int) -> int:
    """Index of the first node from `start`, cyclic, that is allowed and fits; -1 = none."""
    names = list(cluster.nodes)
    for step in range(len(names)):
        at = (start + step) % len(names)
        if allowed[at] and fits(cluster, cluster.pods[pod], names[at]):
            return at
    return -1
